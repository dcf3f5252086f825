"""Every strategy on one page: how an application uses memory, and what a device must offer for it.

What follows from a strategy during a run (copies, mappings, waits, advice, prefetches) is in memory/workspace.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firsttouch.schema import AllocatorInfo, DeviceInfo


@dataclass(frozen=True)
class Strategy:
    """allocator: of what both agents use; under `duplicated`, of the device's copy beside a host array. advise,
    prefetch: tell the driver what the declared roles imply. prefault: the CPU touches every page when it allocates.
    access: how the CPU must reach the allocator for the strategy to be itself; '' any way but none.
    """

    name: str
    allocator: str
    meaning: str
    duplicated: bool = False
    advise: bool = False
    prefetch: bool = False
    prefault: bool = False
    access: str = ""
    bounded: bool = False
    """The application's buffers need a bound that is known before it runs."""


_ALL = (
    Strategy(
        "explicit",
        "device",
        "a host array and a device array of every buffer that both sides touch; a range is copied when the side that "
        "touches it holds no valid copy",
        duplicated=True,
    ),
    Strategy("managed", "managed", "one managed buffer; sides wait for each other where they alternate"),
    Strategy(
        "managed+advise",
        "managed",
        "as managed; the GPU as preferred location and accessed-by the CPU before initialisation, read-mostly on "
        "inputs and constants after it",
        advise=True,
    ),
    Strategy(
        "managed+prefetch",
        "managed",
        "as managed; buffers are prefetched to the GPU in a stream of their own before the first launch, and what ends "
        "on the CPU is prefetched back before it is read",
        prefetch=True,
    ),
    Strategy("managed+both", "managed", "advice and prefetches", advise=True, prefetch=True),
    Strategy("managed-static", "managed-static", "a __managed__ array of fixed size", bounded=True),
    Strategy("system", "malloc", "plain malloc, used by both sides"),
    Strategy("system+prefault", "malloc", "as system; the CPU touches every page when it is allocated", prefault=True),
    Strategy("pinned", "pinned", "page-locked host memory, used in place by both sides"),
    Strategy("registered", "registered", "malloc, then page-locked, used in place by both sides"),
    Strategy("unified", "device", "one device allocation that the CPU uses in place, as on an APU", access="direct"),
    Strategy("buffer", "device", "one OpenCL 1.2 buffer, mapped where the CPU touches it", access="mapped"),
    Strategy("svm-coarse", "svm-coarse", "coarse-grained shared virtual memory, mapped where sides alternate"),
    Strategy("svm-fine", "svm-fine", "fine-grained shared virtual memory; sides wait for each other"),
    Strategy("svm-atomic", "svm-atomic", "fine-grained shared virtual memory with atomics of both sides"),
)
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def known_on(device: DeviceInfo) -> list[str]:
    """The strategies that mean something to a device's API: it knows their allocator and their kind of access."""
    return [s.name for s in _ALL if (entry := device.allocator(s.allocator)) and _suits(s, entry)]


def _suits(strategy: Strategy, entry: AllocatorInfo) -> bool:
    return strategy.access in ("", entry.cpu) or (strategy.access == "direct" and entry.cpu == "none")


def unavailable(strategy: Strategy, device: DeviceInfo) -> str | None:
    """Why a strategy can't be used on a device, in one sentence, or None."""
    if device.kind == "cpu":
        return "cpu has one agent only"
    entry = device.allocator(strategy.allocator)
    if entry is None:
        return f"{device.name} has no allocator {strategy.allocator}"
    if not entry.available:
        return entry.reason
    if entry.gpu == "none":
        return entry.gpu_reason
    if strategy.duplicated:
        return None
    if entry.cpu == "none":
        return f"the CPU of {device.name} cannot use {strategy.allocator} memory in place"
    if strategy.access not in ("", entry.cpu):
        return f"the CPU reaches {strategy.allocator} memory of {device.name} {_WAYS[entry.cpu]}"
    return None


def no_host_array(device: DeviceInfo, allocator: str) -> str | None:
    """Why `allocator` can't give the host arrays of a duplicated buffer, which the CPU uses at any time, or None."""
    entry = device.allocator(allocator)
    if entry is None or not entry.available:
        return entry.reason if entry else f"{device.name} has no allocator {allocator}"
    if entry.cpu != "direct":
        return f"the CPU reaches {allocator} memory of {device.name} {_WAYS.get(entry.cpu, 'not at all')}"
    return None


_WAYS = {"direct": "directly, without mapping", "mapped": "between map and unmap only"}
