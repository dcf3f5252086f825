"""Prices that follow from the rules of drivers and the values of a platform, where its file has no value for a price.

Each rule names the values that it takes. A value that the file lacks ends the point with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from firsttouch.machine.allocators.properties import (
    is_main_of_device,
    is_plain_host,
    memory_of,
    needs_mapping,
    role,
    stays_movable,
)
from firsttouch.model.caches import NONE, holding
from firsttouch.model.costs import Price, Time, Unmeasured
from firsttouch.model.platform import Magnitude, Platform
from firsttouch.model.rules import ats, kfd
from firsttouch.model.rules.access_counters import MovedMemory, Translation, counters_migrate
from firsttouch.model.rules.releases import parse_release
from firsttouch.model.values import ALWAYS
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

NOTHING = Price((0.0, 1.0), (Time(), Time()), ())
"""The price of what does not happen."""


def rule_price(platform: Platform, device: DeviceInfo, family: str, *rest: str) -> Price | None:
    """The price of a name by the rules of the platform's driver, or None if they say nothing of it.

    Raises:
        MissingValue: a value is missing that the rule needs.
        Unmeasured: what is priced does not happen, where that matters to the caller.
    """
    rule = _RULES.get(family)
    return rule(platform, device, *rest) if rule else None


def _line(platform: Platform, names: Mapping[str, float], inverses: Mapping[str, float]) -> Price:
    """A price in proportion to the bytes: the sum of times, each with how often it is in a byte, and of the inverses of
    rates or frequencies.
    """
    parts = [(magnitude := platform.quantity(name), magnitude.time.times(part)) for name, part in names.items()]
    parts += [
        (magnitude := platform.quantity(name), _inverse(magnitude).times(part)) for name, part in inverses.items()
    ]
    total = sum((time for _, time in parts), Time())
    return Price((0.0, 1.0), (Time(), total), tuple(dict.fromkeys(magnitude.ground for magnitude, _ in parts)))


def _inverse(magnitude: Magnitude) -> Time:
    return Time(1 / magnitude.value, 1 / magnitude.high, 1 / magnitude.low)


def _family(platform: Platform) -> str:
    return platform.word("driver.family")


def _entry(device: DeviceInfo, allocator: str) -> AllocatorInfo:
    entry = device.allocator(allocator)
    assert entry is not None
    return entry


# ---------------------------------------------------------------------------------------------------- the host's pages


def _host_touch(platform: Platform, device: DeviceInfo, pages: str, threads: str) -> Price | None:
    """A fault for each page, and the time to clear it. Several threads share the process's lock, and clear no more than
    the memory takes.
    """
    if not platform.has("host.fault"):
        return None
    page = platform.quantity("host.page" if pages == "base" else "host.huge_page").value
    one_thread = _line(platform, {"host.fault": 1 / page}, {"host.zero": 1})
    if threads == "one":
        return one_thread
    at_once = platform.quantity("host.faults_at_once")
    most = platform.quantity("host.processors").value
    t = one_thread.times[-1]
    parts = [max(1.0, min(most, n)) for n in (at_once.value, at_once.high, at_once.low)]
    time = Time(t.value / parts[0], t.low / parts[1], t.high / parts[2])
    if platform.has("host.bandwidth"):
        time = time.at_least(_inverse(platform.quantity("host.bandwidth")))
    return Price((0.0, 1.0), (Time(), time), (*one_thread.grounds, at_once.ground))


def _touched_free(platform: Platform, device: DeviceInfo, agent: str, allocator: str) -> Price | None:
    """Plain memory is freed page by page, wherever its pages are, and to AMD's driver managed memory is plain too."""
    plain = is_plain_host(allocator) or (_family(platform) == "kfd" and _entry(device, allocator).managed)
    if not plain or not platform.has("host.free_page"):
        return None
    return _line(platform, {"host.free_page": 1 / platform.quantity("host.page").value}, {})


# ---------------------------------------------------------------------------------------------------- faults of a GPU


def _gpu_touch(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    if _family(platform) == "kfd":
        has_own_memory = not device.capabilities.shares_host_memory
        return _window(platform) if has_own_memory else _line(platform, {}, {"kfd.major": 1 / kfd.PAGE_BYTES})
    if _family(platform) == "none":
        raise Unmeasured("all pages exist before a kernel begins, since its faults create none")
    if is_plain_host(allocator) and platform.flag("driver.ats"):
        return _ats_touch(platform)
    return None


def _ats_touch(platform: Platform) -> Price:
    """Pages are made in services of a window, of which the first ones bring few; the GPU's copy engines clear them
    (uvm_migrate_pageable.c, migrate_vma_populate_anon_pages).
    """
    page, release = int(platform.quantity("host.page").value), parse_release(platform.word("driver.release"))
    service, each, rate = (platform.quantity(name) for name in ("ats.service", "ats.page", "ats.zero"))
    sizes = [page << power for power in range((ats.WINDOW_BYTES // page).bit_length())]
    times = [
        service.time.times(ats.services(size // page, release))
        + each.time.times(size // page)
        + _inverse(rate).times(size)
        for size in sizes
    ]
    sizes, times = [*sizes, int(ALWAYS)], [*times, times[-1].times(ALWAYS / ats.WINDOW_BYTES)]
    return Price((*map(float, sizes),), (*times,), (each.ground, service.ground, rate.ground))


def _gpu_fault(platform: Platform, device: DeviceInfo, *rest: str) -> Price | None:
    """Pages that the CPU made are mapped where they are, on a chip that shares memory."""
    if not device.capabilities.shares_host_memory:
        return _window(platform, "link.h2d") if _family(platform) == "kfd" else None
    if _family(platform) == "kfd":
        return _line(platform, {}, {"kfd.minor": 1 / kfd.PAGE_BYTES})
    return NOTHING if _family(platform) == "none" else None


def _window(platform: Platform, link: str = "") -> Price:
    """A fault of AMD's driver moves an aligned window to the memory of the agent that touched it, over the link."""
    window = kfd.PAGE_BYTES << kfd.WINDOW_ORDER
    return _line(platform, {"kfd.window": 1 / window}, {link: 1} if link else {})


def _by_windows(link: str) -> Callable[..., Price | None]:
    def rule(platform: Platform, device: DeviceInfo, *rest: str) -> Price | None:
        moves = _family(platform) == "kfd" and not device.capabilities.shares_host_memory
        return _window(platform, link) if moves else None

    return rule


def _moving_touch(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """The CPU's first touch of memory that AMD's driver moves is that of plain memory."""
    return _host_touch(platform, device, "base", "all") if _family(platform) == "kfd" else None


def _isolated_fault(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """One fault alone, where a chip shares memory: a page that nobody has touched."""
    if not device.capabilities.shares_host_memory:
        if _family(platform) != "kfd":
            return None
        time = platform.quantity("kfd.window").time
        return Price((1.0, ALWAYS), (time, time), (platform.quantity("kfd.window").ground,))
    if _family(platform) == "none":
        return NOTHING
    lone_fault = platform.quantity("lone_fault.gpu-major")
    return Price((1.0,), (lone_fault.time,), (lone_fault.ground,))


def _allocation(platform: Platform, device: DeviceInfo, call: str, allocator: str) -> Price | None:
    """Host memory that is there at once is made page by page, as a first touch does, but mapped once: a page costs what
    a fault that makes it takes beyond one that maps it.
    """
    if role(allocator) == "page-locked" and platform.has("host.lock_page"):
        return _page_locking(platform, call, locks=not stays_movable(allocator, device))
    entry = _entry(device, allocator)
    at_once = entry.on_demand is False and memory_of(entry) != "device"
    if call != "allocate" or not at_once or _family(platform) != "kfd":
        return None
    major, minor = platform.quantity("kfd.major"), platform.quantity("kfd.minor")
    start = platform.quantity("kfd.call")
    page = _inverse(major).beyond(_inverse(minor))
    sizes = (float(kfd.PAGE_BYTES), float(1 << 40))
    times = tuple(start.time + page.times(size / kfd.PAGE_BYTES) for size in sizes)
    return Price(sizes, times, (major.ground, minor.ground, start.ground))


def _page_locking(platform: Platform, call: str, *, locks: bool) -> Price:
    """Each of the host's pages is made, cleared, and locked for the device if the call locks; at least one is."""
    page = platform.quantity("host.page").value
    lock = {"host.lock_page": 1 / page} if locks else {}
    if call == "free":
        line = _line(platform, {**lock, "host.free_page": 1 / page}, {})
    else:
        line = _line(platform, {"host.fault": 1 / page, **lock}, {"host.zero": 1})
    return Price((page,), (line.of(page),), line.grounds)


# ---------------------------------------------------------------------------------------------------- use where it is


def _remote(platform: Platform, device: DeviceInfo, direction: str, allocator: str) -> Price | None:
    """Kernels use managed pages of the host at the rate of the link, as they use page-locked ones."""
    entry = _entry(device, allocator)
    return platform.curve(f"link.{direction}") if entry.managed and memory_of(entry) == "migrating" else None


def _cpu_remote(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """Raises Unmeasured where the CPU cannot use the GPU's memory."""
    if not platform.flag("driver.ats"):
        raise Unmeasured("the CPU cannot use the GPU's memory")
    across, local = platform.curve("stream.cpu.device.read"), platform.curve("stream.cpu.malloc.read")
    return Price((0.0, 1.0), (Time(), across.of(1).beyond(local.of(1))), (*across.grounds, *local.grounds))


def _counter_moves(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """Raises Unmeasured where the driver moves no such pages by counters."""
    if not (platform.flag("driver.ats") and platform.flag("driver.counters")):
        raise Unmeasured("access counters move no pages here")
    release, page = parse_release(platform.word("driver.release")), int(platform.quantity("host.page").value)
    memory: MovedMemory = "system" if stays_movable(allocator, device) else "managed"
    if not counters_migrate(release, cast(Translation, platform.word("driver.translation")), page, memory):
        raise Unmeasured("this release moves no pages by access counters")
    return platform.curve("ats.counter_moves")


def _counter_service(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """The service of a notification brings nothing new and wakes no kernel: it takes as long as one of a block."""
    service = platform.quantity("uvm.service")
    return Price((1.0, ALWAYS), (service.time, service.time), (service.ground,))


def _uncached(platform: Platform, device: DeviceInfo, agent: str, allocator: str) -> Price | None:
    """A pass over memory that no cache of the agent holds takes longer."""
    return platform.curve(f"uncached.{agent}") if holding(platform, agent, allocator) == NONE else NOTHING


def _cache_flush(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """Memory that both agents use where it is, and that a GPU's caches hold, is written back around kernels, unless
    hardware keeps all caches alike.
    """
    entry = _entry(device, allocator)
    in_place = not needs_mapping(entry) and memory_of(entry) != "device"
    kept = platform.word("device.coherence") == "full" or holding(platform, "gpu", allocator) == NONE
    return platform.curve("cache_flush") if in_place and not kept else NOTHING


def _stream(platform: Platform, device: DeviceInfo, agent: str, allocator: str, *kernel: str) -> Price | None:
    """A kernel that streams waits for a walk of the page table at each translation, which covers an aligned run of
    pages that follow each other in memory (amdgpu_vm_pt.c, amdgpu_vm_pte_fragment).
    """
    name = f"fragment.{allocator}"
    if agent != "gpu" or not platform.has(name) or is_main_of_device(allocator):
        return None  # the rate of the device's usual memory is known with its walks
    run, walk, rate = (platform.quantity(n) for n in (name, "device.walk", "device.bandwidth"))
    ends = ((run.value, walk.value, rate.value), (run.high, walk.low, rate.high), (run.low, walk.high, rate.low))
    times = [1 / r + w / n for n, w, r in ends]
    return Price((0.0, 1.0), (Time(), Time(*times)), (run.ground, walk.ground, rate.ground))


def _slow_pass(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """Raises Unmeasured where kernels use the memory as fast as the device's usual memory."""
    if device.capabilities.shares_host_memory and not is_main_of_device(allocator):
        name = f"stream.gpu.{allocator}"
        price = platform.curve(name) if platform.has(name) else _stream(platform, device, "gpu", allocator)
        if price is not None and price.of(1 << 30).value > _usual_pass(platform, device).of(1 << 30).value:
            return price
        if platform.has("device.coherence") and holding(platform, "gpu", allocator) == NONE:
            return _usual_pass(platform, device)  # each use of a line goes to memory, as those across a link do
    raise Unmeasured("kernels use this memory as fast as the device's usual memory, as far as is known")


def _own_pass(platform: Platform, device: DeviceInfo, allocator: str) -> Price | None:
    """Plain memory whose pages move is in the device's memory when kernels use it. Each byte is read and written."""
    if not _entry(device, allocator).migrates_on_fault:
        return None
    usual = _usual_pass(platform, device)
    return Price(usual.sizes, tuple(time.times(2) for time in usual.times), usual.grounds)


def _usual_pass(platform: Platform, device: DeviceInfo) -> Price:
    return platform.curve("device.bandwidth")


_RULES: Mapping[str, Callable[..., Price | None]] = {
    "host_touch": _host_touch,
    "touched_free": _touched_free,
    "gpu_touch": _gpu_touch,
    "gpu_fault": _gpu_fault,
    "isolated_fault": _isolated_fault,
    "moving_touch": _moving_touch,
    "cpu_fault": _by_windows("link.d2h"),
    "prefetch": _by_windows("link.h2d"),
    "prefetch_back": _by_windows("link.d2h"),
    "allocation": _allocation,
    "remote": _remote,
    "cpu_remote": _cpu_remote,
    "counter_moves": _counter_moves,
    "counter_service": _counter_service,
    "uncached": _uncached,
    "cache_flush": _cache_flush,
    "stream": _stream,
    "slow_pass": _slow_pass,
    "usual_pass": _usual_pass,
    "own_pass": _own_pass,
}
