from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from firsttouch.machine import cgroup
from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]

GIB = 2**30
V2 = "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
V1 = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
UNLIMITED_V1 = "9223372036854771712"


def test_v2_uses_the_group_with_the_least_headroom(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/user/job/step\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory",
            "sys/fs/cgroup/user/memory.max": str(64 * GIB),
            "sys/fs/cgroup/user/memory.current": str(1 * GIB),
            "sys/fs/cgroup/user/job/memory.max": str(8 * GIB),
            "sys/fs/cgroup/user/job/memory.high": str(6 * GIB),
            "sys/fs/cgroup/user/job/memory.current": str(3 * GIB),
            "sys/fs/cgroup/user/job/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            "sys/fs/cgroup/user/job/cpu.max": "150000 100000",
            "sys/fs/cgroup/user/job/step/memory.max": "max",
            "sys/fs/cgroup/user/job/step/cpu.max": "max 100000",
        }
    )
    assert cgroup.memory_facts(tree) == {
        "cgroup_version": 2,
        "cgroup_limit_bytes": 8 * GIB,
        "cgroup_high_bytes": 6 * GIB,
        "cgroup_used_bytes": 3 * GIB,
        "cgroup_reclaimable_bytes": GIB,
    }
    assert cgroup.cpu_quota(tree) == 1.5


def test_v2_high_alone_is_a_limit(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cgroup.controllers": "memory",
            "sys/fs/cgroup/memory.max": "max",
            "sys/fs/cgroup/memory.high": str(GIB),
        }
    )
    assert cgroup.memory_facts(tree) == {"cgroup_version": 2, "cgroup_high_bytes": GIB}


def test_v1_with_an_empty_v2_hierarchy(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n",
            "proc/self/mountinfo": V1,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1,
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(4 * GIB),
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": str(GIB),
            "sys/fs/cgroup/memory/a/memory.stat": "inactive_file 5\ntotal_inactive_file 7\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": UNLIMITED_V1,
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        }
    )
    assert cgroup.memory_facts(tree) == {
        "cgroup_version": 1,
        "cgroup_limit_bytes": 4 * GIB,
        "cgroup_used_bytes": GIB,
        "cgroup_reclaimable_bytes": 7,
    }
    assert cgroup.cpu_quota(tree) == 2.0


def test_a_container_whose_mount_begins_at_its_own_group(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "4:memory:/docker/0123\n",
            "proc/self/mountinfo": "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(2 * GIB),
        }
    )
    assert cgroup.memory_facts(tree)["cgroup_limit_bytes"] == 2 * GIB


def test_a_group_outside_the_namespace_does_not_lead_out_of_the_mount(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/../../other",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cgroup.controllers": "memory cpu",
            "sys/fs/cgroup/memory.max": str(GIB),
            "sys/memory.max": "1",
        }
    )
    assert cgroup.memory_facts(tree)["cgroup_limit_bytes"] == GIB


@pytest.mark.parametrize("limit", ["", "garbage", "-5", "0", "9" * 40, "max"])
def test_a_malformed_limit_is_ignored(make_tree: MakeTree, limit: str) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/\nnonsense\n::::",
            "proc/self/mountinfo": V2 + "short\n1 2 - \n",
            "sys/fs/cgroup/cgroup.controllers": "memory cpu",
            "sys/fs/cgroup/memory.max": limit,
            "sys/fs/cgroup/cpu.max": limit,
        }
    )
    assert cgroup.memory_facts(tree) == {"cgroup_version": 2}
    assert cgroup.cpu_quota(tree) is None


def test_without_control_groups(make_tree: MakeTree) -> None:
    assert cgroup.memory_facts(make_tree({})) == {}


def test_the_usage_of_another_process_own_group(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/user\n",
            "proc/self/mountinfo": V2,
            "proc/7/cgroup": "0::/user/job\n",
            "proc/8/cgroup": "0::/../outside\n",
            "sys/fs/cgroup/cgroup.controllers": "memory",
            "sys/fs/cgroup/user/memory.current": "9000",
            "sys/fs/cgroup/user/job/memory.current": "5000",
            "sys/fs/cgroup/memory.current": "1",
        }
    )
    assert cgroup.memory_charged(tree) == 9000
    assert cgroup.memory_charged(tree, "7") == 5000
    assert cgroup.memory_charged(tree, "8") is None, "its group is not visible in this namespace"
    assert cgroup.memory_charged(tree, "9") is None
