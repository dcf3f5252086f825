"""The NUMA nodes of the host: their names, processors, memory and distances, from /sys."""

from __future__ import annotations

import re
from collections.abc import Iterable

from firsttouch.machine.tree import Facts, Tree, drop_missing, format_ids, named, parse_ids

_NODE = "sys/devices/system/node"
_BALANCING = {0: False, 1: True, 2: True, 3: True}


def nodes(tree: Tree) -> list[int]:
    """The numbers of the NUMA nodes."""
    return sorted(node for name in tree.names(_NODE) if (node := node_number(name)) is not None)


def node_name(node: int) -> str:
    return f"node{node}"


def node_number(name: str) -> int | None:
    """The number of a NUMA node by its name; None if the text names no node."""
    match = re.fullmatch(r"node(\d{1,5})", name)
    return int(match[1]) if match else None


def acting_nodes(tree: Tree, usable: Iterable[int]) -> dict[int, list[int]]:
    """The NUMA nodes with processors that this process may use, and these processors. usable: those of all nodes."""
    allowed = set(usable)
    usable_cores = {node: [core for core in node_cores(tree, node) if core in allowed] for node in nodes(tree)}
    return {node: cores for node, cores in usable_cores.items() if cores}


def node_cores(tree: Tree, node: int) -> list[int]:
    """The cores of a NUMA node; empty for a node that has only memory."""
    return parse_ids(tree.text(f"{_NODE}/node{node}/cpulist"))


def node_memory(tree: Tree, node: int) -> dict[str, int]:
    """Bytes by field of a NUMA node's meminfo: MemTotal, MemFree, ..."""
    return tree.kibibytes(f"{_NODE}/node{node}/meminfo", prefix=f"Node {node} ")


def memory_only_nodes(tree: Tree) -> set[int]:
    """NUMA nodes without processors, which may be the memory of a device."""
    return {n for n in nodes(tree) if not node_cores(tree, n)}


def facts(tree: Tree) -> Facts:
    """For each node N: nodeN_total_bytes, nodeN_free_bytes, nodeN_cpus and nodeN_distances (to all nodes in order; 10
    is the distance to itself). memory_only_nodes are those without a CPU, such as a GPU's memory on Grace Hopper.
    """
    numbers = nodes(tree)
    facts: Facts = {
        "nodes": len(numbers) or None,
        "balancing": named(_BALANCING, tree.integer("proc/sys/kernel/numa_balancing")),
    }
    memory_only = []
    for n in numbers:
        info, cores = node_memory(tree, n), node_cores(tree, n)
        facts |= {
            f"node{n}_total_bytes": info.get("MemTotal"),
            f"node{n}_free_bytes": info.get("MemFree"),
            f"node{n}_cpus": format_ids(cores) or None,
            f"node{n}_distances": tree.text(f"{_NODE}/node{n}/distance"),
        }
        if not cores and info.get("MemTotal"):
            memory_only.append(n)
    facts["memory_only_nodes"] = format_ids(memory_only) or None
    return drop_missing(facts)
