"""An experiment across devices has one section, which does not mix the points of two devices."""

from __future__ import annotations

import pytest
import sample
from drawn import drawing_of, rows_of, texts_of
from test_page import section
from tests.texts import assert_states

from firsttouch.records.figures import Bar, Heat, Line
from firsttouch.records.reading import Results
from firsttouch.report.chapters import chapters
from firsttouch.report.page import render

GPUS = ("cuda:0", "cuda:1")
PEERS = ("self", "cuda:0", "cuda:1")


class Links(sample.Bandwidth):
    """Every pair of devices."""

    name, order, across_devices = "links", 10, True
    question = "How fast do devices copy to each other?"
    figures = (Heat(x="peer", y="device"),)

    def findings(self, records, device):
        assert device is None
        return []


def link(device, peer, speed, **more):
    return sample.point("links", device, speed, factors={"peer": peer, "size": 2**30}, **more)


def links():
    return [link(d, p, 100.0 * i + j) for i, d in enumerate(GPUS, 1) for j, p in enumerate(PEERS) if d != p]


def results(records):
    machine = sample.machine()
    machine.devices.append(type(machine.devices[1])(name="cuda:1", kind="cuda", title="NVIDIA H200 NVL"))
    return Results(machine, None, records, [])


EXPERIMENTS = {**sample.EXPERIMENTS, "links": Links()}


@pytest.mark.usefixtures("undrawn")
def test_one_section_shows_all_devices():
    page = render({"out": results([*links(), *sample.bandwidth("cpu", sample.random.Random(1))])}, EXPERIMENTS)
    one = section(page, "links", "cuda:0, cuda:1")
    assert f"<h2>{Links.question}</h2>" in page
    assert "links on cuda:0, cuda:1 (NVIDIA H200, NVIDIA H200 NVL)" in one
    assert "All 4 measured points" in one
    assert "devicepeermedian" in one
    assert "cuda:1cuda:0201 ns" in one
    assert section(page, "bandwidth", "cpu")


def test_sections_are_in_the_order_of_experiments():
    records = [*sample.bandwidth("cpu", sample.random.Random(1)), *links()]
    found = chapters({"out": results(records)}, {"links": Links(), **sample.EXPERIMENTS})[0].sections
    assert [(s.name, s.device) for s in found] == [("links", "cuda:0, cuda:1"), ("bandwidth", "cpu")]
    assert found[0].tally["ok"] == 4


def test_only_one_device_measured():
    (one,) = chapters({"out": results([link("cuda:1", "self", 7.0)])}, EXPERIMENTS)[0].sections
    assert (one.device, one.device_title) == ("cuda:1", "NVIDIA H200 NVL")


def test_a_matrix_of_device_and_peer():
    drawing = drawing_of(Heat(x="peer", y="device"), links())
    cells = {(r["y"], r["x"]): r["text"] for r in rows_of(drawing)}
    assert cells[("cuda:1", "cuda:0")] == "201"
    assert cells[("cuda:0", "self")] == "100"
    assert len(cells) == 4
    assert {"device", "peer", *PEERS} <= set(texts_of(drawing))


@pytest.mark.parametrize("figure", [Bar(x="peer", colour="device"), Bar(x="peer", colour="")])
def test_a_bar_for_each_device(figure):
    drawing = drawing_of(figure, links())
    assert sorted((r["colour"], r["x"], r["y"]) for r in rows_of(drawing)) == sorted(
        (r.device, r.factors["peer"], r.summary.median) for r in links()
    )
    assert_states(drawing.title, "peer", "device")


def test_a_panel_for_each_device():
    records = [sample.point("links", d, s / 9, factors={"size": s}) for d in GPUS for s in (1024, 4096)]
    drawing = drawing_of(Line(x="size", facet="device"), records)
    assert {r["panel"] for r in rows_of(drawing)} == {"device cuda:0", "device cuda:1"}


def test_the_same_wrong_series_on_two_devices_is_two_points():
    passes = {"pass_1_ms": 1.0, "pass_2_ms": 2.0}
    wrong = [sample.point("links", d, 1.0, factors={"n": 1}, counters=passes, verified=False) for d in GPUS]
    assert drawing_of(Line(series="pass_{}_ms", x="series", y="value", colour="device"), wrong).wrong == 2


def test_failures_name_the_device():
    failed = link("cuda:1", "cuda:0", None, status="failed", reason="no peer access")
    (one,) = chapters({"out": results([link("cuda:0", "self", 5.0), failed])}, EXPERIMENTS)[0].sections
    assert one.failed[0].which == "device cuda:1, peer cuda:0"
