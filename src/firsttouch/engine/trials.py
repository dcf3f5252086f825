"""The trials of `methods --verify`. Only for separate processes, because a trial may crash its process.

A trial returns (value, how it was found); the value '' means that it found no answer. run_trial turns exceptions into
answers. engine/methods.py has the questions, and the answer to each if the process crashes.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass

from firsttouch import _core
from firsttouch.base.units import MiB, format_number, format_seconds, format_size
from firsttouch.experiments.analysis.caching import is_cached
from firsttouch.machine.devices import open_device
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import AllocatorInfo, DeviceInfo
from firsttouch.workers.protocol import Pipe, Reply, Task, in_child, one_line

SEED = 20240229
_SMALL = 4 * MiB
_SIZES = (64 * MiB, 16 * MiB, _SMALL)
"""Sizes for trials that touch every page: the largest that the guard permits; for managed memory only the smallest."""
_HALVES = 8 * MiB
_MIN_MIXED = 10
"""Additions by the CPU between which the GPU added too. Fewer do not prove that both worked at the same time."""
_SMALL_SHARE = 0.1
_LARGE_SHARE = 0.5

TrialResult = tuple[str, str]


class TrialTask(Task, tag="try"):
    """Answer one question of engine/methods.py about an allocator, in a process that may crash."""

    device: DeviceInfo
    allocator: str
    question: str


def carry_out_trial(task: TrialTask, pipe: Pipe) -> Reply:
    """Handles TrialTask in a worker, in a child of its own: it opens the device anew, and leaves nothing behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def carry_out() -> Reply:
        value, reason = run_trial(
            task.device,
            task.allocator,
            task.question,
            opening=lambda: pipe.send(Reply(state="opening")),
            opened=lambda: pipe.send(Reply(state="opened")),
        )
        return Reply(state="done", value=value, reason=one_line(reason))

    return in_child(carry_out)


@dataclass
class TrialContext:
    """An open device and the allocator under test, with the driver's statements about both."""

    device_info: DeviceInfo
    info: AllocatorInfo
    device: _core.Device

    def allocate(self, size: int = _SMALL) -> _core.Buffer:
        return self.device.allocate(self.info.name, size)

    def allocate_large(self) -> _core.Buffer:
        """A buffer of the largest of _SIZES that the guard permits."""
        *sizes, least = (_SMALL,) if self.info.managed else _SIZES
        for size in sizes:
            try:
                return self.allocate(size)
            except _core.GuardRefused:
                continue
        return self.allocate(least)

    @property
    def agent(self) -> str:
        """The agent that touches the memory: the CPU if it needs no mapping or the GPU has no access, else the GPU."""
        return "cpu" if self.info.cpu == "direct" or self.info.gpu == "none" else "gpu"


def run_trial(
    device_info: DeviceInfo, allocator: str, question: str, *, opening: Callable[[], None], opened: Callable[[], None]
) -> TrialResult:
    """Answer one question. `opening` and `opened` are called before and after the device is opened."""
    info = device_info.allocator(allocator)
    if info is None or question not in TRIALS:
        raise ValueError(f"no trial of {question} of {allocator} on {device_info.name}")
    opening()
    try:
        device = open_device(device_info.name)
    except Exception as error:
        return "", str(error)
    opened()
    trial, refused = TRIALS[question]
    try:
        return trial(TrialContext(device_info, info, device))
    except (_core.GuardRefused, _core.Unavailable) as error:
        return "", str(error)
    except (RuntimeError, MemoryError) as error:
        return refused, str(error) or type(error).__name__


def works(context: TrialContext) -> TrialResult:
    """Whether the memory can be allocated, filled and read back by an agent that has access."""
    agent = "gpu" if context.info.gpu != "none" else "cpu"
    with context.allocate() as buffer:
        buffer.fill(SEED, agent)
        wrong = buffer.check(SEED, agent)
    return _trial_verdict("yes", "no", wrong, f"{format_size(_SMALL)} filled and checked by the {agent.upper()}")


def cpu_access(context: TrialContext) -> TrialResult:
    """How the CPU accesses it: tested by plain loads and stores, or between map and unmap if the driver states that."""
    with context.allocate() as buffer:
        if context.info.cpu != "mapped":
            wrong = _core.try_access(context.device, buffer, "cpu", SEED)
            return _trial_verdict("direct", "none", wrong, "CPU stores and loads at its address")
        buffer.fill(SEED, "cpu")
        wrong = buffer.check(SEED, "gpu")
        buffer.fill(SEED + 1, "gpu")
        wrong += buffer.check(SEED + 1, "cpu")
        return _trial_verdict("mapped", "none", wrong, "each agent saw the other's writes through map and unmap")


def gpu_access(context: TrialContext) -> TrialResult:
    """How the GPU accesses it: tested by a kernel that gets the address, even if the driver states no access."""
    with context.allocate() as buffer:
        wrong = _core.try_access(context.device, buffer, "gpu", SEED)
    return _trial_verdict("direct", "none", wrong, "a kernel wrote and read it; the CPU or a copy saw the same")


def _trial_verdict(right: str, wrong: str, errors: int, how: str) -> TrialResult:
    return (wrong, f"{errors} words of {_SMALL // 8} were wrong") if errors else (right, how)


def allocation(context: TrialContext) -> TrialResult:
    """Whether pages are allocated by the call or by the first touch."""
    with context.allocate_large() as buffer:  # the driver allocates memory for itself at the first use
        buffer.fill(SEED, context.agent)
    before = _MemoryInUse.now(context)
    with context.allocate_large() as buffer:
        called = _MemoryInUse.now(context)
        buffer.fill(SEED, context.agent)
        touched = _MemoryInUse.now(context)
        size = buffer.size
    own_growth = called.own - before.own, touched.own - called.own
    machine = called.machine - before.machine, touched.machine - called.machine
    for source, (call, touch) in (("process and device", own_growth), ("MemFree of the machine", machine)):
        if _LARGE_SHARE * size <= call + touch <= 1.5 * size:
            how = (
                f"{format_size(max(call, 0))} by the call, {format_size(max(touch, 0))} by the first touch of "
                f"{format_size(size)} by the {context.agent.upper()} ({source})"
            )
            if call < _SMALL_SHARE * size and touch >= _LARGE_SHARE * size:
                return "on-demand", how
            return ("up-front" if call >= _LARGE_SHARE * size else ""), how
    return "", f"no counter shows the {format_size(size)} that were allocated"


@dataclass(frozen=True)
class _MemoryInUse:
    """Bytes in use now. own: by this process, on host and device; machine: by all processes, on the host."""

    own: int
    machine: int

    @classmethod
    def now(cls, context: TrialContext) -> _MemoryInUse:
        own_bytes = Tree().kibibytes("proc/self/smaps_rollup").get("Rss", 0)
        if context.device_info.capabilities.runs_kernels and not context.device_info.capabilities.shares_host_memory:
            total, free = context.device.memory()
            own_bytes += total - free
        return cls(own_bytes, -Tree().kibibytes("proc/meminfo").get("MemFree", 0))


def page(context: TrialContext) -> TrialResult:
    """The size of its pages on the host after the CPU touched it."""
    if context.info.cpu == "none":
        return "", "the CPU has no access"
    with context.allocate_large() as buffer:
        buffer.fill(SEED, "cpu")
        _, size = buffer.residency()
    if size is None:
        return "", "the kernel counts no page of the mapping, which the driver made by other means"
    return format_size(size), "of most of the buffer, from smaps"


def cached_cpu(context: TrialContext) -> TrialResult:
    return _try_caching(context, "cpu")


def cached_gpu(context: TrialContext) -> TrialResult:
    return _try_caching(context, "gpu")


def _try_caching(context: TrialContext, agent: str) -> TrialResult:
    """Whether an agent caches it: compares dependent loads that repeat over a few lines with dependent loads from lines
    of a large block in random order.
    """
    stop = _core.Stop(tolerance=0.05, seconds=0.5, min_samples=5, max_samples=20)
    with context.allocate_large() as block:
        outcome, size = _core.reread(context.device, block, agent=agent, seed=SEED, stop=stop), block.size
    if outcome.errors:
        raise RuntimeError(f"{outcome.errors} nodes of the chase were wrong")
    again, first = outcome.counters["reread_ns"], outcome.counters["cold_ns"]
    how = (
        f"{format_seconds(again * 1e-9)} for a load that repeats over {format_size(_core.REREAD_BYTES)}, "
        f"{format_seconds(first * 1e-9)} for one anywhere in {format_size(size)}"
    )
    return "yes" if is_cached(again, first) else "no", how


def coherent(context: TrialContext) -> TrialResult:
    """Whether each agent sees the other's stores while a kernel runs, with acquire and release at system scope."""
    with context.allocate() as buffer:
        seen = _core.try_coherence(context.device, buffer)
    gpu, cpu = seen["gpu_saw"] > 0, seen["cpu_saw"] > 0
    how = f"while a kernel ran the GPU saw {seen['gpu_saw']:.0f} and the CPU {seen['cpu_saw']:.0f} changes of a word"
    if not (gpu and cpu):
        return "gpu sees cpu" if gpu else "cpu sees gpu" if cpu else "no", how
    if seen["answered"] < seen["rounds"] or seen["rounds"] == 0:
        return "", f"{how}, but of {seen['rounds']:.0f} questions only {seen['answered']:.0f} were answered"
    trip = format_seconds(seen["round_trip_ns"] * 1e-9)
    return "both", f"{how}, and {seen['rounds']:.0f} questions were answered in {trip} each"


def concurrent(context: TrialContext) -> TrialResult:
    """Whether CPU and GPU can load and store different halves of one block at the same time."""
    with context.allocate(_HALVES) as buffer:
        outcome = _core.try_halves(context.device, buffer)
    how = (
        f"the CPU made {format_number(outcome['cpu_passes'])} passes over its half of {format_size(_HALVES)} while the "
        f"GPU made {outcome['gpu_passes']:.0f} passes over the other, in {format_seconds(outcome['seconds'])}"
    )
    if outcome["errors"]:
        return "no", f"{outcome['errors']:.0f} words were wrong afterwards: {how}"
    return ("yes", how) if outcome["cpu_passes"] > 0 else ("", f"they did not run at the same time: {how}")


def atomics(context: TrialContext) -> TrialResult:
    """Whether no addition is lost when both add to one word at system scope."""
    with context.allocate() as buffer:
        outcome = _core.try_shared_adds(context.device, buffer)
    added = outcome["by_cpu"] + outcome["by_gpu"]
    how = (
        f"{outcome['by_cpu']} additions by the CPU and {outcome['by_gpu']} by the GPU to one word; "
        f"{outcome['mixed']} of the CPU's came after some of the GPU's"
    )
    if outcome["sum"] != added:
        return "no", f"{added - outcome['sum']} additions were lost of {how}"
    return ("yes", how) if outcome["mixed"] >= _MIN_MIXED else ("", f"they did not run at the same time: {how}")


def migrates(context: TrialContext) -> TrialResult:
    """Whether pages leave the CPU's page tables when the GPU touches them, and how many if it touches one word."""
    with context.allocate(_HALVES) as buffer:
        outcome = _core.try_moves(context.device, buffer, SEED)
    if outcome["errors"]:
        return "no", f"{outcome['errors']} words were wrong after the GPU touched them"
    page, present = outcome["page_bytes"], outcome["present"]
    node, then = outcome["node_before"], outcome["node_by_all"]
    moved = f"NUMA node {node} to {then}" if None not in (node, then) and node != then else ""
    if not outcome["left_by_all"] and not moved:
        return (
            "no",
            f"all {format_size(present * page)} stayed in the CPU's page tables when the GPU touched every page",
        )
    if not outcome["left_by_all"]:
        return "yes", f"the pages moved from {moved} and stayed in the CPU's page tables, so the granularity is unknown"
    region = format_size(outcome["region"] * page)
    how = (
        f"of {format_size(present * page)} the GPU's touch of one word removed "
        f"{format_size(outcome['left_by_one'] * page)} from the CPU's page tables, {region} of it around the word; "
        "touching every page removed "
        f"{outcome['left_by_all'] / present:.0%}, and the CPU's next read returned {outcome['back'] / present:.0%}; "
        "a driver may prefetch neighbouring pages, so its unit may be smaller"
    )
    return f"yes, {region}" if outcome["region"] else "yes", how


TRIALS: dict[str, tuple[Callable[[TrialContext], TrialResult], str]] = {
    "available": (works, "no"),
    "allocation": (allocation, ""),
    "cpu": (cpu_access, "none"),
    "gpu": (gpu_access, "none"),
    "page": (page, ""),
    "cached cpu": (cached_cpu, ""),
    "cached gpu": (cached_gpu, ""),
    "coherent": (coherent, "no"),
    "concurrent": (concurrent, "no"),
    "atomics": (atomics, "no"),
    "migrates": (migrates, ""),
}
"""By question: the trial, and the answer if the driver raises an error in it."""
