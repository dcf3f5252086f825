"""Copies of /proc and /sys with chosen contents: two machines that nobody has here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firsttouch.machine.tree import Tree

KIB, MIB, GIB = 2**10, 2**20, 2**30


def tree_of(folder: Path, files: Mapping[str, str | bytes]) -> Tree:
    """A Tree with these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Tree(folder)


def node(number: int, total: int, free: int, processors: str) -> dict[str, str]:
    """The files of a NUMA node; sizes in bytes."""
    folder = f"sys/devices/system/node/node{number}"
    return {
        f"{folder}/meminfo": f"Node {number} MemTotal: {total // KIB} kB\nNode {number} MemFree: {free // KIB} kB\n",
        f"{folder}/cpulist": f"{processors}\n",
    }


GRACE_HOPPER: Mapping[str, str] = {
    **node(0, 480 * GIB, 400 * GIB, "0-71"),
    **node(1, 96 * GIB, 90 * GIB, ""),
    **{name: text for n in range(2, 9) for name, text in node(n, 0, 0, "").items()},
    "proc/driver/nvidia/gpus/0009:01:00.0/numa_status": "Node:      1\nStatus:    online\nAddress:   420000000000\n",
    "proc/50/numa_maps": (
        "420000000000 default anon=1024 dirty=1024 active=0 N0=256 N1=768 kernelpagesize_kB=64\n"
        "ffff80000000 default file=/dev/hugepages/a\\040b huge dirty=3 N0=3 kernelpagesize_kB=524288\n"
        "ffffa0000000 default file=/usr/lib/libc.so.6 mapped=16 mapmax=9 N0=16 kernelpagesize_kB=64\n"
        "ffffb0000000 default stack\n"
    ),
    "proc/50/smaps_rollup": (
        "ffff0000-ffffb000 ---p 00000000 00:00 0    [rollup]\n"
        "Rss:    66560 kB\nPss:    65600 kB\nAnonymous:  65536 kB\nAnonHugePages: 0 kB\nSwap:   0 kB\n"
    ),
}
"""Base pages of 64 KiB; node 1 is the GPU's memory, and nodes 2 to 8 are kept for parts of it and have no memory."""

APUS = [f"000{socket}:01:00.0" for socket in range(4)]


def _apu(socket: int) -> dict[str, str]:
    """A socket: node `socket` of the kernel, nodes `socket` (processor) and 4 + `socket` (GPU) of the KFD."""
    topology = "sys/class/kfd/kfd/topology/nodes"
    device = f"sys/bus/pci/devices/{APUS[socket]}"
    return {
        **node(socket, 128 * GIB, (100 + socket) * GIB, f"{24 * socket}-{24 * socket + 23}"),
        f"{topology}/{socket}/properties": "cpu_cores_count 24\nsimd_count 0\n",
        f"{topology}/{4 + socket}/properties": (
            f"simd_count 912\nsimd_per_cu 4\ngfx_target_version 90402\ndomain {socket}\nlocation_id 256\n"
        ),
        f"{topology}/{4 + socket}/io_links/0/properties": f"type 2\nnode_to {socket}\nweight 13\n",
        f"{device}/numa_node": f"{socket}\n",
        f"{device}/vendor": "0x1002\n",
        f"{device}/mem_info_vram_total": f"{128 * GIB}\n",
        f"{device}/mem_info_vram_used": f"{GIB + socket}\n",
        f"{device}/mem_info_gtt_total": f"{64 * GIB}\n",
        f"{device}/mem_info_gtt_used": f"{16 * MIB}\n",
    }


MI300A: Mapping[str, str] = {name: text for socket in range(4) for name, text in _apu(socket).items()}
"""Four APUs: each node has processors and memory, which its GPU shares."""
