"""Which caches serve what an agent uses again and again, and how fast.

A platform states which levels of an agent's caches hold which memory (`cached_in`), how large they are, and what loads
and streams take that a level serves (`cache`). Whatever no level holds is used in memory, line by line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeAlias

from firsttouch.model.costs import Ground, Time
from firsttouch.model.platform import Platform

LEVELS = ("l1", "l2", "l3")
ALL, NONE = "all", "none"
STEPS = 1000
"""After so many steps the share of hits has settled, unless the bytes exceed a cache by less than one in a thousand."""
Serving: TypeAlias = Literal["load", "rate"]
"""What a platform states of a level: the time of a dependent load, or the rate of a stream."""


@dataclass(frozen=True)
class CacheLevel:
    """A level of caches. nbytes: what all caches of it that take part hold together."""

    name: str
    nbytes: float


def owner(agent: str) -> str:
    """Whose caches an agent has, as names of values begin."""
    return "host" if agent == "cpu" else "device"


def holding(platform: Platform, agent: str, allocator: str) -> str:
    """The levels of an agent's caches that hold an allocator's memory: one, `all`, or `none`. All hold it where
    hardware keeps them alike, unless the file says otherwise. Raises MissingValue.
    """
    by_agent = f"cached_in.{agent}"
    if platform.has(by_allocator := f"{by_agent}.{allocator}"):
        return platform.word(by_allocator)
    if not platform.has(by_agent) and platform.has("device.coherence") and platform.word("device.coherence") == "full":
        return ALL
    return platform.word(by_agent)


def has_times(platform: Platform, agent: str, serving: Serving) -> bool:
    """Whether a platform states what the agent's caches take."""
    return any(platform.has(f"cache.{agent}.{level}.{serving}") for level in LEVELS)


def levels_of(platform: Platform, agent: str, allocator: str, users: int, without: str = "") -> Sequence[CacheLevel]:
    """The levels that hold an allocator's memory, the fastest first.

    users: cores or multiprocessors that share the bytes evenly. without: a level that is passed by.
    """
    word = holding(platform, agent, allocator)
    return [
        CacheLevel(level, platform.quantity(f"{owner(agent)}.{level}").value * _caches(platform, agent, level, users))
        for level in LEVELS
        if word in (level, ALL) and level != without and platform.has(f"{owner(agent)}.{level}")
    ]


def _caches(platform: Platform, agent: str, level: str, users: int) -> float:
    """How many caches of a level so many cores or multiprocessors have, as far apart as possible."""
    if level == "l1":
        return users
    if agent == "gpu":
        return min(users, platform.quantity("device.l2_caches").value) if platform.has("device.l2_caches") else 1
    if level == "l2" and users > 1:
        return min(users, platform.quantity("host.processors").value / platform.quantity("host.cores_per_l2").value)
    return 1


def served(levels: Sequence[CacheLevel], nbytes: float, bound: str = "value") -> dict[str, float]:
    """Which part of the uses each level serves, and '' memory, of bytes that are used in a cycle, each as often.

    Of bytes that a cache does not hold, it replaces lines at random, so that a line is there again with the chance h
    that it outlasts all misses of a cycle: h = exp((h - 1) bytes / size). bound: `low` is what is left if the line that
    was not used for longest is replaced: nothing; `high` is the most that any replacement leaves (Belady 1966).
    """
    parts, before = dict[str, float](), 0.0
    for level in levels:
        hits = max(before, _hits(nbytes / level.nbytes, bound))
        parts[level.name], before = hits - before, hits
    return {**parts, "": 1 - before}


def _hits(excess: float, bound: str) -> float:
    if excess <= 1:
        return 1.0
    if bound != "value":
        return 0.0 if bound == "low" else 1 / excess
    hits = 0.0
    for _ in range(STEPS):
        hits = math.exp((hits - 1) * excess)
    return hits


def mean_time(levels: Sequence[CacheLevel], nbytes: float, of_level: Callable[[str], Time]) -> Time:
    """The mean time of uses of bytes in a cycle. of_level: the time if a level serves them, or, for '', memory, which
    is asked only for what serves any.
    """
    parts = {bound: served(levels, nbytes, bound) for bound in ("value", "low", "high")}
    times = {name: of_level(name) for name in parts["value"] if any(part[name] > 0 for part in parts.values())}

    def total(bound: str, hits: str) -> float:
        return sum(share * float(attrgetter(bound)(times[name])) for name, share in parts[hits].items() if share)

    value = total("value", "value")
    ends = [total(bound, hits) for bound in ("low", "high") for hits in ("low", "high")]
    return Time(value, min(value, *ends), max(value, *ends))


def load_time(platform: Platform, agent: str, level: str) -> tuple[Time, tuple[Ground, ...]]:
    """The time of a dependent load that a level serves, and what it rests on. Raises MissingValue."""
    load = platform.quantity(f"cache.{agent}.{level}.load")
    return load.time, (load.ground,)


def byte_time(platform: Platform, agent: str, level: str, users: int) -> tuple[Time, tuple[Ground, ...]]:
    """What a byte of a stream takes that a level serves, and what it rests on. Raises MissingValue.

    users: cores of the CPU, each of which streams at the rate of the level; a GPU's rate is that of all of it.
    """
    rate = platform.quantity(f"cache.{agent}.{level}.rate")
    factor = 1.0 if agent == "gpu" else 1.0 / users
    return Time(1 / rate.value, 1 / rate.high, 1 / rate.low).times(factor), (rate.ground,)
