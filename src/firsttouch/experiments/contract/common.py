"""Helpers for experiments: agents and allocators of a device, sizes of buffers, and where a buffer's pages are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firsttouch.base.units import GiB as GiB
from firsttouch.base.units import KiB as KiB
from firsttouch.base.units import MiB as MiB
from firsttouch.experiments.contract.base import Factor
from firsttouch.machine.allocators.properties import is_common, is_plain_host, role
from firsttouch.machine.caches import effective_cache_bytes
from firsttouch.machine.pages import BASE_PAGE as BASE_PAGE
from firsttouch.machine.pages import HUGE_PAGE as HUGE_PAGE
from firsttouch.machine.switches import Part, Switch, switches_of
from firsttouch.records.schema import PEER, SELF, BufferFact, DeviceInfo

if TYPE_CHECKING:
    from firsttouch import _core

MMAP_EVERY_BLOCK = {
    "GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={BASE_PAGE}:glibc.malloc.trim_threshold={BASE_PAGE}"
}
"""An environment in which glibc maps and unmaps every block of a page or more, so that pages are untouched at first."""


MIN_STREAM_BYTES = 64
"""The smallest array of the STREAM loops, in bytes."""


def agents(device: DeviceInfo) -> Sequence[str]:
    """Returns the agents that can access memory of the device; on `cpu` the CPU alone."""
    return ("gpu", "cpu") if device.capabilities.runs_kernels else ("cpu",)


def allocator_names(device: DeviceInfo) -> list[str]:
    return [allocator.name for allocator in device.allocators]


def allocator_factor(device: DeviceInfo, *, doc: str = "how the memory is obtained") -> Factor:
    """Every allocator of the device."""
    return Factor("allocator", allocator_names(device), doc=doc)


def unavailable(device: DeviceInfo, allocator: str) -> str | None:
    """Returns why the allocator can't be used on the device, or None."""
    entry = device.allocator(allocator)
    if entry is None:
        return f"{device.name} has no allocator {allocator}"
    return None if entry.available else entry.reason


def unreachable(device: DeviceInfo, allocator: str, *agents: str) -> str | None:
    """Returns why one of the agents can't access memory of the allocator, or None."""
    if reason := unavailable(device, allocator):
        return reason
    entry = device.allocator(allocator)
    assert entry is not None
    for agent in agents:
        if (entry.cpu if agent == "cpu" else entry.gpu) == "none":
            return entry.gpu_reason if agent == "gpu" else f"the CPU cannot reach {allocator} memory"
    return None


def peer(device: DeviceInfo, *, itself: bool = False) -> Factor:
    """The factor `peer`: the other devices of the same driver, and with `itself` also `self`.

    Without `--set peer=`, the planner takes those of them that the call chose.
    """
    names = [peer.name for peer in device.peers if peer.same_driver]
    itself_name = [SELF] if itself else []
    return Factor(
        PEER,
        [*itself_name, *names],
        choices=[*itself_name, *(peer.name for peer in device.peers)],
        doc="the other device that takes part",
        names_devices=True,
    )


def unreachable_peer(device: DeviceInfo, name: str) -> str | None:
    """Returns why the device's kernels and copies can't use memory of a peer, or None. name: a value of `peer`."""
    if name == SELF:
        return None
    link = device.peer(name)
    if link is None:
        return f"{device.name} has no peer {name}"
    return link.reason if link.access == "none" else None


def measured_on_cpu(device: DeviceInfo, allocator: str, agent: str) -> bool:
    """True if the CPU accesses plain host memory, which is measured on the device `cpu` only."""
    return device.capabilities.runs_kernels and agent == "cpu" and is_plain_host(allocator)


def measured_under_another_name(device: DeviceInfo, allocator: str, agent: str) -> bool:
    """True if the point would measure memory of the host's processor that another point measures under another name.

    The allocators of a device on the host's processor are all host memory. The CPU's accesses to it are measured on the
    device `cpu`, and those of kernels for device memory and shared memory only.
    """
    if device.role != "processor":
        return False
    return agent == "cpu" or not is_common(allocator) or role(allocator) not in ("device", "shared")


def first_toucher(agent: str, first_touch: object) -> str:
    """Returns the agent that `self` or `other` stands for."""
    far = "gpu" if agent == "cpu" else "cpu"
    return agent if first_touch == "self" else far


def switch(device: DeviceInfo, name: str, values: Sequence[str]) -> list[Factor]:
    """The factor of a switch of the device's runtime, for an experiment whose preset has several values of it. The list
    is empty if the runtime has no such switch.
    """
    runtime_switch = switches_of(device).get(name)
    return [] if runtime_switch is None else [_switch_factor(name, runtime_switch, values)]


def switch_factors(device: DeviceInfo, parts: Sequence[Part]) -> list[Factor]:
    """The factors of the switches that change one of the parts. The value is that in the environment, which the points
    then record.
    """
    switches = switches_of(device).items()
    return [_switch_factor(name, switch, (switch.current,)) for name, switch in switches if switch.part in parts]


def _switch_factor(name: str, state: Switch, values: Sequence[str]) -> Factor:
    return Factor(name, values, choices=(*state.values, state.current), doc=state.doc)


def size_fact(device: DeviceInfo, *names: str) -> int:
    """Returns the first of the named device facts that is a positive number, or 0."""
    for name in names:
        value = device.facts.get(name)
        if isinstance(value, (int, float)) and value > 0:
            return int(value)
    return 0


def last_level_bytes(device: DeviceInfo) -> int:
    """Returns the bytes of the last cache for which buffers are sized; 32 MiB if the device does not state any.

    For the host's processor, machine/caches.py bounds them by the number of usable processors.
    """
    stated = size_fact(device, "infinity_cache_bytes", "l3_bytes", "cache_bytes", "l2_bytes") or 32 * MiB
    if not device.capabilities.on_host_processor:
        return stated
    return effective_cache_bytes(stated, size_fact(device, "processors", "multiprocessors"))


def line_bytes(device: DeviceInfo) -> int:
    return size_fact(device, "line_bytes") or 64


def memory_bytes(device: DeviceInfo, least: int = 0) -> int:
    """Returns a size that no cache holds: four times the last level, rounded up to 16 MiB, at least `least`."""
    return max(least, -(-4 * last_level_bytes(device) // (16 * MiB)) * 16 * MiB)


def octaves(low: int, high: int, per_octave: int = 1) -> list[int]:
    """Returns sizes from low to high, per_octave in each doubling, as multiples of 256 bytes."""
    sizes, step = [], 0
    while (size := low * 2 ** (step / per_octave)) <= high:
        sizes.append(max(256, round(size / 256) * 256))
        step += 1
    return list(dict.fromkeys(sizes))


def whole_octave(size: object, every: int = 1) -> bool:
    """True if size is 2^(every k) for a whole k."""
    return isinstance(size, int) and size & (size - 1) == 0 and (size.bit_length() - 1) % every == 0


def buffer_fact(name: str, buffer: _core.Buffer) -> BufferFact:
    """Describes where a buffer is; NUMA node and page size are None if the CPU cannot access it."""
    try:
        node, page = buffer.residency()
    except RuntimeError:  # the CPU has no access
        node, page = None, None
    return BufferFact(name=name, allocator=buffer.allocator, bytes=buffer.size, numa_node=node, page_bytes=page)
