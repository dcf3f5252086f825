"""Profiles of many hours stay small, and keep the extremes."""

from __future__ import annotations

import os
import random
from itertools import accumulate
from pathlib import Path

import pytest
from tests.profile.profiles import header

from firsttouch.profile import records
from firsttouch.profile.reading import read
from firsttouch.profile.records import LONGEST_SPAN_OF_PROCESS, Pace, Track, Writer
from firsttouch.profile.schema import End, Started

HOURS = 1.0 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else 0.1
TICKS = int(HOURS * 360_000)


def test_a_long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random walks of four processes; as after many hours, most rows are written at the widest spans."""
    monkeypatch.setattr(records, "ROWS_PER_LEVEL", 1 << 10)
    chance = random.Random(3)
    walks = [[1 << 30, *(chance.randrange(-999, 1000) << 12 for _ in range(TICKS - 1))] for _ in range(4)]
    held = [list(accumulate(walk, lambda value, step: max(4096, value + step))) for walk in walks]
    writer, pace = Writer(tmp_path / "p"), Pace(0.01)
    writer.add(header(command=["a"]))
    for key in range(4):
        writer.add(Started(t=0.0, key=key, pid=key + 1, parent=0 if key else None))
    columns = ["resident", "minor"]
    tracks = [Track(f"process:{key}", columns, pace, LONGEST_SPAN_OF_PROCESS) for key in range(4)]
    total = Track("total", columns, pace)
    for tick in range(TICKS):
        values = [walk[tick] for walk in held]
        for track, value in zip(tracks, values, strict=True):
            track.add(tick * 0.01, (value, tick))
        total.add(tick * 0.01, (sum(values), 4 * tick))
        if tick % 50 == 49 or tick == TICKS - 1:
            for track in (*tracks, total):
                if samples := track.take(last=tick == TICKS - 1):
                    writer.add(samples)
            writer.flush()
    writer.add(End(t=TICKS * 0.01, status=0, why="the target ended"))
    writer.close()
    assert pace.span >= records.LONGEST_SPAN
    assert (tmp_path / "p" / "profile.jsonl").stat().st_size < 8 << 20
    profile = read(tmp_path / "p")
    sums = list(map(sum, zip(*held, strict=True)))
    for of, expected in [("total", sums), *((f"process:{key}", held[key]) for key in range(4))]:
        curve = profile.curves[of, "resident"]
        assert (max(curve.values), min(curve.values)) == (max(expected), min(expected))
        assert expected[round(curve.peak[0] * 100)] == max(expected)
