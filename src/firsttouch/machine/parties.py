"""The parties of a point with several devices: `parties` of its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firsttouch.base.encoding import host_name
from firsttouch.machine import host, numa
from firsttouch.machine.tree import Tree, format_ids
from firsttouch.records.schema import DeviceInfo, Party


def parties(devices: Iterable[DeviceInfo], tree: Tree | None = None) -> list[Party]:
    """The devices that this process drives, each with its NUMA node and the processors that the process may use."""
    tree = tree or Tree()
    usable = host.usable_cores()
    return [
        Party(
            device=device.name,
            host=host_name(),
            numa_node=node_of(device, tree),
            processors=format_ids(usable),
        )
        for device in devices
    ]


def node_parties(device: DeviceInfo, nodes: Iterable[int], tree: Tree | None = None) -> list[Party]:
    """NUMA nodes of the host that take part, each with its processors that this process may use."""
    acting = numa.acting_nodes(tree or Tree(), host.usable_cores())
    return [
        Party(
            device=device.name,
            host=host_name(),
            numa_node=node,
            processors=format_ids(acting.get(node, [])),
        )
        for node in nodes
    ]


def rank_party(devices: Sequence[DeviceInfo], rank: int, nodes: Sequence[int] = (), tree: Tree | None = None) -> Party:
    """One of several processes, with the processors on which it runs: its part of those of its NUMA node.

    devices: of each rank. nodes: the node of each rank, if the caller chooses them. Otherwise a rank is at its device's
    node, and ranks on the host's processor are spread over the nodes that this process may use. Where a node has more
    ranks than cores, each of them may use all.
    """
    tree = tree or Tree()
    usable = host.usable_cores()
    acting = numa.acting_nodes(tree, usable)
    node_numbers, ranks = list(acting), len(devices)

    def node_of_rank(of_rank: int) -> int | None:
        if nodes:
            return nodes[of_rank]
        if devices[of_rank].capabilities.runs_kernels:
            return node_of(devices[of_rank], tree)
        return node_numbers[of_rank * len(node_numbers) // ranks] if node_numbers else None

    node = node_of_rank(rank)
    neighbours = [number for number in range(ranks) if node_of_rank(number) == node]
    cores = usable if node is None else acting.get(node, [])
    if len(cores) >= len(neighbours):
        index = neighbours.index(rank)
        cores = cores[index * len(cores) // len(neighbours) : (index + 1) * len(cores) // len(neighbours)]
    return Party(
        device=devices[rank].name,
        rank=rank,
        host=host_name(),
        numa_node=node,
        processors=format_ids(cores),
    )


def node_of(device: DeviceInfo, tree: Tree | None = None) -> int | None:
    """The NUMA node of a PCI device's slot, or the only node in use by the host's processor; None if unknown."""
    tree = tree or Tree()
    if device.capabilities.on_host_processor:
        nodes = list(numa.acting_nodes(tree, host.usable_cores()))
        return nodes[0] if len(nodes) == 1 else None
    node = tree.integer(f"sys/bus/pci/devices/{str(device.facts.get('pci_bus')).lower()}/numa_node")
    return node if node is not None and node >= 0 else None
