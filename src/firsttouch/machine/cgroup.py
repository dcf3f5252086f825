"""The memory and CPU limits of this process's control groups, v1 and v2, including those of all parent groups.

The core reads them, for the guard and for these facts (native/device/limits.hpp).
"""

from __future__ import annotations

import os

from firsttouch import _core
from firsttouch.machine.tree import Facts, Tree, parse_int

_CHARGED = {1: "memory.usage_in_bytes", 2: "memory.current"}


def memory_facts(tree: Tree) -> Facts:
    """cgroup_version, and the limits of the group with the least headroom: cgroup_limit_bytes, cgroup_used_bytes
    (including page cache), cgroup_reclaimable_bytes (inactive page cache) and cgroup_high_bytes (v2: the limit above
    which the kernel throttles). Only the version if there is no limit.
    """
    return dict(_core.group_limits(str(tree.root)))


def memory_charged(tree: Tree, process: str = "self") -> int | None:
    """Bytes charged to the innermost group of a process that reports its usage, including page cache.

    None if no group does, or if the group of another process lies outside this process's namespace.
    """
    folders = _folders(tree, "memory", process)
    charged = (tree.integer(f"{folder}/{_CHARGED[version]}") for version, folder in folders)
    return next((value for value in charged if value is not None), None)


def cpu_quota(tree: Tree) -> float | None:
    """The smallest CPU quota of this process's groups, as a number of cores; None without a quota."""
    quotas = []
    for version, folder in _folders(tree, "cpu"):
        if version == 2:
            quota, _, period = (tree.text(f"{folder}/cpu.max") or "").partition(" ")
        else:
            quota = tree.text(f"{folder}/cpu.cfs_quota_us") or ""
            period = tree.text(f"{folder}/cpu.cfs_period_us") or ""
        quota_us, period_us = parse_int(quota), parse_int(period)
        if quota_us is not None and period_us is not None and quota_us > 0 and period_us > 0:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def _folders(tree: Tree, controller: str, process: str = "self") -> list[tuple[int, str]]:
    """(version, folder) of a process's group and of each parent group, innermost first."""
    folders = _core.group_folders(controller, process, str(tree.root))
    return [(version, os.fsdecode(folder)) for version, folder in folders]
