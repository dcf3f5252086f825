"""One reader of the limits of host memory: the facts of a machine state what the guard respects."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.machine import cgroup, host
from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]

GIB = 2**30
SELF = "proc/self"
FREE = "free memory"


def meminfo(**gib: float) -> dict[str, str]:
    names = {"active": "Active(file)", "inactive": "Inactive(file)"}
    return {"proc/meminfo": "".join(f"{names.get(k, k)}: {int(v * 2**20)} kB\n" for k, v in gib.items())}


AMPLE = meminfo(MemTotal=64, MemFree=60, MemAvailable=60)


def usable(tree: Tree) -> tuple[float, str]:
    """GiB that the guard takes as available, which the facts must repeat, and what limits them."""
    facts, available = host.memory(tree), _core.host_available(str(tree.root))
    assert facts.get("available_to_process_bytes", 0) == available
    return available / GIB, str(facts.get("available_bound", "unknown"))


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        (meminfo(MemTotal=64, MemFree=10, active=8, inactive=4, SReclaimable=2, MemAvailable=21), 21),
        (meminfo(MemTotal=64, MemFree=10, active=8, inactive=4, SReclaimable=2), 17),
        (meminfo(MemTotal=64, MemFree=10, Cached=8, Shmem=2), 13),
        (meminfo(MemTotal=64, MemFree=10, Cached=8), 10),
        (meminfo(MemTotal=64, MemFree=10), 10),
        (meminfo(MemTotal=16, MemFree=10, MemAvailable=40), 16),
        ({"proc/meminfo": "MemTotal: 1048576 kB\nMemFree: 18446744073709551615 kB\nMemAvailable: -1 kB\n"}, 0),
        ({"proc/meminfo": "MemTotal: 1048576 kB\nMemFree: 1024 kB\nMemAvailable: 9223372036854775807 kB\n"}, 1 / 1024),
        ({"proc/meminfo": b"\xff\xfe:\n:::\nMemAvailable:\nMemAvailable: kB\n"}, 0),
        ({"proc/meminfo": ""}, 0),
        ({}, 0),
    ],
)
def test_memory_that_the_kernel_does_not_state_is_not_unlimited(
    make_tree: MakeTree, files: dict[str, str | bytes], gib: float
) -> None:
    found, bound = usable(make_tree(files))
    assert (found, bound) == (gib, FREE if gib else "unknown")


def test_this_machine_without_meminfo_still_has_a_limit() -> None:
    facts = _core.host_memory()
    total, available = facts["total_bytes"], facts["available_bytes"]
    assert isinstance(total, int)
    assert isinstance(available, int)
    assert 0 < available <= total


def v1(mount: str, controllers: str, path: str = "/job", root: str = "/", folder: str = "/job") -> dict[str, str]:
    at, point = mount.lstrip("/") + folder, mount.replace(" ", r"\040")
    return {
        f"{SELF}/mountinfo": f"30 20 0:26 {root} {point} rw - cgroup cgroup rw,{controllers}\n",
        f"{SELF}/cgroup": f"9:cpu:/other\n4:{controllers}:{path}\n",
        f"{at}/memory.limit_in_bytes": str(4 * GIB),
        f"{at}/memory.usage_in_bytes": str(2 * GIB),
        f"{at}/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n",
    }


def v2(mount: str, files: dict[str, str], paths: str = "0::/job\n") -> dict[str, str]:
    at = mount.lstrip("/")
    return {
        f"{SELF}/mountinfo": f"30 20 0:26 / {mount} rw - cgroup2 cgroup2 rw\n",
        f"{SELF}/cgroup": paths,
        f"{at}/cgroup.controllers": "cpu memory",
        f"{at}/job/memory.current": str(2 * GIB),
        f"{at}/job/memory.stat": f"anon 1\ninactive_file {GIB}\n",
    } | {f"{at}/{name}": text for name, text in files.items()}


HYBRID = "1:name=systemd:/job\n0::/job\n"
LAYOUTS = {
    "v2": (v2("/sys/fs/cgroup", {"job/memory.max": str(4 * GIB)}), 3),
    "v2, high alone": (v2("/sys/fs/cgroup", {"job/memory.max": "max", "job/memory.high": str(4 * GIB)}), 3),
    "v2, high below the limit": (
        v2("/sys/fs/cgroup", {"job/memory.max": str(8 * GIB), "job/memory.high": str(4 * GIB)}),
        3,
    ),
    "v2, high of the parent": (
        v2("/sys/fs/cgroup", {"job/memory.max": str(8 * GIB), "memory.high": str(3 * GIB)}),
        3,
    ),
    "v2, unknown use": (
        v2("/sys/fs/cgroup", {"job/memory.max": str(4 * GIB), "job/memory.current": "", "job/memory.stat": ""}),
        4,
    ),
    "v2, elsewhere": (v2("/dev/cgroup", {"job/memory.max": str(4 * GIB)}), 3),
    "hybrid, memory in v2": (v2("/sys/fs/cgroup/unified", {"job/memory.max": str(4 * GIB)}, HYBRID), 3),
    "v1": (v1("/sys/fs/cgroup/memory", "memory"), 3),
    "v1 with cpuset": (v1("/sys/fs/cgroup/cpuset,memory", "cpuset,memory"), 3),
    "v1 elsewhere": (v1("/cgroup/memory", "memory"), 3),
    "v1, a space in the mount point": (v1("/mnt/control groups", "memory"), 3),
    "v1, a container's mount": (
        v1("/sys/fs/cgroup/memory", "memory", path="/docker/12", root="/docker/12", folder=""),
        3,
    ),
    "v1, below a container's mount": (
        v1("/sys/fs/cgroup/memory", "memory", path="/docker/12/job", root="/docker/12"),
        3,
    ),
    "without a list of mounts": (
        {n: t for n, t in v1("/sys/fs/cgroup/memory", "memory").items() if "mountinfo" not in n},
        3,
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_guard_respects_every_group_that_the_facts_state(make_tree: MakeTree, layout: str) -> None:
    files, gib = LAYOUTS[layout]
    tree = make_tree(AMPLE | files)
    available, limit = usable(tree)
    assert available == gib
    assert_states(limit, "control group")
    stated = cgroup.memory_facts(tree)
    bounds = [int(stated[n]) for n in ("cgroup_limit_bytes", "cgroup_high_bytes") if n in stated]  # type: ignore[arg-type]
    taken = int(stated.get("cgroup_used_bytes") or 0) - int(stated.get("cgroup_reclaimable_bytes") or 0)
    assert (min(bounds) - taken) / GIB == gib


def test_a_mount_of_a_group_whose_name_begins_alike_is_another_one(make_tree: MakeTree) -> None:
    files = v1("/sys/fs/cgroup/memory", "memory", path="/docker/123", root="/docker/12", folder="/docker/123")
    assert usable(make_tree(AMPLE | files))[0] == 3


def test_a_group_whose_path_is_not_text(make_tree: MakeTree) -> None:
    tree = make_tree({**AMPLE, **v2("/sys/fs/cgroup", {}), f"{SELF}/cgroup": b"0::/\xff\n"})
    assert cgroup.memory_facts(tree) == {"cgroup_version": 2}
    assert cgroup.memory_charged(tree) is None


COMMITTED = meminfo(MemTotal=64, MemFree=60, MemAvailable=60, CommitLimit=20, Committed_AS=15)
OVERCOMMIT = "proc/sys/vm/overcommit_memory"
LIMITS = "Limit Soft Limit Hard Limit Units\nMax data size {} unlimited bytes\nMax address space {} unlimited bytes\n"
STATM = {f"{SELF}/statm": "{pages} 1 1 1 0 {pages} 0".format(pages=GIB // 4096)}


@pytest.mark.parametrize(
    ("files", "gib", "bound"),
    [
        (COMMITTED | {OVERCOMMIT: "2"}, 5, "vm.overcommit_memory=2"),
        (COMMITTED | {OVERCOMMIT: "0"}, 60, FREE),
        (COMMITTED | {OVERCOMMIT: "1"}, 60, FREE),
        (meminfo(MemAvailable=60, CommitLimit=20, Committed_AS=30) | {OVERCOMMIT: "2"}, 0, "vm.overcommit_memory=2"),
        (meminfo(MemAvailable=60, CommitLimit=20) | {OVERCOMMIT: "2"}, 20, "vm.overcommit_memory=2"),
        (AMPLE | STATM | {f"{SELF}/limits": LIMITS.format("unlimited", 8 * GIB)}, 7, "ulimit -v"),
        (AMPLE | {f"{SELF}/limits": LIMITS.format("unlimited", 8 * GIB)}, 8, "ulimit -v"),
        (AMPLE | STATM | {f"{SELF}/limits": LIMITS.format(4 * GIB, 8 * GIB)}, 3, "ulimit -d"),
        (AMPLE | STATM | {f"{SELF}/limits": LIMITS.format("unlimited", "unlimited")}, 60, FREE),
        (AMPLE | STATM | {f"{SELF}/limits": LIMITS.format("noise", "")}, 60, FREE),
        (COMMITTED | {OVERCOMMIT: "2"} | v2("/sys/fs/cgroup", {"job/memory.max": str(4 * GIB)}), 3, "control group"),
    ],
)
def test_the_least_limit_holds_and_is_named(make_tree: MakeTree, files: dict[str, str], gib: float, bound: str) -> None:
    found, named = usable(make_tree(files))
    assert bound in named
    assert found == pytest.approx(gib, abs=1e-6)
