"""The section of the report that says by which interface data move fastest."""

from __future__ import annotations

import re

import msgspec
import sample
from test_page import Elements
from tests.movements import COPY, curve, direct, rates, record
from tests.texts import assert_states

from firsttouch.experiments import all_experiments
from firsttouch.experiments.analysis.fastest_interfaces import interfaces
from firsttouch.report.export import export_results
from firsttouch.report.interface_answers import interfaces_section, parts
from firsttouch.report.interfaces_picture import picture
from firsttouch.report.page import render
from firsttouch.report.palette import Palette

OWN = [*curve("kernel", rates(4, 8, 10, 10)), *curve("copy-engine", rates(1, 8, 20, 30))]


def page_of(*records):
    results = sample.results()
    results.records = list(records)
    return render({"out": results}, all_experiments())


def section(page):
    found = re.search(r'<section class="experiment" id="answer-interfaces">.*?</section>', page, re.S)
    return found[0] if found else ""


def test_the_section_has_the_answer_the_picture_and_every_row():
    page = page_of(*OWN)
    html = section(page)
    text = " ".join(Elements(html).text.split())
    shown = interfaces_section(OWN)
    assert_states(shown.summary, "copy-engine", "2 of 4 cases", "kernel in 1", "1 without")
    (answer,) = shown.parts[0].open
    assert_states(
        answer.text, "kernel at 4 KiB (4 times as fast)", "copy-engine or kernel at 64 KiB", "copy-engine from 1 MiB"
    )
    (crossover,) = shown.crossovers
    assert "kernel to copy-engine between 4 KiB and 1 MiB" in crossover
    assert [row[2:4] for row in shown.rows][::2] == [["4 KiB", "kernel"], ["1 MiB", "copy-engine"]]
    assert "copy-engine 20 GB/s, kernel 10 GB/s" in shown.rows[2]
    assert_states(text, shown.summary, answer.text, crossover, "".join(shown.rows[2]))
    assert "<svg" in html
    assert "4.00x" in html
    assert 'href="#answer-interfaces"' in page


def test_a_run_without_such_points_has_no_such_section():
    assert section(page_of(record("latency", 1.0, {"agent": "cpu", "allocator": "malloc", "size": 64}))) == ""


def test_one_interface_is_told_in_words_and_not_drawn():
    html = section(page_of(*curve("kernel", rates(1, 2))))
    assert "Copies by kernel: gpu:0 to gpu:1" in Elements(html).text
    assert "<svg" not in html


def test_each_cell_has_the_colour_of_the_fastest_and_is_grey_without_one():
    found = interfaces([*OWN, direct("gpu:0", "gpu:1", "copy-out", 1), direct("gpu:1", "gpu:0", "copy-in", 2)])
    drawn = {part.kind: picture([part], Palette()) for part in parts(found)}
    assert [*drawn] == ["direct", "copy"]
    assert drawn["copy"].spec is not None
    cells = drawn["copy"].spec["datasets"]["rows"]
    assert [cell["colour"] for cell in cells] == ["kernel", "no clear difference", "copy-engine", "copy-engine"]
    assert [cell["text"] for cell in cells] == ["4.00x", "=", "2.00x", "3.00x"]
    told = [point[1].split("\N{BROKEN BAR}") for point in drawn["copy"].spec["usermeta"]["points"]]
    assert_states(told[0][0], "kernel", "4 times", "copy-engine")
    assert told[0][1:3] == ["3.921 to 4.081 times", "size 4 KiB"]
    assert told[0][3:] == ["kernel 4 GB/s", "copy-engine 1 GB/s"]
    assert told[1][:3] == ["kernel or copy-engine", "", "size 64 KiB"]
    assert [cell["x"] for cell in cells] == ["4 KiB", "64 KiB", "1 MiB", "16 MiB"]


def test_answers_about_two_devices_come_before_those_about_one():
    own = [msgspec.structs.replace(r, factors={**r.factors, "peer": "self"}) for r in OWN]
    between = [*curve("kernel", rates(9, 8, 10, 10)), *curve("copy-engine", rates(1, 8, 2, 30))]
    (part,) = parts(interfaces([*own, *between]))
    assert [answer.what for answer in part.open] == ["gpu:0 to gpu:1", "within gpu:0 (out)"]


def test_hostile_text_stays_text():
    bad = '<script>alert(1)</script>"{x}'
    factors = {**COPY, "source": bad, "peer": bad, "strange": bad, "size": 64}
    records = [record("p2p-copy", rate, {"engine": f"{bad}{rate}", **factors}, device=bad) for rate in (1, 2)]
    html = section(page_of(*records))
    assert "<script>alert" not in html
    assert not [tag for tag, _ in Elements(html).found if tag == "script"]
    assert bad in Elements(html).text


def test_the_picture_is_exported_with_the_other_figures(tmp_path):
    results = sample.results()
    results.records = list(OWN)
    paths = export_results({"a": results}, all_experiments(), "svg", tmp_path)
    assert tmp_path / "interfaces-1.svg" in paths
    assert "4.00x" in (tmp_path / "interfaces-1.svg").read_text()


def test_two_directories_have_a_section_each():
    results = sample.results()
    results.records = list(OWN)
    page = render({"a": results, "b": results}, all_experiments())
    assert 'id="answer-interfaces"' in page
    assert 'id="answer-2-interfaces"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
