"""DIR/events.json of a predicted run: points, phases, iterations, and what takes time, for Perfetto.

Points follow each other from time 0, so that the same predictions make the same file. When within a phase a term takes
its time is not known: terms are drawn one after another from the beginning of their phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from firsttouch.base.encoding import encode_json
from firsttouch.base.files import write_atomically
from firsttouch.profile.events.trace import TRACE, TraceEvent, point_name
from firsttouch.records.schema import Record, Scalar, as_number

POINTS, PHASES, ITERATIONS, TERMS = 1, 2, 3, 4
TRACKS = {POINTS: "predicted points", PHASES: "phases", ITERATIONS: "iterations", TERMS: "what takes time"}
_PHASE, _ITERATION = re.compile(r"phase_(.+)_ms"), re.compile(r"iteration_\d+_ms")
BODY = "compute"
"""The phase that iterations are in."""


def write_predicted_trace(directory: Path, records: Iterable[Record]) -> Path | None:
    """Writes the trace of predicted records that have a time. Returns its path, or None if there are none."""
    timed = [r for r in records if r.modelled is not None and r.summary is not None and r.unit == "ms"]
    predicted = [r for r in timed if r.factors.get("events") != "on"]  # which takes the same time
    if not predicted:
        return None
    lines = b",\n".join(map(encode_json, _events(predicted)))
    write_atomically(directory / TRACE, b"[\n" + lines + b"\n]\n")
    return directory / TRACE


def _events(records: Iterable[Record]) -> Iterator[TraceEvent]:
    numbers: dict[str, int] = {}
    start = 0.0
    for record in records:
        if record.device not in numbers:
            pid = numbers[record.device] = len(numbers) + 1
            yield TraceEvent("process_name", "M", pid, args={"name": f"predicted for {record.device}"})
            for tid, name in TRACKS.items():
                yield TraceEvent("thread_name", "M", pid, tid, args={"name": name})
                yield TraceEvent("thread_sort_index", "M", pid, tid, args={"sort_index": tid})
        yield from _point(record, numbers[record.device], start)
        start += _ms_of(record) * 1e3


def _ms_of(record: Record) -> float:
    assert record.summary is not None
    in_phases = sum(_phases(record).values())
    return max(record.summary.median, in_phases)


def _phases(record: Record) -> dict[str, float]:
    """The ms of each phase, in their order."""
    found = {name: _PHASE.fullmatch(name) for name in record.counters}
    return {match[1]: as_number(record.counters[name]) or 0.0 for name, match in found.items() if match}


def _point(record: Record, pid: int, start: float) -> Iterator[TraceEvent]:
    args: dict[str, Scalar] = {**record.factors, "predicted": True}
    yield _slice(point_name(record), pid, POINTS, start, _ms_of(record) * 1e3, args)
    phases = _phases(record) or {"": _ms_of(record)}
    begin = start
    yield _memory(pid, begin, 0.0)
    for phase, ms in phases.items():
        if phase:
            yield _slice(phase, pid, PHASES, begin, ms * 1e3, {})
        yield from _terms(record, phase, pid, begin)
        if phase in (BODY, ""):
            yield from _iterations(record, pid, begin)
        begin += ms * 1e3
        used = as_number(record.counters.get(f"memory_{phase}_bytes"))
        if used is not None:
            yield _memory(pid, begin, used)
    yield _memory(pid, begin, 0.0)


def _memory(pid: int, microseconds: float, used: float) -> TraceEvent:
    return TraceEvent("memory in use", "C", pid, ts=round(microseconds, 3), args={"bytes": used})


def _terms(record: Record, phase: str, pid: int, begin: float) -> Iterator[TraceEvent]:
    for term in record.terms:
        if (phase and term.phase != phase) or term.ms <= 0:
            continue
        args: dict[str, Scalar] = {"bytes": term.bytes, "count": term.count, "values": ", ".join(term.values)}
        yield _slice(term.what, pid, TERMS, begin, term.ms * 1e3, args)
        begin += term.ms * 1e3


def _iterations(record: Record, pid: int, begin: float) -> Iterator[TraceEvent]:
    named = [name for name in record.counters if _ITERATION.fullmatch(name)]
    for name in sorted(named, key=lambda text: int(text.split("_")[1])):
        ms = as_number(record.counters[name]) or 0.0
        yield _slice(name.removesuffix("_ms").replace("_", " "), pid, ITERATIONS, begin, ms * 1e3, {})
        begin += ms * 1e3


def _slice(name: str, pid: int, tid: int, start: float, duration: float, args: dict[str, Scalar]) -> TraceEvent:
    return TraceEvent(name, "X", pid, tid, round(start, 3), round(duration, 3), args=args)
