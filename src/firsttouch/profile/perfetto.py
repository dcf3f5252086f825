"""DIR/trace.json: a profile in Chrome's trace-event format, for Perfetto and chrome://tracing.

Memory is counters, processes and phases are slices, instants are instants. A page may be in the counters of several
processes. Times are microseconds of CLOCK_MONOTONIC, so that records of CUPTI, which other modules convert, fit.

Format: "Trace Event Format" of the Chromium project, "JSON Array Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from firsttouch.base.encoding import encode_json
from firsttouch.base.files import write_atomically
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.curves import Curve
from firsttouch.profile.events.trace import TraceEvent
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.readings import integer
from firsttouch.records.schema import Scalar

FILE = "trace.json"
MOST_BYTES = 20 << 20
MOST_READINGS = 20_000
"""The most readings of one counter of all processes or of a device."""
MOST_OF_PROCESSES = 40_000
"""The most readings of all single processes together."""
MOST_PHASES = 40_000
MOST_INSTANTS = 10_000
MOST_PROCESSES = 2_000
_LONGEST_NAME = 200
_TARGET, _MACHINE, _FIRST_GPU, _AGAIN = 1 << 23, (1 << 23) + 1, (1 << 23) + 2, 1 << 24
"""Numbers of what is not a process. The kernel's pids are at most 2^22. A pid that is used again gets _AGAIN more."""
_LIFE, _LANE = 1 << 23, 1 << 24
"""Tracks of a process that are no threads: its lifetime, and further rows of a thread's phases."""


def write_trace(profile: Profile, path: Path, more: Iterable[TraceEvent] = ()) -> int:
    """Writes a profile, and further events of the caller, of which as many as there is room for (MOST_BYTES). Returns
    how many events there was no room for.

    Raises:
        OSError: the file cannot be written.
    """
    data, separator, left_out = bytearray(b"[\n"), b"", 0
    for event in chain(events(profile), more):
        line = encode_json(event)
        if len(data) + len(line) + 4 > MOST_BYTES:
            left_out += 1
            continue
        data += separator + line
        separator = b",\n"
    write_atomically(path, bytes(data + b"\n]\n"))
    return left_out


class ProcessNumbers:
    """The numbers of processes in the trace: their pids, and larger numbers where the kernel used a pid again."""

    def __init__(self, profile: Profile) -> None:
        self._slack = profile.header.interval
        self._by_pid: dict[int, list[ProfiledProcess]] = {}
        self._by_key: dict[int, int] = {}
        for process in profile.processes.values():
            with_pid = self._by_pid.setdefault(process.pid, [])
            self._by_key[process.key] = process.pid + len(with_pid) * _AGAIN
            with_pid.append(process)

    def of(self, process: ProfiledProcess) -> int:
        return self._by_key[process.key]

    def at(self, pid: int, t: float) -> int:
        """The number of the process that had a pid at a time; the pid itself if none is known."""
        started = [process for process in self._by_pid.get(pid, ()) if process.started <= t + self._slack]
        return self.of(started[-1]) if started else pid


def events(profile: Profile) -> Iterator[TraceEvent]:
    """The events of a profile: names first, then counters, processes, phases and instants."""
    clock, numbers = profile.header.clock, ProcessNumbers(profile)
    shown = _shown_processes(profile)
    yield from _names(profile, numbers, shown)
    yield from _counters(profile, numbers, shown)
    for process in shown:
        end = profile.seconds if process.ended is None else process.ended
        about: dict[str, Scalar] = {
            "command": _name(" ".join(process.command)),
            "peak": process.peak,
            "status": process.status,
        }
        name = _name(process.name) or "process"
        start, length = _us(clock + process.started), _us(max(0.0, end - process.started))
        yield TraceEvent(name, "X", numbers.of(process), _LIFE, start, length, args=about)
    yield from _phases(profile, numbers)
    for mark in [mark for mark in profile.marks if mark.kind == "instant"][:MOST_INSTANTS]:
        number = numbers.at(mark.pid, mark.t)
        source: dict[str, Scalar] = {"source": mark.source}
        yield TraceEvent(_name(mark.name), "i", number, mark.thread or _LIFE, _us(clock + mark.t), s="t", args=source)


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _name(text: str) -> str:
    return text[:_LONGEST_NAME]


def _shown_processes(profile: Profile) -> list[ProfiledProcess]:
    """The processes of the trace, the largest ones if there are too many."""
    largest = sorted(profile.processes.values(), key=lambda process: -(process.peak or 0))[:MOST_PROCESSES]
    return sorted(largest, key=lambda process: process.key)


def _names(profile: Profile, numbers: ProcessNumbers, shown: Sequence[ProfiledProcess]) -> Iterator[TraceEvent]:
    """The names of processes and tracks, in the order in which viewers show them."""
    groups = [(_TARGET, "all processes of the target")]
    groups += [(_FIRST_GPU + i, _name(f"{gpu.name} {gpu.model}".strip())) for i, gpu in enumerate(profile.header.gpus)]
    groups += [(_MACHINE, f"machine {_name(profile.header.host)}".strip())]
    groups += [(numbers.of(process), _name(process.name) or "process") for process in shown]
    for order, (number, name) in enumerate(groups):
        yield TraceEvent("process_name", "M", number, args={"name": name})
        yield TraceEvent("process_sort_index", "M", number, args={"sort_index": order})
    for process in shown:
        yield TraceEvent("thread_name", "M", numbers.of(process), _LIFE, args={"name": "lifetime"})


# ---------------------------------------------------------------------------------------------------------- counters


def _counters(profile: Profile, numbers: ProcessNumbers, shown: Sequence[ProfiledProcess]) -> Iterator[TraceEvent]:
    clock = profile.header.clock
    nodes = [f"node{node.node}_free" for node in profile.header.nodes]
    tracks = [(_TARGET, "total", "resident"), (_TARGET, "total", "pss")]
    for i, gpu in enumerate(profile.header.gpus):
        tracks += [(_FIRST_GPU + i, gpu.name, column) for column in ("used", "free")]
    tracks += [(_MACHINE, "machine", column) for column in nodes]
    for number, track, column in tracks:
        if curve := profile.curve(track, column):
            yield from _counter(column.replace("_", " "), number, curve, clock, MOST_READINGS)
    most = max(2, MOST_OF_PROCESSES // max(1, len(shown)))
    for process in shown:
        if curve := profile.curve(f"process:{process.key}", "resident"):
            yield from _counter("resident", numbers.of(process), curve, clock, most, process.ended)


def _counter(
    name: str, number: int, curve: Curve, clock: float, most: int, ended: float | None = None
) -> Iterator[TraceEvent]:
    """The readings of a counter; 0 at the end of its process."""
    for t, value in curve.thinned(most):
        yield TraceEvent(name, "C", number, ts=_us(clock + t), args={"bytes": integer(value)})
    if ended is not None:
        yield TraceEvent(name, "C", number, ts=_us(clock + max(ended, curve.times[-1])), args={"bytes": 0})


# ------------------------------------------------------------------------------------------------------------ phases


def _phases(profile: Profile, numbers: ProcessNumbers) -> Iterator[TraceEvent]:
    """Phases by process and thread. Viewers nest the slices of a track, so those that overlap get further tracks."""
    clock = profile.header.clock
    longest = sorted(profile.phases, key=lambda phase: -phase.seconds)[:MOST_PHASES]
    threads: dict[tuple[int, int], list[TargetPhase]] = {}
    for phase in longest:
        number = numbers.at(phase.pid, phase.start)
        threads.setdefault((number, phase.thread or phase.pid), []).append(phase)
    for (number, thread), phases in threads.items():
        named: set[int] = set()
        for phase, lane in lanes(phases):
            track = thread + lane * _LANE
            if track not in named:
                named.add(track)
                again = f" ({lane + 1})" if lane else ""
                yield TraceEvent("thread_name", "M", number, track, args={"name": f"phases of thread {thread}{again}"})
            about: dict[str, Scalar] = {"source": phase.source}
            about |= {"domain": _name(phase.domain)} if phase.domain else {}
            start, end = _us(clock + phase.start), _us(clock + phase.end)
            yield TraceEvent(_name(phase.name), "X", number, track, start, round(end - start, 3), args=about)


def lanes(phases: Iterable[TargetPhase]) -> Iterator[tuple[TargetPhase, int]]:
    """The phases in the order of their begin, each with the first track on which it nests."""
    stacks: list[list[float]] = []
    for phase in sorted(phases, key=lambda phase: (phase.start, -phase.end, phase.depth)):
        number = next((i for i, stack in enumerate(stacks) if _fits(stack, phase)), len(stacks))
        if number == len(stacks):
            stacks.append([])
        stacks[number].append(phase.end)
        yield phase, number


def _fits(stack: list[float], phase: TargetPhase) -> bool:
    """Whether a phase lies after or inside those of a track, whose ends are `stack`."""
    while stack and stack[-1] <= phase.start:
        stack.pop()
    return not stack or phase.end <= stack[-1]
