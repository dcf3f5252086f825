"""The properties of allocators on which decisions are based. No other module decides by an allocator's name.

These functions combine the vendor's specification (machine/allocators/semantics.py) with the driver's statements about
this machine (AllocatorInfo). For allocators that semantics.py does not have, only the driver's statements are used.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

from firsttouch.machine.allocators.semantics import SEMANTICS, AllocatorRole, PageLocation, RequestedPages, Variant
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

Coherence: TypeAlias = Literal["never", "synchronisation", "kernel"]


def role(name: str) -> AllocatorRole | None:
    """The purpose for which programs use an allocator; None if it is unknown."""
    return SEMANTICS[name].role if name in SEMANTICS else None


def is_plain_host(name: str) -> bool:
    """Whether it is ordinary host memory, which needs no device."""
    return role(name) == "host"


def stays_movable(name: str, device: DeviceInfo) -> bool:
    """Whether the host's kernel may move its pages: of plain memory, and of registered memory if the device translates
    by the host's page tables. cuMemHostRegister then page-locks nothing and only populates pages (CUDA driver API).
    """
    if is_plain_host(name):
        return True
    by_host_tables = bool(device.facts.get("pageableMemoryAccessUsesHostPageTables"))
    return by_host_tables and role(name) == "page-locked" and variant(name) == "call"


def is_common(name: str) -> bool:
    """Whether it is the usual allocator of its role; the others are variants of it."""
    return name in SEMANTICS and not SEMANTICS[name].variant


def variant(name: str) -> Variant | None:
    """How it differs from the usual allocator of its role; '' for that allocator, None if it is unknown."""
    return SEMANTICS[name].variant if name in SEMANTICS else None


def requested_pages(name: str) -> RequestedPages:
    """The page size that is requested from the kernel: "policy" if the caller chooses it, '' if none is requested."""
    return SEMANTICS[name].pages if name in SEMANTICS else ""


def takes_page_size(name: str) -> bool:
    """Whether a program can choose its page size."""
    return requested_pages(name) in ("policy", "base")


def caches_on_cpu(name: str) -> bool | None:
    """Whether the CPU caches its lines; False for write-combined memory, None if the vendor does not specify it."""
    semantics = SEMANTICS.get(name)
    if semantics is None or "cpu" not in semantics.cached + semantics.uncached:
        return None
    return "cpu" in semantics.cached


def memory_of(info: AllocatorInfo) -> PageLocation:
    """The memory in which its pages are: `host`, `device`, or `migrating` if the driver decides."""
    if info.managed:
        return "migrating"
    if info.name in SEMANTICS:
        return SEMANTICS[info.name].memory
    return "device" if info.device_memory and not info.host_memory else "host"


def may_oversubscribe(info: AllocatorInfo | None) -> bool:
    """Whether more of its pages than a device has room for may be tried there, which can hang the device."""
    return info is not None and (info.managed or info.migrates_on_fault)


def is_charged_to_device(info: AllocatorInfo) -> bool:
    """Whether memory of it that kernels use counts against the device's memory."""
    return info.device_memory or info.migrates_on_fault


def needs_mapping(info: AllocatorInfo) -> bool:
    """Whether an agent can use it only between map and unmap, so that only one agent can use it at a time."""
    return "mapped" in (info.cpu, info.gpu)


def is_device_side(info: AllocatorInfo) -> bool:
    """Whether a copy to it goes to the device: it is device memory, or held by the device until it is mapped."""
    memory = memory_of(info)
    return memory == "device" or (memory == "migrating" and needs_mapping(info))


def moves_pages(info: AllocatorInfo) -> bool | None:
    """Whether its pages move to an agent that touches them; None if neither driver nor vendor specifies it."""
    if info.managed and info.on_demand is False:
        return False  # hipMallocManaged without XNACK returns page-locked memory
    stated = SEMANTICS[info.name].migrates if info.name in SEMANTICS else ""
    return stated == "yes" if stated else None


def allows_concurrent_parts(info: AllocatorInfo) -> bool | None:
    """Whether the CPU may use one part while a kernel uses another; None if unknown."""
    if info.concurrent or info.disjoint:
        return True
    if info.name in SEMANTICS and SEMANTICS[info.name].concurrent_parts == "yes":
        return True
    return info.disjoint if info.concurrent is None else info.concurrent


def needs_idle_device(info: AllocatorInfo) -> bool:
    """Whether the CPU may use it only while no kernel runs, not even one that uses other memory: managed memory of a
    device without concurrent managed access.
    """
    return info.managed and info.disjoint is False


def coherence(info: AllocatorInfo) -> Coherence | None:
    """When CPU and kernels see each other's stores: while a kernel runs, at synchronisation points, or never because
    one of them has no access; None if the driver does not state it.
    """
    if "none" in (info.cpu, info.gpu):
        return "never"
    if needs_mapping(info):
        return "synchronisation"
    return None if info.concurrent is None else "kernel" if info.concurrent else "synchronisation"


@cache
def common_allocator(role: AllocatorRole) -> str:
    """The usual allocator of a role."""
    return next(name for name, semantics in SEMANTICS.items() if not semantics.variant and semantics.role == role)


def is_main_of_device(name: str) -> bool:
    """Whether it is the usual memory of a device that runs kernels."""
    return is_common(name) and role(name) == "device"


def main_allocator(device: DeviceInfo) -> str:
    """The usual allocator of a device: device memory, or plain memory on the host."""
    return common_allocator("device" if device.capabilities.runs_kernels else "host")


def shared_or_main_allocator(device: DeviceInfo) -> str:
    """The usual memory of both agents that the driver may move, if the device has it; otherwise the main allocator."""
    shared = (entry for entry in device.allocators if role(entry.name) == "shared" and is_common(entry.name))
    return next((entry.name for entry in shared if entry.available), main_allocator(device))


def may_migrate(name: str) -> bool:
    """Whether a driver may move its pages between host and device."""
    return role(name) in ("host", "shared")


def moves_when_touched(name: str) -> bool:
    """Whether the vendor specifies that its pages move to an agent that touches them."""
    return name in SEMANTICS and SEMANTICS[name].migrates == "yes"
