"""Warnings about settings and conditions of this machine that may distort measurements. None of them is changed.

Each is a full sentence; those that change what is measured also have a few words for a list of conditions.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from firsttouch.base.units import format_number, format_seconds, format_size
from firsttouch.machine.caches import effective_cache_bytes
from firsttouch.machine.nvidia import Topics, gpu_topics
from firsttouch.machine.tree import format_ids
from firsttouch.records.schema import BUSY, Scalar, as_number

_FEW_CORES = 4
_SMALL_MEMLOCK = 64 * 2**20
_LITTLE_MEMORY = 2 * 2**30
_BUSY_PERCENT = 5
_SLOW_CLOCKS = (
    "hpet",
    "acpi_pm",
    "pit",
    "jiffies",
    "refined-jiffies",
    "xen",
    "hyperv_clocksource_msr",
    "arch_mem_counter",
)
"""Clock sources that cannot be read without a call into the kernel, or (xen) often are not. Source: drivers/clocksource
and arch/*/vdso of Linux.
"""
_TIMES_FRESH = 4.0
"""If the first touch of fresh memory takes this many times as long as that of memory used before, the host hands it out
only then.
"""
_PAIR_OF_CORES = 1.75
"""Two processors that do less than this many times the work of one, both at once, share a core."""
_NUMBER, _DETAIL = re.compile(r"\d[\d.,]*(?: [KMGT]iB)?"), re.compile(r" \(.*\)")
_GPU_NAME, _FEW_GPUS = re.compile(r"gpu(\d+)\b"), 2
ZRAM = "zram"
"""The value of the fact swap_on where all swap is compressed memory."""
_FREE_MEMORY = "free memory"
"""The bound that is not worth a word: no limit below the memory that is free."""


class _FactLookup:
    """fact('cpu', 'governor') returns the fact or None; fact.number() returns 0 if it is absent or not a number."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def __call__(self, topic: str, key: str) -> Scalar:
        return self.topics.get(topic, {}).get(key)

    def number(self, topic: str, key: str) -> float:
        return as_number(self(topic, key)) or 0


def _nodes_total(fact: _FactLookup) -> float:
    return sum(fact.number("numa", f"node{n}_total_bytes") for n in range(int(fact.number("numa", "nodes"))))


def _memory_is_added_later(fact: _FactLookup) -> bool:
    nodes, total = _nodes_total(fact), fact.number("memory", "total_bytes")
    return nodes > 0 and total > 0 and abs(nodes - total) > 0.1 * total


def _fresh_is_dear(fact: _FactLookup) -> bool:
    """True if the first touch of fresh memory was measured and took far longer than that of memory used before. On
    hardware, other causes (compaction for huge pages) may do that.
    """
    again = fact.number("memory", "touch_again_ns")
    dear = fact.number("memory", "touch_fresh_ns") > _TIMES_FRESH * again > 0
    return dear and fact("kernel", "virtualisation") is not None


def _how_memory_comes(fact: _FactLookup) -> str:
    """The sign that the hypervisor allocates memory on first use, as a clause; '' without one."""
    if _fresh_is_dear(fact):
        fresh, again = (format_seconds(fact.number("memory", f"touch_{name}_ns") * 1e-9) for name in ("fresh", "again"))
        return f"The first touch of a fresh page took {fresh}, that of a page that was used before {again}"
    if fact("memory", "free_pages_reported"):
        return "The kernel reports free pages to the host, which takes them away (virtio_balloon)"
    if _memory_is_added_later(fact):
        return (
            f"The NUMA nodes add up to {format_size(_nodes_total(fact))} while the kernel reports "
            f"{format_size(fact.number('memory', 'total_bytes'))}"
        )
    return ""


def _swap_cost(fact: _FactLookup) -> str:
    on = fact("memory", "swap_on")
    return "be packed and unpacked again in memory (zram)" if on == ZRAM else "come back from disk"


def _malloc_variables(fact: _FactLookup) -> list[str]:
    """The names of variables that change what malloc does, with the library's name if it is replaced."""
    variables = fact.topics.get("environment", {})
    names = [
        name
        for name, value in variables.items()
        if value and (name.startswith("MALLOC_") or (name == "GLIBC_TUNABLES" and "glibc.malloc" in str(value)))
    ]
    preloaded = str(variables.get("LD_PRELOAD") or "").replace(":", " ").split()
    theirs = (name for name in map(os.path.basename, preloaded) if not name.startswith("libfirsttouch_"))
    libraries = ", ".join(theirs)
    return [*names, *([f"LD_PRELOAD ({libraries})"] if libraries else [])]


def _load(fact: _FactLookup) -> str:
    """What says that other programs were running when the facts were collected, as a clause; '' if they were not."""
    used = as_number(fact("cpu", "others_percent"))
    if used is not None:
        return f"Other programs used {format_number(used, 2)} % of the processors" if used > 100 * BUSY else ""
    if fact.number("cpu", "load_1min") > 0.5 * max(fact.number("cpu", "cores_usable"), 1):
        return f"The load average was {fact.number('cpu', 'load_1min'):g} on {fact('cpu', 'cores_usable')} usable cores"
    return ""


def _last_cache_bytes(fact: _FactLookup) -> int:
    return int(fact.number("cpu", "infinity_cache_bytes") or fact.number("cpu", "l3_bytes"))


def _effective_cache_bytes(fact: _FactLookup) -> int:
    return effective_cache_bytes(_last_cache_bytes(fact), int(fact.number("cpu", "cores_usable")))


def _available(fact: _FactLookup) -> float:
    """Bytes that this process may use; infinite if they are unknown."""
    stated = (as_number(fact("memory", name)) for name in ("available_to_process_bytes", "available_bytes"))
    return min((value for value in stated if value is not None), default=math.inf)


def _what_limits_memory(fact: _FactLookup) -> str:
    bound = fact("memory", "available_bound")
    return "" if bound in (None, _FREE_MEMORY) else f" ({bound})"


class _HostCondition(NamedTuple):
    """holds: whether the condition holds. sentence: says what follows. words: name it in a list of what distorts the
    values; '' if it only decides what can be measured.
    """

    holds: Callable[[_FactLookup], object]
    sentence: Callable[[_FactLookup], str]
    words: Callable[[_FactLookup], str] = lambda fact: ""


class _GpuCondition(NamedTuple):
    """As _HostCondition, of one GPU."""

    holds: Callable[[_FactLookup, str], object]
    sentence: Callable[[_FactLookup, str], str]
    words: Callable[[_FactLookup, str], str] = lambda fact, gpu: ""


_HOST: Sequence[_HostCondition] = (
    _HostCondition(
        lambda fact: 0 < fact.number("cpu", "cores_usable") < _FEW_CORES,
        lambda fact: (
            f"Usable CPU cores: {fact('cpu', 'cores_usable')}. Host bandwidth and contention "
            "figures are not those of a whole processor, and the measuring process shares them with everything else."
        ),
        lambda fact: f"{fact('cpu', 'cores_usable')} usable CPU cores",
    ),
    _HostCondition(
        lambda fact: fact("cpu", "core_kinds"),
        lambda fact: (
            f"The CPU's cores differ ({fact('cpu', 'core_kinds')}): threads take cores by number, a result of few "
            "threads is that of the cores it ran on, and all threads wait for the slowest. Measure one kind with "
            f"`taskset -c {str(fact('cpu', 'core_kinds')).partition(':')[0]} firsttouch run`."
        ),
        lambda fact: "CPU cores of several kinds",
    ),
    _HostCondition(
        lambda fact: _last_cache_bytes(fact) > _effective_cache_bytes(fact),
        lambda fact: (
            f"The kernel reports a last-level cache of {format_size(_last_cache_bytes(fact))} and "
            f"{fact('cpu', 'cores_usable')} CPU cores are usable. Buffers are sized for "
            f"{format_size(_effective_cache_bytes(fact))} of it to keep the run short; host results labelled memory "
            "may include cache hits. --set size=... selects larger buffers."
        ),
    ),
    _HostCondition(
        lambda fact: fact("kernel", "virtualisation"),
        lambda fact: (
            f"This is a virtual machine ({fact('kernel', 'virtualisation')}): page faults, timers and "
            "interrupts pass through a hypervisor, and neighbours may share caches and memory bandwidth."
        ),
        lambda fact: "a virtual machine",
    ),
    _HostCondition(
        lambda fact: 0 < fact.number("cpu", "pair_speedup") < _PAIR_OF_CORES and not _load(fact),
        lambda fact: (
            f"Two of the virtual machine's processors do only {fact.number('cpu', 'pair_speedup'):g} times the work of "
            "one: they share a core of the host, at least for now. Results of several threads are those of one core: "
            "bandwidth is lower, and contention costs less, than on two."
        ),
        lambda fact: "processors that share a core of the host",
    ),
    _HostCondition(
        lambda fact: fact("kernel", "clock_source") in _SLOW_CLOCKS,
        lambda fact: (
            f"The kernel's clock source is '{fact('kernel', 'clock_source')}': each reading of the clock is a call "
            "into the kernel of up to a microsecond, which short operations include. `dmesg | grep -i clocksource` "
            "tells why."
        ),
        lambda fact: f"clock source '{fact('kernel', 'clock_source')}'",
    ),
    _HostCondition(
        _how_memory_comes,
        lambda fact: (
            f"{_how_memory_comes(fact)}: the hypervisor seems to allocate this machine's memory on first use, so first "
            "touches cost more here than on bare metal."
        ),
        lambda fact: (
            "memory that the hypervisor allocates on first use (a first touch may take longer than on bare metal)"
        ),
    ),
    _HostCondition(
        lambda fact: fact("huge_pages", "thp_enabled") == "never",
        lambda fact: (
            "Transparent huge pages are off (enabled is 'never'): malloc-thp gets base pages, and large "
            "buffers cost more faults and TLB misses than with huge pages."
        ),
        lambda fact: "transparent huge pages off",
    ),
    _HostCondition(
        lambda fact: fact("huge_pages", "thp_denied"),
        lambda fact: (
            "Transparent huge pages are switched off for this process by a program that started it "
            "(PR_SET_THP_DISABLE): large buffers cost more faults and TLB misses than with huge pages. Start it from a "
            "shell or service without that setting."
        ),
        lambda fact: "huge pages denied to the process",
    ),
    _HostCondition(
        lambda fact: fact("cpu", "governor") not in (None, "performance"),
        lambda fact: f"The CPU frequency governor is '{fact('cpu', 'governor')}': clocks may change while measuring.",
        lambda fact: f"frequency governor '{fact('cpu', 'governor')}'",
    ),
    _HostCondition(
        lambda fact: (
            0 <= fact.number("limits", "memlock_bytes") < _SMALL_MEMLOCK
            and isinstance(fact("limits", "memlock_bytes"), int)
            and not fact("limits", "memlock_exempt")
        ),
        lambda fact: (
            f"Only {format_size(fact.number('limits', 'memlock_bytes'))} of memory may be locked "
            "(ulimit -l): registering or pinning more host memory may fail."
            + (" This root has no CAP_IPC_LOCK, so the limit holds for it too." if fact("limits", "root") else "")
        ),
        lambda fact: f"{format_size(fact.number('limits', 'memlock_bytes'))} of memory that may be locked",
    ),
    _HostCondition(
        lambda fact: fact.number("memory", "swap_used_bytes") > 0,
        lambda fact: (
            f"{format_size(fact.number('memory', 'swap_used_bytes'))} of swap are in use: pages may {_swap_cost(fact)} "
            "while measuring."
        ),
        lambda fact: f"swap in use{' (zram)' if fact('memory', 'swap_on') == ZRAM else ''}",
    ),
    _HostCondition(
        lambda fact: (
            fact("limits", "cpu_quota_cores") is not None
            and fact.number("limits", "cpu_quota_cores") < fact.number("cpu", "cores_usable")
        ),
        lambda fact: (
            f"A control group allows {fact.number('limits', 'cpu_quota_cores'):g} cores' worth of CPU time "
            f"on {fact('cpu', 'cores_usable')} cores: threads are stopped when it is used up."
        ),
        lambda fact: f"a quota of {fact.number('limits', 'cpu_quota_cores'):g} cores",
    ),
    _HostCondition(
        lambda fact: fact("numa", "balancing") and fact.number("numa", "nodes") > 1,
        lambda fact: "Automatic NUMA balancing is on: the kernel unmaps and moves pages while they are measured.",
        lambda fact: "automatic NUMA balancing",
    ),
    _HostCondition(
        lambda fact: fact("memory", "init_on_alloc"),
        lambda fact: (
            "The kernel clears every page that it hands out (init_on_alloc): allocation and first touch "
            "cost more than on kernels without it."
        ),
        lambda fact: "pages cleared on allocation (init_on_alloc)",
    ),
    _HostCondition(
        lambda fact: fact("memory", "ksm"),
        lambda fact: "Kernel same-page merging runs: identical pages may be merged and split again on writing.",
        lambda fact: "same-page merging",
    ),
    _HostCondition(
        lambda fact: _available(fact) < _LITTLE_MEMORY,
        lambda fact: (
            f"Only {format_size(_available(fact))} of memory are available{_what_limits_memory(fact)}: large "
            "points will be skipped."
        ),
    ),
    _HostCondition(
        _load,
        lambda fact: f"{_load(fact)}: other programs were running when this began.",
        lambda fact: f"load at the start ({_load(fact)[:1].lower()}{_load(fact)[1:]})",
    ),
    _HostCondition(
        lambda fact: fact("limits", "pinning_refused"),
        lambda fact: (
            f"Threads cannot be bound to processors ({fact('limits', 'pinning_refused')}): they move between cores and "
            "NUMA nodes while they measure."
        ),
        lambda fact: "threads that cannot be bound to processors",
    ),
    _HostCondition(
        _malloc_variables,
        lambda fact: (
            f"The environment sets {' and '.join(_malloc_variables(fact))}: malloc is not the C library's with its "
            "usual settings, and allocations and first touches may differ. `env -u NAME` removes a variable."
        ),
        lambda fact: f"{' and '.join(_malloc_variables(fact))} set",
    ),
    _HostCondition(
        lambda fact: (
            fact("nvidia_uvm", "uvm_disable_hmm") in (True, 1, "Y")
            and not any(fact(f"gpu{n}", "addressing_mode") == "ATS" for n in range(int(fact.number("nvidia", "gpus"))))
        ),
        lambda fact: (
            "The NVIDIA driver was loaded with HMM disabled (uvm_disable_hmm): GPUs can't reach malloc memory."
        ),
    ),
)

_GPU: Sequence[_GpuCondition] = (
    _GpuCondition(
        lambda fact, gpu: fact.number(gpu, "busy_percent") > _BUSY_PERCENT or fact.number(gpu, "processes") > 0,
        lambda fact, gpu: (
            f"{gpu} is in use: {fact.number(gpu, 'processes'):g} process(es), "
            f"{fact.number(gpu, 'busy_percent'):g} % busy."
        ),
        lambda fact, gpu: f"{gpu} in use by others at the start",
    ),
    _GpuCondition(
        lambda fact, gpu: fact(gpu, "persistence") is False,
        lambda fact, gpu: (
            f"{gpu} has persistence mode off: the driver may unload between processes, and creating a "
            "context then costs seconds more."
        ),
        lambda fact, gpu: f"{gpu} without persistence mode",
    ),
    _GpuCondition(
        lambda fact, gpu: fact(gpu, "mig"),
        lambda fact, gpu: (
            f"{gpu} has MIG on and no partition that this user may open, so that no program can use it."
            if fact(gpu, "mig_devices") == 0
            else f"{gpu} is partitioned (MIG on): an instance has only its share of memory, caches and copy engines."
        ),
        lambda fact, gpu: f"{gpu} partitioned (MIG)",
    ),
    _GpuCondition(
        lambda fact, gpu: fact(gpu, "compute_mode") not in (None, "default"),
        lambda fact, gpu: f"{gpu} is in compute mode '{fact(gpu, 'compute_mode')}': other processes may be refused.",
    ),
    _GpuCondition(
        lambda fact, gpu: fact(gpu, "throttle"),
        lambda fact, gpu: f"{gpu} held its clocks back at the start: {fact(gpu, 'throttle')}.",
        lambda fact, gpu: f"{gpu} throttled at the start",
    ),
    _GpuCondition(
        lambda fact, gpu: 0 < fact.number(gpu, "power_limit_w") < fact.number(gpu, "power_limit_default_w"),
        lambda fact, gpu: (
            f"{gpu} is limited to {fact.number(gpu, 'power_limit_w'):g} W, below its default of "
            f"{fact.number(gpu, 'power_limit_default_w'):g} W."
        ),
        lambda fact, gpu: f"{gpu} limited to {fact.number(gpu, 'power_limit_w'):g} W",
    ),
    _GpuCondition(
        lambda fact, gpu: 0 < fact.number("links", f"{gpu}_pcie_width") < fact.number("links", f"{gpu}_pcie_width_max"),
        lambda fact, gpu: (
            f"{gpu} uses {fact.number('links', f'{gpu}_pcie_width'):g} of its "
            f"{fact.number('links', f'{gpu}_pcie_width_max'):g} PCIe lanes: copies are slower than the card allows."
        ),
        lambda fact, gpu: f"{gpu} on {fact.number('links', f'{gpu}_pcie_width'):g} PCIe lanes",
    ),
)


def measurement_warnings(topics: Topics) -> list[str]:
    """One sentence for each condition that holds, in the order of the tables above; conditions of GPUs follow."""
    return _join_gpus((sentence for sentence, _ in _holding(_FactLookup(topics))), "each of ")


def conditions(topics: Topics) -> list[str]:
    """In a few words each, the conditions that distort what is measured."""
    return _join_gpus(words for _, words in _holding(_FactLookup(topics)) if words)


def _join_gpus(texts: Iterable[str], before: str = "") -> list[str]:
    """The texts, with one for three or more GPUs of which the same is said. before: the beginning of such a text."""
    gpus: dict[str, list[int]] = {}
    for text in texts:
        match = _GPU_NAME.match(text)
        gpus.setdefault(text[match.end() :] if match else text, []).extend([int(match[1])] if match else [])
    joined: list[str] = []
    for rest, numbers in gpus.items():
        if len(numbers) > _FEW_GPUS:
            joined.append(f"{before}gpu{format_ids(numbers)}{rest}")
        else:
            joined += [f"gpu{number}{rest}" for number in numbers] or [rest]
    return joined


def conditions_by_name(topics: Topics) -> dict[str, str]:
    """The words of `conditions`, each by a name that does not depend on its numbers."""
    holding = (words for _, words in _holding(_FactLookup(topics)) if words)
    return {_NUMBER.sub("#", _DETAIL.sub("", words)): words for words in holding}


def memory_comes_as_used(topics: Topics) -> bool:
    """Whether the machine seems to receive memory from its host as it is used: a first touch then costs more."""
    return bool(_how_memory_comes(_FactLookup(topics)))


def _holding(fact: _FactLookup) -> Iterator[tuple[str, str]]:
    for holds, sentence, words in _HOST:
        if holds(fact):
            yield sentence(fact), words(fact)
    for gpu in gpu_topics(fact.topics):
        for gpu_holds, gpu_sentence, gpu_words in _GPU:
            if gpu_holds(fact, gpu):
                yield gpu_sentence(fact, gpu), gpu_words(fact, gpu)
