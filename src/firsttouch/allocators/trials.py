"""The experiments behind `methods --verify`. Only for separate processes: a trial may end its own.

A trial gives (value, how it was found); the value '' leaves the question open. One that raises is turned into an
answer by run_trial. allocators/methods.py says which questions there are and what the death of the process means.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass

from firsttouch import _core
from firsttouch.analysis.caching import is_cached
from firsttouch.machine.devices import open_device
from firsttouch.records.schema import AllocatorInfo, DeviceInfo
from firsttouch.units import format_seconds, format_size
from firsttouch.workers.protocol import Pipe, Reply, Task, one_line

SEED = 20240229
_MIB = 1 << 20
_SMALL = 4 * _MIB
_SIZES = (64 * _MIB, 16 * _MIB, _SMALL)
"""Of what is touched page by page, the largest that the guard permits; managed memory only the smallest."""
_HALVES = 8 * _MIB
_MET = 10
"""Additions of the CPU between which the GPU added too: fewer don't show that both were at work together."""
_NONE_YET = 0.1
_MOST = 0.5

Found = tuple[str, str]


class Try(Task, tag="try"):
    """Answer one question of allocators/methods.py about an allocator, in a process that this may end."""

    device: DeviceInfo
    allocator: str
    question: str


def carry_out_trial(task: Try, pipe: Pipe) -> Reply:
    """The handler of Try, in a worker."""
    value, reason = run_trial(
        task.device,
        task.allocator,
        task.question,
        opening=lambda: pipe.send(Reply(state="opening")),
        opened=lambda: pipe.send(Reply(state="opened")),
    )
    return Reply(state="done", value=value, reason=one_line(reason))


@dataclass
class Bench:
    """An open device and the allocator in question, as its driver states it."""

    about: DeviceInfo
    info: AllocatorInfo
    device: _core.Device

    def allocate(self, size: int = _SMALL) -> _core.Buffer:
        return self.device.allocate(self.info.name, size)

    def large(self) -> _core.Buffer:
        """The largest of _SIZES that may be had."""
        *sizes, least = (_SMALL,) if self.info.managed else _SIZES
        for size in sizes:
            try:
                return self.allocate(size)
            except _core.GuardRefused:
                continue
        return self.allocate(least)

    @property
    def agent(self) -> str:
        """Who reaches it without a mapping, the CPU first."""
        return "cpu" if self.info.cpu == "direct" or self.info.gpu == "none" else "gpu"


def run_trial(
    about: DeviceInfo, allocator: str, question: str, *, opening: Callable[[], None], opened: Callable[[], None]
) -> Found:
    """Answer one question; `opening` and `opened` are called around the opening of the device."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    info = about.allocator(allocator)
    if info is None or question not in TRIALS:
        raise ValueError(f"no trial of {question} of {allocator} on {about.name}")
    opening()
    try:
        device = open_device(about.name)
    except Exception as error:
        return "", str(error)
    opened()
    trial, refused = TRIALS[question]
    try:
        return trial(Bench(about, info, device))
    except (_core.GuardRefused, _core.Unavailable) as error:
        return "", str(error)
    except (RuntimeError, MemoryError) as error:
        return refused, str(error) or type(error).__name__


def works(bench: Bench) -> Found:
    """Whether it can be had, filled and read back by an agent that reaches it."""
    agent = "gpu" if bench.info.gpu != "none" else "cpu"
    with bench.allocate() as buffer:
        buffer.fill(SEED, agent)
        wrong = buffer.check(SEED, agent)
    return _verdict("yes", "no", wrong, f"{format_size(_SMALL)} filled and checked by the {agent.upper()}")


def cpu_access(bench: Bench) -> Found:
    """By bare loads and stores; between map and unmap where that is what the driver states."""
    with bench.allocate() as buffer:
        if bench.info.cpu != "mapped":
            wrong = _core.try_access(bench.device, buffer, "cpu", SEED)
            return _verdict("direct", "none", wrong, "CPU stores and loads at its address")
        buffer.fill(SEED, "cpu")
        wrong = buffer.check(SEED, "gpu")
        buffer.fill(SEED + 1, "gpu")
        wrong += buffer.check(SEED + 1, "cpu")
        return _verdict("mapped", "none", wrong, "each agent saw through map and unmap what the other wrote")


def gpu_access(bench: Bench) -> Found:
    """By a kernel that is given the address, also where the driver states that it can't use it."""
    with bench.allocate() as buffer:
        wrong = _core.try_access(bench.device, buffer, "gpu", SEED)
    return _verdict("direct", "none", wrong, "a kernel wrote and read it; the CPU or a copy saw the same")


def _verdict(right: str, wrong: str, errors: int, how: str) -> Found:
    return (wrong, f"{errors} words of {_SMALL // 8} were wrong") if errors else (right, how)


def allocation(bench: Bench) -> Found:
    """Whether memory is taken by the call or by the first touch."""
    with bench.large() as buffer:  # what the driver needs for itself comes with the first use
        buffer.fill(SEED, bench.agent)
    before = _Taken.now(bench)
    with bench.large() as buffer:
        called = _Taken.now(bench)
        buffer.fill(SEED, bench.agent)
        touched = _Taken.now(bench)
        size = buffer.size
    own = called.own - before.own, touched.own - called.own
    machine = called.machine - before.machine, touched.machine - called.machine
    for source, (call, touch) in (("process and device", own), ("MemFree of the machine", machine)):
        if _MOST * size <= call + touch <= 1.5 * size:
            how = (
                f"{format_size(max(call, 0))} by the call, {format_size(max(touch, 0))} by the first touch of "
                f"{format_size(size)} by the {bench.agent.upper()} ({source})"
            )
            if call < _NONE_YET * size and touch >= _MOST * size:
                return "on-demand", how
            return ("up-front" if call >= _MOST * size else ""), how
    return "", f"no counter shows the {format_size(size)} that were taken"


@dataclass(frozen=True)
class _Taken:
    """Bytes in use now: own, by this process on host and device; machine, by all on the host."""

    own: int
    machine: int

    @classmethod
    def now(cls, bench: Bench) -> _Taken:
        own = _proc("/proc/self/smaps_rollup", "Rss:")
        if bench.about.capabilities.runs_kernels and not bench.about.capabilities.shares_host_memory:
            total, free = bench.device.memory()
            own += total - free
        return cls(own, -_proc("/proc/meminfo", "MemFree:"))


def _proc(path: str, key: str) -> int:
    with open(path) as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(key)), 0)


def page(bench: Bench) -> Found:
    """The page size behind it on the host after the CPU touched it."""
    if bench.info.cpu == "none":
        return "", "the CPU does not reach it"
    with bench.large() as buffer:
        buffer.fill(SEED, "cpu")
        _, size = buffer.residency()
    if size is None:
        return "", "the kernel counts no page of the mapping: the driver made it in its own way"
    return format_size(size), "of most of it, from smaps"


def cached_cpu(bench: Bench) -> Found:
    return _cached(bench, "cpu")


def cached_gpu(bench: Bench) -> Found:
    return _cached(bench, "gpu")


def _cached(bench: Bench, agent: str) -> Found:
    """By dependent loads: again and again over a few lines, and of lines of a large block in random order."""
    stop = _core.Stop(tolerance=0.05, seconds=0.5, min_samples=5, max_samples=20)
    with bench.large() as block:
        found, size = _core.reread(bench.device, block, agent=agent, seed=SEED, stop=stop), block.size
    if found.errors:
        raise RuntimeError(f"{found.errors} nodes of the chase were wrong")
    again, first = found.counters["reread_ns"], found.counters["cold_ns"]
    how = (
        f"{format_seconds(again * 1e-9)} for a load that repeats over {format_size(_core.REREAD_BYTES)}, "
        f"{format_seconds(first * 1e-9)} for one anywhere in {format_size(size)}"
    )
    return "yes" if is_cached(again, first) else "no", how


def coherent(bench: Bench) -> Found:
    """Whether each agent sees the other's stores while a kernel runs, by acquire and release at system scope."""
    with bench.allocate() as buffer:
        seen = _core.try_coherence(bench.device, buffer)
    gpu, cpu = seen["gpu_saw"] > 0, seen["cpu_saw"] > 0
    how = f"while a kernel ran the GPU saw {seen['gpu_saw']:.0f} and the CPU {seen['cpu_saw']:.0f} changes of a word"
    if not (gpu and cpu):
        return "gpu sees cpu" if gpu else "cpu sees gpu" if cpu else "no", how
    if seen["answered"] < seen["rounds"] or seen["rounds"] == 0:
        return "", f"{how}, but of {seen['rounds']:.0f} questions only {seen['answered']:.0f} were answered"
    trip = format_seconds(seen["round_trip_ns"] * 1e-9)
    return "both", f"{how}, and {seen['rounds']:.0f} questions were answered in {trip} each"


def concurrent(bench: Bench) -> Found:
    """Whether both may load and store a half of one block each at once."""
    with bench.allocate(_HALVES) as buffer:
        found = _core.try_halves(bench.device, buffer)
    how = (
        f"the CPU passed {found['cpu_passes']:.3g} times over its half of {format_size(_HALVES)} while the GPU passed "
        f"{found['gpu_passes']:.0f} times over the other, in {format_seconds(found['seconds'])}"
    )
    if found["errors"]:
        return "no", f"{found['errors']:.0f} words were wrong afterwards: {how}"
    return ("yes", how) if found["cpu_passes"] > 0 else ("", f"they did not meet: {how}")


def atomics(bench: Bench) -> Found:
    """Whether no addition is lost when both add to one word at system scope."""
    with bench.allocate() as buffer:
        found = _core.try_shared_adds(bench.device, buffer)
    added = found["by_cpu"] + found["by_gpu"]
    how = (
        f"{found['by_cpu']} additions by the CPU and {found['by_gpu']} by the GPU to one word; "
        f"{found['mixed']} of the CPU's came after some of the GPU's"
    )
    if found["sum"] != added:
        return "no", f"{added - found['sum']} additions were lost of {how}"
    return ("yes", how) if found["mixed"] >= _MET else ("", f"they did not meet: {how}")


def migrates(bench: Bench) -> Found:
    """Whether pages leave the CPU's page tables when the GPU touches them, and how many with one word."""
    with bench.allocate(_HALVES) as buffer:
        found = _core.try_moves(bench.device, buffer, SEED)
    if found["errors"]:
        return "no", f"{found['errors']} words were wrong after the GPU touched them"
    page, present = found["page_bytes"], found["present"]
    node, then = found["node_before"], found["node_by_all"]
    moved = f"NUMA node {node} to {then}" if None not in (node, then) and node != then else ""
    if not found["left_by_all"] and not moved:
        return (
            "no",
            f"all {format_size(present * page)} stayed in the CPU's page tables when the GPU touched every page",
        )
    if not found["left_by_all"]:
        return "yes", f"the pages went from {moved} and stayed in the CPU's page tables, so no granularity is seen"
    region = format_size(found["region"] * page)
    how = (
        f"of {format_size(present * page)} the GPU's touch of one word took {format_size(found['left_by_one'] * page)} "
        f"out of the CPU's page tables, {region} of it around the word; touching every page took "
        f"{found['left_by_all'] / present:.0%}, and the CPU's next reading brought {found['back'] / present:.0%} back; "
        "a driver may move neighbours before they are needed, so its unit may be smaller"
    )
    return f"yes, {region}" if found["region"] else "yes", how


TRIALS: dict[str, tuple[Callable[[Bench], Found], str]] = {
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
"""By question: the trial, and what an error that the driver raises in it answers."""
