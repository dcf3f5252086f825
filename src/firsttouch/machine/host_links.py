"""What connects a device with the host, as the kernel states it for its PCI address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firsttouch.machine import numa
from firsttouch.machine.tree import Facts, Tree, drop_missing, parse_ids
from firsttouch.records.schema import Scalar

_NODE = "sys/devices/system/node"


def host_link(facts: Mapping[str, Scalar], tree: Tree, usable: Iterable[int]) -> Facts:
    """The facts `host_link`, such as '32.0 GT/s PCIe x16', and `host_distances`: how far its NUMA node is from those
    with processors in `usable`, the nearest first, as relative latencies by the firmware (SLIT; 10 within a node).
    """
    path = f"sys/bus/pci/devices/{str(facts.get('pci_bus')).lower()}"
    speed, width = tree.text(f"{path}/max_link_speed"), tree.integer(f"{path}/current_link_width")
    node, nodes = tree.integer(f"{path}/numa_node"), numa.nodes(tree)
    rows = {n: parse_ids((tree.text(f"{_NODE}/node{n}/distance") or "").replace(" ", ","))
            for n in numa.acting_nodes(tree, usable)}  # fmt: skip
    distances = [row[nodes.index(node)] for row in rows.values() if node in nodes and len(row) == len(nodes)]
    return drop_missing(
        {
            "host_link": f"{speed} x{width}" if speed and width else None,
            "host_distances": " ".join(map(str, sorted(distances))) or None,
        }
    )
