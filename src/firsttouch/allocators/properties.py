"""What an allocator is on a device, in the terms in which decisions are made: nobody else asks for its name.

It joins what the vendor promises of every such allocation (allocators/semantics.py) with what the driver states here
(AllocatorInfo). An allocator that semantics.py does not hold is judged by the driver's statement alone.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from firsttouch.allocators.semantics import SEMANTICS, AskedPages, Memory, Role, Variant
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

Coherence: TypeAlias = Literal["never", "synchronisation", "kernel"]


def role(name: str) -> Role | None:
    """What programs take the allocator for, None where nothing is known of it."""
    return SEMANTICS[name].role if name in SEMANTICS else None


def is_plain_host(name: str) -> bool:
    """Memory of the host as any program obtains it, whichever device there is."""
    return role(name) == "host"


def is_common(name: str) -> bool:
    """Whether programs use it first in its role; the others are variants of it."""
    return name in SEMANTICS and not SEMANTICS[name].variant


def variant(name: str) -> Variant | None:
    """In what it differs from the allocator that programs use first in its role, '' for that one."""
    return SEMANTICS[name].variant if name in SEMANTICS else None


def asked_pages(name: str) -> AskedPages:
    """The page size that is asked of the kernel, "policy" where the caller chooses, '' where none is asked."""
    return SEMANTICS[name].pages if name in SEMANTICS else ""


def takes_page_size(name: str) -> bool:
    """Whether a program may choose the page size of it."""
    return asked_pages(name) in ("policy", "base")


def caches_on_cpu(name: str) -> bool | None:
    """Whether the CPU keeps lines of it in a cache; False for write-combined memory; None where nobody says."""
    known = SEMANTICS.get(name)
    if known is None or "cpu" not in known.cached + known.uncached:
        return None
    return "cpu" in known.cached


def memory_of(info: AllocatorInfo) -> Memory:
    """Whose memory it is: the host's, the device's, or `migrating` where the driver decides where its pages are."""
    if info.managed:
        return "migrating"
    if info.name in SEMANTICS:
        return SEMANTICS[info.name].memory
    return "device" if info.device_memory and not info.host_memory else "host"


def needs_mapping(info: AllocatorInfo) -> bool:
    """Whether an agent may use it only between map and unmap, so that it belongs to one agent at a time."""
    return "mapped" in (info.cpu, info.gpu)


def is_device_side(info: AllocatorInfo) -> bool:
    """Whether a copy to it goes to the device: to its own memory, or to memory that it holds until mapped."""
    memory = memory_of(info)
    return memory == "device" or (memory == "migrating" and needs_mapping(info))


def moves_pages(info: AllocatorInfo) -> bool | None:
    """Whether its pages move to an agent that touches them; None where nobody says."""
    if info.managed and info.on_demand is False:
        return False  # its pages are there at once, and stay: hipMallocManaged without XNACK is page-locked
    stated = SEMANTICS[info.name].migrates if info.name in SEMANTICS else ""
    return stated == "yes" if stated else None


def parts_at_once(info: AllocatorInfo) -> bool | None:
    """Whether the CPU may use one part while a kernel uses another."""
    if info.concurrent or info.disjoint:
        return True
    if info.name in SEMANTICS and SEMANTICS[info.name].halves == "yes":
        return True
    return info.disjoint if info.concurrent is None else info.concurrent


def coherent(info: AllocatorInfo) -> Coherence | None:
    """When CPU and kernels see each other's stores: while a kernel runs, at synchronisation points, or never since one
    of them has no access; None where the driver does not say.
    """
    if "none" in (info.cpu, info.gpu):
        return "never"
    if needs_mapping(info):
        return "synchronisation"
    return None if info.concurrent is None else "kernel" if info.concurrent else "synchronisation"


def common_allocator(role: Role) -> str:
    """What programs use first for a role."""
    return next(name for name, known in SEMANTICS.items() if not known.variant and known.role == role)


def main_allocator(device: DeviceInfo) -> str:
    """The allocator that programs use first on a device: its own memory, on the host plain memory."""
    return common_allocator("device" if device.capabilities.runs_kernels else "host")


def may_migrate(name: str) -> bool:
    """Whether a driver may move its pages: memory that is not fixed on one side."""
    return role(name) in ("host", "shared")


def moves_when_touched(name: str) -> bool:
    """Whether the vendor promises that its pages move to an agent that touches them."""
    return name in SEMANTICS and SEMANTICS[name].migrates == "yes"
