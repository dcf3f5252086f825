"""Loads that repeat, and updates of entries that share lines: what `caching` would measure.

Threads of a group that use one line at once make one access of it, so that the lines decide what a cache, or memory,
passes on: a GPU's loads and stores are served in transactions of whole lines (CUDA C Programming Guide, "Device Memory
Accesses"; AMD GCN architecture whitepaper, vector memory).
"""

from __future__ import annotations

import math

from firsttouch.base.errors import NotModelled
from firsttouch.model.caches import NONE, holding
from firsttouch.model.costs import Ground, Time
from firsttouch.model.micro.answers import Answer
from firsttouch.model.micro.loads import from_memory, load, repeated
from firsttouch.model.platform import Platform
from firsttouch.records.schema import DeviceInfo

BOTH = ("read", "write")
"""An update reads a line and writes it."""
WORD = 8
"""Bytes of an entry."""
GROUP = 256
"""Threads of a group of the kernels, all of which are on one multiprocessor."""


def reread(
    platform: Platform, device: DeviceInfo, *, agent: str, allocator: str, few: int, nbytes: int
) -> tuple[Answer, Answer]:
    """Dependent loads in ns: over a few bytes again and again, and over a buffer that caches do not hold."""
    again, cold = (
        load(platform, device, agent=agent, allocator=allocator, first=agent, nbytes=size) for size in (few, nbytes)
    )
    return again, cold


def single_pass(
    platform: Platform, device: DeviceInfo, *, agent: str, allocator: str, nbytes: int, apart: int, threads: int
) -> Answer:
    """One update of each entry of an array, in ns for an entry. nbytes: of the array, which no cache holds. apart:
    bytes from one updated entry to the next. threads: of the CPU, if not all of them update.
    """
    ways = [from_memory(platform, device, agent, allocator, agent, kernel, nbytes, threads=threads) for kernel in BOTH]
    moved, ground = _moved(platform, agent, apart)
    if agent == "cpu" and platform.has("cached_in.cpu") and holding(platform, agent, allocator) == NONE:
        moved = min(apart, WORD)  # each load or store is one access, and fetches no line
    time = (ways[0][0] + ways[1][0]).times(moved)
    return Answer(time.value, time.low, time.high, grounds=(*ways[0][1], *ways[1][1], ground))


def updates(
    platform: Platform, device: DeviceInfo, *, allocator: str, threads: int, apart: int, step: int, without: str
) -> Answer:
    """Updates of an entry of its own by each thread of a GPU, or by one of `step` of them, again and again: ns for one
    update of all.

    As many threads as the GPU has room for update their entries until they are done, then the next. In each round they
    wait for a load, or for what caches or memory pass on of their lines. apart: bytes from one updated entry to the
    next. without: a level of caches that loads pass by.
    """
    units, room = (platform.quantity(name) for name in ("device.multiprocessors", "device.threads"))
    at_once = min(float(threads), units.value * room.value)
    used = max(1, min(int(units.value), math.ceil(threads / GROUP)))
    moved, line = _moved(platform, "gpu", apart)
    nbytes = math.ceil(at_once / step) * moved
    waited = load(
        platform, device, agent="gpu", allocator=allocator, first="gpu", nbytes=nbytes, users=used, without=without
    )
    grounds: list[Ground] = [units.ground, room.ground, line, *waited.grounds]

    def passed_on(kernel: str, without: str) -> Time:
        def of_memory() -> tuple[Time, tuple[Ground, ...]]:
            return from_memory(platform, device, "gpu", allocator, "gpu", kernel)

        time, more = repeated(platform, "gpu", allocator, kernel, nbytes, used, of_memory, without)
        grounds.extend(more)
        return time.times(nbytes)

    time = Time(waited.value, waited.low, waited.high).at_least(passed_on("read", without) + passed_on("write", ""))
    time = time.times(max(1.0, threads / at_once))
    return Answer(time.value, time.low, time.high, grounds=tuple(dict.fromkeys(grounds)))


def _moved(platform: Platform, agent: str, apart: int) -> tuple[float, Ground]:
    """The bytes of lines that an entry moves each way, and what that rests on. apart: bytes to the next one."""
    if apart <= 0:
        raise NotModelled("threads that race for one entry")
    line = platform.quantity("device.line" if agent == "gpu" else "host.line")
    return min(float(apart), line.value), line.ground
