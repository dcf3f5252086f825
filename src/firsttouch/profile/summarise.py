"""Adds up a profile: from what was recorded to its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile import schema
from firsttouch.profile.by_line import ByLine, TracedProcess, by_line
from firsttouch.profile.call_journal import calls_of
from firsttouch.profile.calls import TracedCalls
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.curves import Curve
from firsttouch.profile.faults import estimated, fault_table, seen_share
from firsttouch.profile.gpu_curves import gpu_curves, in_host_memory, own_of, rise_of, rise_of_all, why_not_added
from firsttouch.profile.headline import headline, retyped
from firsttouch.profile.link import LinkSpeed
from firsttouch.profile.phase_rows import MOST_PHASES, by_name, longest, phase_rows, phases_of
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.process_rows import (
    STATED,
    brief_processes,
    mappings_at_peaks,
    mappings_elsewhere,
    may_have_grown,
    page_sizes,
    process_rows,
)
from firsttouch.profile.readings import around, integer, last, near, peak_of, phase_at, whole
from firsttouch.profile.summary import (
    CostRow,
    CounterRow,
    GpuProcess,
    GpuRow,
    HostRow,
    NodeRow,
    Peak,
    PeakOf,
    ProfileSummary,
    Touches,
    Unseen,
)
from firsttouch.profile.trace import most_allocated
from firsttouch.profile.traced import TraceSummary, device_numbers, traced
from firsttouch.profile.untraced import trace_layer, why_untraced

MOST_PROCESSES = 200
MOST_TOUCHES, MOST_TOUCHED = 200, 8
"""The most places at which pages were touched first, and the most mappings of each."""
MOST_UNSEEN = 100


def summarise(profile: Profile, link: LinkSpeed | None = None) -> ProfileSummary:
    """The numbers of a profile. link: how fast page-locked memory is copied on its machine, if that was measured."""
    header, end = profile.header, profile.end
    host = _host(profile)
    rises = [rise_of(profile, gpu) for gpu in header.gpus]
    allocated = _allocated(profile)
    gpus = [_gpu(profile, gpu, rise, allocated.get(gpu.name)) for gpu, rise in zip(header.gpus, rises, strict=True)]
    phases, is_found = phases_of(profile)
    ranges = phase_rows(profile, phases, rises)
    names = by_name(ranges)
    processes = process_rows(profile)
    peak_time = host.peak.t if host.peak else profile.seconds
    trace = _trace(profile, phases, gpus)
    mapped = mappings_at_peaks(profile, host, gpus)
    result = ProfileSummary(
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
        brief=brief_processes(profile),
        phases=longest(ranges),
        phases_left_out=max(0, len(ranges) - MOST_PHASES),
        phases_by_name=names[:MOST_PHASES],
        names_left_out=max(0, len(names) - MOST_PHASES),
        phases_found=is_found,
        pages=page_sizes(profile, peak_time),
        nodes=[_node(profile, node, peak_time) for node in header.nodes],
        counters=_counters(profile),
        mappings=mapped,
        touches=_touches(profile),
        trace=trace,
        by_line=_by_line(profile, link),
        unseen=_unseen(profile, trace, mappings_elsewhere(profile, host, mapped)),
        cost=_cost(profile),
    )
    return msgspec.structs.replace(result, summary=headline(result))


def _host(profile: Profile) -> HostRow:
    resident, processes = profile.curve("total", "resident"), profile.curve("total", "processes")
    peak = peak_of(profile, resident)
    number = processes.at(peak.t) if peak and processes is not None else None
    pss = peak_of(profile, profile.curve("total", "pss"))
    beside = max(around(resident, pss.t), default=None) if pss and resident is not None else None
    if pss and (beside is None or beside < pss.bytes):  # read while memory rose, so that the two do not belong together
        pss = beside = None
    least, most = _bounds(profile) or (None, None)
    stated = profile.largest
    if stated is None or peak is None or stated <= STATED * peak.bytes:
        stated = None
    return HostRow(
        peak=peak,
        pss=pss,
        pss_resident=whole(beside),
        at_end=last(resident),
        processes=whole(number),
        stated=stated,
        least=least,
        most=None if may_have_grown(profile) else most,
        may_be_more=peak is not None and may_have_grown(profile),
    )


def _bounds(profile: Profile) -> tuple[int, int] | None:
    """Of how many bytes were resident at most, each page counted once, the least and the most that can be."""
    resident, lowest = profile.curve("total", "resident"), profile.curve("total", "least")
    if resident is None or not len(resident):
        return None
    processes = profile.curve("total", "processes")
    if processes is None or max(processes.values) <= 1:
        peak = integer(max(resident.values))
        return peak, peak
    of_one = [curve for process in profile.processes if (curve := profile.curve(f"process:{process}", "resident"))]
    least = integer(max([*(lowest.values if lowest else ()), *(max(curve.values) for curve in of_one if len(curve))]))
    return least, max(least, integer(_most(profile, resident)))


def _most(profile: Profile, resident: Curve) -> float:
    """The most that can have been resident, each page counted once: between two readings of what the whole machine has,
    no more than at the second and what processes then had less, and after the last, than at it and what they then had
    more.
    """
    shared, mapped = profile.curve("total", "shared"), profile.curve("machine", "mapped")
    anonymous = profile.curve("machine", "anon_pages")
    if shared is None or anonymous is None or mapped is None:
        return max(resident.values)
    of_each = [
        (process, curve)
        for key, process in profile.processes.items()
        if (curve := profile.curve(f"process:{key}", "resident")) is not None
    ]

    def size_at(process: ProfiledProcess, curve: Curve, t: float) -> float:
        return 0.0 if process.ended is not None and process.ended <= t else curve.at(t) or 0.0

    most, begin = 0.0, 0.0
    for t in [*anonymous.times, profile.seconds]:
        held = max((size for _, size in resident.within(begin, t)), default=0.0)
        if held > most:
            at = min(t, anonymous.times[-1])
            size, of_files = resident.at(at) or 0.0, shared.at(at) or 0.0
            once = min(max(0.0, size - of_files), anonymous.at(at) or 0.0) + min(of_files, mapped.at(at) or 0.0)
            changed = sum(
                max(0.0, max((v for _, v in curve.within(begin, t)), default=0.0) - size_at(process, curve, at))
                for process, curve in of_each
            )
            most = max(most, min(held, once + changed))
        begin = t
    return most


def _allocated(profile: Profile) -> dict[str, Peak]:
    """The most that the traced processes had allocated at once on each GPU, by its name."""
    journals = [journal for journal in profile.journals if journal.traced]
    peaks = dict[str, Peak]()
    for name, number in device_numbers(profile.header).items():
        if (most := most_allocated(journals, number)) is not None:
            t = most[0] - profile.header.clock
            peaks[name] = Peak(bytes=most[1], t=t, phase=phase_at(profile.phases, t))
    return peaks


def _peak_of(own: Peak | None, allocated: Peak | None, rise: Peak | None) -> PeakOf:
    """Whose memory the peak is that is told. Processes are read rarely: less than they had allocated is not theirs."""
    if own is not None and (allocated is None or own.bytes >= allocated.bytes):
        return "processes"
    return "allocations" if allocated is not None else "all programs" if rise is not None else ""


def _gpu(profile: Profile, gpu: schema.ProfiledGpu, rise: Curve | None, allocated: Peak | None) -> GpuRow:
    rows = []
    for key, curve in gpu_curves(profile, gpu.name).items():
        process, peak = profile.processes.get(key), peak_of(profile, curve)
        if peak is not None:
            pid, name = (process.pid, process.name) if process else (0, "")
            rows.append(GpuProcess(key=key, pid=pid, name=name, peak=peak))
    reserved = profile.curve(gpu.name, "reserved")
    own, highest = peak_of(profile, own_of(profile, gpu.name)), peak_of(profile, rise)
    return GpuRow(
        name=gpu.name,
        model=gpu.model,
        source=gpu.source,
        total=gpu.total,
        before=gpu.before.used,
        reserved=last(reserved) if reserved is not None else gpu.before.reserved,
        peak=peak_of(profile, profile.curve(gpu.name, "used")),
        rise=highest,
        own=own,
        allocated=allocated,
        peak_of=_peak_of(own, allocated, highest),
        at_end=last(rise),
        only_own=rise is not None and rise_of_all(profile, gpu) is None,
        processes=sorted(rows, key=lambda row: -row.peak.bytes)[:MOST_PROCESSES],
        by_process=gpu.by_process,
        shared=in_host_memory(profile, gpu) or why_not_added(gpu),
    )


def _faults(profile: Profile, column: str) -> int | None:
    """The page faults of the target: by the sum of readings, or as the kernel stated them of the first process."""
    curve, first = profile.curve("total", column), profile.first
    if profile.header.attached:  # those before are not of this profile
        return int(max(curve.values) - curve.values[0]) if curve is not None and len(curve) else None
    stated = getattr(first, column) if first else None
    from_curve = [integer(max(curve.values))] if curve is not None and len(curve) else []
    return max([*from_curve, *([] if stated is None else [stated])], default=None)


def _node(profile: Profile, node: schema.Node, t: float) -> NodeRow:
    used = near(profile, f"node{node.node}", t)
    free = profile.curve("machine", f"node{node.node}_free")
    return NodeRow(
        node=node.node,
        total=node.total,
        processors=node.processors,
        gpu=node.gpu,
        used=sum(value for _, value in used.values()) if used else None,
        t=max(used.values(), key=lambda reading: reading[1])[0] if used else None,
        least_free=integer(min(free.values)) if free is not None and len(free) else None,
        last_free=last(free),
    )


def _counters(profile: Profile) -> list[CounterRow]:
    nodes = {f"node{node.node}_free" for node in profile.header.nodes}
    return [
        CounterRow(name=name, first=c.values[0], last=c.values[-1], least=min(c.values), most=max(c.values))
        for name, c in profile.columns("machine").items()
        if name not in nodes and len(c)
    ]


def _calls(profile: Profile) -> list[TracedCalls]:
    """The calls of the traced processes; none of a trace of a version that did not record them."""
    try:
        return calls_of(profile) if any(journal.traced for journal in profile.journals) else []
    except UsageError:
        return []


def _trace(profile: Profile, phases: Sequence[TargetPhase], gpus: Sequence[GpuRow]) -> TraceSummary | None:
    numbers = device_numbers(profile.header)
    peaks = {g.name: (numbers[g.name], g.told.t) for g in gpus if g.told is not None and g.name in numbers}
    return traced(profile.journals, profile.callers, phases, peaks, profile.header.clock, _calls(profile))


def _by_line(profile: Profile, link: LinkSpeed | None) -> ByLine | None:
    """What each line cost; None without a trace, or with one of a version that did not record the calls."""
    traced_journals = [journal for journal in profile.journals if journal.traced]
    lines = by_line(map(TracedProcess, _calls(profile), traced_journals), profile.callers, link)
    return msgspec.structs.replace(lines, library_ranges=profile.library_ranges) if lines else None


def _touches(profile: Profile) -> Touches | None:
    """Where pages were touched first; None if no page faults were sampled."""
    if not profile.faults:
        return None
    rows = fault_table([*profile.sites.values(), *profile.symbols.values(), *profile.faults])
    stated = [line.counted for line in profile.faults if line.counted is not None]
    counted = stated[-1] if stated else estimated(profile.faults)
    minor, major = _faults(profile, "minor"), _faults(profile, "major")
    all_faults = integer((minor or 0) + (major or 0)) if profile.end is not None else 0
    samples = sum(row[3] for line in profile.faults for row in line.rows)
    lines, sure = (sum(getattr(line, name) for line in profile.faults) for name in ("lines", "sure"))
    return Touches(
        every=profile.faults[0].every,
        lost=integer(sum(line.lost for line in profile.faults)),
        counted=counted,
        share=seen_share(counted, all_faults).share,
        rows=[
            replace(row, percent=round(row.percent, 3), mappings=row.mappings[:MOST_TOUCHED])
            for row in rows[:MOST_TOUCHES]
        ],
        rows_left_out=max(0, len(rows) - MOST_TOUCHES),
        of_python=round(100.0 * lines / samples, 1) if samples else 0.0,
        sure=round(100.0 * sure / lines, 1) if lines else 0.0,
    )


def _unseen(profile: Profile, trace: TraceSummary | None, mappings: str) -> list[Unseen]:
    """What could not be seen: layers that are absent or incomplete, GPUs without memory by process, notices."""
    unseen = [Unseen(layer=s.layer, why=s.why, mend=s.mend) for s in profile.header.layers if s.why or not s.active]
    unseen += [
        Unseen(layer="gpus", why=f"{gpu.name} is not known by process: {gpu.by_process}")
        for gpu in profile.header.gpus
        if gpu.by_process
    ]
    unseen += [Unseen(layer="mappings", why=mappings)] if mappings else []
    if profile.end is None:
        reason = f"The profiler ended before the target; its data end at {format_seconds(profile.seconds)}."
        unseen.append(Unseen(layer="", why=reason))
    if profile.header.attached and not profile.header.command and profile.header.gpus:
        reason = "copies, kernels and allocations of CUDA are recorded of a program that is started for it only"
        command = retyped(profile.first.command if profile.first else [])
        unseen.append(Unseen(layer="trace", why=reason, mend=f"firsttouch port -- {command}"))
    layer = trace_layer(profile)
    is_empty = not any(journal.traced or journal.notices for journal in profile.journals)
    if layer is not None and layer.active and not layer.why and is_empty:
        unseen.append(Unseen(layer="trace", why=f"nothing was traced: {why_untraced(profile)}"))
    if trace is not None and trace.missing:
        reason = (
            f"migrations of at least {format_size(trace.missing, 3)} have no record: the driver drops records that "
            "come faster than CUPTI takes them"
        )
        unseen.append(Unseen(layer="trace", why=reason))
    of_journals = [notice for journal in profile.journals for notice in journal.notices]
    unseen += [Unseen(layer=layer, why=text) for layer, text in dict.fromkeys((n.layer, n.text) for n in of_journals)]
    unseen += [Unseen(layer="", why=text) for text in dict.fromkeys(profile.notices)]
    more = [Unseen(layer="", why=f"There are {len(unseen) - MOST_UNSEEN:,} further notices.")]
    return unseen if len(unseen) <= MOST_UNSEEN else [*unseen[:MOST_UNSEEN], *more]


def _cost(profile: Profile) -> CostRow | None:
    line = profile.cost
    if line is None:
        return None
    wall = line.t or None
    return CostRow(
        cpu=line.cpu,
        helper_cpu=line.helper_cpu,
        lock=line.lock,
        ticks=line.ticks,
        late=line.late,
        busy=(line.cpu + line.helper_cpu) / wall if wall else None,
        locked=line.lock / wall if wall else None,
    )
