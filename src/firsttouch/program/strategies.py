"""The table of memory strategies, and which of them a device supports.

What a strategy does during a run (copies, mappings, waits, advice, prefetches) is in program/ledger.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from firsttouch.machine.allocators.properties import common_allocator, may_migrate
from firsttouch.records.schema import AllocatorInfo, DeviceInfo


@dataclass(frozen=True)
class Strategy:
    """How an application uses memory.

    allocator: of the buffers that both agents use, or of the device's copies if `duplicated`. duplicated: each such
    buffer is a host array, of the allocator host_arrays, and a device array. advise, prefetch: pass the hints that the
    declared roles imply to the driver. overlap: kernels do not wait for prefetches. prefault: the CPU touches every
    page after allocation. access: how the CPU must access the allocator's memory ("direct" or "mapped"); "" for either.
    """

    name: str
    allocator: str
    meaning: str
    duplicated: bool = False
    host_arrays: str = common_allocator("host")
    advise: bool = False
    prefetch: bool = False
    overlap: bool = False
    prefault: bool = False
    access: str = ""
    bounded: bool = False
    """Whether buffer sizes must have an upper bound that is known at compile time."""
    coherence: Literal["", "wait", "flush"] = ""
    """What the Workspace does before the other agent uses a buffer, besides mapping it and waiting for conflicts.

    wait: the CPU waits for all queued work that uses the buffer, even for other parts of it, because stores become
    visible at synchronisation only. flush: the CPU's stores leave its write-combining buffers before each launch.
    """
    on_request: bool = False
    """Whether it is used only if it is named: it differs from another strategy in a variant of its allocator."""

    @property
    def effort(self) -> int:
        """How much more a program needs than plain malloc: 1 for another allocator, advice, prefetches, touching all
        pages, locking the pages of a host array, mapping or flushing; 3 for two arrays and the copies between them.
        """
        others = (self.advise, self.prefetch, self.overlap, self.prefault, self.access == "mapped", self.coherence)
        locked = self.allocator == "registered" or self.host_arrays != common_allocator("host")
        return 3 * self.duplicated + (self.allocator != common_allocator("host")) + sum(map(bool, others)) + locked


_ALL = (
    Strategy(
        "explicit",
        "device",
        "a pageable host array and a device array of every buffer that both sides touch; a range is copied when the "
        "side that touches it holds no valid copy",
        duplicated=True,
    ),
    Strategy(
        "explicit+pinned",
        "device",
        "as explicit, with page-locked host arrays, whose pages are locked when they are allocated",
        duplicated=True,
        host_arrays=common_allocator("page-locked"),
    ),
    Strategy(
        "explicit+vmm",
        "vmm",
        "as explicit; the device arrays are mapped by the driver's calls for virtual memory (cuMemMap, hipMemMap), "
        "which no CPU can use in place",
        duplicated=True,
        on_request=True,
    ),
    Strategy(
        "explicit+fine-grained",
        "fine-grained",
        "as explicit, with fine-grained device arrays",
        duplicated=True,
        on_request=True,
    ),
    Strategy("managed", "managed", "one managed buffer; each side waits for the other when they alternate"),
    Strategy(
        "managed+advise",
        "managed",
        "as managed; before initialisation the GPU is the preferred location and the CPU is set as accessing, after it "
        "inputs and constants are read-mostly",
        advise=True,
    ),
    Strategy(
        "managed+prefetch",
        "managed",
        "as managed; buffers are prefetched to the GPU in a separate stream before the first launch, and results are "
        "prefetched back before the CPU reads them",
        prefetch=True,
    ),
    Strategy(
        "managed+prefetch-overlap",
        "managed",
        "as managed+prefetch, but the first launch does not wait for the prefetches: kernels start while they run, and "
        "fault on pages that have not arrived",
        prefetch=True,
        overlap=True,
    ),
    Strategy("managed+both", "managed", "advice and prefetches", advise=True, prefetch=True),
    Strategy(
        "coarse-grained",
        "coarse-grained",
        "managed memory that is coherent between kernels only; the CPU waits for all work that uses a buffer",
        coherence="wait",
        on_request=True,
    ),
    Strategy("managed-static", "managed-static", "a __managed__ array of fixed size", bounded=True),
    Strategy("system", "malloc", "plain malloc, used by both sides"),
    Strategy("system+prefault", "malloc", "as system; the CPU touches every page when it is allocated", prefault=True),
    Strategy("pinned", "pinned", "page-locked host memory, used in place by both sides"),
    Strategy(
        "pinned-wc",
        "pinned-wc",
        "as pinned, in write-combined memory, whose stores are flushed before each launch; CPU reads are not cached",
        coherence="flush",
        on_request=True,
    ),
    Strategy(
        "pinned-noncoherent",
        "pinned-noncoherent",
        "as pinned, in memory that the GPU may cache; both may use different parts at once; the CPU waits for all "
        "queued work before it reads what a kernel has written",
        on_request=True,
    ),
    Strategy("registered", "registered", "malloc, then page-locked, used in place by both sides"),
    Strategy("unified", "device", "one device allocation that the CPU uses in place, as on an APU", access="direct"),
    Strategy(
        "fine-grained",
        "fine-grained",
        "as unified, in fine-grained device memory; in place on an APU only",
        access="direct",
        on_request=True,
    ),
    Strategy("buffer", "device", "one OpenCL 1.2 buffer, mapped while the CPU uses it", access="mapped"),
    Strategy("svm-coarse", "svm-coarse", "coarse-grained shared virtual memory, mapped while the CPU uses it"),
    Strategy("svm-fine", "svm-fine", "fine-grained shared virtual memory; each side waits for the other"),
    Strategy("svm-atomic", "svm-atomic", "fine-grained shared virtual memory with atomics from both sides"),
)
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def strategies_of(device: DeviceInfo, *, on_request: bool = False) -> list[str]:
    """The strategies that a device's API can express: it has their allocators and their kind of CPU access.

    on_request: includes those that are used only if they are named.
    """
    return [
        s.name
        for s in _ALL
        if (on_request or not s.on_request)
        and (entry := device.allocator(s.allocator))
        and _allows_access(s, entry)
        and _allows_host_arrays(s, device)
    ]


def _allows_access(strategy: Strategy, entry: AllocatorInfo) -> bool:
    return strategy.access in ("", entry.cpu) or (strategy.access == "direct" and entry.cpu == "none")


def _allows_host_arrays(strategy: Strategy, device: DeviceInfo) -> bool:
    entry = device.allocator(strategy.host_arrays)
    return not strategy.duplicated or (entry is not None and entry.cpu in ("direct", "none"))


def unavailable(strategy: Strategy, device: DeviceInfo) -> str | None:
    """Why a strategy can't be used on a device, in one sentence, or None."""
    if not device.capabilities.runs_kernels:
        return f"{device.name} does not run kernels"
    entry = device.allocator(strategy.allocator)
    if entry is None:
        return f"{device.name} has no allocator {strategy.allocator}"
    if not entry.available:
        return entry.reason
    if entry.gpu == "none":
        return entry.gpu_reason
    if (strategy.advise or strategy.prefetch) and (reason := why_unguided(strategy, device)):
        return reason
    if strategy.duplicated:
        return _host_arrays_unavailable(strategy.host_arrays, device)
    if entry.cpu == "none":
        return f"the CPU of {device.name} cannot use {strategy.allocator} memory in place"
    if strategy.access not in ("", entry.cpu):
        return f"the CPU reaches {strategy.allocator} memory of {device.name} {_ACCESS_TEXT[entry.cpu]}"
    return None


def why_unguided(strategy: Strategy, device: DeviceInfo) -> str | None:
    """Why the driver takes no advice and no prefetches for the buffers of a strategy, in one sentence, or None."""
    if strategy.duplicated or not may_migrate(strategy.allocator):
        return f"under {strategy.name} no pages move, so that there is nothing to advise or to prefetch"
    if device.capabilities.memory_guidance:
        return None
    entry = device.allocator(strategy.allocator)
    if entry is not None and entry.managed:
        return (
            f"{device.name} has no concurrent managed access (concurrentManagedAccess is 0), without which its driver "
            "takes no advice and no prefetches"
        )
    return f"the driver of {device.name} takes no advice and no prefetches for {strategy.allocator} memory"


def why_not_at_once(strategy: Strategy, device: DeviceInfo) -> str:
    """Why both agents cannot work at once under a strategy, in one sentence, or ''."""
    entry = device.allocator(strategy.allocator)
    if strategy.duplicated or entry is None:
        return ""
    if entry.cpu != "mapped" and (entry.disjoint or entry.concurrent) and strategy.coherence != "wait":
        return ""
    return "both agents work on parts at the same time, but only one may access this memory at a time"


def _host_arrays_unavailable(allocator: str, device: DeviceInfo) -> str | None:
    """Why `allocator` can't hold the host arrays of duplicated buffers, or None. The CPU must access those directly."""
    entry = device.allocator(allocator)
    if entry is None or not entry.available:
        return entry.reason if entry else f"{device.name} has no allocator {allocator}"
    if entry.cpu != "direct":
        return f"the CPU reaches {allocator} memory of {device.name} {_ACCESS_TEXT.get(entry.cpu, 'not at all')}"
    return None


_ACCESS_TEXT = {"direct": "directly, without mapping", "mapped": "between map and unmap only"}
