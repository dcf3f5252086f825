"""First touches: what `pagefault`, `faultcount` and `accounting` would measure."""

from __future__ import annotations

from operator import attrgetter
from typing import cast

from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.machine.allocators.properties import is_plain_host, memory_of, requested_pages
from firsttouch.model.costs import Price, Time
from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.micro.answers import Answer, Sum
from firsttouch.model.micro.passes import managed_settings
from firsttouch.model.pages import IN_ORDER, PARALLEL, shares
from firsttouch.model.passes import WORD
from firsttouch.model.platform import Platform
from firsttouch.model.prices import Prices
from firsttouch.model.rules import linux
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program.least_moves import must_move
from firsttouch.program.needs import why_too_large
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Scalar

MIB = 1 << 20
BY_CPU = ("cpu", "prefault+minor")
"""The scenarios in which the CPU touches pages."""


def first_touch(
    platform: Platform,
    prices: Prices,
    device: DeviceInfo,
    *,
    scenario: str,
    allocator: str,
    page_size: str,
    page_bytes: int,
    pages: int,
    threads: int,
) -> Answer:
    """The first touch of a page, in ns. threads: of the CPU; 0 is all. One page alone is a value of its own, and more
    take no less time in all.
    """
    nbytes = pages * page_bytes
    owners = [("the host", platform.host.facts.get("host_memory_bytes"))]
    if scenario != "cpu" and not device.capabilities.shares_host_memory:
        owners.append((device.name, device.facts.get("memory_bytes")))
    for owner, limit in owners:
        if why := why_too_large("its pages need", nbytes, limit, f"{owner}, which has"):
            raise Unsupported(why)
    moves = must_move(device.allocator(allocator), device)
    alone = pages == 1 and page_size == "base" and not (scenario in BY_CPU and moves)
    if alone and all(platform.has(name) for name in _lone_names(scenario)):
        return _lone_touch(platform, scenario, page_bytes)
    total = Sum()
    if scenario in BY_CPU:
        processors = int(platform.quantity("host.processors").value)
        price, time = _by_cpu(prices, device, allocator, page_size, nbytes, pages, threads, processors)
        time = time if moves else time.at_least(_least(platform, "cpu"))
        total.add("", "first touch by the CPU", price, nbytes, time, pages)
    if scenario != "cpu":
        new = scenario == "gpu-major"
        if not new and is_plain_host(allocator) and platform.flag("driver.ats"):
            raise Unsupported("the GPU uses the host's page tables, so what the CPU has touched causes no fault")
        price = prices.gpu_touch(allocator) if new else prices.gpu_fault(allocator, reads_only=False)
        what = "first touch by the GPU" if new else "faults of the GPU on pages that the CPU touched"
        time = price.of(nbytes)
        if time.value > 0:
            time = time.at_least(_least(platform, "gpu-major" if new else "gpu-minor"))
        if moves:
            time = time.at_least(prices.isolated_fault(allocator))
        total.add("", what, price, nbytes, time, pages)
    value, low, high = (ms * 1e6 / pages for ms in total.total())
    if value <= 0:
        raise Unsupported("the GPU accesses existing pages without a fault")
    counters: dict[str, Scalar] = {"page_bytes": page_bytes, "pages_per_s": 1e9 / value}
    return Answer(value, low, high, counters, tuple(total.terms))


def _by_cpu(
    prices: Prices,
    device: DeviceInfo,
    allocator: str,
    page_size: str,
    nbytes: int,
    pages: int,
    threads: int,
    processors: int,
) -> tuple[Price, Time]:
    """The time in which the CPU touches pages. Several threads are as much faster as the kernel lets all of them be."""
    if must_move(device.allocator(allocator), device):
        if threads:
            raise NotModelled("a first touch of memory that moves by some of the threads")
        if nbytes < processors * BLOCK_BYTES:
            raise NotModelled("a first touch of memory that moves, of fewer blocks of the driver than threads")
        price = prices["moving_touch", allocator]
        return price, price.of(nbytes)
    by_one_thread, by_all_threads = (
        prices.host_touch(parallel=parallel, pages=page_size) for parallel in (False, True)
    )
    at_once = min(pages, threads) if threads else pages
    alone = by_one_thread.of(nbytes)
    return (
        (by_one_thread, alone)
        if at_once == 1
        else (by_all_threads, by_all_threads.of(nbytes).at_least(alone.times(1 / at_once)))
    )


def _least(platform: Platform, scenario: str) -> Time:
    """The time of one touch alone, which several take at least; none if the platform does not state it."""
    name = f"lone_fault.{scenario}"
    return platform.quantity(name).time if platform.has(name) else Time()


def _lone_names(scenario: str) -> list[str]:
    """The values of one touch: of the CPU, then of the GPU, where a scenario has both."""
    parts = {"prefault+minor": ("cpu", "gpu-minor")}.get(scenario, (scenario,))
    return [f"lone_fault.{part}" for part in parts]


def _lone_touch(platform: Platform, scenario: str, page_bytes: int) -> Answer:
    means = [platform.quantity(name) for name in _lone_names(scenario)]
    value, low, high = (sum(bound_of(m) for m in means) for bound_of in map(attrgetter, ("value", "low", "high")))
    counters: dict[str, Scalar] = {"page_bytes": page_bytes, "pages_per_s": 1e9 / value, "mean_ns": value}
    if platform.has(slow := f"lone_fault.{scenario}.p95"):
        counters["p95_ns"] = platform.quantity(slow).value
    return Answer(value, low, high, counters, grounds=tuple(m.ground for m in means))


def faults_per_mib(
    platform: Platform, device: DeviceInfo, *, allocator: str, first_touch: str, streamed_by: str, nbytes: int
) -> Answer:
    """CPU page faults of allocating, touching and streaming three arrays, for each MiB of them."""
    entry = device.allocator(allocator)
    assert entry is not None
    if must_move(entry, device):
        return _moved_faults(platform, first_touch, streamed_by, nbytes)
    if entry.on_demand is False:
        if memory_of(entry) == "device" and not device.capabilities.shares_host_memory:
            return _faults(0, 0, nbytes)
        stated = platform.quantity(f"faults.{allocator}")
        return Answer(stated.value, stated.low, stated.high, grounds=(stated.ground,))
    if first_touch == "gpu":
        return _faults(0, 0, nbytes)
    page, advised = int(platform.quantity("host.page").value), requested_pages(allocator) == "huge"
    is_huge = linux.gets_huge_pages(cast(linux.HugePages, platform.word("host.thp")), advised=advised)
    huge = int(platform.quantity("host.huge_page").value) if is_huge else 0
    touched = linux.first_touch(0, nbytes, page, huge)
    return _faults(3 * touched.faults, huge or page, nbytes)


def _moved_faults(platform: Platform, first_touch: str, streamed_by: str, nbytes: int) -> Answer:
    """By the driver's rules: the CPU faults on pages that are nowhere or on the GPU."""
    if (settings := managed_settings(platform)) is None:
        raise NotModelled("the CPU's faults on memory that this driver moves")
    kind = settings.kind
    memory, touched, streamed = ManagedMemory(kind), PageMoves(kind.page), PageMoves(kind.page)
    parts = shares(nbytes, settings.threads, WORD)
    for array in range(3):
        memory.allocate(array, nbytes)
        for agent, moves, writes in ((first_touch, touched, True), (streamed_by, streamed, array == 2)):
            order = IN_ORDER if agent == "cpu" else PARALLEL
            memory.touch(
                array,
                "cpu" if agent == "cpu" else "gpu",
                parts if agent == "cpu" else [(0, nbytes)],
                moves,
                PageMoves(kind.page),
                writes=writes,
                order=order,
            )
    touch = touched.counts.services if first_touch == "cpu" else 0
    triad = streamed.counts.services if streamed_by == "cpu" else 0
    value = (touch + triad) * MIB / (3 * nbytes)
    return Answer(value, value, value, {"allocate": 0, "touch": touch, "triad": triad})


def _faults(touch: int, page: int, nbytes: int) -> Answer:
    counters: dict[str, Scalar] = {"allocate": 0, "touch": touch, "triad": 0}
    value = touch * MIB / (3 * nbytes)
    return Answer(value, value, value, counters | ({"page_bytes": page} if page else {}))


ON_HOST = ("rss", "rollup_rss", "pss", "mem_free", "mem_available", "numa_free", "numa_free_and_lists")
"""The counters that see memory of the host that a process has mapped."""
ON_DEVICE = ("device_free", "vendor_used", "vendor_free")
OF_PROCESS = ("rss", "rollup_rss", "pss")


def accounted(device: DeviceInfo, *, allocator: str, toucher: str, nbytes: int) -> Answer:
    """The bytes by which each counter grows in the call that allocates, and in the first touch.

    Memory of a device that shares the host's memory is not mapped as a process's own, so only the machine's counters
    and the driver's see it (Wahlgren et al., IISWC 2025, Sec. III-B1).
    """
    entry = device.allocator(allocator)
    assert entry is not None
    if entry.on_demand is None:
        raise NotModelled(f"when {allocator} memory is populated, which the driver does not state")
    shares = device.capabilities.shares_host_memory
    if memory_of(entry) == "device":
        growing = (*(c for c in ON_HOST if c not in OF_PROCESS), *ON_DEVICE) if shares else ON_DEVICE
    else:
        growing = ON_DEVICE if toucher == "gpu" and _goes_to_toucher(entry, device) else ON_HOST
    names = ON_HOST + (ON_DEVICE if device.capabilities.reports_free_memory else ())
    grown = {name: nbytes * (name in growing) for name in (*names, "headline")} | {"headline": nbytes}
    growing_step = "touch" if entry.on_demand else "call"
    counters: dict[str, Scalar] = {}
    for part in ("call", "touch"):
        counters |= {f"{part}_{name}": value if part == growing_step else 0 for name, value in grown.items()}
    return Answer(nbytes, nbytes, nbytes, counters)


def _goes_to_toucher(entry: AllocatorInfo, device: DeviceInfo) -> bool:
    """Whether pages that the GPU touches first are in its own memory."""
    has_own_memory = not device.capabilities.shares_host_memory
    return has_own_memory and (must_move(entry, device) or (bool(entry.on_demand) and entry.gpu == "direct"))
