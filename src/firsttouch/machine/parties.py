"""The parties of a point with several devices: `parties` of its record."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from firsttouch.machine import host
from firsttouch.machine.tree import Tree, format_ids
from firsttouch.records.schema import DeviceInfo, Party


def parties(devices: Iterable[DeviceInfo], tree: Tree | None = None) -> list[Party]:
    """The devices that this process drives, each with its NUMA node and the processors that the process may use."""
    tree = tree or Tree()
    usable = host.usable_cores()
    return [
        Party(
            device=device.name,
            host=socket.gethostname(),
            numa_node=_numa_node(device, usable, tree),
            processors=format_ids(usable),
        )
        for device in devices
    ]


def _numa_node(device: DeviceInfo, usable: Iterable[int], tree: Tree) -> int | None:
    """The NUMA node of a PCI device's slot, or the only node in use by the host's processor; None if unknown."""
    if device.capabilities.on_host_processor:
        nodes = [node for node in host.numa_nodes(tree) if set(usable) & set(host.node_cores(tree, node))]
        return nodes[0] if len(nodes) == 1 else None
    node = tree.integer(f"sys/bus/pci/devices/{str(device.facts.get('pci_bus')).lower()}/numa_node")
    return node if node is not None and node >= 0 else None
