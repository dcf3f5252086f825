"""The memory and CPU limits of this process's control groups, v1 and v2, including those of all parent groups.

Source: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from firsttouch.machine.tree import Facts, Tree, drop_missing, parse_int

_UNLIMITED = 1 << 60
"""cgroup v1 reports 'no limit' as the largest multiple of the page size; no machine has an EiB."""


@dataclass(frozen=True)
class _Files:
    """File names of one version of the interface. inactive: memory.stat's field for cheaply reclaimable pages."""

    limit: str
    used: str
    inactive: str


_MEMORY = {
    1: _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: _Files("memory.max", "memory.current", "inactive_file"),
}


def memory_facts(tree: Tree) -> Facts:
    """cgroup_version, and the limits of the group with the least headroom: cgroup_limit_bytes, cgroup_used_bytes
    (including page cache), cgroup_reclaimable_bytes (inactive page cache) and cgroup_high_bytes (v2: the limit above
    which the kernel throttles). Only the version if there is no limit.
    """
    levels: list[tuple[int, Facts]] = []
    version = None
    for version, folder in _folders(tree, "memory"):
        files = _MEMORY[version]
        limit = _limited(tree.integer(f"{folder}/{files.limit}"))
        high = _limited(tree.integer(f"{folder}/memory.high"))
        used = tree.integer(f"{folder}/{files.used}")
        bounds = [bound for bound in (limit, high) if bound is not None]
        if bounds:
            facts: Facts = {
                "cgroup_limit_bytes": limit,
                "cgroup_high_bytes": high,
                "cgroup_used_bytes": used,
                "cgroup_reclaimable_bytes": _stat(tree, folder, files.inactive),
            }
            levels.append((min(bounds) - (used or 0), drop_missing(facts)))
    tightest = min(levels, key=lambda level: level[0])[1] if levels else {}
    return drop_missing({"cgroup_version": version}) | tightest


def memory_charged(tree: Tree, process: str = "self") -> int | None:
    """Bytes charged to the innermost group of a process that reports its usage, including page cache.

    None if no group does, or if the group of another process lies outside this process's namespace.
    """
    folders = _folders(tree, "memory", process)
    charged = (tree.integer(f"{folder}/{_MEMORY[version].used}") for version, folder in folders)
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


def _folders(tree: Tree, controller: str, process: str = "self") -> Iterator[tuple[int, str]]:
    """(version, folder) of a process's group and of each parent group, innermost first.

    A path that begins with /.. leads out of this process's namespace. Its own limits still are those of the groups
    that are visible; another process's group is not among them.
    """
    paths = {}
    for line in tree.lines(f"proc/{process}/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if process != "self" and PurePosixPath(path).parts[1:2] == ("..",):
            continue
        for name in controllers.split(","):
            paths[name] = path
    for line in tree.lines("proc/self/mountinfo"):
        mount, separator, filesystem = line.partition(" - ")
        fields, described = mount.split(), filesystem.split()
        if not separator or len(fields) < 5 or len(described) < 3:
            continue
        root, point = fields[3], fields[4]
        if described[0] == "cgroup2" and "" in paths:
            version, path = 2, paths[""]
        elif described[0] == "cgroup" and controller in described[2].split(",") and controller in paths:
            version, path = 1, paths[controller]
        else:
            continue
        parts = [part for part in PurePosixPath(_below(path, root)).parts if part not in ("/", "..")]
        folders = ["/".join([point, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
        if version == 1 or any(controller in (tree.text(f"{f}/cgroup.controllers") or "").split() for f in folders):
            yield from ((version, folder) for folder in folders)


def _below(path: str, root: str) -> str:
    """`path` relative to the mounted group. In a container, the mount may begin at the container's own group."""
    return path.removeprefix(root) if root != "/" and path.startswith(root) else path


def _limited(value: int | None) -> int | None:
    return value if value is not None and 0 < value < _UNLIMITED else None


def _stat(tree: Tree, folder: str, field: str) -> int | None:
    for line in tree.lines(f"{folder}/memory.stat"):
        name, _, value = line.partition(" ")
        if name == field:
            return parse_int(value)
    return None
