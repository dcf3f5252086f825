"""Atomic updates of random words by many threads: what `atomics` would measure, by values of a platform.

An update needs its line in the cache of who makes it, so a line moves to the next core, die, or agent that updates it,
and its updates follow each other. Threads are customers of a closed queueing network with a station for each line
(Reiser and Lavenberg, J. ACM 27(2), 1980; a new customer sees the others' mean queue, Schweitzer 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from firsttouch.model.costs import Price, Time
from firsttouch.model.micro.answers import Answer
from firsttouch.model.micro.loads import LOAD, at, memory_name
from firsttouch.model.platform import Magnitude, Platform
from firsttouch.records.schema import DeviceInfo, Scalar

WORD = 8
WAVE = 64
"""Threads of a group, which one compute unit carries out together."""
ROUNDS, STEP = 400, 0.05
"""Steps in which the rates of both agents settle, and how far each goes."""

Bound: TypeAlias = Callable[[Time | Magnitude], float]
"""Which end of a value is used: the value itself, or a bound."""


@dataclass(frozen=True)
class UpdatingCpu:
    """Threads of the CPU. Times in ns. own: an update of a word in the core's own cache. fetch: what it takes on
    average to get a line that a thread of the CPU was the last to update; other_cache: the part from other cores'
    caches. far: from a cache elsewhere on the chip. loop: the update is a loop of compare and swap.
    """

    threads: int
    lines: float
    own: float
    fetch: float
    other_cache: float
    far: float
    loop: bool


@dataclass(frozen=True)
class UpdatingGpu:
    """Threads of the GPU. Times in ns. unit: an update by an atomic unit. issue: from one update of a thread to the
    next at least. trip: to the unit, and to memory. caches: second-level caches in use. moves: the part of updates
    before which the line was in another one. move: to take it from there. most: updates per ns that all units and
    memory allow. moved_most: lines per ns that move.
    """

    threads: int
    lines: float
    unit: float
    issue: float
    trip: float
    caches: float
    moves: float
    move: float
    in_flight: float
    most: float
    moved_most: float


def updates(
    platform: Platform,
    device: DeviceInfo,
    *,
    allocator: str,
    type: str,
    elements: int,
    cpu_threads: int,
    gpu_threads: int,
) -> Answer:
    """Million updates per second, by all threads; if both agents take part, also of each alone and together."""
    first = "gpu" if gpu_threads else "cpu"
    nbytes = WORD * elements
    names: list[str] = []

    def rates(of: str, otherwise: str, cpu_count: int, gpu_count: int) -> tuple[float, float]:
        def number(name: str, bound: str = of) -> float:
            names.append(name)
            return float(getattr(platform.quantity(name), bound))

        def load(agent: str) -> Callable[[float], float]:
            name = memory_name(platform, device, agent, allocator, first, LOAD)
            names.append(name)
            curve: Price = platform.curve(name)
            return lambda size: float(getattr(at(curve, size), of))

        cpu = _cpu(number, load("cpu"), type, nbytes, cpu_count) if cpu_count else None
        gpu = _gpu(number, load("gpu"), otherwise, nbytes, gpu_count) if gpu_count else None
        return _rates(cpu, gpu, elements)

    value, slow, fast = (
        [1e3 * rate for rate in rates(of, otherwise, cpu_threads, gpu_threads)]
        for of, otherwise in (("value", "value"), ("high", "low"), ("low", "high"))
    )
    counters: dict[str, Scalar] = {}
    if cpu_threads and gpu_threads:
        alone = (rates("value", "value", cpu_threads, 0)[0], rates("value", "value", 0, gpu_threads)[1])
        for agent, together, rate in zip(("cpu", "gpu"), value, alone, strict=True):
            counters[f"{agent}_rate"], counters[f"{agent}_alone"] = together, 1e3 * rate
            counters[f"{agent}_relative"] = together / (1e3 * rate)
    ends = sorted((sum(value), sum(slow), sum(fast)))
    grounds = tuple(platform.ground(name) for name in dict.fromkeys(names))
    return Answer(sum(value), ends[0], ends[-1], counters, grounds=grounds)


def _cpu(
    number: Callable[[str], float], load: Callable[[float], float], type: str, nbytes: int, threads: int
) -> UpdatingCpu:
    """Threads are spread evenly over the dies. A line is in the cache of a core while those hold all lines, then in the
    last-level cache of its die, then in memory.
    """
    l1, l2, l3 = number("host.l1"), number("host.l2"), number("host.l3")
    dies = number("host.processors") / number("host.cores_per_l3")
    near, far = number("atomic.line.near"), number("atomic.line.far")
    used = min(threads, dies)
    own_share, same_die = 1 / threads, max(0.0, 1 / used - 1 / threads)
    in_cores = min(1.0, threads * l2 / nbytes)
    in_dies = min(1 - in_cores, used * l3 / dies / nbytes)
    beyond = load(min(l1, nbytes))
    core, die, memory = (load(min(nbytes, size)) - beyond for size in (l2, l3 / dies, math.inf))
    elsewhere = 1 - 1 / used
    other_cache = in_cores * (same_die * near + elsewhere * far) + in_dies * elsewhere * far
    fetch = in_cores * own_share * core + in_dies / used * die + (1 - in_cores - in_dies) * memory + other_cache
    lines = math.ceil(nbytes / number("host.line"))
    return UpdatingCpu(threads, lines, number(f"atomic.own.{type}"), fetch, other_cache, far, type == "f64")


def _gpu(
    number: Callable[..., float], load: Callable[[float], float], otherwise: str, nbytes: int, threads: int
) -> UpdatingGpu:
    """Groups are dealt out to the second-level caches in turn, and to their compute units. A line is in one of these
    caches while they hold all lines, then in the Infinity Cache, then in memory.
    """
    clock = number("device.clock") * number("device.updates_per_clock", otherwise)
    groups, units = threads / WAVE, number("device.multiprocessors")
    caches, line, l2 = min(groups, number("device.l2_caches")), number("device.line"), number("device.l2")
    lines = math.ceil(nbytes / line)
    cached = min(1.0, caches * l2 / nbytes)
    in_memory = max(0.0, 1 - number("device.infinity_cache") / nbytes)
    most = min(lines, caches * number("device.l2_channels")) * clock
    if in_memory:
        most = min(most, number("device.bandwidth", otherwise) / (2 * line * in_memory))
    return UpdatingGpu(
        threads=threads,
        lines=lines,
        unit=1 / clock,
        issue=WAVE * max(1.0, groups / units) / clock,
        trip=load(l2) + (1 - cached) * (load(max(l2, nbytes)) - load(l2)),
        caches=caches,
        moves=cached * (1 - 1 / caches),
        move=number("atomic.line.gpu"),
        in_flight=number("device.updates_in_flight"),
        most=most,
        moved_most=number("device.infinity_cache_bandwidth", otherwise) / (2 * line),
    )


@lru_cache(maxsize=1024)
def _rates(cpu: UpdatingCpu | None, gpu: UpdatingGpu | None, elements: int) -> tuple[float, float]:
    """The updates per ns of each. Starts from the rates alone without contention, and repeats until they settle."""
    by_cpu = cpu.threads / (cpu.own + cpu.fetch) if cpu else 0.0
    by_gpu = min(gpu.most, gpu.threads / gpu.issue) if gpu else 0.0
    gpu_queue = gpu_wait = cpu_service = gpu_service = 0.0
    for _ in range(ROUNDS):
        gpu_share = by_gpu / (by_cpu + by_gpu)
        cpu_queue = cpu.threads / cpu.lines if cpu else 0.0
        if cpu:
            other_cache = (1 - gpu_share) * cpu.other_cache + gpu_share * cpu.far
            cpu_service = cpu.own + (1 - gpu_share) * cpu.fetch + gpu_share * cpu.far
        if gpu:
            moved = gpu_share * gpu.moves + 1 - gpu_share
            # A cache that has got a line carries out all updates that wait there, for as long as others waited for it.
            batch = min(max(1.0, gpu_queue / gpu.caches), max(1.0, gpu.move / gpu.unit))
            gpu_service = gpu.unit + moved * gpu.move / batch
            most = min(gpu.most, gpu.moved_most * batch / moved) if moved else gpu.most
            rate, queue = _gpu_rate(gpu, gpu_service, cpu_queue * cpu_service, most)
            by_gpu, gpu_queue = by_gpu + STEP * (rate - by_gpu), gpu_queue + STEP * (queue - gpu_queue)
            # Each cache asks for a line once, whatever waits in it.
            gpu_wait = min(gpu_queue * gpu_service, gpu.caches * (moved * gpu.move + batch * gpu.unit))
        if cpu:
            wait = cpu_service * (cpu.threads - 1) / cpu.lines + gpu_wait
            attempt = cpu_service + wait
            time = attempt
            if cpu.loop:
                # The load takes the line, and the swap takes it again. It fails if another thread has updated the word
                # meanwhile, but then the line is there, so that the next swap succeeds.
                others = by_cpu * (cpu.threads - 1) / cpu.threads + by_gpu
                time = attempt * (1 + min(1.0, others / elements * attempt)) + other_cache + wait
            by_cpu += STEP * (cpu.threads / time - by_cpu)
    return by_cpu, by_gpu


def _gpu_rate(gpu: UpdatingGpu, service: float, wait: float, most: float) -> tuple[float, float]:
    """The updates per ns, and how many of them wait at a line on average. wait: for others in front of each."""
    customers, busy, alone = gpu.threads * gpu.in_flight, service / gpu.lines, service + wait
    # All are on their way or at a line: rate * (trip + alone / (1 - rate * busy)) = customers.
    factor = gpu.trip + alone + customers * busy
    rate = 2 * customers / (factor + math.sqrt(factor**2 - 4 * busy * gpu.trip * customers))
    rate = min(rate, gpu.threads / gpu.issue, most, 1 / busy)
    return rate, min(customers, rate * alone / max(1e-12, 1 - rate * busy)) / gpu.lines
