from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping

import pytest

from firsttouch.machine import host, numa
from firsttouch.machine.facts import host_topics
from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def grace_hopper() -> dict[str, str | bytes]:
    """Grace Hopper: node 0 with two cores and the CPU's memory, node 1 with the GPU's memory and no CPU."""
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd atomics sve sve2 i8mm bf16\n"
        "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
        "proc/meminfo": "MemTotal: 501000000 kB\nMemFree: 400000000 kB\nMemAvailable: 450000000 kB\n"
        "SwapTotal: 1024 kB\nSwapFree: 24 kB\nHugepagesize: 524288 kB\nHugePages_Total: 4\n",
        "proc/sys/kernel/osrelease": "6.8.0-64k",
        "proc/sys/kernel/numa_balancing": "1",
        f"{CPU}/online": "0-1",
        f"{CPU}/smt/control": "notimplemented",
        f"{NODE}/node0/meminfo": "Node 0 MemTotal: 400000000 kB\nNode 0 MemFree: 390000000 kB\n",
        f"{NODE}/node0/cpulist": "0-1\n",
        f"{NODE}/node0/distance": "10 80",
        f"{NODE}/node1/meminfo": "Node 1 MemTotal: 100000000 kB\nNode 1 MemFree: 99000000 kB\n",
        f"{NODE}/node1/cpulist": "\n",
        f"{NODE}/node1/distance": "80 10",
        f"{NODE}/node2/cpulist": "\n",
        f"{NODE}/nodes": "noise",
    }
    for cpu in (0, 1):
        files |= {
            f"{CPU}/cpu{cpu}/topology/physical_package_id": "0",
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": str(cpu),
            f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "3438000",
            f"{CPU}/cpu{cpu}/cpufreq/scaling_governor": "powersave",
        }
        levels = [
            ("1", "Data", "64K", str(cpu)),
            ("1", "Instruction", "64K", str(cpu)),
            ("2", "Unified", "1024K", str(cpu)),
        ]
        for i, (level, kind, size, shared) in enumerate([*levels, ("3", "Unified", "116736K", "0-71")]):
            folder = f"{CPU}/cpu{cpu}/cache/index{i}"
            files |= {
                f"{folder}/level": level,
                f"{folder}/type": kind,
                f"{folder}/size": size,
                f"{folder}/shared_cpu_list": shared,
                f"{folder}/coherency_line_size": "64",
            }
    return files


def test_grace_hopper_cpu(make_tree: MakeTree) -> None:
    facts = host.cpu(make_tree(grace_hopper()), [0, 1])
    assert facts == {
        "model": "Neoverse V2",
        "vendor": "Arm",
        "cores_usable": 2,
        "cores_usable_list": "0-1",
        "cores_online": 2,
        "sockets": 1,
        "threads_per_core": 1,
        "smt": "notimplemented",
        "max_mhz": 3438.0,
        "governor": "powersave",
        "isa": "asimd sve sve2 atomics bf16 i8mm",
        "l1_bytes": 65536,
        "l1i_bytes": 65536,
        "l2_bytes": 2**20,
        "l3_bytes": 114 * 2**20,
        "l1_instances": 2,
        "l2_instances": 2,
        "l3_instances": 1,
        "line_bytes": 64,
    }


def test_grace_hopper_nodes(make_tree: MakeTree) -> None:
    facts = numa.facts(make_tree(grace_hopper()))
    assert facts["nodes"] == 3
    assert facts["memory_only_nodes"] == "1"
    assert facts["balancing"] is True
    assert facts["node0_total_bytes"] == 400000000 * 1024
    assert facts["node1_free_bytes"] == 99000000 * 1024
    assert facts["node1_distances"] == "80 10"
    assert "node1_cpus" not in facts
    assert "node2_total_bytes" not in facts


def test_memory(make_tree: MakeTree) -> None:
    facts = host.memory(make_tree(grace_hopper()))
    assert facts["total_bytes"] == 501000000 * 1024
    assert facts["swap_used_bytes"] == 1000 * 1024
    assert "overcommit" not in facts


def test_huge_pages(make_tree: MakeTree) -> None:
    thp, pools = "sys/kernel/mm/transparent_hugepage", "sys/kernel/mm/hugepages"
    facts = host.huge_pages(
        make_tree(
            {
                f"{thp}/enabled": "always madvise [never]",
                f"{thp}/defrag": "always defer defer+madvise [madvise] never",
                f"{thp}/hpage_pmd_size": "536870912",
                f"{thp}/use_zero_page": "1",
                f"{thp}/hugepages-64kB/enabled": "always [inherit] madvise never",
                f"{pools}/hugepages-2048kB/nr_hugepages": "16",
                f"{pools}/hugepages-2048kB/free_hugepages": "12",
                f"{pools}/hugepages-1048576kB/nr_hugepages": "garbage",
                f"{pools}/hugepages-xkB/nr_hugepages": "1",
            }
        )
    )
    assert facts == {
        "thp_enabled": "never",
        "thp_defrag": "madvise",
        "thp_bytes": 2**29,
        "thp_zero_page": True,
        "thp_64KiB": "inherit",
        "pool_2MiB": 16,
        "pool_2MiB_free": 12,
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/cmdline": "quiet init_on_alloc=1"}, True),
        ({"proc/cmdline": "init_on_alloc=0", "proc/config.gz": b"x"}, False),
        ({"proc/config.gz": gzip.compress(b"CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n")}, True),
        ({"proc/config.gz": gzip.compress(b"# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set\n")}, False),
        ({"proc/sys/kernel/osrelease": "6.1", "boot/config-6.1": "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y"}, True),
        ({"proc/config.gz": b"not gzip"}, None),
        ({"proc/config.gz": gzip.compress(b"CONFIG" * 99)[:20]}, None),
        ({}, None),
    ],
)
def test_init_on_alloc(make_tree: MakeTree, files: dict[str, str | bytes], expected: bool | None) -> None:
    assert host.memory(make_tree(files)).get("init_on_alloc") is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"}, "gVisor"),
        ({"proc/sys/kernel/osrelease": "5.15.0-microsoft-standard-WSL2"}, "WSL"),
        ({"proc/cpuinfo": "flags : fpu hypervisor", "sys/class/dmi/id/sys_vendor": "QEMU"}, "QEMU"),
        ({"proc/cpuinfo": "flags : fpu hypervisor"}, "unnamed hypervisor"),
        ({"proc/cpuinfo": "flags : fpu", "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, None),
        ({"proc/cpuinfo": "Features : asimd", "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "Amazon EC2"),
        ({"proc/cpuinfo": "flags : fpu", "sys/class/dmi/id/sys_vendor": "Dell Inc."}, None),
    ],
)
def test_virtualisation(make_tree: MakeTree, files: dict[str, str | bytes], expected: str | None) -> None:
    assert host.kernel(make_tree(files), {}).get("virtualisation") == expected


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"proc/self/cgroup": "0::/kubepods/burstable/pod1"}, {}, "kubepods"),
        ({}, {"container": "podman"}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({}, {}, None),
    ],
)
def test_container(
    make_tree: MakeTree, files: dict[str, str | bytes], environment: dict[str, str], expected: str | None
) -> None:
    assert host.kernel(make_tree(files), environment).get("container") == expected


def test_nvidia_module(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  x\n",
            "sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "N",
            "sys/module/nvidia_uvm/parameters/uvm_perf_prefetch_enable": "1",
            "sys/module/nvidia_uvm/parameters/uvm_perf_thrashing_enable": "",
        }
    )
    assert host.nvidia(tree) == {"kernel_module": "580.95.05", "open_kernel_module": True}
    assert host.nvidia_uvm(tree) == {"uvm_disable_hmm": "N", "uvm_perf_prefetch_enable": 1}


def test_the_environment_has_relevant_variables_and_no_secrets() -> None:
    environment = {
        "HSA_XNACK": "1",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "OCL_ICD_VENDORS": "/etc",
        "FIRSTTOUCH_MAX_HOST": "1GiB",
        "CUDA_VISIBLE_DEVICES": "bad\udcff",
        "CUDA_API_TOKEN": "no",
        "HOME": "/root",
        "XCUDA_X": "no",
    }
    facts = host.memory_environment(environment)
    assert list(facts) == [
        *("CUDA_VISIBLE_DEVICES", "FIRSTTOUCH_MAX_HOST", "GLIBC_TUNABLES", "HSA_XNACK", "OCL_ICD_VENDORS"),
    ]
    assert facts["CUDA_VISIBLE_DEVICES"] == "bad?"


def test_an_empty_tree_has_few_facts_and_raises_no_error(make_tree: MakeTree) -> None:
    topics = host_topics(make_tree({}), {}, [])
    assert "numa" not in topics
    assert "memory" not in topics
    assert topics["cpu"] == {"cores_usable": 0, "cores_usable_list": ""}


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff\xfe\x00", b"-1", b"[" * 100, b"9" * 30, b"a: b\n: \n\n:", "٣٤".encode()]
)
def test_malformed_files_raise_no_error(make_tree: MakeTree, garbage: bytes) -> None:
    names = [
        *grace_hopper(),
        *("proc/loadavg", "proc/self/cgroup", "proc/self/mountinfo", "proc/cmdline", "proc/config.gz"),
        *("sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
        *("etc/os-release", "proc/driver/nvidia/version", "sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
    ]
    host_topics(make_tree(dict.fromkeys(names, garbage)), {}, [0, 1])


def test_this_machine() -> None:
    topics = host_topics(Tree(), os.environ, host.usable_cores())
    assert topics["cpu"]["cores_usable"] == len(os.sched_getaffinity(0))
    assert isinstance(topics["memory"]["total_bytes"], int)
    assert topics["memory"]["total_bytes"] > 2**28
    assert topics["memory"]["page_bytes"] == os.sysconf("SC_PAGE_SIZE")
    assert topics["limits"]["root"] is (os.geteuid() == 0)
    assert "software" in topics


ALL = "000001ffffffffff"
DOCKER = "00000000a80425fb"  # what Docker gives to root


@pytest.mark.parametrize(
    ("status", "users", "locks", "administers"),
    [
        (f"CapPrm:\t{ALL}\nCapEff:\t{ALL}\n", "         0          0 4294967295\n", True, True),
        (f"CapEff:\t{ALL}\n", None, True, True),
        (f"CapPrm:\t{ALL}\nCapEff:\t{DOCKER}\n", "0 0 4294967295", False, False),
        (f"CapEff:\t{ALL}\n", "0 1000 1\n", False, False),  # root of a user namespace: rootless containers
        (f"CapEff:\t{ALL}\n", "0 1000 1\n1 100000 65536\n", False, False),
        ("CapEff:\t0000000000004000\n", "0 0 4294967295", True, False),  # a user with one capability
        ("CapEff:\t0\n", "0 0 4294967295", False, False),
        ("CapEff:\t-1\n", "0 0 4294967295", False, False),
        ("CapEff:\n", "", False, False),
        ("", None, False, False),
    ],
)
def test_capabilities_are_not_those_of_the_user_number(
    make_tree: MakeTree, status: str, users: str | None, locks: bool, administers: bool
) -> None:
    tree = make_tree({"proc/self/status": status} | ({} if users is None else {"proc/self/uid_map": users}))
    assert host.has_capability(tree, host.CAP_IPC_LOCK) is locks
    assert host.has_capability(tree, host.CAP_SYS_ADMIN) is administers
    assert host.limits(tree)["memlock_exempt"] is locks


@pytest.mark.parametrize(
    ("status", "denied"),
    [("THP_enabled:\t0\n", True), ("Name:\tx\nTHP_enabled:\t1\n", None), ("THP_enabled:\n", None), ("", None)],
)
def test_huge_pages_that_are_off_for_this_process_alone(make_tree: MakeTree, status: str, denied: bool | None) -> None:
    thp = {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never", "proc/self/status": status}
    assert host.huge_pages(make_tree(thp)).get("thp_denied") is denied
