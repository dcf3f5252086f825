"""The numbers of a profile: what the terminal prints, profile.json holds, and the page shows.

Times are seconds since the start of the profile, sizes bytes. None is unknown; it never stands for zero.
"""

from __future__ import annotations

import shlex
import signal
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from firsttouch.machine.tree import parse_int
from firsttouch.profile import schema
from firsttouch.profile.curves import Curve
from firsttouch.profile.faults import FaultRow, estimated, fault_table, seen_share
from firsttouch.profile.found import found_phases
from firsttouch.profile.phases import Phase
from firsttouch.profile.reading import Process, Profile
from firsttouch.profile.traced import Trace, device_numbers, traced
from firsttouch.units import format_seconds, format_size

SCHEMA = "firsttouch-profile-summary/1"
MOST_NAMED = 3
"""The most GPUs that the headline names, those with the largest rises."""
MOST_PROCESSES = 200
MOST_PHASES = 200
MOST_MAPPED_PROCESSES = 4
"""The processes whose mappings are told for each peak, those with most memory."""
MOST_TOUCHES, MOST_TOUCHED = 200, 8
"""The most places at which pages were touched first, and the most mappings of each."""
_STATED = 1.02
"""How many times what was read the kernel's peak of one process must be to be told."""
LONGEST_COMMAND = 60
MOST_UNSEEN = 100
_LARGEST = float(1 << 62)
"""More than any memory. A profile from elsewhere may hold larger numbers, which JSON has no integers for."""


class Part(msgspec.Struct, frozen=True):
    """A part of the summary."""


class Peak(Part, frozen=True, kw_only=True):
    """The largest value of a curve, and when. phase: in which range of the target, '' if in none."""

    bytes: int
    t: float
    phase: str = ""


class GpuProcess(Part, frozen=True, kw_only=True):
    """The memory of a process on a GPU, as the driver tells it."""

    key: int
    pid: int
    name: str
    peak: Peak


class GpuRow(Part, frozen=True, kw_only=True):
    """The memory of a GPU.

    before: used by all programs before the target was started; peak: used by all programs at most; rise: the most over
    `before`. own: the most that the driver says the target's processes used together. reserved: by the driver.
    by_process: why `own` is unknown. shared: why its memory must not be added to the host's, '' if it may.
    """

    name: str
    model: str
    source: str
    total: int | None = None
    before: int | None = None
    reserved: int | None = None
    peak: Peak | None = None
    rise: Peak | None = None
    own: Peak | None = None
    at_end: int | None = None
    """The rise at the end."""
    processes: list[GpuProcess] = []
    by_process: str = ""
    shared: str = ""


class Host(Part, frozen=True, kw_only=True):
    """The resident memory of all processes together, in which a page that two processes share counts twice.

    stated: the largest resident size of one process, as the kernel stated at the end, if that is more than was read.
    pss: the largest sum of proportional set sizes, in which it counts once, among the readings, which are few;
    pss_resident: the resident memory at that time. processes: at the peak.
    """

    peak: Peak | None = None
    pss: Peak | None = None
    pss_resident: int | None = None
    at_end: int | None = None
    processes: int | None = None
    stated: int | None = None


class ProcessRow(Part, frozen=True, kw_only=True):
    """A process of the target. started, ended: None if it goes on. status: minus a signal's number if one killed it.

    peak: its largest resident size, t: when it was read, None if the kernel stated it at the end.
    """

    key: int
    pid: int
    parent: int | None
    name: str
    command: list[str]
    started: float
    ended: float | None = None
    status: int | None = None
    peak: int | None = None
    t: float | None = None
    minor: int | None = None
    major: int | None = None


class PhaseGpu(Part, frozen=True, kw_only=True):
    """What a GPU's memory, by all programs, did in a phase: the most over the reading before, and the growth."""

    name: str
    peak: int | None = None
    growth: int | None = None


class PhaseRow(Part, frozen=True, kw_only=True):
    """A range of the target, or all of one name, which are `count`. number: of a range, in the order of their begin.

    source: as in phases.Phase. seconds: of all; start, end: from the first begin to the last end. peak, growth: of the
    resident memory of all processes. open: its end was not seen.
    """

    name: str
    source: str
    domain: str = ""
    pid: int = 0
    thread: int = 0
    depth: int = 0
    number: int | None = None
    count: int = 1
    start: float
    end: float
    seconds: float
    open: bool = False
    peak: int | None = None
    growth: int | None = None
    gpus: list[PhaseGpu] = []
    minor: int | None = None
    major: int | None = None


class PageSizes(Part, frozen=True, kw_only=True):
    """Sums over the processes, of each the reading nearest to the host's peak. t: that of the largest process.

    resident: of the same processes at these times.
    """

    t: float
    resident: int | None = None
    huge: int | None = None
    anonymous: int | None = None
    swap: int | None = None
    pss: int | None = None


class NodeRow(Part, frozen=True, kw_only=True):
    """A NUMA node. used: by the target, nearest to its peak; free: the least and the last of the whole node.

    gpu: the GPU whose memory it is, '' if it is none's or that is unknown.
    """

    node: int
    total: int
    processors: bool
    gpu: str = ""
    used: int | None = None
    t: float | None = None
    least_free: int | None = None
    last_free: int | None = None


class Counter(Part, frozen=True, kw_only=True):
    """A counter of the machine, by all programs."""

    name: str
    first: float
    last: float
    least: float
    most: float


class MappingRow(Part, frozen=True, kw_only=True):
    """Mappings of one name: how many, address space, resident bytes, and those in huge pages."""

    name: str
    count: int
    size: int
    resident: int
    huge: int


class MappedProcess(Part, frozen=True, kw_only=True):
    """What a process had mapped. of: of what it was near to the peak: 'host' or a GPU. t: when it was read."""

    of: list[str]
    key: int
    pid: int
    name: str
    t: float
    rows: list[MappingRow]
    others: MappingRow | None = None


class Brief(Part, frozen=True, kw_only=True):
    """Processes that started and ended between two ticks."""

    count: int
    names: dict[str, int]


class Touches(Part, frozen=True, kw_only=True):
    """Where pages were touched first, from sampled page faults. every: one of how many was sampled; lost: samples.

    counted: page faults in user mode, which could be sampled; share: their part of all page faults, None if unknown.
    """

    every: int
    lost: int
    counted: int
    share: float | None
    rows: list[FaultRow]
    rows_left_out: int


class Unseen(Part, frozen=True, kw_only=True):
    """What could not be seen: a sentence, and the line to type that mends it, '' if there is none.

    layer: the layer that is absent or incomplete, '' for a notice.
    """

    layer: str
    why: str
    mend: str = ""


class Cost(Part, frozen=True, kw_only=True):
    """What profiling cost: seconds of the processor, of a helper's, and under the target's memory lock.

    busy, locked: these as parts of the wall time. late: ticks that came more than an interval late.
    """

    cpu: float
    helper_cpu: float
    lock: float
    ticks: int
    late: int
    busy: float | None = None
    locked: float | None = None


class Summary(Part, frozen=True, kw_only=True):
    """A profile in numbers. status: the target's, as a shell states it; ended: how the profile ended, '' if the
    profiler was killed. phases_found: the phases were found in the curve, since the target named none.

    phases: in the order of their begin, the longest ones if there are many. phases_by_name: those of one name as one
    row, the longest first.
    """

    schema: str = SCHEMA
    directory: str
    command: list[str]
    pid: int
    attached: bool
    host_name: str
    rank: str
    started: str
    seconds: float
    interval: float
    status: int | None
    ended: str
    still_running: int
    host: Host
    gpus: list[GpuRow]
    minor: int | None
    major: int | None
    processes: list[ProcessRow]
    processes_left_out: int
    brief: Brief
    phases: list[PhaseRow]
    phases_left_out: int
    phases_by_name: list[PhaseRow]
    names_left_out: int
    phases_found: bool
    pages: PageSizes | None
    nodes: list[NodeRow]
    counters: list[Counter]
    mappings: list[MappedProcess]
    touches: Touches | None
    trace: Trace | None
    unseen: list[Unseen]
    cost: Cost | None


def summarise(profile: Profile) -> Summary:
    """The numbers of a profile."""
    header, end = profile.header, profile.end
    host = _host(profile)
    rises = [rise_of(profile, gpu) for gpu in header.gpus]
    gpus = [_gpu(profile, gpu, rise) for gpu, rise in zip(header.gpus, rises, strict=True)]
    phases, is_found = phases_of(profile)
    rows = _phase_rows(profile, phases, rises)
    by_name = _by_name(rows)
    processes = _processes(profile)
    when = host.peak.t if host.peak else profile.seconds
    trace = _trace(profile, phases, gpus)
    return Summary(
        directory=str(profile.directory),
        command=header.command,
        pid=header.pid,
        attached=header.attached,
        host_name=header.host,
        rank=header.rank,
        started=header.started,
        seconds=profile.seconds,
        interval=header.interval,
        status=end.status if end else None,
        ended=end.why if end else "",
        still_running=end.still_running if end else 0,
        host=host,
        gpus=gpus,
        minor=_faults(profile, "minor"),
        major=_faults(profile, "major"),
        processes=processes[:MOST_PROCESSES],
        processes_left_out=max(0, len(processes) - MOST_PROCESSES),
        brief=_brief(profile),
        phases=_longest(rows),
        phases_left_out=max(0, len(rows) - MOST_PHASES),
        phases_by_name=by_name[:MOST_PHASES],
        names_left_out=max(0, len(by_name) - MOST_PHASES),
        phases_found=is_found,
        pages=_pages(profile, when),
        nodes=[_node(profile, node, when) for node in header.nodes],
        counters=_counters(profile),
        mappings=_mappings(profile, host, gpus),
        touches=_touches(profile),
        trace=trace,
        unseen=_unseen(profile, trace),
        cost=_cost(profile),
    )


# ------------------------------------------------------------------------------------------------------------ words


def headline(summary: Summary) -> str:
    """The answer in one line: './app: peak 1.2 GiB on the host at 3.1 s in solve, 500 MiB on gpu:0'."""
    parts = []
    if summary.host.stated is not None:
        parts.append(f"peak {format_size(summary.host.stated, 3)} on the host, between two readings")
    elif peak := summary.host.peak:
        inside = f" in {short(peak.phase, 40)}" if peak.phase else ""
        parts.append(f"peak {format_size(peak.bytes, 3)} on the host at {format_seconds(peak.t)}{inside}")
    rises = sorted(((gpu.rise.bytes, gpu.name) for gpu in summary.gpus if gpu.rise), reverse=True)
    named = {name for rise, name in rises[:MOST_NAMED] if rise} or {name for _, name in rises[:1]}
    parts += [
        f"{format_size(gpu.rise.bytes, 3)} on {short(gpu.name, 20)}"
        for gpu in summary.gpus
        if gpu.rise and gpu.name in named
    ]
    if further := sum(rise > 0 for rise, name in rises if name not in named):
        parts.append(f"less on {further} more")
    return f"{title(summary)}: {', '.join(parts) if parts else 'no memory was read'}"


def title(summary: Summary) -> str:
    """What was profiled: its command line, or the process that was attached to."""
    if summary.command:
        return short(shlex.join(summary.command), LONGEST_COMMAND)
    name = next((p.name for p in summary.processes if p.pid == summary.pid), "")
    return f"process {summary.pid}{f' ({short(name, 40)})' if name else ''}"


def how_long(summary: Summary) -> str:
    """For how long the target was seen."""
    return f"{'attached for' if summary.attached else 'ran for'} {format_seconds(summary.seconds)}"


def short(text: str, most: int) -> str:
    """A text on one line, of at most `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def how_ended(row: ProcessRow) -> str:
    """How a process ended, in a few words."""
    if row.ended is None:
        return "running at the end"
    if row.status is None:
        return "ended"
    if row.status < 0:
        name = next((s.name for s in signal.Signals if s == -row.status), f"signal {-row.status}")
        return f"killed by {name}"
    return f"exit status {row.status}"


# ----------------------------------------------------------------------------------------------------------- curves


def rise_of(profile: Profile, gpu: schema.Gpu) -> Curve | None:
    """The memory of a GPU over the reading before the target was started, by all programs. None if it is not known.

    From used memory where the source states it, else from free memory.
    """
    for column, before, sign in (("used", gpu.before.used, 1), ("free", gpu.before.free, -1)):
        curve = profile.curve(gpu.name, column)
        if curve is not None and before is not None and len(curve):
            rise = Curve()
            for t, value in curve:
                rise.add(t, sign * (value - before))
            return rise
    return None


def own_of(profile: Profile, gpu: str) -> Curve | None:
    """The memory of the target's processes on a GPU together, as the driver tells it. None if it does not."""
    steps: list[tuple[float, int, float]] = []
    for key, curve in gpu_curves(profile, gpu).items():
        process = profile.processes.get(key)
        steps += [(t, key, value) for t, value in curve]
        if process is not None and process.ended is not None:
            steps.append((max(process.ended, curve.times[-1]), key, 0.0))
    if not steps:
        return None
    held: dict[int, float] = {}
    total, curve = 0.0, Curve()
    for t, key, value in sorted(steps, key=lambda step: step[0]):
        total += value - held.get(key, 0.0)
        held[key] = value
        if len(curve) and curve.times[-1] == t:
            curve.values[-1] = total
        else:
            curve.add(t, total)
    return curve


def gpu_curves(profile: Profile, gpu: str) -> dict[int, Curve]:
    """The memory of each process on a GPU, by its key."""
    start = f"{gpu}/process:"
    return {
        key: curve
        for (of, column), curve in profile.curves.items()
        if column == "used" and of.startswith(start) and len(curve)
        if (key := parse_int(of.removeprefix(start))) is not None
    }


def phases_of(profile: Profile) -> tuple[list[Phase], bool]:
    """The ranges of the target; if it named none, those found in its memory, and True."""
    if profile.phases:
        return profile.phases, False
    curve = profile.curve("total", "resident")
    return (found_phases(curve, 0.0, profile.seconds), True) if curve is not None and len(curve) else ([], False)


def phase_at(phases: Iterable[Phase], t: float) -> str:
    """The name of the innermost range at a time: of those around it, the one that began last. '' if there is none."""
    around = [p for p in phases if p.start <= t < p.end or (p.start <= t == p.end)]
    inside = [p for p in around if t < p.end] or around
    return max(inside, key=lambda p: (p.start, p.depth)).name if inside else ""


def _peak(profile: Profile, curve: Curve | None) -> Peak | None:
    if curve is None or not len(curve):
        return None
    t, value = curve.peak
    return Peak(bytes=integer(value), t=t, phase=phase_at(profile.phases, t))


def _last(curve: Curve | None) -> int | None:
    return integer(curve.values[-1]) if curve is not None and len(curve) else None


class _Largest:
    """The largest value of a curve in spans of time, by the maxima of blocks of readings."""

    def __init__(self, curve: Curve) -> None:
        self._curve, size = curve, 256
        self._size = size
        self._blocks = [max(curve.values[i : i + size]) for i in range(0, len(curve), size)]

    def within(self, start: float, end: float) -> float | None:
        """The largest value from `start` to `end`, with that which held at `start`. None if nothing was read."""
        times, values, size = self._curve.times, self._curve.values, self._size
        first, last = max(0, bisect_right(times, start) - 1), bisect_right(times, end)
        if first >= last:
            return None
        one, other = -(-first // size), last // size
        if one >= other:
            return max(values[first:last])
        return max(*values[first : one * size], *self._blocks[one:other], *values[other * size : last])

    def growth(self, start: float, end: float) -> float | None:
        """The value at `end` less that at `start`, or less the first one after it."""
        times, values = self._curve.times, self._curve.values
        first, last = max(0, bisect_right(times, start) - 1), bisect_right(times, end) - 1
        return values[last] - values[first] if last >= first else None


def _whole(value: float | None) -> int | None:
    return None if value is None else integer(value)


def integer(value: float) -> int:
    """A whole number of 64 bits."""
    return int(max(-_LARGEST, min(value, _LARGEST)))


# ------------------------------------------------------------------------------------------------------------ parts


def _host(profile: Profile) -> Host:
    resident, processes = profile.curve("total", "resident"), profile.curve("total", "processes")
    peak = _peak(profile, resident)
    number = processes.at(peak.t) if peak and processes is not None else None
    pss = _peak(profile, profile.curve("total", "pss"))
    beside = max(_around(resident, pss.t), default=None) if pss and resident is not None else None
    if pss and (beside is None or beside < pss.bytes):  # read while memory rose, so that the two do not belong together
        pss = beside = None
    stated = profile.largest
    if stated is None or peak is None or stated <= _STATED * peak.bytes:
        stated = None
    return Host(
        peak=peak,
        pss=pss,
        pss_resident=_whole(beside),
        at_end=_last(resident),
        processes=_whole(number),
        stated=stated,
    )


def _around(curve: Curve, t: float) -> Iterable[float]:
    """The readings before and after a time: between them, the memory of the processes was read one by one."""
    place = bisect_right(curve.times, t)
    return curve.values[max(0, place - 1) : place + 1]


def why_not_added(gpu: schema.Gpu) -> str:
    """Why the memory of a GPU and that of the host must not be added, '' if they may."""
    if gpu.shares_host_memory:
        return f"{gpu.name} uses the host's memory, so that a page may be in both counts; they are not added."
    if gpu.node is not None:
        return (
            f"The memory of {gpu.name} is NUMA node {gpu.node}, so that a page on it may be in the resident memory of "
            "a process and in the GPU's count; they are not added."
        )
    return ""


def _gpu(profile: Profile, gpu: schema.Gpu, rise: Curve | None) -> GpuRow:
    rows = []
    for key, curve in gpu_curves(profile, gpu.name).items():
        process, peak = profile.processes.get(key), _peak(profile, curve)
        if peak is not None:
            pid, name = (process.pid, process.name) if process else (0, "")
            rows.append(GpuProcess(key=key, pid=pid, name=name, peak=peak))
    reserved = profile.curve(gpu.name, "reserved")
    return GpuRow(
        name=gpu.name,
        model=gpu.model,
        source=gpu.source,
        total=gpu.total,
        before=gpu.before.used,
        reserved=_last(reserved) if reserved is not None else gpu.before.reserved,
        peak=_peak(profile, profile.curve(gpu.name, "used")),
        rise=_peak(profile, rise),
        own=_peak(profile, own_of(profile, gpu.name)),
        at_end=_last(rise),
        processes=sorted(rows, key=lambda row: -row.peak.bytes)[:MOST_PROCESSES],
        by_process=gpu.by_process,
        shared=why_not_added(gpu),
    )


def _faults(profile: Profile, column: str) -> int | None:
    """The page faults of the target: by the sum of readings, or as the kernel stated them of the first process."""
    curve, first = profile.curve("total", column), profile.first
    if profile.header.attached:  # those before are not of this profile
        return int(max(curve.values) - curve.values[0]) if curve is not None and len(curve) else None
    stated = getattr(first, column) if first else None
    known = [integer(max(curve.values))] if curve is not None and len(curve) else []
    return max([*known, *([] if stated is None else [stated])], default=None)


def _processes(profile: Profile) -> list[ProcessRow]:
    """The processes, the first one first, then those with most memory."""
    rows = [_process(profile, process) for process in profile.processes.values()]
    return sorted(rows, key=lambda row: (row.parent is not None, -(row.peak or 0), row.started))


def _process(profile: Profile, process: Process) -> ProcessRow:
    of = f"process:{process.key}"
    curve = profile.curve(of, "resident")
    t, read = curve.peak if curve is not None and len(curve) else (None, None)
    peak = process.peak if process.peak is not None else _whole(read)
    known = {column: profile.curve(of, column) for column in ("minor", "major")}
    faults = {
        column: stated if (stated := getattr(process, column)) is not None else _last(read_of)
        for column, read_of in known.items()
    }
    return ProcessRow(
        key=process.key,
        pid=process.pid,
        parent=process.parent,
        name=process.name,
        command=process.command,
        started=process.started,
        ended=process.ended,
        status=process.status,
        peak=peak,
        t=t if read is not None and peak == _whole(read) else None,
        minor=faults["minor"],
        major=faults["major"],
    )


def _brief(profile: Profile) -> Brief:
    names: dict[str, int] = {}
    for line in profile.brief:
        for name, number in line.names.items():
            names[name] = integer(names.get(name, 0) + number)
    return Brief(count=integer(sum(line.count for line in profile.brief)), names=names)


def _phase_rows(profile: Profile, phases: Sequence[Phase], rises: Sequence[Curve | None]) -> list[PhaseRow]:
    """A row for each range. rises: of the GPUs, as in the header."""
    known = {c: _Largest(v) for c, v in profile.columns("total").items() if len(v)}
    of_gpus = [(gpu.name, _Largest(rise)) for gpu, rise in zip(profile.header.gpus, rises, strict=True) if rise]
    return [_phase_row(number, phase, known, of_gpus) for number, phase in enumerate(phases)]


def _longest(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    """At most MOST_PHASES rows, those of the longest ranges, in their order."""
    kept = sorted(rows, key=lambda row: -row.seconds)[:MOST_PHASES]
    return sorted(kept, key=lambda row: row.number or 0)


def _by_name(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    groups: dict[tuple[str, str, str], list[PhaseRow]] = {}
    for row in rows:
        groups.setdefault((row.name, row.source, row.domain), []).append(row)
    return sorted(map(_joined, groups.values()), key=lambda row: -row.seconds)


def _phase_row(
    number: int, phase: Phase, known: dict[str, _Largest], rises: Sequence[tuple[str, _Largest]]
) -> PhaseRow:
    def of(column: str, what: Callable[[_Largest], float | None]) -> int | None:
        return _whole(what(known[column])) if column in known else None

    start, end = phase.start, phase.end
    faults = {c: of(c, lambda curve: curve.growth(start, end)) for c in ("minor", "major")}
    return PhaseRow(
        name=phase.name,
        source=phase.source,
        domain=phase.domain,
        pid=phase.pid,
        thread=phase.thread,
        depth=phase.depth,
        number=number,
        start=start,
        end=end,
        seconds=round(phase.seconds, 9),
        open=phase.open,
        peak=of("resident", lambda curve: curve.within(start, end)),
        growth=of("resident", lambda curve: curve.growth(start, end)),
        gpus=[
            PhaseGpu(name=name, peak=_whole(rise.within(start, end)), growth=_whole(rise.growth(start, end)))
            for name, rise in rises
        ],
        minor=None if faults["minor"] is None else max(0, faults["minor"]),
        major=None if faults["major"] is None else max(0, faults["major"]),
    )


def _joined(rows: Sequence[PhaseRow]) -> PhaseRow:
    """The ranges of one name as one row."""

    def total(values: Iterable[int | None]) -> int | None:
        found = [value for value in values if value is not None]
        return integer(sum(found)) if found else None

    def most(values: Iterable[int | None]) -> int | None:
        return max((value for value in values if value is not None), default=None)

    one = len({(row.pid, row.thread) for row in rows}) == 1
    return PhaseRow(
        name=rows[0].name,
        source=rows[0].source,
        domain=rows[0].domain,
        pid=rows[0].pid if one else 0,
        thread=rows[0].thread if one else 0,
        depth=min(row.depth for row in rows),
        count=len(rows),
        start=rows[0].start,
        end=max(row.end for row in rows),
        seconds=sum(row.seconds for row in rows),
        open=any(row.open for row in rows),
        peak=most(row.peak for row in rows),
        growth=total(row.growth for row in rows),
        gpus=[
            PhaseGpu(name=some[0].name, peak=most(g.peak for g in some), growth=total(g.growth for g in some))
            for some in zip(*(row.gpus for row in rows), strict=True)
        ],
        minor=total(row.minor for row in rows),
        major=total(row.major for row in rows),
    )


def _reading_near(curve: Curve, t: float) -> tuple[float, int]:
    """The reading nearest to a time. Raises ValueError without readings."""
    place = bisect_right(curve.times, t)
    near = range(max(0, place - 1), min(place + 1, len(curve)))
    i = min(near, key=lambda i: abs(curve.times[i] - t))
    return curve.times[i], integer(curve.values[i])


def _near(profile: Profile, column: str, t: float) -> dict[int, tuple[float, int]]:
    """For each process that was there at a time, its reading of `column` nearest to it."""
    found = {}
    for process in profile.processes.values():
        curve = profile.curve(f"process:{process.key}", column)
        there = process.started <= t and (process.ended is None or t < process.ended)
        if curve is not None and len(curve) and there:
            found[process.key] = _reading_near(curve, t)
    return found


def _pages(profile: Profile, t: float) -> PageSizes | None:
    columns = {column: _near(profile, column, t) for column in ("huge", "anonymous", "swap", "pss")}
    seen = next((found for found in columns.values() if found), None)
    if not seen:
        return None
    resident = {}
    for key, (when, _) in seen.items():
        read = profile.curve(f"process:{key}", "rss")  # by the same reading
        curve = read if read is not None else profile.curve(f"process:{key}", "resident")
        value = curve.at(when) if curve is not None else None
        if value is not None:
            resident[key] = integer(value)
    largest = max(seen, key=lambda key: resident.get(key, 0))
    sums = {column: sum(value for _, value in found.values()) for column, found in columns.items() if found}
    return PageSizes(t=seen[largest][0], resident=sum(resident.values()) if resident else None, **sums)


def _node(profile: Profile, node: schema.Node, t: float) -> NodeRow:
    used = _near(profile, f"node{node.node}", t)
    free = profile.curve("machine", f"node{node.node}_free")
    return NodeRow(
        node=node.node,
        total=node.total,
        processors=node.processors,
        gpu=node.gpu,
        used=sum(value for _, value in used.values()) if used else None,
        t=max(used.values(), key=lambda reading: reading[1])[0] if used else None,
        least_free=integer(min(free.values)) if free is not None and len(free) else None,
        last_free=_last(free),
    )


def _counters(profile: Profile) -> list[Counter]:
    nodes = {f"node{node.node}_free" for node in profile.header.nodes}
    return [
        Counter(name=name, first=c.values[0], last=c.values[-1], least=min(c.values), most=max(c.values))
        for name, c in profile.columns("machine").items()
        if name not in nodes and len(c)
    ]


def _mappings(profile: Profile, host: Host, gpus: Sequence[GpuRow]) -> list[MappedProcess]:
    """The mappings that were read nearest to each peak, of the processes that were there at it."""
    by_key: dict[int, list[schema.Mappings]] = {}
    for line in profile.mappings:
        by_key.setdefault(line.key, []).append(line)
    chosen: dict[int, tuple[schema.Mappings, list[str]]] = {}
    peaks = [("host", host.peak), *((gpu.name, gpu.rise) for gpu in gpus)]
    for of, peak in peaks:
        if peak is None:
            continue
        near = [_nearest(lines, peak.t) for key, lines in by_key.items() if _was_there(profile, key, peak.t)]
        near.sort(key=lambda line: -sum(row.resident for row in line.rows))
        for line in near[:MOST_MAPPED_PROCESSES]:
            chosen.setdefault(id(line), (line, []))[1].append(of)
    return [_mapped(profile, line, of) for line, of in chosen.values()]


def _was_there(profile: Profile, key: int, t: float) -> bool:
    process = profile.processes.get(key)
    return process is not None and process.started <= t and (process.ended is None or t <= process.ended)


def _nearest(lines: Sequence[schema.Mappings], t: float) -> schema.Mappings:
    place = bisect_left(lines, t, key=lambda line: line.t)
    return min(lines[max(0, place - 1) : place + 1], key=lambda line: abs(line.t - t))


def _mapped(profile: Profile, line: schema.Mappings, of: list[str]) -> MappedProcess:
    def row(mapping: schema.Mapping) -> MappingRow:
        return MappingRow(**{name: getattr(mapping, name) for name in mapping.__struct_fields__})

    process = profile.processes[line.key]
    rows = [row(mapping) for mapping in line.rows]
    others = row(line.others) if line.others else None
    return MappedProcess(of=of, key=line.key, pid=process.pid, name=process.name, t=line.t, rows=rows, others=others)


def _trace(profile: Profile, phases: Sequence[Phase], gpus: Sequence[GpuRow]) -> Trace | None:
    numbers = device_numbers(profile.header)
    peaks = {g.name: (numbers[g.name], g.rise.t) for g in gpus if g.rise is not None and g.name in numbers}
    return traced(profile.journals, profile.callers, phases, peaks, profile.header.clock)


def _touches(profile: Profile) -> Touches | None:
    """Where pages were touched first; None if no page faults were sampled."""
    if not profile.faults:
        return None
    rows = fault_table([*profile.sites.values(), *profile.symbols.values(), *profile.faults])
    stated = [line.counted for line in profile.faults if line.counted is not None]
    counted = stated[-1] if stated else estimated(profile.faults)
    minor, major = _faults(profile, "minor"), _faults(profile, "major")
    every = integer((minor or 0) + (major or 0)) if profile.end is not None else 0
    return Touches(
        every=profile.faults[0].every,
        lost=integer(sum(line.lost for line in profile.faults)),
        counted=counted,
        share=seen_share(counted, every).share,
        rows=[
            replace(row, percent=round(row.percent, 3), mappings=row.mappings[:MOST_TOUCHED])
            for row in rows[:MOST_TOUCHES]
        ],
        rows_left_out=max(0, len(rows) - MOST_TOUCHES),
    )


def _unseen(profile: Profile, trace: Trace | None) -> list[Unseen]:
    """What could not be seen: layers that are absent or incomplete, GPUs without memory by process, notices."""
    found = [Unseen(layer=s.layer, why=s.why, mend=s.mend) for s in profile.header.layers if s.why or not s.active]
    found += [
        Unseen(layer="gpus", why=f"{gpu.name} is not known by process: {gpu.by_process}")
        for gpu in profile.header.gpus
        if gpu.by_process
    ]
    if profile.end is None:
        why = f"The profiler ended before the target; its data end at {format_seconds(profile.seconds)}."
        found.append(Unseen(layer="", why=why))
    tracing = any(state.layer == "trace" and state.active for state in profile.header.layers)
    if tracing and not any(journal.traced or journal.notices for journal in profile.journals):
        found.append(Unseen(layer="trace", why="nothing was traced: no process of the target initialised CUDA"))
    if trace is not None and trace.missing:
        why = (
            f"migrations of at least {format_size(trace.missing, 3)} have no record: the driver drops records that "
            "come faster than CUPTI takes them"
        )
        found.append(Unseen(layer="trace", why=why))
    told = [notice for journal in profile.journals for notice in journal.notices]
    found += [Unseen(layer=layer, why=text) for layer, text in dict.fromkeys((n.layer, n.text) for n in told)]
    found += [Unseen(layer="", why=text) for text in dict.fromkeys(profile.notices)]
    more = [Unseen(layer="", why=f"There are {len(found) - MOST_UNSEEN:,} further notices.")]
    return found if len(found) <= MOST_UNSEEN else [*found[:MOST_UNSEEN], *more]


def _cost(profile: Profile) -> Cost | None:
    line = profile.cost
    if line is None:
        return None
    wall = line.t or None
    return Cost(
        cpu=line.cpu,
        helper_cpu=line.helper_cpu,
        lock=line.lock,
        ticks=line.ticks,
        late=line.late,
        busy=(line.cpu + line.helper_cpu) / wall if wall else None,
        locked=line.lock / wall if wall else None,
    )
