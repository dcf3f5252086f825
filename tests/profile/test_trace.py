"""Tables of a trace, from records whose sums are known."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

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
from firsttouch.profile.trace import (
    alive,
    by_kernel,
    by_phase,
    by_site,
    caller,
    copies_by_direction,
    is_of_the_runtime,
    unified_memory,
)

KIB, MIB = 2**10, 2**20
GRID: CallSite = (CallFrame("/app", 0x10), CallFrame("/app", 0x99))
HALO: CallSite = (CallFrame("/app", 0x20),)


def h2d(start: float, size: int = 4 * KIB, address: int = 0, cause: str = "fault", seconds: float = 0.5) -> MemoryEvent:
    return MemoryEvent("h2d", start, start + seconds, address, size, 1, "cpu", "cuda:0", cause)


def gpu_fault(start: float, address: int = 0, count: int = 1, device: int = 0) -> MemoryEvent:
    return MemoryEvent("gpu_fault", start, start + 0.25, address, 0, count, f"cuda:{device}", "", "read")


def allocated(
    t: float, address: int, size: int, site: CallSite = GRID, kind: MemoryKind = "managed"
) -> RecordedAllocation:
    return RecordedAllocation(t=t, address=address, bytes=size, kind=kind, device=0, site=site)


def freed(t: float, address: int) -> RecordedFree:
    return RecordedFree(t=t, address=address, bytes=0, kind="managed", device=0)


def ran(name: str, start: float, end: float, device: int = 0) -> RecordedKernel:
    return RecordedKernel(start=start, end=end, name=name, device=device, stream=7)


def test_the_table_of_nvprof():
    events = [
        h2d(0, 64 * KIB),
        h2d(1, 4 * KIB, cause="speculative"),
        h2d(2, 2 * MIB, cause="fault"),
        MemoryEvent("d2h", 3, 4, 0, 8 * KIB, 1, "cuda:0", "cpu", "eviction"),
        gpu_fault(5, count=3),
        gpu_fault(6, count=2),
        MemoryEvent("cpu_fault", 7, 7, cause="write"),
        MemoryEvent("thrashing", 8, 8, 0, 64 * KIB),
        MemoryEvent("throttling", 8, 9),
        MemoryEvent("remote_map", 9, 9, 0, 4096, cause="policy"),
    ]
    sums = unified_memory(events)
    assert (sums.h2d.records, sums.h2d.bytes) == (3, 64 * KIB + 4 * KIB + 2 * MIB)
    assert (sums.h2d.smallest, sums.h2d.largest, sums.h2d.seconds) == (4 * KIB, 2 * MIB, 1.5)
    assert sums.h2d.by_cause == {"fault": 64 * KIB + 2 * MIB, "speculative": 4 * KIB}
    assert (sums.d2h.records, sums.d2h.by_cause, sums.d2d.records) == (1, {"eviction": 8 * KIB}, 0)
    assert (sums.gpu_fault_groups, sums.gpu_faults, sums.gpu_fault_seconds, sums.cpu_faults) == (2, 5, 0.5, 1)
    assert (sums.thrashing, sums.thrashing_bytes, sums.throttling) == (1, 64 * KIB, 1)
    assert (sums.remote_maps, sums.remote_map_bytes) == (1, 4096)
    assert msgspec.json.decode(msgspec.json.encode(sums))["h2d"]["largest"] == 2 * MIB


def test_what_started_in_a_phase_is_counted_there_and_in_the_phase_around_it():
    copies = [
        RecordedCopy(start=t, end=t + 1, bytes=10, direction="h2d" if t < 4 else "d2h", device=0, stream=1)
        for t in range(8)
    ]
    phases = [("outer", 0.0, 10.0), ("inner", 2.0, 4.0), ("empty", 20.0, 30.0)]
    outer, inner, empty = by_phase([h2d(3), h2d(1), h2d(11), h2d(4)], copies, phases)
    assert [of.unified.h2d.records for of in (outer, inner, empty)] == [3, 1, 0]
    assert [(c.direction, c.records, c.bytes) for c in outer.copies] == [("h2d", 4, 40), ("d2h", 4, 40)]
    assert [(c.direction, c.records) for c in inner.copies] == [("h2d", 2)]
    assert empty.copies == []


def test_copies_by_direction():
    sizes = [5, 3, 9]
    copies = [RecordedCopy(start=0, end=2, bytes=n, direction="h2d", device=0, stream=1) for n in sizes]
    (sums,) = copies_by_direction(copies)
    assert (sums.records, sums.bytes, sums.smallest, sums.largest, sums.seconds) == (3, 17, 3, 9, 6)


def test_events_belong_to_the_allocation_that_was_there_at_the_time():
    journal = ProcessJournal(
        1,
        0.0,
        allocations=[
            allocated(0, 0x1000000, MIB, GRID),
            allocated(0, 0x2000000, MIB, HALO),
            allocated(5, 0x1000000, 2 * MIB, HALO),  # the first one's address again
        ],
        frees=[freed(4, 0x1000000)],
        events=[
            h2d(1, 4 * KIB, 0x1000000),
            h2d(2, 8 * KIB, 0x10FF000),  # the last page
            h2d(3, 16 * KIB, 0x1100000),  # behind it
            h2d(4.5, 32 * KIB, 0x1000000),  # between the two
            h2d(6, 64 * KIB, 0x1100000),
            h2d(6, 2 * MIB, 0x1F00000),  # begins before the third and reaches into it
            gpu_fault(6, 0x2000000),
        ],
    )
    rows = {row.site: row for row in by_site([journal])}
    assert rows[GRID].unified.h2d.bytes == 12 * KIB
    assert (rows[GRID].allocations, rows[GRID].bytes) == (1, MIB)
    assert rows[HALO].unified.h2d.bytes == 64 * KIB + 2 * MIB
    assert (rows[HALO].allocations, rows[HALO].bytes, rows[HALO].unified.gpu_fault_groups) == (2, 3 * MIB, 1)
    assert rows[()].unified.h2d.bytes == 48 * KIB
    assert [row.site for row in by_site([journal])] == [HALO, (), GRID]


def test_sums_by_allocation_and_by_kernel_are_those_of_all_events():
    chance = random.Random(1)
    allocations = [allocated(chance.random(), chance.randrange(64) * MIB, MIB, GRID) for _ in range(200)]
    frees = [freed(chance.random() * 2, chance.randrange(64) * MIB) for _ in range(200)]
    events = [
        h2d(chance.random() * 2, chance.randrange(1, 9) * 4 * KIB, chance.randrange(80 * MIB), seconds=0.001)
        for _ in range(2000)
    ]
    kernels = [ran(chance.choice("abc"), t := chance.random() * 2, t + chance.random() * 0.01) for _ in range(300)]
    journal = ProcessJournal(1, 0.0, allocations=allocations, frees=frees, events=events, kernels=kernels)
    whole = unified_memory(events)
    for rows in (by_site([journal]), by_kernel(journal)):
        assert sum(row.unified.h2d.records for row in rows) == whole.h2d.records
        assert sum(row.unified.h2d.bytes for row in rows) == whole.h2d.bytes
        assert min(row.unified.h2d.smallest for row in rows) == whole.h2d.smallest
        assert sum(row.unified.h2d.seconds for row in rows) == pytest.approx(whole.h2d.seconds)
    # Against a plain search through all kernels.
    expected = dict.fromkeys("abc", 0) | {"ambiguous": 0, "none": 0}
    for event in events:
        names = {k.name for k in kernels if k.start <= event.end and k.end > event.start}
        expected[names.pop() if len(names) == 1 else "ambiguous" if names else "none"] += 1
    found = {row.name or row.overlap: row.unified.h2d.records for row in by_kernel(journal)}
    assert found == expected


def test_kernels_that_overlap_make_an_event_ambiguous():
    kernels = [
        ran("solve", 0, 10),
        ran("solve", 5, 12),
        ran("other", 20, 30),
        ran("third", 29, 40),
        ran("far", 0, 99, 1),
    ]
    journal = ProcessJournal(1, 0.0, kernels=kernels)
    events = [h2d(6), h2d(11), h2d(29.5), h2d(15), gpu_fault(50, device=1), MemoryEvent("cpu_fault", 50, 50)]
    rows = {(row.overlap, row.name): row for row in by_kernel(replace(journal, events=events))}
    assert rows["kernel", "solve"].unified.h2d.records == 2  # both launches have one name
    assert (rows["kernel", "solve"].launches, rows["kernel", "solve"].seconds) == (2, 17)
    assert rows["ambiguous", ""].unified.h2d.records == 1
    assert rows["none", ""].unified.h2d.records == 1
    assert rows["kernel", "far"].unified.gpu_fault_groups == 1
    assert rows["kernel", "far"].unified.cpu_faults == 1  # it names no GPU
    assert [row.overlap for row in by_kernel(replace(journal, events=events))][-2:] == ["ambiguous", "none"]


def test_what_was_alive_by_call_the_largest_first():
    allocations = [
        allocated(0, 0x1000, 100, GRID, "device"),
        allocated(1, 0x2000, 50, GRID, "device"),
        allocated(2, 0x3000, 400, HALO, "managed"),
        allocated(2, 0x4000, 999, HALO, "pinned"),
    ]
    journal = ProcessJournal(1, 0.0, allocations=allocations, frees=[freed(3, 0x2000)])
    assert [(a.site, a.kind, a.allocations, a.bytes) for a in alive([journal, journal], 2.5, 0)] == [
        (HALO, "managed", 2, 800),
        (GRID, "device", 4, 300),
    ]
    assert [(a.site, a.bytes) for a in alive([journal], 3, 0)] == [(HALO, 400), (GRID, 100)]
    assert alive([journal], 2.5, 1) == []
    assert alive([], 0, 0) == []


@pytest.mark.parametrize(
    "function",
    [
        "cudaMalloc",
        "cudaMallocAsync_ptsz",
        "cudaError cudaMalloc<unsigned char>(unsigned char**, unsigned long)",
        "cudaMallocHost(void**, unsigned long, unsigned int)",
        "cudaMemset2D",
        "cudaGraphicsMapResources",
        "_ZL10cudaMallocIhE9cudaErrorPPT_m",
        "libcudart_static_0053c1d33059ebe986009dc8a76c61eb6412a2c3",
        "__cudaRegisterFatBinary",
        "__device_stub__Z3addPfi(float*, int)",
    ],
)
def test_functions_of_the_runtime(function: str):
    assert is_of_the_runtime(function)


@pytest.mark.parametrize(
    "function",
    [
        *("main", "", "cudaSolver::run(int)", "my_cudaMalloc", "barracuda", "_Z5solvePd"),
        *("cudaGraphsManual(float*, double*)", "cudaStreamer(int)", "_Z9cudaSolvePf"),
    ],
)
def test_functions_of_the_program(function: str):
    assert not is_of_the_runtime(function)


def test_the_caller_is_the_first_frame_outside_of_the_runtime():
    site = tuple(CallFrame("/app", offset) for offset in range(4))
    names = ["libcudart_static_12ab", "cudaMalloc", "allocate_grid", "main"]
    assert caller(site, lambda file, offset: names[offset]) == CallFrame("/app", 2)
    assert caller(site, lambda file, offset: "cudaMalloc") == site[0]
    assert caller((), lambda file, offset: "") is None
