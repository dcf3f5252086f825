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
            numa_node=node_of(device, tree),
            processors=format_ids(usable),
        )
        for device in devices
    ]


def node_parties(device: DeviceInfo, nodes: Iterable[int], tree: Tree | None = None) -> list[Party]:
    """NUMA nodes of the host that take part, each with its processors that this process may use."""
    acting = host.acting_nodes(tree or Tree(), host.usable_cores())
    return [
        Party(
            device=device.name,
            host=socket.gethostname(),
            numa_node=node,
            processors=format_ids(acting.get(node, [])),
        )
        for node in nodes
    ]


def node_of(device: DeviceInfo, tree: Tree | None = None) -> int | None:
    """The NUMA node of a PCI device's slot, or the only node in use by the host's processor; None if unknown."""
    tree = tree or Tree()
    if device.capabilities.on_host_processor:
        nodes = list(host.acting_nodes(tree, host.usable_cores()))
        return nodes[0] if len(nodes) == 1 else None
    node = tree.integer(f"sys/bus/pci/devices/{str(device.facts.get('pci_bus')).lower()}/numa_node")
    return node if node is not None and node >= 0 else None
