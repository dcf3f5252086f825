"""What the driver moved and why: tables of a trace as a whole, by phase, by allocation and by kernel.

The layout is that of nvprof's unified-memory table. An event is counted where it starts. Everything here is computed
from the records of journal.py; nothing is formatted. Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal, TypeAlias

import msgspec

from firsttouch.profile.events.log import MemoryEvent
from firsttouch.profile.recorded import (
    CallFrame,
    CallSite,
    MemoryKind,
    ProcessJournal,
    RecordedAllocation,
    RecordedCopy,
    RecordedFree,
    RecordedKernel,
)
from firsttouch.records.timeline import NamedInterval

ON_A_GPU: frozenset[MemoryKind] = frozenset(("device", "array", "device_static", "managed", "managed_static"))
"""Kinds of memory that may lie on a GPU. Where managed memory lies at a time, no record says."""


class Moves(msgspec.Struct):
    """Migrations in one direction. seconds: the sum of their durations, which may overlap; by_cause: bytes."""

    records: int = 0
    bytes: int = 0
    smallest: int = 0
    largest: int = 0
    seconds: float = 0.0
    by_cause: dict[str, int] = {}

    def add(self, event: MemoryEvent) -> None:
        self.smallest = min(self.smallest, event.bytes) if self.records else event.bytes
        self.largest = max(self.largest, event.bytes)
        self.records += 1
        self.bytes += event.bytes
        self.seconds += event.end - event.start
        self.by_cause[event.cause] = self.by_cause.get(event.cause, 0) + event.bytes


class UnifiedMemory(msgspec.Struct):
    """Unified-memory events, added up.

    gpu_fault_groups: records of faults that the driver handled together; gpu_faults: the faults in them, as the driver
    counts them; gpu_fault_seconds: the sum of their durations. thrashing_bytes: of the regions that moved to and fro.
    """

    h2d: Moves = msgspec.field(default_factory=Moves)
    d2h: Moves = msgspec.field(default_factory=Moves)
    d2d: Moves = msgspec.field(default_factory=Moves)
    gpu_fault_groups: int = 0
    gpu_faults: int = 0
    gpu_fault_seconds: float = 0.0
    cpu_faults: int = 0
    thrashing: int = 0
    thrashing_bytes: int = 0
    throttling: int = 0
    remote_maps: int = 0
    remote_map_bytes: int = 0

    def add(self, event: MemoryEvent) -> None:
        kind = event.kind
        if kind == "h2d":
            self.h2d.add(event)
        elif kind == "d2h":
            self.d2h.add(event)
        elif kind == "d2d":
            self.d2d.add(event)
        elif kind == "gpu_fault":
            self.gpu_fault_groups += 1
            self.gpu_faults += event.count
            self.gpu_fault_seconds += event.end - event.start
        elif kind == "cpu_fault":
            self.cpu_faults += event.count
        elif kind == "thrashing":
            self.thrashing += 1
            self.thrashing_bytes += event.bytes
        elif kind == "throttling":
            self.throttling += 1
        else:
            self.remote_maps += 1
            self.remote_map_bytes += event.bytes


class CopyTotals(msgspec.Struct):
    """Copies that the program asked for, or fills, in one direction. seconds: None if the interface tells no times."""

    direction: str
    records: int = 0
    bytes: int = 0
    smallest: int = 0
    largest: int = 0
    seconds: float | None = None


class OfPhase(msgspec.Struct):
    """The events and copies that started in a phase, those of phases within it included."""

    name: str
    start: float
    end: float
    unified: UnifiedMemory
    copies: list[CopyTotals]


class OfSite(msgspec.Struct):
    """The events in memory that was allocated by one call, or by none that is known (an empty site).

    allocations, bytes: how often, and how much altogether.
    """

    site: CallSite
    kind: MemoryKind
    name: str
    allocations: int
    bytes: int
    unified: UnifiedMemory


Overlap: TypeAlias = Literal["kernel", "ambiguous", "none"]


class OfKernel(msgspec.Struct):
    """The events during the kernels of one name, by overlap in time; no record says which kernel caused an event.

    overlap: 'ambiguous' for events that overlap kernels of several names, 'none' for those that overlap no kernel.
    seconds: the sum of the durations of its launches.
    """

    overlap: Overlap
    name: str
    launches: int
    seconds: float
    unified: UnifiedMemory


class Alive(msgspec.Struct):
    """Memory that was allocated by one call and not yet given back."""

    site: CallSite
    kind: MemoryKind
    name: str
    allocations: int
    bytes: int


def unified_memory(events: Iterable[MemoryEvent]) -> UnifiedMemory:
    """The sums of all events."""
    sums = UnifiedMemory()
    for event in events:
        sums.add(event)
    return sums


def copies_by_direction(copies: Iterable[RecordedCopy]) -> list[CopyTotals]:
    """Copies by direction, the most bytes first."""
    totals: dict[str, CopyTotals] = {}
    for copy in copies:
        sums = totals.get(copy.direction)
        if sums is None:
            sums = totals[copy.direction] = CopyTotals(copy.direction, smallest=copy.bytes)
        sums.records += 1
        sums.bytes += copy.bytes
        if copy.bytes < sums.smallest:
            sums.smallest = copy.bytes
        if copy.bytes > sums.largest:
            sums.largest = copy.bytes
        sums.seconds = ((sums.seconds or 0.0) + copy.end - copy.start) or None
    return sorted(totals.values(), key=lambda sums: -sums.bytes)


def by_phase(
    events: Sequence[MemoryEvent], copies: Sequence[RecordedCopy], phases: Iterable[NamedInterval]
) -> list[OfPhase]:
    """What started in each phase, in the order of `phases`. Phases may be nested or overlap."""
    events = sorted(events, key=lambda event: event.start)
    copies = sorted(copies, key=lambda copy: copy.start)
    event_starts = [event.start for event in events]
    copy_starts = [copy.start for copy in copies]
    return [
        OfPhase(
            name,
            start,
            end,
            unified_memory(events[bisect_left(event_starts, start) : bisect_left(event_starts, end)]),
            copies_by_direction(copies[bisect_left(copy_starts, start) : bisect_left(copy_starts, end)]),
        )
        for name, start, end in phases
    ]


@dataclass
class _LiveBlock:
    """An allocation and its end."""

    allocation: RecordedAllocation
    end: float = float("inf")
    unified: UnifiedMemory = field(default_factory=UnifiedMemory)

    @property
    def address(self) -> int:
        return self.allocation.address


class _Heap:
    """The allocations of one process at a time that goes forward."""

    def __init__(self) -> None:
        self.blocks: list[_LiveBlock] = []
        self._alive: dict[int, _LiveBlock] = {}
        self._addresses: list[int] = []

    def allocate(self, allocation: RecordedAllocation) -> None:
        self.release(allocation.address, allocation.t)  # its end was not recorded
        block = _LiveBlock(allocation)
        self.blocks.append(block)
        self._alive[block.address] = block
        insort(self._addresses, block.address)

    def release(self, address: int, t: float) -> None:
        block = self._alive.pop(address, None)
        if block is not None:
            block.end = t
            del self._addresses[bisect_left(self._addresses, address)]

    def find(self, address: int, size: int) -> _LiveBlock | None:
        """The block that contains the address, or else the first one that begins within the region."""
        i = bisect_right(self._addresses, address)
        if i > 0:
            before = self._alive[self._addresses[i - 1]]
            if address < before.address + before.allocation.bytes:
                return before
        if i < len(self._addresses) and self._addresses[i] < address + size:
            return self._alive[self._addresses[i]]
        return None


def _replay(
    allocations: Iterable[RecordedAllocation], frees: Iterable[RecordedFree], events: Iterable[MemoryEvent]
) -> tuple[list[_LiveBlock], UnifiedMemory]:
    """All blocks with their ends and the events in them, and the events in no block. At one time, memory is released
    first, and an event comes last.
    """
    heap, elsewhere = _Heap(), UnifiedMemory()
    ordered: list[tuple[float, int, RecordedFree | RecordedAllocation | MemoryEvent]] = [
        *((free.t, 0, free) for free in frees),
        *((allocation.t, 1, allocation) for allocation in allocations),
        *((event.start, 2, event) for event in events),
    ]
    ordered.sort(key=lambda entry: entry[:2])
    for t, _, record in ordered:
        if isinstance(record, RecordedFree):
            heap.release(record.address, t)
        elif isinstance(record, RecordedAllocation):
            heap.allocate(record)
        else:
            block = heap.find(record.address, record.bytes)
            (elsewhere if block is None else block.unified).add(record)
    return heap.blocks, elsewhere


def _add(into: UnifiedMemory, more: UnifiedMemory) -> None:
    for name in ("h2d", "d2h", "d2d"):
        ours, theirs = getattr(into, name), getattr(more, name)
        if not theirs.records:
            continue
        ours.smallest = min(ours.smallest, theirs.smallest) if ours.records else theirs.smallest
        ours.largest = max(ours.largest, theirs.largest)
        ours.records += theirs.records
        ours.bytes += theirs.bytes
        ours.seconds += theirs.seconds
        ours.by_cause = dict(Counter(ours.by_cause) + Counter(theirs.by_cause))
    for name in UnifiedMemory.__struct_fields__[3:]:
        setattr(into, name, getattr(into, name) + getattr(more, name))


def _moved(sums: UnifiedMemory) -> tuple[int, int]:
    return sums.h2d.bytes + sums.d2h.bytes + sums.d2d.bytes, sums.gpu_fault_groups + sums.cpu_faults


def by_site(journals: Iterable[ProcessJournal]) -> list[OfSite]:
    """The events of all processes by the call that allocated the memory, the most bytes moved first. Calls whose memory
    has no events are left out.

    An event belongs to the allocation that contains its address at the time, or if none does, to the one that begins in
    the region that moved, since the driver moves whole pages.
    """
    rows: dict[tuple[CallSite, MemoryKind, str], OfSite] = {}
    for journal in journals:
        blocks, elsewhere = _replay(journal.allocations, journal.frees, journal.events)
        for block in blocks:
            a = block.allocation
            row = rows.setdefault((a.site, a.kind, a.name), OfSite(a.site, a.kind, a.name, 0, 0, UnifiedMemory()))
            row.allocations += 1
            row.bytes += a.bytes
            _add(row.unified, block.unified)
        unknown = rows.setdefault(((), "unknown", ""), OfSite((), "unknown", "", 0, 0, UnifiedMemory()))
        _add(unknown.unified, elsewhere)
    return sorted(
        (row for row in rows.values() if row.unified != UnifiedMemory()),
        key=lambda row: _moved(row.unified),
        reverse=True,
    )


def alive(journals: Iterable[ProcessJournal], t: float, device: int) -> list[Alive]:
    """What the processes had allocated at `t` through the GPU of that number, by call, the largest first.

    Managed memory is listed too: how much of it was on the GPU at that time is not known. Processes that see other GPUs
    number them differently.
    """
    rows: dict[tuple[CallSite, MemoryKind, str], Alive] = {}
    for journal in journals:
        blocks, _ = _replay(journal.allocations, journal.frees, ())
        for block in blocks:
            a = block.allocation
            if a.device != device or a.kind not in ON_A_GPU or not a.t <= t < block.end:
                continue
            row = rows.setdefault((a.site, a.kind, a.name), Alive(a.site, a.kind, a.name, 0, 0))
            row.allocations += 1
            row.bytes += a.bytes
    return sorted(rows.values(), key=lambda row: row.bytes, reverse=True)


def most_allocated(journals: Iterable[ProcessJournal], device: int) -> tuple[float, int] | None:
    """The most bytes that the processes had allocated at once on the GPU of that number, and a time at which they had;
    None without any. Managed memory is left out: where it was is not known.
    """
    edges = [
        edge
        for journal in journals
        for block in _replay(journal.allocations, journal.frees, ())[0]
        if (a := block.allocation).device == device and a.kind in ON_A_GPU and not a.kind.startswith("managed")
        for edge in ((a.t, a.bytes), (block.end, -a.bytes))
    ]
    edges.sort()  # at one time, memory is released first
    held = most = 0
    at = 0.0
    for (t, change), (following, _) in pairwise([*edges, (inf, 0)]):
        held += change
        if held > most:
            most, at = held, t + min(1e-6, (following - t) / 2)  # a block is alive from its time on, but for rounding
    return (at, most) if most else None


class _Spans:
    """Which kernels ran at each time: '' for none, None for several of different names."""

    def __init__(self, kernels: Iterable[RecordedKernel]) -> None:
        edges: list[tuple[float, int, str]] = []
        for kernel in kernels:
            edges += [(kernel.start, 1, kernel.name), (max(kernel.start, kernel.end), -1, kernel.name)]
        edges.sort()
        self._times: list[float] = []
        self._names: list[str | None] = []
        running: Counter[str] = Counter()
        for t, change, name in edges:
            running[name] += change
            if running[name] == 0:
                del running[name]
            now = None if len(running) > 1 else next(iter(running), "")
            if self._times and self._times[-1] == t:
                self._names[-1] = now
            else:
                self._times.append(t)
                self._names.append(now)

    def during(self, start: float, end: float) -> str | None:
        """The name of the kernels that ran within this time, '' for none, None for several names."""
        first = bisect_right(self._times, start) - 1
        name: str | None = ""
        for i in range(max(first, 0), max(first + 1, bisect_left(self._times, end))):
            now = self._names[i] if first >= 0 or i > first else ""
            if now is None or (now and name and now != name):
                return None
            name = now or name
        return name


def _devices(event: MemoryEvent) -> list[int]:
    numbers_by_end = (re.findall(r"cuda:(\d+)", name) for name in (event.source, event.target))
    return sorted({int(number) for numbers in numbers_by_end for number in numbers})


def by_kernel(journal: ProcessJournal) -> list[OfKernel]:
    """The events of a process by the kernels that ran at the time on the GPU that the event names, or on any GPU if it
    names none. The most bytes moved first; then what is ambiguous; then what overlaps no kernel. Kernels without events
    are left out.
    """
    kernels = journal.kernels if journal.events else []
    devices = sorted({kernel.device for kernel in kernels})
    of_device = {device: _Spans(k for k in kernels if k.device == device) for device in devices}
    of_all = _Spans(kernels)
    sums: dict[tuple[Overlap, str], UnifiedMemory] = {}
    for event in journal.events:
        named = [of_device[device] for device in _devices(event) if device in of_device]
        if not named and not _devices(event):
            named = [of_all]
        names = {spans.during(event.start, event.end) for spans in named} - {""}
        key: tuple[Overlap, str] = ("none", "")
        if None in names or len(names) > 1:
            key = ("ambiguous", "")
        elif names:
            key = ("kernel", str(names.pop()))
        sums.setdefault(key, UnifiedMemory()).add(event)
    launches: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for kernel in journal.kernels:
        launches[kernel.name] += 1
        seconds[kernel.name] += kernel.end - kernel.start
    order: list[Overlap] = ["kernel", "ambiguous", "none"]
    rows = [
        OfKernel(overlap, name, launches[name] if name else 0, seconds[name] if name else 0.0, unified)
        for (overlap, name), unified in sums.items()
    ]
    return sorted(rows, key=lambda row: (order.index(row.overlap), *(-n for n in _moved(row.unified))))


_WORDS = (
    "Array|Bind|Choose|Create|Ctx|Destroy|Device|Driver|EGL|Event|External|Free|Func|GL|Get|Graph|Graphics|Host|Import|"
    "Init|Ipc|Kernel|Launch|Library|Logs|Malloc|Mem|Memcpy|Memset|Mipmapped|Occupancy|Peek|Pointer|Profiler|Runtime|Set|"
    "Signal|Stream|Surface|Texture|Thread|Unbind|User|VDPAU|Wait"
)
"""What the names of functions of the runtimes begin with, after `cuda` or `hip`; programs have others of their own."""
_NAME = rf"(?:cuda|hip)(?:{_WORDS})(?![a-z])"
_RUNTIME = re.compile(
    rf"(?:\w+ )?(?:libcudart_static_\w*|__(?:cuda|hip)\w*|__device_stub_\w*|{_NAME}\w*(?:<.*>)?)(?:\(.*\))?$"
    rf"|_ZL?\d+(?:{_NAME}|__device_stub_)"
)


def is_of_the_runtime(function: str) -> bool:
    """Whether a function, mangled or not, is of the runtime of CUDA or HIP that was linked statically, of its headers,
    or what its compiler puts around the launch of a kernel.
    """
    return _RUNTIME.match(function) is not None


PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+)")
"""A file that was installed with a package of Python, and the package."""
_RUNTIMES = re.compile(
    r"(?:^|/)lib(?:cuda|cudart|cudadebugger|cupti|nvidia-[\w-]+|firsttouch_inject|firsttouch_hip|OpenCL"
    r"|pocl(?:-devices-[\w-]+)?|amdocl64|amd_comgr|amdhip64|hsa-runtime64|rocprofiler-[\w-]+|igdrcl|igdfcl|igc|intelocl"
    r"|clang-cpp|LLVM(?:-[\w.]+)?|LLVMSPIRVLib|omp|iomp5|omptarget|omptarget\.rtl\.\w+)\.so|/pocl/kcache/"
)
"""Libraries of CUDA and, by their names on Linux, those of HIP, of OpenCL: its loader, PoCL, AMD and Intel, with the
compilers that these run within the program, and OpenMP's runtimes of LLVM.
"""


def is_of_a_runtime(file: str, function: str) -> bool:
    """Whether code is of CUDA, HIP, OpenCL or OpenMP, or of what is loaded to trace them. What it touches first is the
    target of a copy.
    """
    return _RUNTIMES.search(file) is not None or is_of_the_runtime(function)


def is_of_a_package(file: str) -> bool:
    """Whether a file was installed with a package of Python."""
    return PACKAGE.search(file) is not None


def caller(site: CallSite, function_of: Callable[[str, int], str]) -> CallFrame | None:
    """The place in the program that called the CUDA runtime, or the driver; of Python, the line that called the library
    that did. function_of: the name of the function at an offset of a file, '' if it is unknown. None for an empty site.
    """
    is_python = any(frame.function for frame in site)
    for frame in site:
        if is_python and not frame.function and is_of_a_package(frame.file):
            continue
        if frame.function or not is_of_the_runtime(function_of(frame.file, frame.offset)):
            return frame
    return site[0] if site else None
