"""Timelines: bytes over time, one line per direction."""

from __future__ import annotations

import math

from drawn import rows_of, texts_of
from tests.texts import assert_states

from firsttouch.records.figures import Timeline
from firsttouch.records.schema import SCHEMA, Record
from firsttouch.records.timeline import TransferTimeline
from firsttouch.report.drawing import Drawing, DrawingContext
from firsttouch.report.palette import Palette
from firsttouch.report.svg import to_svg
from firsttouch.report.timeline import draw

MIB = 2**20


def draw_timeline(*timelines: TransferTimeline, by: str = "", records: tuple[Record, ...] = ()) -> Drawing:
    drawing = draw(Timeline(by=by), records, DrawingContext(None, Palette(), timelines))
    assert drawing is not None
    return drawing


def test_each_direction_has_its_line_in_bytes_and_seconds():
    steps = {"host to device": [(0.0, 0.0), (0.5, 64.0 * MIB)], "device to host": [(0.0, 0.0), (1.0, 16.0 * MIB)]}
    drawing = draw_timeline(TransferTimeline({"size": MIB, "allocator": "managed"}, steps))
    assert [(r["colour"], r["x"], r["y"]) for r in rows_of(drawing)] == [
        (way, when, total) for way, pairs in steps.items() for when, total in pairs
    ]
    assert {"host to device", "device to host", "64 MiB", "1 s", "bytes moved"} <= set(texts_of(drawing))
    assert_states(drawing.notes[0], "moved most", "size 1 MiB, allocator managed")


def test_long_timelines_are_thinned_and_keep_their_end():
    steps = [(i / 1000, float(i)) for i in range(50_000)]
    rows = rows_of(draw_timeline(TransferTimeline({}, {"up": steps})))
    assert len(rows) <= 1001
    assert (rows[0]["y"], rows[-1]["y"]) == (0.0, 49_999.0)


def test_a_panel_for_each_strategy_with_the_point_that_moved_most():
    names = ("explicit", "managed", "managed+prefetch")
    records = tuple(Record(SCHEMA, "app", "cuda:0", {"strategy": name}, "ms", "ok") for name in names)
    timelines = [
        TransferTimeline({"strategy": name, "size": size}, {"host to device": [(0.0, 0.0), (1.0, size)]})
        for size in (MIB, 2.0 * MIB)
        for name in reversed(names[1:])
    ]
    drawing = draw_timeline(*timelines, by="strategy", records=records)
    ends = [(r["panel"], r["y"]) for r in rows_of(drawing) if r["x"]]
    assert ends == [("managed", 2 * MIB), ("managed+prefetch", 2 * MIB)]
    assert {"managed", "managed+prefetch", "host to device"} <= set(texts_of(drawing))
    assert_states(drawing.notes[0], "each strategy", "moved most")
    assert to_svg(drawing.spec).count('stroke-width="1.6"') >= 2  # a line in each panel


def test_a_tenfold_rate_is_steeper_and_phases_are_bands():
    """Panels share their scales, and end with the last phase that was recorded."""
    phases = [("allocate", 0.0, 0.5), ("compute", 0.5, 2.0), ("free", 2.0, 9.0), ("made up' || true", 0.0, 1.0)]
    slow = TransferTimeline({"strategy": "managed"}, {"up": [(0.0, 0.0), (2.0, 10.0 * MIB), (9.0, 10.0 * MIB)]}, phases)
    fast = TransferTimeline({"strategy": "managed+prefetch"}, {"up": [(0.0, 0.0), (0.2, 8.0 * MIB)]})
    drawing = draw_timeline(slow, fast, by="strategy")
    scales = []
    for chart in drawing.spec["concat"]:
        line = chart["layer"][-1]["encoding"]
        scales.append((line["x"]["scale"]["domain"], line["y"]["scale"]["domain"]))
    assert scales[0] == scales[1]
    assert scales[0][0] == [0, 2.0]
    bands = [(r["phase"], r["x"], r["x2"]) for r in drawing.spec["datasets"]["rows"] if r["kind"] == "band"]
    assert bands == phases[:2]
    assert max(r["x"] for r in rows_of(drawing)) == 2.0
    assert_states(drawing.notes[0], "same scales", ": allocate, compute.")
    assert to_svg(drawing.spec).count('opacity="0.16"') >= 2


def test_nothing_is_drawn_if_nothing_moved():
    assert draw(Timeline(), (), DrawingContext(None, Palette())) is None
    still = TransferTimeline({}, {"up": [(0.0, 0.0), (1.0, 0.0)]})
    assert draw(Timeline(), (), DrawingContext(None, Palette(), [still])) is None


def test_values_that_are_not_numbers_are_left_out():
    steps = [(0.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (2.0, 5.0)]
    drawing = draw_timeline(TransferTimeline({}, {"up": steps}))
    assert [r["y"] for r in rows_of(drawing)] == [0.0, 5.0]
    assert "up" in texts_of(drawing)
