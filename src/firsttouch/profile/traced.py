"""A trace of CUDA in numbers: trace.py's tables of a profile's journals, with names in place of addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

from firsttouch import _core
from firsttouch.profile import schema
from firsttouch.profile.calls import BlockCall, LaunchCall, MoveCall, TracedCalls
from firsttouch.profile.events.trace import TraceEvent
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.recorded import (
    CallFrame,
    CallSite,
    FailedCalls,
    ProcessJournal,
    RecordedAllocation,
    RecordedCopy,
    RecordedFree,
    RecordedKernel,
)
from firsttouch.profile.symbols.lookup import is_of_the_system, symbolize
from firsttouch.profile.trace import (
    CopyTotals,
    OfKernel,
    OfPhase,
    UnifiedMemory,
    alive,
    by_kernel,
    by_phase,
    by_site,
    caller,
    copies_by_direction,
    unified_memory,
)

MOST_ROWS = 100
MOST_EVENTS = 40_000
"""The most events of one process that trace.json has: the first ones."""
_MANAGED = ("managed", "managed_static")
_STATIC = ("device_static", "managed_static")
_OF_HEADERS = re.compile(r"^(?:[\w:<>,*& ]+ )?(?:std|__gnu_cxx|thrust|cub|cuda)::")
"""Functions of the C++ library and of CUDA's, which are compiled into the program."""
_INLINED = ("/cuda_runtime.h", "/cuda_runtime_api.h")
CallerTable: TypeAlias = Mapping[tuple[str, int], schema.Caller]


class CallLocation(msgspec.Struct, frozen=True):
    """A place in a program. source, line: '' and 0 if unknown. near: the compiler gave the call no line; it is that of
    the nearest code before it in the function. All is '' for a call that is unknown.
    """

    function: str = ""
    source: str = ""
    line: int = 0
    file: str = ""
    near: bool = False


class Allocated(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that one call allocated. kind: such as 'device', 'managed' or 'pinned'; name: of a static variable.

    unified: the events in it; None in a list of what was alive.
    """

    place: CallLocation
    kind: str
    name: str
    allocations: int
    bytes: int
    unified: UnifiedMemory | None = None


class AliveAt(msgspec.Struct, frozen=True, kw_only=True):
    """What was allocated and not given back at the peak of a GPU. device: its number in the program.

    Of managed memory, it is not known how much was on the GPU.
    """

    gpu: str
    device: int
    t: float
    rows: list[Allocated]
    rows_left_out: int


class OfProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What CUDA did in one process."""

    pid: int
    copies: list[CopyTotals]
    kernels: int
    allocations: int


class FailedCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls at one place that returned the same error. function: of the driver; error: its number in cuda.h."""

    place: CallLocation
    function: str
    error: int
    calls: int


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What CUDA did in the target. processes: those that were traced. lost: records for which CUPTI had no room;
    left_out: those for which the journal had none; unfinished: copies and kernels that had not ended when the program
    or its context did; failed: calls that returned an error, in their order, which count as nothing else; by_process:
    each process, those with most bytes copied first. Times are seconds.
    """

    processes: int
    unified: UnifiedMemory
    copies: list[CopyTotals]
    allocations: int
    kernels: int
    kernel_seconds: float | None
    phases: list[OfPhase]
    sites: list[Allocated]
    by_kernel: list[OfKernel]
    alive: list[AliveAt]
    lost: int
    left_out: int
    missing: int
    """Bytes of migrations, at least, for which there is no record: more moved back than had come and was allocated. The
    driver drops records without telling when they come faster than CUPTI takes them.
    """
    by_process: list[OfProcess] = []
    unfinished: int = 0
    failed: list[FailedCallRow] = []
    untimed: list[str] = []
    """Interfaces that the program used which tell no times of copies and kernels, such as OpenCL."""
    damaged: int = 0
    """Journals that were damaged, so that all numbers are at least what they say."""


def callers(frames: Iterable[tuple[str, int]]) -> Iterator[schema.Caller]:
    """Names for places that called CUDA, each a file and an offset in it, for the data file."""
    for (file, offset), place in symbolize(dict.fromkeys(frames)).items():
        if place.function or place.source:
            yield schema.Caller(
                file=file,
                offset=offset,
                function=place.function,
                source=place.source,
                number=place.number,
                near=place.near,
            )


def calling_frame(site: CallSite, names: CallerTable) -> CallFrame | None:
    """The frame of the program that called the CUDA runtime, or the driver. Of code in headers of the system that was
    compiled into the program, such as Thrust's, the frame that led to it, if that has a line of the program.
    """

    def function_of(file: str, offset: int) -> str:
        location = names.get((file, offset))
        return location.function if location else ""

    frame = caller(site, function_of)
    if frame is None or frame.function or not is_of_the_system(_source(frame, names)):
        return frame
    if not _OF_HEADERS.match(function_of(frame.file, frame.offset)):
        return frame  # a function of the program, whose line is not known
    of_the_file = (outer for outer in site[site.index(frame) :] if outer.file == frame.file)
    sources = ((outer, _source(outer, names)) for outer in of_the_file)
    return next((outer for outer, source in sources if source and not is_of_the_system(source)), frame)


def _source(frame: CallFrame, names: CallerTable) -> str:
    location = names.get((frame.file, frame.offset))
    return location.source if location else ""


def place_of(site: CallSite, names: CallerTable) -> CallLocation:
    """The place in the program that called the CUDA runtime, or the driver."""
    frame = calling_frame(site, names)
    if frame is None:
        return CallLocation()
    if frame.function:
        return CallLocation(frame.function, frame.file, frame.offset, frame.file)
    location = names.get((frame.file, frame.offset))
    if location is None:
        return CallLocation(file=frame.file)
    if location.source.endswith(_INLINED):  # the line is in a function of the runtime's headers that was inlined here
        return CallLocation(location.function, file=frame.file)
    return CallLocation(location.function, location.source, location.number, frame.file, location.near)


def failed_rows(failed: Iterable[FailedCalls], names: CallerTable) -> list[FailedCallRow]:
    """Calls that failed, by their place, in the order of the first of each."""
    calls: dict[tuple[CallLocation, str, int], int] = {}
    for alike in sorted(failed, key=lambda alike: alike.t):
        key = place_of(alike.site, names), alike.function, alike.error
        calls[key] = calls.get(key, 0) + alike.calls
    return [
        FailedCallRow(place=place, function=function, error=error, calls=number)
        for (place, function, error), number in calls.items()
    ][:MOST_ROWS]


def traced(
    journals: Iterable[ProcessJournal],
    names: CallerTable,
    phases: Iterable[TargetPhase],
    peaks: Mapping[str, tuple[int, float]],
    clock: float,
    calls: Iterable[TracedCalls] = (),
) -> TraceSummary | None:
    """The trace of a profile; None if none of its processes was traced.

    peaks: by the name of a GPU, its number in the program and the time of its peak. clock: the time 0 of `phases`, of
    `peaks` and of the result. calls: of each process, for those whose interface tells no times.
    """
    of_pids = {of_process.pid: of_process for of_process in calls}
    traced_journals = [journal for journal in journals if journal.traced]
    if not traced_journals:
        return None
    untimed = [journal for journal in traced_journals if _is_untimed(journal)]
    traced_journals = [_with_calls(journal, of_pids.get(journal.pid)) for journal in traced_journals]
    events = [event for journal in traced_journals for event in journal.events]
    copies = [copy for journal in traced_journals for copy in journal.copies]
    kernels = [kernel for journal in traced_journals for kernel in journal.kernels]
    spans = [(phase.name, phase.start + clock, phase.end + clock) for phase in phases]
    unified = unified_memory(events)
    managed = sum(a.bytes for journal in traced_journals for a in journal.allocations if a.kind in _MANAGED)
    of_phases = by_phase(events, copies, spans)
    for of_phase in of_phases:
        of_phase.start, of_phase.end = round(of_phase.start - clock, 6), round(of_phase.end - clock, 6)
    sites = [
        Allocated(
            place=place_of(site.site, names),
            kind=site.kind,
            name=site.name,
            allocations=site.allocations,
            bytes=site.bytes,
            unified=site.unified,
        )
        for site in by_site(traced_journals)
    ]
    of_kernels = [row for journal in traced_journals for row in by_kernel(journal)]
    for row in of_kernels:
        row.name = _core.demangle(row.name)
    return TraceSummary(
        processes=len(traced_journals),
        unified=unified,
        copies=copies_by_direction(copies),
        allocations=sum(len(journal.allocations) for journal in traced_journals),
        kernels=len(kernels),
        kernel_seconds=sum(kernel.end - kernel.start for kernel in kernels) or None,
        phases=of_phases[:MOST_ROWS],
        sites=sites[:MOST_ROWS],
        by_kernel=of_kernels[:MOST_ROWS],
        alive=[_alive(traced_journals, names, gpu, device, t, clock) for gpu, (device, t) in peaks.items()],
        lost=sum(journal.lost for journal in traced_journals),
        left_out=sum(journal.left_out for journal in traced_journals),
        missing=missing_bytes(unified, managed),
        by_process=_by_process(traced_journals),
        unfinished=sum(journal.unfinished for journal in traced_journals),
        failed=failed_rows([failed for journal in traced_journals for failed in journal.failed], names),
        untimed=list(dict.fromkeys(runtime.api for journal in untimed for runtime in journal.runtimes)),
        damaged=sum(journal.damaged for journal in traced_journals),
    )


def _is_untimed(journal: ProcessJournal) -> bool:
    return bool(journal.runtimes) and not (journal.copies or journal.kernels)


def _with_calls(journal: ProcessJournal, calls: TracedCalls | None) -> ProcessJournal:
    """The journal of a process with what it asked for, at the moment of the call and without a duration, if its
    interface does not tell when that was done; otherwise as it is.
    """
    if calls is None or not _is_untimed(journal):
        return journal
    complete = replace(journal)
    complete.copies = [
        RecordedCopy(start=move.t, end=move.t, bytes=move.bytes * move.rows, device=0, stream=move.stream,
                 direction="set" if move.what == "fill" else move.direction)
        for move in calls.calls if isinstance(move, MoveCall) and move.what in ("copy", "fill")
    ]  # fmt: skip
    complete.kernels = [
        RecordedKernel(start=launch.t, end=launch.t, name=launch.kernel, device=0, stream=0)
        for launch in calls.calls if isinstance(launch, LaunchCall)
    ]  # fmt: skip
    blocks = [block for block in calls.calls if isinstance(block, BlockCall)]
    complete.allocations = [
        RecordedAllocation(t=block.t, address=block.address, bytes=block.bytes, kind=block.kind, device=block.device,
                       site=block.site, name=block.name)
        for block in blocks if block.begins
    ]  # fmt: skip
    complete.frees = [
        RecordedFree(t=block.t, address=block.address, bytes=block.bytes, kind=block.kind, device=block.device)
        for block in blocks if not block.begins
    ]  # fmt: skip
    return complete


def _by_process(journals: Iterable[ProcessJournal]) -> list[OfProcess]:
    rows = [
        OfProcess(
            pid=journal.pid,
            copies=copies_by_direction(journal.copies),
            kernels=len(journal.kernels),
            allocations=len(journal.allocations),
        )
        for journal in journals
    ]
    return sorted(rows, key=lambda row: (-sum(of.bytes for of in row.copies), -row.kernels))[:MOST_ROWS]


def missing_bytes(unified: UnifiedMemory, allocated: int) -> int:
    """Bytes of migrations, at least, that were not recorded. A page that was first touched on one side may move away
    once more than it moved there; so the directions differ by at most what was allocated.
    """
    return max(0, abs(unified.h2d.bytes - unified.d2h.bytes) - allocated)


def _alive(
    journals: Iterable[ProcessJournal], names: CallerTable, gpu: str, device: int, t: float, clock: float
) -> AliveAt:
    allocations = alive(journals, t + clock, device)
    rows = [
        Allocated(
            place=place_of(allocation.site, names),
            kind=allocation.kind,
            name=allocation.name,
            allocations=allocation.allocations,
            bytes=allocation.bytes,
        )
        for allocation in allocations
        if allocation.kind not in _STATIC
    ]
    for kind in _STATIC:  # modules may have hundreds
        if variables := [allocation for allocation in allocations if allocation.kind == kind]:
            number, size = (
                sum(allocation.allocations for allocation in variables),
                sum(allocation.bytes for allocation in variables),
            )
            rows.append(
                Allocated(place=CallLocation(), kind=kind, name="static variables", allocations=number, bytes=size)
            )
    rows.sort(key=lambda row: -row.bytes)
    return AliveAt(gpu=gpu, device=device, t=t, rows=rows[:MOST_ROWS], rows_left_out=max(0, len(rows) - MOST_ROWS))


def device_numbers(header: schema.Header) -> dict[str, int]:
    """The number of each GPU in the target, as CUDA_VISIBLE_DEVICES orders them; those that it hides are left out."""
    nvidia = [gpu for gpu in header.gpus if "NVML" in gpu.source]
    visible = header.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {gpu.name: number for number, gpu in enumerate(nvidia)}
    numbers: dict[str, int] = {}
    for number, word in enumerate(visible.split(",")):
        chosen = [
            gpu
            for place, gpu in enumerate(nvidia)
            if word.strip() == str(place) or (word.strip().startswith("GPU-") and gpu.uuid.startswith(word.strip()))
        ]
        if not chosen:
            break  # CUDA ignores what follows an invalid entry
        numbers[chosen[0].name] = number
    return numbers


# ------------------------------------------------------------------------------------------------------ for Perfetto

_MOVES = {"h2d": "host to device", "d2h": "device to host", "d2d": "device to device"}
_UNIFIED, _STREAMS = 1 << 25, 1 << 26
"""Numbers of tracks that are no threads."""


def trace_events(journals: Iterable[ProcessJournal]) -> Iterator[TraceEvent]:
    """Kernels, copies and unified-memory events as slices of the process that they belong to."""
    for journal in journals:
        if not journal.traced:
            continue
        pid = journal.pid
        yield TraceEvent("thread_name", "M", pid, _UNIFIED, args={"name": "unified memory"})
        streams = {kernel.stream for kernel in journal.kernels} | {copy.stream for copy in journal.copies}
        for stream in sorted(streams):
            yield TraceEvent("thread_name", "M", pid, _STREAMS + stream, args={"name": f"CUDA stream {stream}"})
        for kernel in journal.kernels[:MOST_EVENTS]:
            name = _core.demangle(kernel.name)[:200]
            yield _slice(name, pid, _STREAMS + kernel.stream, kernel.start, kernel.end, {"device": kernel.device})
        for copy in journal.copies[:MOST_EVENTS]:
            about = {"bytes": copy.bytes, "device": copy.device}
            yield _slice(f"copy {copy.direction}", pid, _STREAMS + copy.stream, copy.start, copy.end, about)
        for event in journal.events[:MOST_EVENTS]:
            about = {"bytes": event.bytes, "count": event.count}
            name = f"{_MOVES.get(event.kind, event.kind)} {event.cause}".strip()
            yield _slice(name, pid, _UNIFIED, event.start, event.end, about)


def _slice(name: str, pid: int, tid: int, start: float, end: float, about: Mapping[str, int]) -> TraceEvent:
    ts, dur = round(start * 1e6, 3), round((end - start) * 1e6, 3)
    return TraceEvent(name, "X", pid, tid, ts, dur, args={**about})
