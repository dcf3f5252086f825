"""Timelines: bytes over time, one line per direction."""

from __future__ import annotations

import math

from drawn import rows_of, texts_of

from firsttouch.events.trace import TransferTimeline
from firsttouch.report.timeline import draw_timeline

MIB = 2**20


def test_each_direction_has_its_line_in_bytes_and_seconds():
    steps = {"host to device": [(0.0, 0.0), (0.5, 64.0 * MIB)], "device to host": [(0.0, 0.0), (1.0, 16.0 * MIB)]}
    drawing = draw_timeline(TransferTimeline({"size": MIB, "allocator": "managed"}, steps))
    assert [(r["colour"], r["x"], r["y"]) for r in rows_of(drawing)] == [
        (way, when, total) for way, pairs in steps.items() for when, total in pairs
    ]
    assert {"host to device", "device to host", "64 MiB", "1 s", "bytes moved"} <= set(texts_of(drawing))
    assert drawing.notes[0] == "The point that moved most: size 1 MiB, allocator managed."


def test_long_timelines_are_thinned_and_keep_their_end():
    steps = [(i / 1000, float(i)) for i in range(50_000)]
    rows = rows_of(draw_timeline(TransferTimeline({}, {"up": steps})))
    assert len(rows) <= 1001
    assert (rows[0]["y"], rows[-1]["y"]) == (0.0, 49_999.0)


def test_values_that_are_not_numbers_are_left_out():
    steps = [(0.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (2.0, 5.0)]
    drawing = draw_timeline(TransferTimeline({}, {"up": steps}))
    assert [r["y"] for r in rows_of(drawing)] == [0.0, 5.0]
    assert "up" in texts_of(drawing)
