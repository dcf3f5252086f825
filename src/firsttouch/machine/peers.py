"""Which other devices, and which NUMA nodes, a device can work with: `peers` of its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from firsttouch.machine import host
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import DeviceInfo, Peer

if TYPE_CHECKING:
    from firsttouch import _core

MOVED = "the driver copies a buffer to the device that uses it"


def state_peers(opened: Sequence[tuple[_core.Device, DeviceInfo]], *, moves_buffers: bool) -> None:
    """Fill in the peers of devices of one backend by what their driver states; opens no access.

    moves_buffers: whether the driver copies a buffer to the device that uses it, where memories are apart.
    """
    for device, info in opened:
        info.peers += [
            _peer(device, other, moves_buffers and not _in_host_memory(info, of_other))
            for other, of_other in opened
            if other.name != device.name
        ]


def _peer(device: _core.Device, other: _core.Device, moved: bool) -> Peer:
    if reason := device.why_unreachable(other):
        return Peer(name=other.name, access="none", reason=" ".join(reason.split()))
    return Peer(name=other.name, access="copies" if moved else "direct", reason=MOVED if moved else "")


def _in_host_memory(*devices: DeviceInfo) -> bool:
    return all(device.capabilities.shares_host_memory for device in devices)


def numa_peers(tree: Tree) -> list[Peer]:
    """The host's NUMA nodes with memory as peers of the CPU; none where there is one node."""
    nodes = [node for node in host.numa_nodes(tree) if "MemTotal" in host.node_memory(tree, node)]
    return [Peer(name=f"node{node}", access="direct") for node in nodes] if len(nodes) > 1 else []


def with_other_backends(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices, with those of other backends among the peers of each: they share data through the host alone.
    What an earlier call added is replaced.
    """
    able = [one for one in devices if one.available and one.capabilities.runs_kernels]
    further = {one.name: [_through_host(one, other) for other in able if other.kind != one.kind] for one in able}
    return [msgspec.structs.replace(one, peers=_of_driver(one) + further.get(one.name, [])) for one in devices]


def _of_driver(device: DeviceInfo) -> list[Peer]:
    return [peer for peer in device.peers if peer.same_driver]


def _through_host(one: DeviceInfo, other: DeviceInfo) -> Peer:
    reason = f"{one.name} and {other.name} have different drivers; data go through the host"
    return Peer(name=other.name, access="none", reason=reason, same_driver=False)
