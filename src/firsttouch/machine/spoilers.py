"""What on this machine spoils measurements: one sentence per condition that holds, none of which is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from firsttouch.machine.caches import sized_for
from firsttouch.machine.tree import Facts
from firsttouch.records.schema import Scalar
from firsttouch.units import format_size

Topics: TypeAlias = dict[str, Facts]

_FEW_CORES = 4
_SMALL_MEMLOCK = 64 * 2**20
_LITTLE_MEMORY = 2 * 2**30
_BUSY_PERCENT = 5


class _Look:
    """look('cpu', 'governor') is that fact or None; look.number() is zero where it is absent or no number."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def __call__(self, topic: str, key: str) -> Scalar:
        return self.topics.get(topic, {}).get(key)

    def number(self, topic: str, key: str) -> float:
        value = self(topic, key)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _nodes_total(look: _Look) -> float:
    return sum(look.number("numa", f"node{n}_total_bytes") for n in range(int(look.number("numa", "nodes"))))


def _memory_comes_later(look: _Look) -> bool:
    nodes, total = _nodes_total(look), look.number("memory", "total_bytes")
    return nodes > 0 and total > 0 and abs(nodes - total) > 0.1 * total


def _cache_sized_for(look: _Look) -> int:
    return sized_for(int(look.number("cpu", "l3_bytes")), int(look.number("cpu", "cores_usable")))


_HOST: Sequence[tuple[Callable[[_Look], object], Callable[[_Look], str]]] = (
    (
        lambda look: 0 < look.number("cpu", "cores_usable") < _FEW_CORES,
        lambda look: (
            f"Usable CPU cores: {look('cpu', 'cores_usable')}. Host bandwidth and contention "
            "figures are not those of a whole processor, and the measuring process shares them with everything else."
        ),
    ),
    (
        lambda look: look.number("cpu", "l3_bytes") > _cache_sized_for(look),
        lambda look: (
            f"The kernel states a last-level cache of {format_size(look.number('cpu', 'l3_bytes'))} and "
            f"{look('cpu', 'cores_usable')} CPU cores are usable. Buffers are sized for "
            f"{format_size(_cache_sized_for(look))} of it, so that a run stays short; host results named memory may "
            "include cache hits. --set size=... takes larger buffers."
        ),
    ),
    (
        lambda look: look("kernel", "virtualisation"),
        lambda look: (
            f"This is a virtual machine ({look('kernel', 'virtualisation')}): page faults, timers and "
            "interrupts pass through a hypervisor, and neighbours may share caches and memory bandwidth."
        ),
    ),
    (
        _memory_comes_later,
        lambda look: (
            f"The NUMA nodes add up to {format_size(_nodes_total(look))} while the kernel reports "
            f"{format_size(look.number('memory', 'total_bytes'))}: memory seems to reach this machine as it is used, "
            "so first touches may cost more here than on hardware."
        ),
    ),
    (
        lambda look: look("huge_pages", "thp_enabled") == "never",
        lambda look: (
            "Transparent huge pages are off (enabled is 'never'): malloc-thp gets base pages, and large "
            "buffers cost more faults and TLB misses than where they are on."
        ),
    ),
    (
        lambda look: look("cpu", "governor") not in (None, "performance"),
        lambda look: f"The CPU frequency governor is '{look('cpu', 'governor')}': clocks may change while measuring.",
    ),
    (
        lambda look: (
            0 <= look.number("limits", "memlock_bytes") < _SMALL_MEMLOCK
            and isinstance(look("limits", "memlock_bytes"), int)
            and not look("limits", "root")
        ),
        lambda look: (
            f"Only {format_size(look.number('limits', 'memlock_bytes'))} of memory may be locked "
            "(ulimit -l): allocators that register or pin host memory may be refused beyond it."
        ),
    ),
    (
        lambda look: look.number("memory", "swap_used_bytes") > 0,
        lambda look: (
            f"{format_size(look.number('memory', 'swap_used_bytes'))} of swap are in use: pages may come "
            "back from disk while measuring."
        ),
    ),
    (
        lambda look: (
            look("limits", "cpu_quota_cores") is not None
            and look.number("limits", "cpu_quota_cores") < look.number("cpu", "cores_usable")
        ),
        lambda look: (
            f"A control group allows {look.number('limits', 'cpu_quota_cores'):g} cores' worth of CPU time "
            f"on {look('cpu', 'cores_usable')} cores: threads are stopped when it is used up."
        ),
    ),
    (
        lambda look: look("numa", "balancing") and look.number("numa", "nodes") > 1,
        lambda look: "Automatic NUMA balancing is on: the kernel unmaps and moves pages while they are measured.",
    ),
    (
        lambda look: look("memory", "init_on_alloc"),
        lambda look: (
            "The kernel clears every page that it hands out (init_on_alloc): allocation and first touch "
            "cost more than on kernels without it."
        ),
    ),
    (
        lambda look: look("memory", "ksm"),
        lambda look: "Kernel same-page merging runs: identical pages may be merged and split again on writing.",
    ),
    (
        lambda look: 0 < look.number("memory", "available_bytes") < _LITTLE_MEMORY,
        lambda look: (
            f"Only {format_size(look.number('memory', 'available_bytes'))} of memory are available: large "
            "points will be skipped."
        ),
    ),
    (
        lambda look: look.number("cpu", "load_1min") > 0.5 * max(look.number("cpu", "cores_usable"), 1),
        lambda look: (
            f"The load average was {look.number('cpu', 'load_1min'):g} on {look('cpu', 'cores_usable')} "
            "usable cores: other programs were running when this began."
        ),
    ),
    (
        lambda look: (
            look("nvidia_uvm", "uvm_disable_hmm") in (True, 1, "Y")
            and not any(look(f"gpu{n}", "addressing_mode") == "ATS" for n in range(int(look.number("nvidia", "gpus"))))
        ),
        lambda look: (
            "The NVIDIA driver was loaded with HMM disabled (uvm_disable_hmm): GPUs can't reach malloc memory."
        ),
    ),
)

_GPU: Sequence[tuple[Callable[[_Look, str], object], Callable[[_Look, str], str]]] = (
    (
        lambda look, gpu: look.number(gpu, "busy_percent") > _BUSY_PERCENT or look.number(gpu, "processes") > 0,
        lambda look, gpu: (
            f"{gpu} is in use: {look.number(gpu, 'processes'):g} process(es), "
            f"{look.number(gpu, 'busy_percent'):g} % busy."
        ),
    ),
    (
        lambda look, gpu: look(gpu, "persistence") is False,
        lambda look, gpu: (
            f"{gpu} has persistence mode off: the driver may unload between processes, and creating a "
            "context then costs seconds more."
        ),
    ),
    (
        lambda look, gpu: look(gpu, "mig"),
        lambda look, gpu: (
            f"{gpu} is partitioned (MIG on): an instance has only its share of memory, caches and copy engines."
        ),
    ),
    (
        lambda look, gpu: look(gpu, "compute_mode") not in (None, "default"),
        lambda look, gpu: f"{gpu} is in compute mode '{look(gpu, 'compute_mode')}': other processes may be refused.",
    ),
    (
        lambda look, gpu: look(gpu, "throttle"),
        lambda look, gpu: f"{gpu} held its clocks back at the start: {look(gpu, 'throttle')}.",
    ),
    (
        lambda look, gpu: 0 < look.number(gpu, "power_limit_w") < look.number(gpu, "power_limit_default_w"),
        lambda look, gpu: (
            f"{gpu} is limited to {look.number(gpu, 'power_limit_w'):g} W, below its default of "
            f"{look.number(gpu, 'power_limit_default_w'):g} W."
        ),
    ),
    (
        lambda look, gpu: 0 < look.number("links", f"{gpu}_pcie_width") < look.number("links", f"{gpu}_pcie_width_max"),
        lambda look, gpu: (
            f"{gpu} uses {look.number('links', f'{gpu}_pcie_width'):g} of its "
            f"{look.number('links', f'{gpu}_pcie_width_max'):g} PCIe lanes: copies are slower than the card allows."
        ),
    ),
)


def warnings(topics: Topics) -> list[str]:
    """Sentences for people, in the order of the tables above, then per GPU."""
    return list(_sentences(_Look(topics)))


def _sentences(look: _Look) -> Iterator[str]:
    for holds, sentence in _HOST:
        if holds(look):
            yield sentence(look)
    gpus = sorted((t for t in look.topics if t[:3] == "gpu" and t[3:].isdigit()), key=lambda t: int(t[3:]))
    for gpu in gpus:
        for gpu_holds, gpu_sentence in _GPU:
            if gpu_holds(look, gpu):
                yield gpu_sentence(look, gpu)
