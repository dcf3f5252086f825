"""Which other devices, and which NUMA nodes, a device can work with: `peers` of its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from firsttouch.machine import numa
from firsttouch.machine.links import Link, Links
from firsttouch.machine.partitions import SAME_GPU, link_key, of_one_gpu
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import DeviceInfo, Peer

if TYPE_CHECKING:
    from firsttouch import _core

MOVED = "the driver copies a buffer to the device that uses it"


def add_peers(
    opened: Sequence[tuple[_core.Device, DeviceInfo]], *, moves_buffers: bool, links: Links | None = None
) -> None:
    """Add the peers that the driver reports to each device of one backend. Does not enable access.

    moves_buffers: whether the driver copies a buffer to the device that uses it if the devices have separate memories.
    links: the links between the devices, if their driver states them.
    """
    for device, info in opened:
        info.peers += [
            linked(
                _peer(device, peer, moves_buffers and not _share_host_memory(info, peer_info)),
                info,
                peer_info,
                links or {},
            )
            for peer, peer_info in opened
            if peer.name != device.name
        ]


def _peer(device: _core.Device, peer: _core.Device, moved: bool) -> Peer:
    if reason := device.why_unreachable(peer):
        return Peer(name=peer.name, access="none", reason=" ".join(reason.split()))
    return Peer(name=peer.name, access="copies" if moved else "direct", reason=MOVED if moved else "")


def linked(peer: Peer, device: DeviceInfo, peer_device: DeviceInfo, links: Links) -> Peer:
    """The peer `peer_device` of `device`, with the link that leads to it. Unchanged if the link is unknown."""
    addresses = link_key(device), link_key(peer_device)
    outward, inward = links.get(addresses, Link()), links.get(addresses[::-1], Link())
    return msgspec.structs.replace(
        peer,
        link=SAME_GPU if of_one_gpu(device, peer_device) else outward.name or inward.name,
        hops=outward.hops if outward.hops is not None else inward.hops,
        peak_out_gbs=outward.gbs,
        peak_in_gbs=inward.gbs,
        peak_source=outward.source or inward.source,
    )


def _share_host_memory(*devices: DeviceInfo) -> bool:
    return all(device.capabilities.shares_host_memory for device in devices)


def numa_peers(tree: Tree) -> list[Peer]:
    """The host's NUMA nodes with memory, as peers of the CPU."""
    return [
        Peer(name=numa.node_name(node), access="direct")
        for node in numa.nodes(tree)
        if numa.node_memory(tree, node).get("MemTotal")
    ]


def with_other_backends(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices, each with the devices of other backends as further peers: they share data only through the host.
    Replaces the peers that an earlier call added.
    """
    usable = [device for device in devices if device.available and device.capabilities.runs_kernels]
    added = {d.name: [_through_host(d, peer) for peer in usable if peer.kind != d.kind] for d in usable}
    return [msgspec.structs.replace(d, peers=_same_driver_peers(d) + added.get(d.name, [])) for d in devices]


def _same_driver_peers(device: DeviceInfo) -> list[Peer]:
    return [peer for peer in device.peers if peer.same_driver]


def _through_host(device: DeviceInfo, peer: DeviceInfo) -> Peer:
    reason = f"{device.name} and {peer.name} have different drivers; data go through the host"
    return Peer(name=peer.name, access="none", reason=reason, same_driver=False)
