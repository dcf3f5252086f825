"""The amount of memory in use now, by each counter of the host.

The kernel's Documentation/filesystems/proc.rst defines each field. Counters of the whole machine include all other
programs that run on it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

from firsttouch.machine import cgroup, host
from firsttouch.machine.tree import Tree, parse_int


def process_usage(tree: Tree) -> dict[str, int]:
    """Bytes of this process: rss (VmRSS, which the kernel sums per CPU and may update late); rollup_rss, pss and
    anon_huge from smaps_rollup, which walks all page tables of the process.
    """
    rollup = tree.kibibytes("proc/self/smaps_rollup")
    counters = {
        "rss": tree.kibibytes("proc/self/status").get("VmRSS"),
        "rollup_rss": rollup.get("Rss"),
        "pss": rollup.get("Pss"),
        "anon_huge": rollup.get("AnonHugePages"),
    }
    return {name: value for name, value in counters.items() if value is not None}


def host_usage(tree: Tree) -> dict[str, int]:
    """Bytes in use on the whole machine, as far as they can be read.

    Each value is the total minus the counter that it is named after: mem_free, mem_available, and nodeN_free for each
    NUMA node if there are several. numa_free is the sum over nodes. cgroup is the amount charged to this process's own
    control group.

    The kernel also keeps free pages in a list for each processor, which MemFree does not count: memory that is freed
    and allocated again may never appear in MemFree. numa_free_and_lists counts these pages as free, and
    host_free_and_lists also excludes nodes without processors, which may be the memory of a device.
    """
    info = tree.kibibytes("proc/meminfo")
    total = info.get("MemTotal", 0)
    counters = {name: total - info[field] for name, field in _MEMINFO.items() if field in info}
    nodes = host.numa_nodes(tree)
    read = {n: _used(host.node_memory(tree, n)) for n in nodes}
    used = {n: value for n, value in read.items() if value is not None} or {0: total - info.get("MemFree", 0)}
    if len(used) > 1:
        counters |= {f"node{n}_free": value for n, value in used.items()}
    listed = _listed(tree)
    taken = {n: value - listed[n] for n, value in used.items()}
    counters["numa_free"] = sum(used.values())
    counters["numa_free_and_lists"] = sum(taken.values())
    memory_only = {n for n in nodes if not host.node_cores(tree, n)}
    counters["host_free_and_lists"] = sum(value for n, value in taken.items() if n not in memory_only)
    charged = cgroup.memory_charged(tree)
    return counters if charged is None else counters | {"cgroup": charged}


_MEMINFO = {"mem_free": "MemFree", "mem_available": "MemAvailable"}


def _used(node: Mapping[str, int]) -> int | None:
    return node["MemTotal"] - node["MemFree"] if node.keys() >= {"MemTotal", "MemFree"} else None


def _listed(tree: Tree) -> Counter[int]:
    """Bytes of free pages in the lists of the processors (pagesets in /proc/zoneinfo), by NUMA node."""
    found: Counter[int] = Counter()
    node, page = 0, os.sysconf("SC_PAGE_SIZE")
    for line in tree.lines("proc/zoneinfo"):
        words = line.split()
        if words[:1] == ["Node"] and len(words) > 1:
            node = parse_int(words[1].rstrip(",")) or 0
        elif words[:1] == ["count:"] and len(words) == 2:
            found[node] += (parse_int(words[1]) or 0) * page
    return found
