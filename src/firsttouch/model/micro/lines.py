"""Loads that repeat, and updates of entries that share lines: what `caching` would measure.

Threads of a group that use one line at once make one access of it, so that the lines decide what a cache, or memory,
passes on: a GPU's loads and stores are served in transactions of whole lines (CUDA C Programming Guide, "Device Memory
Accesses"; AMD GCN architecture whitepaper, vector memory).
"""

from __future__ import annotations

import math
from operator import attrgetter

from firsttouch.base.errors import NotModelled
from firsttouch.model.costs import Ground, Time
from firsttouch.model.micro.answers import Answer
from firsttouch.model.micro.loads import load, repeated, stream
from firsttouch.model.platform import Platform
from firsttouch.records.schema import DeviceInfo

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
    bytes from one updated entry to the next. threads: of the CPU; 0 is all.
    """
    ways = [
        stream(
            platform, device, agent=agent, allocator=allocator, first=agent, kernel=kernel, nbytes=nbytes,
            in_memory=True, threads=threads if agent == "cpu" else 0,
        )
        for kernel in ("read", "write")
    ]  # fmt: skip
    moved, ground = _moved(platform, agent, apart)
    value, low, high = (
        moved * sum(1 / float(bound(way)) for way in ways) for bound in map(attrgetter, ("value", "high", "low"))
    )
    return Answer(value, low, high, grounds=(*(g for way in ways for g in way.grounds), ground))


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
        def from_memory() -> tuple[float, float, float, tuple[Ground, ...]]:
            rate = stream(
                platform, device, agent="gpu", allocator=allocator, first="gpu", kernel=kernel, nbytes=1 << 30,
                in_memory=True, threads=0,
            )  # fmt: skip
            return rate.value, rate.low, rate.high, rate.grounds

        time, more = repeated(platform, "gpu", allocator, kernel, nbytes, used, from_memory, without)
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
