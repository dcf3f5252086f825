from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping

from firsttouch.machine import usage
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import DeviceInfo

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]
KIB = 1024
PAGE = os.sysconf("SC_PAGE_SIZE")

HOST = {
    "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 600 kB\nNode 0 MemFree: 100 kB\n",
    "sys/devices/system/node/node0/cpulist": "0-3",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 400 kB\nNode 1 MemFree: 200 kB\n",
    "sys/devices/system/node/node1/cpulist": "",
    "proc/zoneinfo": """Node 0, zone   Normal
  pagesets
    cpu: 0
              count:    2
              high:     9
    cpu: 1
              count:    3
Node 1, zone  Movable
  pagesets
    cpu: 0
              count:    4
""",
}


def test_every_counter_of_the_host_is_in_bytes_in_use(make_tree: MakeTree) -> None:
    assert usage.host_usage(make_tree(HOST)) == {
        "mem_free": 700 * KIB,
        "mem_available": 400 * KIB,
        "node0_free": 500 * KIB,
        "node1_free": 200 * KIB,
        "numa_free": 700 * KIB,
        "numa_free_and_lists": 700 * KIB - 9 * PAGE,
        "host_free_and_lists": 500 * KIB - 5 * PAGE,
    }


def test_a_machine_without_nodes_counts_by_meminfo(make_tree: MakeTree) -> None:
    found = usage.host_usage(make_tree({"proc/meminfo": HOST["proc/meminfo"]}))
    assert found["numa_free"] == found["host_free_and_lists"] == found["mem_free"] == 700 * KIB


def test_the_usage_of_the_process_own_control_group(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/user/job\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/cgroup.controllers": "memory",
            "sys/fs/cgroup/user/memory.current": "9000",
            "sys/fs/cgroup/user/job/memory.current": "5000",
        }
    )
    assert usage.host_usage(tree)["cgroup"] == 5000


def test_an_empty_tree_has_no_process_counters(make_tree: MakeTree) -> None:
    assert usage.process_usage(make_tree({})) == {}
    assert "cgroup" not in usage.host_usage(make_tree({}))


BUS = "0000:c1:00.0"
AMD = {
    f"sys/bus/pci/devices/{BUS}/mem_info_vram_used": "900\n",
    f"sys/bus/pci/devices/{BUS}/mem_info_gtt_used": "70\n",
    "proc/self/fdinfo/3": f"pos: 0\ndrm-driver: amdgpu\ndrm-pdev: {BUS}\ndrm-client-id: 5\n"
    "drm-memory-vram: 4 KiB\ndrm-memory-gtt: 2 KiB\n",
    "proc/self/fdinfo/4": f"drm-pdev: {BUS}\ndrm-client-id: 5\ndrm-memory-vram: 4 KiB\ndrm-memory-gtt: 2 KiB\n",
    "proc/self/fdinfo/5": f"drm-pdev: {BUS}\ndrm-client-id: 6\ndrm-memory-vram: 1 MiB\n",
    "proc/self/fdinfo/6": "drm-pdev: 0000:c2:00.0\ndrm-client-id: 7\ndrm-memory-vram: 8 KiB\n",
    "proc/self/fdinfo/7": "pos: 0\nflags: 02\n",
}


def test_an_amd_gpus_memory_in_use_by_the_kernels_counters(make_tree: MakeTree) -> None:
    of_process = {"process_vram": 4 * KIB + 2**20, "process_gtt": 2 * KIB}
    tree = make_tree(AMD)
    assert usage.kernel_usage(tree, BUS.upper(), shared=False) == {"vendor_used": 900, **of_process}
    assert usage.kernel_usage(tree, BUS, shared=True) == {"vendor_used": 970, **of_process}, "an APU allocates in GTT"
    assert usage.kernel_usage(tree, "0000:c3:00.0", shared=False) == {}
    assert usage.kernel_usage(make_tree({}), "", shared=True) == {}


def test_the_kernels_counters_are_used_where_no_management_library_answers(make_tree: MakeTree) -> None:
    gpu = DeviceInfo(name="x:0", kind="x", title="a GPU", facts={"pci_bus": BUS})
    silent, answering = FakeDevice({}), FakeDevice({"used_bytes": 5, "free_bytes": 2, "total_bytes": 8})
    assert usage.vendor_usage(silent, gpu, make_tree(AMD))["vendor_used"] == 900
    assert usage.vendor_usage(answering, gpu, make_tree(AMD)) == {"vendor_used": 5, "vendor_free": 6}


class FakeDevice:
    def __init__(self, answer: dict[str, int]) -> None:
        self.answer = answer

    def usage(self) -> dict[str, int]:
        return self.answer


def test_touched_pages_are_counted_in_this_process() -> None:
    size = 64 * 2**20
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        before = usage.process_usage(Tree())
        for at in range(0, size, PAGE):
            block[at] = 1
        after = usage.process_usage(Tree())
    for name in ("rss", "rollup_rss", "pss"):
        if name in before:
            assert 0.9 * size < after[name] - before[name] < 1.2 * size, name
