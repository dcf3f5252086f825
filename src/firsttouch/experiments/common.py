"""What several experiments ask of a device: who reaches what, which sizes to take, where a buffer's pages are."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firsttouch.experiments.base import Factor
from firsttouch.machine.switches import SWITCHES
from firsttouch.schema import BufferFact, DeviceInfo

if TYPE_CHECKING:
    from firsttouch import _core

KiB, MiB, GiB = 1024, 1024**2, 1024**3
BASE_PAGE = resource.getpagesize()
"""Bytes of the kernel's base page: 4 KiB, or 64 KiB on some Arm kernels."""
HOST_ALLOCATORS = ("malloc", "mmap", "malloc-thp")

MAP_ANEW = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096:glibc.malloc.trim_threshold=4096"}
"""Environment in which glibc maps and unmaps every block of a page or more, so that no page is touched already."""


def agents(device: DeviceInfo) -> Sequence[str]:
    """Who can touch memory of the device: on `cpu` the CPU alone."""
    return ("cpu",) if device.kind == "cpu" else ("gpu", "cpu")


def allocator_names(device: DeviceInfo) -> list[str]:
    return [allocator.name for allocator in device.allocators]


def main_allocator(device: DeviceInfo) -> str:
    """The allocator whose curve is drawn in full: what programs use first."""
    return "malloc" if device.kind == "cpu" else "device"


def unavailable(device: DeviceInfo, allocator: str) -> str | None:
    """Why the allocator can't be used on the device, or None."""
    entry = device.allocator(allocator)
    if entry is None:
        return f"{device.name} has no allocator {allocator}"
    return None if entry.available else entry.reason


def unreachable(device: DeviceInfo, allocator: str, agent: str) -> str | None:
    """Why the agent can't work on memory of the allocator, or None."""
    if reason := unavailable(device, allocator):
        return reason
    entry = device.allocator(allocator)
    assert entry is not None
    if (entry.cpu if agent == "cpu" else entry.gpu) != "none":
        return None
    return entry.gpu_reason if agent == "gpu" else f"the CPU cannot reach {allocator} memory"


def measured_on_cpu(device: DeviceInfo, allocator: str, agent: str) -> bool:
    """Plain host memory touched by the CPU is measured once, on the device `cpu`."""
    return device.kind != "cpu" and agent == "cpu" and allocator in HOST_ALLOCATORS


def known_elsewhere(device: DeviceInfo, allocator: str, agent: str) -> bool:
    """Memory of a device that works in the host's own is to the CPU what the device `cpu` shows, and to the device one
    and the same by many names.
    """
    if device.facts.get("shares_host_memory") is not True:
        return False
    return agent == "cpu" or allocator not in (main_allocator(device), "svm-fine")


def first_toucher(agent: str, first_touch: object) -> str:
    """The agent that `self` or `other` means."""
    other = "gpu" if agent == "cpu" else "cpu"
    return agent if first_touch == "self" else other


def switch(device: DeviceInfo, name: str, values: Sequence[str] = ()) -> list[Factor]:
    """The factor of a setting that the device's runtime reads when its process starts; none on other devices.

    values are the preset's; without them, what the environment says, which the points then record.
    """
    known = SWITCHES[name]
    if device.kind not in known.kinds:
        return []
    return [Factor(name, values or (known.now,), choices=(*known.values, known.now), doc=known.doc)]


def size_fact(device: DeviceInfo, *names: str) -> int:
    """The first of the device's facts of these names that is a positive number of bytes, or 0."""
    for name in names:
        value = device.facts.get(name)
        if isinstance(value, (int, float)) and value > 0:
            return int(value)
    return 0


def last_level_bytes(device: DeviceInfo) -> int:
    """Bytes of the last cache before memory; 32 MiB where nothing says."""
    return size_fact(device, "l3_bytes", "infinity_cache_bytes", "cache_bytes", "l2_bytes") or 32 * MiB


def line_bytes(device: DeviceInfo) -> int:
    return size_fact(device, "line_bytes") or 64


def memory_bytes(device: DeviceInfo, least: int = 0) -> int:
    """A size that no cache holds: four times the last level in whole 16 MiB, at least `least`."""
    return max(least, -(-4 * last_level_bytes(device) // (16 * MiB)) * 16 * MiB)


def octaves(low: int, high: int, per_octave: int = 1) -> list[int]:
    """Sizes from low to high, per_octave in each doubling, in whole units of 256 bytes."""
    sizes, step = [], 0
    while (size := low * 2 ** (step / per_octave)) <= high:
        sizes.append(max(256, round(size / 256) * 256))
        step += 1
    return list(dict.fromkeys(sizes))


def whole_octave(size: object, every: int = 1) -> bool:
    """Whether size is 2^(every k)."""
    return isinstance(size, int) and size & (size - 1) == 0 and (size.bit_length() - 1) % every == 0


def buffer_fact(name: str, buffer: _core.Buffer) -> BufferFact:
    """Where a buffer is; NUMA node and page size where the CPU can look at it."""
    try:
        node, page = buffer.residency()
    except RuntimeError:  # the CPU has no access
        node, page = None, None
    return BufferFact(name=name, allocator=buffer.allocator, bytes=buffer.size, numa_node=node, page_bytes=page)
