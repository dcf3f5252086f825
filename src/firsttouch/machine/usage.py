"""The amount of memory in use now, by each counter of the host, and by a device's counters other than its driver's.

The kernel's Documentation/filesystems/proc.rst defines each field. Counters of the whole machine include all other
programs that run on it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from firsttouch.machine import cgroup, numa
from firsttouch.machine.tree import Tree, parse_int
from firsttouch.records.schema import DeviceInfo

if TYPE_CHECKING:
    from firsttouch import _core


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
    nodes = numa.nodes(tree)
    read = {n: _used(numa.node_memory(tree, n)) for n in nodes}
    used = {n: value for n, value in read.items() if value is not None} or {0: total - info.get("MemFree", 0)}
    if len(used) > 1:
        counters |= {f"node{n}_free": value for n, value in used.items()}
    listed = _bytes_in_lists(tree)
    used_beyond_lists = {n: value - listed[n] for n, value in used.items()}
    counters["numa_free"] = sum(used.values())
    counters["numa_free_and_lists"] = sum(used_beyond_lists.values())
    memory_only = numa.memory_only_nodes(tree)
    counters["host_free_and_lists"] = sum(value for n, value in used_beyond_lists.items() if n not in memory_only)
    charged = cgroup.memory_charged(tree)
    return counters if charged is None else counters | {"cgroup": charged}


def machine_usage(counters: Mapping[str, int], on_device: int | None) -> int:
    """Bytes in use on the machine, each page once, from the counters of `host_usage` and the device's own count.

    on_device: None if the device's memory is the host's, or is not counted. Otherwise nodes without processors are left
    out, since they may be the device's memory.
    """
    return counters["numa_free_and_lists"] if on_device is None else counters["host_free_and_lists"] + on_device


def vendor_usage(device: _core.Device, info: DeviceInfo, tree: Tree) -> dict[str, int]:
    """Bytes of device memory in use by counters other than the driver's: vendor_used and vendor_free (as bytes in use)
    of the vendor's management library; where none answers, those of `kernel_usage`.
    """
    counts = device.usage()
    if "used_bytes" in counts:
        return {"vendor_used": counts["used_bytes"], "vendor_free": counts["total_bytes"] - counts["free_bytes"]}
    return kernel_usage(tree, str(info.facts.get("pci_bus", "")), shared=info.capabilities.shares_host_memory)


def kernel_usage(tree: Tree, pci_bus: str, *, shared: bool) -> dict[str, int]:
    """Bytes in use of a device's memory by the counters of its kernel driver; empty if that has none.

    vendor_used: by all programs, from the device's mem_info_vram_used and, if its memory is the host's (shared), also
    mem_info_gtt_used: an APU's driver allocates there. process_vram, process_gtt: by this process, from its DRM clients
    (drm-memory-REGION of /proc/self/fdinfo, each client once). Sources: the kernel's documentation, "AMDGPU driver
    information" and "DRM client usage stats".
    """
    regions = ("vram", "gtt") if shared else ("vram",)
    counted = [value for region in regions if (value := region_usage(tree, pci_bus, region)) is not None]
    used = {"vendor_used": sum(counted)} if counted else {}
    return used | {f"process_{region}": value for region, value in drm_usage(tree, "self", pci_bus).items()}


def region_usage(tree: Tree, pci_bus: str, region: str) -> int | None:
    """Bytes of a memory region of a device in use by all programs: vram, or gtt (host memory of its driver)."""
    return tree.integer(f"sys/bus/pci/devices/{pci_bus.lower()}/mem_info_{region}_used") if pci_bus else None


def drm_usage(tree: Tree, process: str, pci_bus: str) -> Counter[str]:
    """Bytes that a process has in the memory regions vram and gtt of a device, by its DRM clients."""
    return (drm_memory(tree, process) or {}).get(pci_bus.lower(), Counter())


def drm_memory(tree: Tree, process: str) -> dict[str, Counter[str]] | None:
    """Bytes that a process has in the memory regions vram and gtt of each device, by PCI address.

    None if its descriptors cannot be read: it has ended, or is another user's.
    """
    folder = f"proc/{process}/fdinfo"
    names = tree.names(folder)
    clients: dict[tuple[str, str], Counter[str]] = {}
    for name in names:
        fields = dict(line.split(":", 1) for line in tree.lines(f"{folder}/{name}") if line.startswith("drm-"))
        if bus := fields.get("drm-pdev", "").strip().lower():
            region_bytes = {region: _drm_bytes(fields.get(f"drm-memory-{region}", "")) for region in ("vram", "gtt")}
            client = bus, fields.get("drm-client-id", name)
            clients[client] = Counter({k: v for k, v in region_bytes.items() if v is not None})
    totals: dict[str, Counter[str]] = {}
    for (bus, _), memory in clients.items():
        totals.setdefault(bus, Counter()).update(memory)
    return totals if names else None


def _drm_bytes(text: str) -> int | None:
    """Bytes of a value such as "1234 KiB"; the unit may be missing."""
    number, _, unit = text.strip().partition(" ")
    value = parse_int(number)
    return None if value is None else value * {"KiB": 1 << 10, "MiB": 1 << 20}.get(unit.strip(), 1)


_MEMINFO = {"mem_free": "MemFree", "mem_available": "MemAvailable"}


def _used(node: Mapping[str, int]) -> int | None:
    return node["MemTotal"] - node["MemFree"] if node.keys() >= {"MemTotal", "MemFree"} else None


def _bytes_in_lists(tree: Tree) -> Counter[int]:
    """Bytes of free pages in the lists of the processors (pagesets in /proc/zoneinfo), by NUMA node."""
    by_node: Counter[int] = Counter()
    node, page = 0, os.sysconf("SC_PAGE_SIZE")
    for line in tree.lines("proc/zoneinfo"):
        words = line.split()
        if words[:1] == ["Node"] and len(words) > 1:
            node = parse_int(words[1].rstrip(",")) or 0
        elif words[:1] == ["count:"] and len(words) == 2:
            by_node[node] += (parse_int(words[1]) or 0) * page
    return by_node
