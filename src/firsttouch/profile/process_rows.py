"""The rows of a summary about processes, their pages and their mappings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile import schema
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.readings import integer, last, near, whole
from firsttouch.profile.summary import BriefRow, GpuRow, HostRow, MappedProcess, MappingRow, PageSizes, ProcessRow

MOST_MAPPED_PROCESSES = 4
"""The number of processes whose mappings are told for each peak: those with most memory."""
STATED = 1.02
"""The kernel's peak of one process is told if it exceeds what was read this many times."""
AS_LARGE = 0.1
"""Mappings are told for a peak if the memory of the process, when they were read, differed by at most this part."""


def may_have_grown(profile: Profile) -> bool:
    """Whether the first process may have had more memory after its last reading than was ever read: it faulted on more
    pages since, and the kernel stated no peak of it that is not of the profiler, of which it was a copy at first.
    """
    first = profile.first
    if first is None or first.minor is None or profile.largest is not None or len(profile.processes) > 1:
        return False
    resident, minor = (profile.curve(f"process:{first.key}", column) for column in ("resident", "minor"))
    if resident is None or minor is None or not (len(resident) and len(minor)):
        return False
    since = (first.minor - minor.values[-1]) * profile.header.page_bytes
    return bool(resident.values[-1] + since > STATED * max(resident.values))


def process_rows(profile: Profile) -> list[ProcessRow]:
    """The processes, the first one first, then those with most memory."""
    rows = [_process(profile, process) for process in profile.processes.values()]
    return sorted(rows, key=lambda row: (row.parent is not None, -(row.peak or 0), row.started))


def _process(profile: Profile, process: ProfiledProcess) -> ProcessRow:
    track = f"process:{process.key}"
    curve = profile.curve(track, "resident")
    t, read = curve.peak if curve is not None and len(curve) else (None, None)
    peak = process.peak if process.peak is not None else whole(read)
    if may_have_grown(profile):
        peak = read = None
    fault_curves = {column: profile.curve(track, column) for column in ("minor", "major")}
    faults = {
        column: stated if (stated := getattr(process, column)) is not None else last(read_of)
        for column, read_of in fault_curves.items()
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
        t=t if read is not None and peak == whole(read) else None,
        minor=faults["minor"],
        major=faults["major"],
    )


def brief_processes(profile: Profile) -> BriefRow:
    names: dict[str, int] = {}
    for line in profile.brief:
        for name, number in line.names.items():
            names[name] = integer(names.get(name, 0) + number)
    return BriefRow(count=integer(sum(line.count for line in profile.brief)), names=names)


def page_sizes(profile: Profile, t: float) -> PageSizes | None:
    columns = {column: near(profile, column, t) for column in ("huge", "anonymous", "swap", "pss")}
    readings = next((by_process for by_process in columns.values() if by_process), None)
    if not readings:
        return None
    resident = {}
    for key, (seconds, _) in readings.items():
        read = profile.curve(f"process:{key}", "rss")  # by the same reading
        curve = read if read is not None else profile.curve(f"process:{key}", "resident")
        value = curve.at(seconds) if curve is not None else None
        if value is not None:
            resident[key] = integer(value)
    largest = max(readings, key=lambda key: resident.get(key, 0))
    sums = {
        column: sum(value for _, value in by_process.values()) for column, by_process in columns.items() if by_process
    }
    return PageSizes(t=readings[largest][0], resident=sum(resident.values()) if resident else None, **sums)


def mappings_at_peaks(profile: Profile, host: HostRow, gpus: Sequence[GpuRow]) -> list[MappedProcess]:
    """For each peak, the mappings of the processes that ran at it: of those that were read while the process had about
    as much memory as at the peak, the ones nearest in time.
    """
    by_key: dict[int, list[schema.Mappings]] = {}
    for line in profile.mappings:
        by_key.setdefault(line.key, []).append(line)
    chosen: dict[int, tuple[schema.Mappings, list[str]]] = {}
    peaks = [("host", host.peak), *((gpu.name, gpu.told) for gpu in gpus)]
    for place, peak in peaks:
        if peak is None:
            continue
        running = {key: lines for key, lines in by_key.items() if _ran_at(profile, key, peak.t)}
        alike = {key: _readings_of_like_size(profile, key, lines, peak.t) for key, lines in running.items()}
        near = [_nearest(lines, peak.t) for lines in alike.values() if lines]
        near.sort(key=lambda line: -sum(row.resident for row in line.rows))
        for line in near[:MOST_MAPPED_PROCESSES]:
            chosen.setdefault(id(line), (line, []))[1].append(place)
    return [_mapped(profile, line, place) for line, place in chosen.values()]


def mappings_elsewhere(profile: Profile, host: HostRow, shown: Sequence[MappedProcess]) -> str:
    """Why the mappings at the host's peak are not known although some were read; '' if they are, or if none were."""
    if host.peak is None or not profile.mappings or any("host" in mapped.of for mapped in shown):
        return ""
    closest = max(profile.mappings, key=_resident_of)
    return (
        f"the mappings were read with at most {format_size(_resident_of(closest), 3)} resident, at "
        f"{format_seconds(closest.t)}, which is not within {100 * AS_LARGE:.0f} % of the peak of "
        f"{format_size(host.peak.bytes, 3)}"
    )


def _readings_of_like_size(
    profile: Profile, key: int, lines: Sequence[schema.Mappings], t: float
) -> list[schema.Mappings]:
    """The readings of a process's mappings when its memory differed by at most AS_LARGE from that at `t`. Their sum may
    be larger, since it has pages of hugetlbfs, but not smaller.
    """
    curve = profile.curve(f"process:{key}", "resident")
    at_peak = curve.at(t) if curve is not None else None
    if curve is None or at_peak is None:
        return []
    low, high = (1 - AS_LARGE) * at_peak, (1 + AS_LARGE) * at_peak
    return [line for line in lines if _resident_of(line) >= low and (curve.at(line.t) or 0.0) <= high]


def _resident_of(line: schema.Mappings) -> int:
    return sum(row.resident for row in line.rows) + (line.others.resident if line.others else 0)


def _ran_at(profile: Profile, key: int, t: float) -> bool:
    process = profile.processes.get(key)
    return process is not None and process.started <= t and (process.ended is None or t <= process.ended)


def _nearest(lines: Sequence[schema.Mappings], t: float) -> schema.Mappings:
    place = bisect_left(lines, t, key=lambda line: line.t)
    return min(lines[max(0, place - 1) : place + 1], key=lambda line: abs(line.t - t))


def _mapped(profile: Profile, line: schema.Mappings, places: list[str]) -> MappedProcess:
    def row(mapping: schema.Mapping) -> MappingRow:
        return MappingRow(**{name: getattr(mapping, name) for name in mapping.__struct_fields__})

    process = profile.processes[line.key]
    rows = [row(mapping) for mapping in line.rows]
    others = row(line.others) if line.others else None
    return MappedProcess(
        of=places, key=line.key, pid=process.pid, name=process.name, t=line.t, rows=rows, others=others
    )
