"""The memory of one process, and the counters of its host, as far as reading them takes long.

All sizes are bytes. Each function returns None (or leaves a counter out) if its file is gone, as when the process has
ended, or if this user may not read it. smaps_rollup, numa_maps and smaps walk the page tables of the process under its
memory lock. Sources: proc(5), numa(7), the kernel's Documentation/filesystems/proc.rst and fs/proc/task_mmu.c.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttouch.machine import cgroup, numa
from firsttouch.machine.tree import Tree, parse_int
from firsttouch.profile import schema
from firsttouch.profile.fronts import is_of_front

_TRANSPARENT = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")
_HUGETLB = ("Shared_Hugetlb", "Private_Hugetlb")
_KERNEL_COUNTERS = (
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_pages_migrated",
    "pgmigrate_success",
    "pgmigrate_fail",
    "pgpromote_success",
    "pgdemote_kswapd",
    "pgdemote_direct",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_split_page",
    "thp_split_pmd",
    "pswpin",
    "pswpout",
)
"""Fields of /proc/vmstat: events of the whole machine since it was started, in pages or huge pages."""
_EACH_ONCE = {"AnonPages": "anon_pages", "Mapped": "mapped"}
_ANONYMOUS = "anonymous"
_OTHERS = "others"


@dataclass(frozen=True)
class Rollup:
    """The sums over all mappings of a process, from smaps_rollup. None: this kernel does not state it.

    resident: Rss, without pages of hugetlbfs. pss: the same with each page divided by the number of processes that map
    it. anonymous: the part of resident that belongs to no file. huge: the part of resident that the page tables map as
    transparent huge pages (of anonymous memory, shared memory and files); large folios below that size are not in it.
    hugetlb: pages of hugetlbfs, which are not in resident. swap: pages that were moved out.
    """

    resident: int
    pss: int | None
    anonymous: int | None
    huge: int | None
    hugetlb: int | None
    swap: int | None


def rollup(tree: Tree, pid: int) -> Rollup | None:
    fields = tree.kibibytes(f"proc/{pid}/smaps_rollup")
    if "Rss" not in fields:
        return None
    return Rollup(
        resident=fields["Rss"],
        pss=fields.get("Pss"),
        anonymous=fields.get("Anonymous"),
        huge=_stated_sum(fields, _TRANSPARENT),
        hugetlb=_stated_sum(fields, _HUGETLB),
        swap=fields.get("Swap"),
    )


def pages_on_nodes(tree: Tree, pid: int) -> dict[int, int] | None:
    """Bytes that a process maps on each NUMA node, from numa_maps.

    A page that several processes map is counted in full. Pages of hugetlbfs are included. None also if the kernel does
    not state the page size of a mapping, in which its pages are counted.
    """
    lines = tree.stream(f"proc/{pid}/numa_maps")
    if lines is None:
        return None
    sizes: defaultdict[int, int] = defaultdict(int)
    has_lines = False
    for line in lines:
        has_lines = True
        pages = {}
        page_bytes = None
        for word in line.split()[2:]:
            name, equals, value = word.partition(b"=")
            if not equals:
                continue
            if name == b"kernelpagesize_kB":
                page_bytes = int(value) * 1024 if value.isdigit() else None
            elif name[:1] == b"N" and name[1:].isdigit() and value.isdigit():
                pages[int(name[1:])] = int(value)
        if pages and page_bytes is None:
            return None
        for node, count in pages.items():
            sizes[node] += count * (page_bytes or 0)
    return dict(sorted(sizes.items())) if has_lines else None


@dataclass(frozen=True)
class Look:
    """The mappings of a process by name, the largest resident ones first, then smaller ones that tell by what it uses a
    device; the sum of those beyond the most that were wanted, and the sums over all.

    A name is a file, '[heap]', '[stack]', '[anon:NAME]' (named by prctl(2), PR_SET_VMA), or 'anonymous'. resident
    includes pages of hugetlbfs, which the kernel leaves out of Rss, so that its sum may exceed `Rollup.resident`; huge
    are those and transparent huge pages.
    """

    rows: list[schema.Mapping]
    others: schema.Mapping | None
    sums: Rollup


def mappings(tree: Tree, pid: int, most: int = 40) -> Look | None:
    """What a process has mapped now, from smaps."""
    lines = tree.stream(f"proc/{pid}/smaps")
    if lines is None:
        return None
    named: dict[bytes, list[int]] = {}
    sums = [0] * _COLUMNS
    for line in lines:
        if not 0x41 <= line[0] <= 0x5A:  # the fields of a mapping begin with a capital letter, its address does not
            span, name = _heading(line)
            sums = named.setdefault(name, [0] * _COLUMNS)
            sums[0] += 1
            sums[1] += span
        elif (columns := _SMAPS.get(line[: line.find(b":")])) is not None:
            words = line.split()
            size = int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else 0
            for column in columns:
                sums[column] += size
    if not named:
        return None
    ordered = sorted(named.items(), key=lambda item: (-item[1][2], -item[1][1], item[0]))
    telling = [item for item in ordered[most:] if is_of_front(_text(item[0]))]
    listed = [schema.Mapping(_text(name), *values[:_SHOWN]) for name, values in [*ordered[:most], *telling]]
    rest = [values[:_SHOWN] for name, values in ordered[most:] if not is_of_front(_text(name))]
    others = schema.Mapping(_OTHERS, *(sum(column) for column in zip(*rest, strict=True))) if rest else None
    _, _, resident, huge, pss, anonymous, swap, hugetlb = (sum(column) for column in zip(*named.values(), strict=True))
    return Look(listed, others, Rollup(resident - hugetlb, pss, anonymous, huge - hugetlb, hugetlb, swap))


def host_counters(tree: Tree, pid: int) -> dict[str, int]:
    """Counters of the machine; those that it does not have are left out.

    nodeN_free: MemFree of each NUMA node that has memory. mem_available: MemAvailable. cgroup: what is charged to the
    control group of process `pid`, including page cache. The others are fields of /proc/vmstat, which count since the
    machine was started, by all programs. Of all programs are also anon_pages and mapped: what is resident of memory
    that belongs to no file, and of files and shared memory, each page once.
    """
    counters: dict[str, int] = {}
    for node in numa.nodes(tree):
        memory = numa.node_memory(tree, node)
        if memory.get("MemTotal") and "MemFree" in memory:
            counters[f"{numa.node_name(node)}_free"] = memory["MemFree"]
    meminfo = tree.kibibytes("proc/meminfo")
    sums = {name: meminfo[field] for field, name in _EACH_ONCE.items() if field in meminfo}
    charged = cgroup.memory_charged(tree, str(pid))
    counters |= {
        k: v for k, v in {"mem_available": meminfo.get("MemAvailable"), "cgroup": charged}.items() if v is not None
    }
    counters |= sums
    counted = dict(line.partition(" ")[::2] for line in tree.lines("proc/vmstat"))
    return counters | {name: value for name in _KERNEL_COUNTERS if (value := parse_int(counted.get(name))) is not None}


def nodes(tree: Tree, gpus: Iterable[schema.ProfiledGpu] = ()) -> list[schema.Node]:
    """The NUMA nodes that have memory or processors. gpus: those whose `node` is known give that node their name.

    A node without processors may also be memory on another bus (CXL), so its `gpu` is '' unless a GPU's driver states
    that the node is the GPU's memory.
    """
    owners = {gpu.node: gpu.name for gpu in gpus if gpu.node is not None}
    listed = []
    for number in numa.nodes(tree):
        total = numa.node_memory(tree, number).get("MemTotal")
        processors = bool(numa.node_cores(tree, number))
        if total is not None and (total or processors):
            listed.append(schema.Node(node=number, total=total, processors=processors, gpu=owners.get(number, "")))
    return listed


_SIZE, _RESIDENT, _HUGE, _PSS = 1, 2, 3, 4
_SHOWN, _COLUMNS = 4, 8
"""The columns of a row, and those that are added up besides: Pss, Anonymous, Swap and pages of hugetlbfs."""
_SMAPS: Mapping[bytes, tuple[int, ...]] = {
    b"Rss": (_RESIDENT,),
    b"Pss": (_PSS,),
    b"Anonymous": (_PSS + 1,),
    b"Swap": (_PSS + 2,),
    **{name.encode(): (_HUGE,) for name in _TRANSPARENT},
    **{name.encode(): (_RESIDENT, _HUGE, _PSS + 3) for name in _HUGETLB},
}
"""The columns of a `schema.Mapping` (after its count) that a field of smaps adds to."""


def _heading(line: bytes) -> tuple[int, bytes]:
    """The bytes of address space and the name of a mapping, from the first line of its entry."""
    words = line.rstrip().split(maxsplit=5)
    name = words[5] if len(words) > 5 else _ANONYMOUS.encode()
    try:
        first, last = words[0].split(b"-")
        return int(last, 16) - int(first, 16), name
    except (ValueError, IndexError):
        return 0, name


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _stated_sum(fields: Mapping[str, int], names: Iterable[str]) -> int | None:
    """The sum of the named fields that are there; None if there are none."""
    stated = [fields[name] for name in names if name in fields]
    return sum(stated) if stated else None
