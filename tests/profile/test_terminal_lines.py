"""The 25 lines of a profile: what CUDA did is never cut, and what is cut is said."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.profile.profiles import gpu, mark, write
from tests.texts import assert_states

from firsttouch.cli.profiled import MOST_LINES, lines
from firsttouch.profile import schema as s
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.profile.summary import ProfileSummary
from firsttouch.profile.trace import CopyTotals, UnifiedMemory
from firsttouch.profile.traced import AliveAt, Allocated, CallLocation, OfProcess, TraceSummary

MIB = 1 << 20


def trace(*pids: int) -> TraceSummary:
    def copies(number: int) -> list[CopyTotals]:
        return [CopyTotals("h2d", number, number * MIB, MIB, MIB, 0.1)]

    return TraceSummary(
        processes=len(pids),
        unified=UnifiedMemory(),
        copies=copies(1262),
        allocations=7,
        kernels=11,
        kernel_seconds=0.1,
        phases=[],
        sites=[],
        by_kernel=[],
        alive=[],
        lost=0,
        left_out=0,
        missing=0,
        by_process=[OfProcess(pid=pid, copies=copies(10 + n), kernels=n, allocations=1) for n, pid in enumerate(pids)],
    )


def crowded(tmp_path: Path, *pids: int) -> ProfileSummary:
    """Phases, processes, first touches and notices that would fill the lines alone."""
    rows: list[s.ProfileLine] = []
    for number in range(20):
        rows += [mark(0.1 * number, f"phase {number}"), mark(0.1 * number + 0.05, kind="end")]
        rows += [s.Started(t=0.5, key=2 + number, pid=200 + number, parent=0, name="worker", command=["worker"])]
        rows += [s.Site(site=number, file=f"/app/{'long' * 20}{number}.so", offset=number)]
    rows += [s.Faults(t=1.0, every=8, rows=[(number, 0, "heap", 5) for number in range(20)])]
    rows += [s.Notice(t=1.0, text=f"{'Something was not seen. ' * 8}{number}") for number in range(9)]
    summary = summarise(read(write(tmp_path / "p", *rows, gpus=[gpu()])))
    return msgspec.structs.replace(summary, trace=trace(*pids))


@pytest.mark.parametrize("files", [0, 1, 5])
def test_the_trace_stays_and_what_is_cut_is_said(tmp_path: Path, files: int) -> None:
    shown = lines(crowded(tmp_path, 100), [f"file {number}" for number in range(files)])
    assert len(shown) <= MOST_LINES
    assert any(line.startswith("trace") and "1,262" in line for line in shown)
    assert any("more in the report" in line and "faults" in line for line in shown)
    assert shown[len(shown) - files :] == [f"file {number}" for number in range(files)]


def test_each_process_that_used_cuda_is_named(tmp_path: Path) -> None:
    shown = " ".join(" ".join(lines(crowded(tmp_path, *range(200, 206)))).split())
    assert_states(shown, "200 worker: copies h2d 10 x", "6 processes together", "more")


@pytest.mark.parametrize("lacking", ["lost", "left_out", "damaged", ""])
def test_copies_are_at_least_those_that_were_recorded(tmp_path: Path, lacking: str) -> None:
    of = msgspec.structs.replace(trace(100), **({lacking: 1} if lacking else {}))
    summary = msgspec.structs.replace(summarise(read(write(tmp_path / "p"))), trace=of)
    (row,) = (line for line in lines(summary) if line.startswith("trace"))
    assert ("at least" in row) == bool(lacking)


def test_where_there_is_room_nothing_is_cut(tmp_path: Path) -> None:
    shown = lines(msgspec.structs.replace(summarise(read(write(tmp_path / "p"))), trace=trace(100)))
    assert any(line.startswith("trace") for line in shown)
    assert not any("more in the report" in line for line in shown)


def test_what_does_not_fit_is_left_out_whole(tmp_path: Path) -> None:
    """Nothing ends in the middle of a number."""
    summary = crowded(tmp_path, 100)
    places = [CallLocation("allocate_blocks", f"/home/u/{'long' * 5}{n}.cu", 11 + n) for n in range(2)]
    rows = [Allocated(place=place, kind="device", name="", allocations=1, bytes=64 * MIB) for place in places]
    alive = [AliveAt(gpu=f"gpu:{number}", device=number, t=1.0, rows=rows, rows_left_out=0) for number in range(4)]
    shown = lines(msgspec.structs.replace(summary, trace=msgspec.structs.replace(trace(100), alive=alive)))
    assert len(shown) <= MOST_LINES
    text = "\n".join(shown)
    assert text.count("alive at") == text.count(":12\n")
    assert "more in the report" in text
