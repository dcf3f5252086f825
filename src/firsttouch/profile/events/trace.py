"""DIR/events.json: unified-memory events of a run in Chrome's trace-event format, for Perfetto and chrome://tracing.

The file is a JSON array with one object per line, and is a complete array after every point. A process that is killed
while writing leaves an array without its end, perhaps with an incomplete last line. The viewers and `read_trace` accept
such a file, and the next run continues after the last complete line.

Format: "Trace Event Format" of the Chromium project, "JSON Array Format". Times are microseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular
from firsttouch.profile.events.log import MemoryEvent, Span
from firsttouch.profile.events.sums import MOVES, EventKind
from firsttouch.records.schema import Number, Record, Scalar, check_integers
from firsttouch.records.timeline import TransferTimeline

TRACE = "events.json"
MOVE_NAMES = {"h2d": "host to device", "d2h": "device to host", "d2d": "device to device"}
_POINTS, _FAULTS, _TROUBLE, _PHASES, _MOVES = 1, 2, 4, 5, 10
_TRACKS = {
    _POINTS: "measured points",
    _PHASES: "phases of applications",
    _FAULTS: "GPU faults",
    _FAULTS + 1: "CPU faults",
    _TROUBLE: "thrashing, throttling, remote maps",
}
_LANES = 8
"""Tracks of one direction. Migrations that overlap in time are put on different tracks."""
_LONGEST_LINE = 1 << 20
ABOUT = ("experiment", "status", "median", "unit", "events left out")
"""The arguments of a point's slice besides its factors."""


class TraceEvent(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One line. ph: X is a slice, i an instant, C a counter, M the name of a process or track. ts and dur are in us."""

    name: str
    ph: Literal["X", "i", "C", "M"]
    pid: int
    tid: int = 0
    ts: Number = 0.0
    dur: Number | None = None
    s: Literal["t", "p", ""] = ""
    args: dict[str, Scalar] = {}

    def __post_init__(self) -> None:
        check_integers(self.args.values())


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _pid(device: str) -> int:
    """A number for the device that is the same in every run."""
    return zlib.crc32(device.encode()) % 9999 + 1


def point_name(record: Record) -> str:
    return " ".join([record.experiment, *(f"{name}={value}" for name, value in record.factors.items())])


class Trace:
    """The only writer of a directory's trace. The file is created with the first point that has events.

    Raises:
        UsageError: the file cannot be written, or an existing file was not written by this program.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / TRACE
        try:
            self._end = _end_of_events(self._path) if self._path.exists() else 0
        except OSError as error:
            raise UsageError(f"can't read {self._path}: {error.strerror}") from None
        self._named: set[str] = set()

    def add(self, record: Record, span: Span) -> None:
        """Appends one point with its events. The file is a complete array again when this returns."""
        lines = [*self._track_names(record.device), *point_events(record, span)]
        try:
            self._append(lines)
        except OSError as error:
            raise UsageError(f"can't write {self._path}: {error.strerror}") from None

    def _track_names(self, device: str) -> Iterator[TraceEvent]:
        """The names of a device's tracks, written once per run."""
        if device in self._named:
            return
        self._named.add(device)
        pid = _pid(device)
        lanes = {_lane(kind, n): MOVE_NAMES[kind] + f" ({n + 1})" * (n > 0) for kind in MOVES for n in range(_LANES)}
        yield TraceEvent("process_name", "M", pid, args={"name": device})
        for tid, name in (_TRACKS | lanes).items():
            yield TraceEvent("thread_name", "M", pid, tid, args={"name": name})
            yield TraceEvent("thread_sort_index", "M", pid, tid, args={"sort_index": tid})
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        yield TraceEvent("run", "i", pid, _POINTS, _us(time.monotonic()), s="p", args={"written": now})

    def _append(self, events: Iterable[TraceEvent]) -> None:
        """Overwrites the end of the array with `events` and a new end."""
        text = (b",\n" if self._end else b"[\n") + b",\n".join(map(encode_json, events))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _write(descriptor, text + b"\n]\n", self._end)
            os.ftruncate(descriptor, self._end + len(text) + 3)
        finally:
            os.close(descriptor)
        self._end += len(text)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _end_of_events(path: Path) -> int:
    """The offset at which the last complete event ends, 0 if there is none. Raises UsageError for a foreign file."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        end = size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_LINE))
        lines = file.read().split(b"\n")
    for number, line in enumerate(reversed(lines)):
        start = end - len(line)
        if _decode(line) is not None:
            return end - line.endswith(b",")
        if start == 0 and line in (b"", b"["):
            return 0
        if number and line not in (b"", b"]"):  # only the last line may be incomplete
            break
        end = start - 1
    raise UsageError(f"{path} is not a trace that `firsttouch run --events` wrote; move it away")


def _decode(line: bytes) -> TraceEvent | None:
    try:
        return msgspec.json.decode(line.removesuffix(b","), type=TraceEvent)
    except (ValueError, RecursionError):
        return None


def read_trace(directory: Path) -> Iterator[TraceEvent]:
    """Yields the events of a directory's trace, if it has one. An incomplete last line is left out.

    Raises:
        UsageError: a line is not an event of this program. The message has its number.
    """
    path = directory / TRACE
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            number, invalid = 0, 0
            for number, line in enumerate(file, 1):
                if invalid:
                    raise UsageError(f"{path}:{invalid}: not an event as `firsttouch run --events` writes it")
                if (number, line.strip()) == (1, b"[") or line.strip() in (b"]", b""):
                    continue
                event = _decode(line.rstrip(b"\n"))
                if event is not None:
                    yield event
                else:
                    invalid = number
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


def read_timelines(directory: Path) -> dict[tuple[str, str], list[TransferTimeline]]:
    """The timelines of the points that moved bytes, by experiment and device. Raises UsageError as `read_trace`."""
    timelines: dict[tuple[str, str], list[TransferTimeline]] = {}
    devices: dict[int, str] = {}
    timeline, began, key = TransferTimeline({}), 0.0, ("", "")
    phases: list[tuple[str, float, float]] = []
    for event in read_trace(directory):
        if event.name == "process_name":
            devices[event.pid] = str(event.args.get("name"))
        elif event.ph == "X" and "experiment" in event.args:
            factors = {name: value for name, value in event.args.items() if name not in ABOUT}
            timeline, phases = TransferTimeline(factors), []
            key = (str(event.args["experiment"]), devices.get(event.pid, ""))
        elif event.ph == "X" and event.tid == _PHASES:
            phases.append((event.name, event.ts, event.ts + (event.dur or 0.0)))
        elif event.ph == "C":
            total = event.args.get("bytes")
            if isinstance(total, int | float):
                if not timeline.steps:
                    began = event.ts
                    timeline.phases = [(n, (a - began) / 1e6, (b - began) / 1e6) for n, a, b in phases if a >= began]
                    timelines.setdefault(key, []).append(timeline)
                steps = timeline.steps.setdefault(event.name.removeprefix("bytes "), [])
                steps.append(((event.ts - began) / 1e6, float(total)))
    return timelines


# ---------------------------------------------------------------------------------------------- lines of a point


def point_events(record: Record, span: Span) -> Iterator[TraceEvent]:
    """One measured point: its slice, then its events and the sums of the bytes that they moved."""
    pid = _pid(record.device)
    median = record.summary.median if record.summary else None
    values = (record.experiment, record.status, median, record.unit, span.left_out)
    args: dict[str, Scalar] = {**record.factors, **dict(zip(ABOUT, values, strict=True))}
    yield TraceEvent(point_name(record), "X", pid, _POINTS, _us(span.start), _us(span.end - span.start), args=args)
    lanes = _Lanes()
    for event in span.events:
        yield _trace_event(event, pid, lanes)
    for name, start, end in span.phases:
        yield TraceEvent(name, "X", pid, _PHASES, _us(start), _us(end - start), args={"phase": name})
    for kind in MOVES:
        yield from _sums(f"bytes {MOVE_NAMES[kind]}", kind, "bytes", pid, span)
    yield from _sums("GPU fault groups", "gpu_fault", "counts", pid, span)


def _trace_event(event: MemoryEvent, pid: int, lanes: _Lanes) -> TraceEvent:
    """One event on its track: a slice for a migration, otherwise an instant."""
    args: dict[str, Scalar] = {"address": hex(event.address)}
    for name in ("bytes", "cause", "source", "target", "symbol"):
        if value := getattr(event, name):
            args[name] = value
    if event.kind == "gpu_fault":
        args["faults"] = event.count
    tid = lanes.place(event) if event.kind in MOVES else _TRACK_OF.get(event.kind, _TROUBLE)
    name = f"{event.kind} {event.cause}".strip()
    if event.kind in MOVES:
        return TraceEvent(name, "X", pid, tid, _us(event.start), _us(event.end - event.start), args=args)
    if event.end > event.start:
        args["us"] = _us(event.end - event.start)
    return TraceEvent(name, "i", pid, tid, _us(event.start), s="t", args=args)


_TRACK_OF = {"gpu_fault": _FAULTS, "cpu_fault": _FAULTS + 1}


def _lane(kind: str, number: int) -> int:
    return _MOVES * (1 + MOVES.index(kind)) + number


class _Lanes:
    """Puts each migration on a track that is free at that time, because viewers nest slices that overlap."""

    def __init__(self) -> None:
        self._busy_until = {kind: [0.0] * _LANES for kind in MOVES}

    def place(self, event: MemoryEvent) -> int:
        busy_until = self._busy_until[event.kind]
        number = next((n for n, until in enumerate(busy_until) if until <= event.start), _LANES - 1)
        busy_until[number] = max(busy_until[number], event.end)
        return _lane(event.kind, number)


def _sums(name: str, kind: EventKind, column: Literal["bytes", "counts"], pid: int, span: Span) -> Iterator[TraceEvent]:
    """The bytes or the number of events of a kind since the course began, at its beginning and after each bin in which
    they grew.
    """
    if steps := span.course.sums(kind, column):
        last = max(span.end, span.course.start)
        for seconds, total in [(span.course.start, 0), *steps, (last, steps[-1][1])]:
            yield TraceEvent(name, "C", pid, ts=_us(min(seconds, last)), args={column: total})
