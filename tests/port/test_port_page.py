"""The page of a traced profile: what becomes of the program in unified memory."""

from __future__ import annotations

import re
from pathlib import Path

from tests.port.journals import profile
from tests.port.test_port_command import backprop
from tests.port.test_port_findings import names
from tests.port.traces import Calls
from tests.profile import profiles

import firsttouch
from firsttouch.profile.reading import read
from firsttouch.report.advised import write_advice
from firsttouch.report.ported import ported_page
from firsttouch.report.profile import render, write_profile


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<(style|script).*?</\1>|<[^>]*>|&shy;|<wbr>", " ", page, flags=re.DOTALL).split())


def test_the_page_has_blocks_findings_and_the_program(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced, callers=names())
    page = ported_page(read(directory))
    assert page is not None
    tables = {table.anchor: table for table in page.tables}
    assert [*tables] == ["edits", "waits", "unified-memory", "notes", "hazards", "program"]
    assert page.answer == firsttouch.port(directory)["summary"]
    assert {row[5] for row in tables["unified-memory"].rows} == {"64 MiB", "8 MiB"}
    (finding,) = tables["notes"].rows
    assert finding[:5] == ["likely", "restoring copy", "main p.cu:15", "1", "64 MiB"]
    assert [row[1] for row in tables["hazards"].rows[:5]] == ["none"] * 5
    assert any("gpu layer" in row[0] for row in tables["program"].rows)
    assert page.panel is not None
    assert [(series.name, series.peak and series.peak[1]) for series in page.panel.series][-1] == (
        "saved at most", 200 * 2**20
    )  # fmt: skip


def test_the_edits_are_those_of_managed_memory_by_line(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced, callers=names())
    page = ported_page(read(directory))
    assert page is not None
    table = next(table for table in page.tables if table.anchor == "edits")
    assert len(table.rows) >= 2
    assert all("p.cu:" in row[1] for row in table.rows)
    assert f"firsttouch advise RUN --profile {directory}" in table.notes[0]


def test_the_pages_of_a_program_link_to_each_other(tmp_path: Path):
    directory = profile(tmp_path / "a b", backprop().traced, callers=names())
    runs = [str(Path(__file__).parents[2] / "results" / "h200-standard")]
    page = write_profile([directory])
    assert 'href="advice.html"' not in page.read_text()
    elsewhere = write_advice(runs, tmp_path / "out", str(directory), None, None)
    assert 'href="../a%20b/report.html"' in elsewhere.read_text()
    assert 'href="advice.html"' not in page.read_text()
    advice = write_advice(runs, directory, str(directory), None, None)
    assert 'href="report.html"' in advice.read_text()
    assert 'href="advice.html"' in page.read_text()


def test_names_from_the_target_are_text_on_the_page(tmp_path: Path):
    calls = Calls(pid=100)
    evil = "<script>alert(1)</script>\x1b[31m"
    symbol = calls.block(64, kind="device_static", name=evil)
    calls.copy(symbol, calls.host(64), 64, line=1)
    calls.launch(symbol, kernel=evil)
    directory = profile(tmp_path / "p", calls.traced, callers=names({1: evil}))
    page = render({"p": read(directory)})
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "static variable" in text_of(page)
    assert 'id="program"' in page


def test_a_profile_without_calls_has_no_such_part(tmp_path: Path):
    assert ported_page(read(profiles.write(tmp_path / "plain"))) is None


def test_the_page_names_all_processes_and_the_copies_that_no_unified_buffer_replaces(tmp_path: Path):
    first, second = (Calls(pid=pid) for pid in (100, 200))
    for calls in (first, second):
        block = calls.block(2**20, line=1)
        calls.copy(block, calls.host(2**20), 2**20, line=2)
    managed = first.block(2**20, kind="managed")
    first.copy(managed, first.host(2**20), 2**20, line=3)
    page = ported_page(read(profile(tmp_path / "p", first.traced, second.traced, callers=names())))
    assert page is not None
    tables = {table.anchor: table for table in page.tables}
    assert [row[1] for row in tables["port-processes"].rows] == ["100", "200"]
    (row,) = tables["other-copies"].rows
    assert (row[0], row[1], row[2], row[3]) == ("of managed memory", "main p.cu:3", "1", "1 MiB")
