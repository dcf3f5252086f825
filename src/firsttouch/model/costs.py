"""What each thing that a memory strategy adds costs on a machine: the contract of prices, and what they rest on.

A price is time per amount, with an interval and its grounds. `Prices` is what the model asks for; where the prices come
from is its implementation's: `measured.py` has those from the micro-measurements of a run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Literal, Protocol, TypeAlias

import msgspec

from firsttouch.records.reading import PointIdentity
from firsttouch.records.schema import DeviceInfo, Machine, Record

Direction = Literal["h2d", "d2h"]


class MeasuredPoint(PointIdentity, frozen=True, tag_field="kind", tag="record"):
    """A point that was measured."""


class PublishedRow(msgspec.Struct, frozen=True, tag_field="kind", tag="published"):
    """A published value, as PAPER/ROW."""

    row: str


class Assumption(msgspec.Struct, frozen=True, tag_field="kind", tag="assumption"):
    """What is taken for granted, in words."""

    text: str


class PlatformValue(msgspec.Struct, frozen=True, tag_field="kind", tag="platform"):
    """A value of a platform file. how: stated, measured, derived, fitted or assumed. source: from where, in words.
    rows: the published rows that it rests on, as PAPER/ROW.
    """

    platform: str
    name: str
    how: str
    source: str = ""
    rows: tuple[str, ...] = ()


Ground: TypeAlias = MeasuredPoint | PublishedRow | Assumption | PlatformValue
"""What a price rests on."""


def measured_point(record: Record) -> MeasuredPoint:
    return MeasuredPoint(record.experiment, record.device, record.factors)


def record_keys(grounds: Iterable[Ground]) -> list[str]:
    return [ground.key for ground in grounds if isinstance(ground, MeasuredPoint)]


def assumptions(grounds: Iterable[Ground]) -> list[str]:
    return [ground.text for ground in grounds if isinstance(ground, Assumption)]


@dataclass(frozen=True)
class Time:
    """Nanoseconds, with the bounds of an interval."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Time) -> Time:
        return Time(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Time:
        return Time(self.value * factor, self.low * factor, self.high * factor)

    def beyond(self, other: Time) -> Time:
        """By how much it is longer than another; nothing if it is not."""
        differences = (self.value - other.value, self.low - other.high, self.high - other.low)
        return Time(*(max(0.0, difference) for difference in differences))

    def at_least(self, other: Time) -> Time:
        return Time(max(self.value, other.value), max(self.low, other.low), max(self.high, other.high))


def non_decreasing(times: Sequence[Time]) -> tuple[Time, ...]:
    """The nearest times, by least squares, of which no later one is less: neighbours that are out of order get their
    mean, and bounds that hold those of all of them (Ayer et al. 1955, pool adjacent violators).
    """
    pools: list[tuple[Time, int]] = []
    for time in times:
        pool, count = time, 1
        while pools and pools[-1][0].value > pool.value:
            before, n = pools.pop()
            mean = (before.value * n + pool.value * count) / (n + count)
            pool, count = Time(mean, min(before.low, pool.low), max(before.high, pool.high)), n + count
        pools.append((pool, count))
    rows = [pool for pool, count in pools for _ in range(count)]
    lows = [*accumulate(reversed([row.low for row in rows]), min)][::-1]
    highs = accumulate((row.high for row in rows), max)
    return tuple(Time(row.value, low, high) for row, low, high in zip(rows, lows, highs, strict=True))


@dataclass(frozen=True)
class Price:
    """Nanoseconds by number of bytes: a line through known sizes, continued beyond them in proportion. More bytes never
    take less time: where measured times fall, as noise lets them, their mean stands for both.
    """

    sizes: tuple[float, ...]
    times: tuple[Time, ...]
    grounds: tuple[Ground, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", non_decreasing(self.times))

    def of(self, nbytes: float) -> Time:
        if nbytes <= 0:
            return Time()
        if nbytes >= self.sizes[-1]:
            return self.times[-1].times(nbytes / self.sizes[-1])
        if nbytes <= self.sizes[0]:
            return self.times[0]
        i = bisect_left(self.sizes, nbytes)
        part = (nbytes - self.sizes[i - 1]) / (self.sizes[i] - self.sizes[i - 1])
        return self.times[i - 1].times(1 - part) + self.times[i].times(part)

    def assuming(self, text: str) -> Price:
        """The same price, which rests on an assumption too."""
        return self.resting_on([Assumption(text)])

    def resting_on(self, grounds: Iterable[Ground]) -> Price:
        """The same price, which rests on more."""
        return replace(self, grounds=(*self.grounds, *grounds))


def per_byte(rates: Sequence[tuple[float, float, float]], grounds: Iterable[Ground]) -> Price:
    """A price in proportion to the bytes: the median of several (rate, low, high) in ns per byte."""
    rate = median(r for r, _, _ in rates)
    low, high = min(low for _, low, _ in rates), max(high for _, _, high in rates)
    return Price((0.0, 1.0), (Time(), Time(rate, max(0.0, low), high)), tuple(dict.fromkeys(grounds)))


@dataclass(frozen=True)
class ExchangePrice:
    """What turns of a kernel and the CPU over a small block that moves to and fro add to the kernels.

    turns: ns by number of turns that follow each other at once. gaps: ns from one turn to the next, and how many times
    as long turns take then, in order. updates: by atomics, in each turn.
    """

    turns: Price
    gaps: tuple[tuple[float, float], ...]
    updates: float = 0

    def of(self, turns: float, gap: float = 0) -> Time:
        """Nanoseconds of so many turns, gap ns apart."""
        points = [(0.0, 1.0), *self.gaps]
        index = min(max(bisect_left([g for g, _ in points], gap), 1), len(points) - 1)
        (first, low), (second, high) = points[index - 1], points[index]
        part = min(1.0, max(0.0, (gap - first) / (second - first))) if second > first else 0.0
        return self.turns.of(turns).times(low + part * (high - low))


class Unmeasured(Exception):
    """A price is needed that is not known. The text is the command that measures it."""


class Prices(Protocol):
    """The prices on one device of a machine. Each method raises Unmeasured if its price is not known."""

    @property
    def machine(self) -> Machine: ...

    @property
    def device(self) -> DeviceInfo: ...

    @property
    def page_size(self) -> str:
        """The pages that plain memory gets here without asking: base or huge."""
        ...

    def host_touch(self, *, parallel: bool, pages: str = "") -> Price:
        """The CPU's first touch of plain host memory, by all threads or by one."""
        ...

    def copy(self, direction: Direction, allocator: str) -> Price:
        """A copy by the device between its memory and host memory whose pages are there."""
        ...

    def lone_copy(self, direction: Direction, allocator: str) -> Price:
        """One such copy alone, from the call to its completion."""
        ...

    def copy_into_new(self, allocator: str) -> Price:
        """A copy by the device into plain host memory whose pages nobody has touched."""
        ...

    def host_copy(self) -> Price:
        """A copy by all threads of the CPU within host memory."""
        ...

    def remote(self, direction: Direction, allocator: str) -> Price:
        """Use of page-locked host memory by a kernel, across the link: reads are h2d, writes d2h."""
        ...

    def allocation(self, allocator: str, call: Literal["allocate", "free"]) -> Price:
        """A call that allocates or frees memory."""
        ...

    def touched_free(self, allocator: str, agent: Literal["cpu", "gpu"]) -> Price:
        """A call that frees memory that an agent has touched."""
        ...

    def host_free(self, allocator: str) -> Price:
        """Freeing plain host memory whose pages were touched."""
        ...

    def moving_touch(self, allocator: str) -> Price:
        """The CPU's first touch of memory whose pages move, by all threads: what writing all words of new pages takes
        beyond writing those of pages that are there.
        """
        ...

    def gpu_fault(self, allocator: str, *, reads_only: bool, read_mostly: bool = False, touch: str = "dense") -> Price:
        """A kernel's first pass over pages that are on the CPU, beyond a pass over its own memory. Where both share one
        memory, over pages that the CPU touched and that are not in the GPU's page table.

        read_mostly: after this advice, given when the pages are there. touch: as of the experiment migration; if it is
        sparse, the price is still per byte of the pages.
        """
        ...

    def gpu_touch(self, allocator: str, *, whole_blocks: bool = False) -> Price:
        """A kernel's first touch of pages that nobody has touched. whole_blocks: a fault brings all pages of a block of
        the driver, as after advice to keep them on the GPU.
        """
        ...

    def gpu_batches(self, allocator: str) -> Price:
        """The part of what a kernel's faults on pages of one buffer take that is spent on batches of faults."""
        ...

    def cpu_fault(self, allocator: str, *, each_page: bool = False) -> Price:
        """The CPU's read of pages that are on the GPU, beyond a read of its own memory. each_page: it reads one byte of
        each page, which takes no time in its own memory.
        """
        ...

    def cpu_remote(self, allocator: str) -> Price:
        """The CPU's use of the GPU's memory where it is, beyond a use of its own memory."""
        ...

    def slow_pass(self, allocator: str) -> Price:
        """A kernel's pass over memory, in which it uses every byte once, where that is slower than over the device's
        usual memory. Raises Unmeasured where it is not, too.
        """
        ...

    def usual_pass(self) -> Price:
        """The same over the device's usual memory."""
        ...

    def uncached(self, agent: Literal["cpu", "gpu"], allocator: str) -> Price:
        """An agent's pass over memory that its caches do not hold, beyond a pass over memory that they do."""
        ...

    def cache_flush(self, allocator: str) -> Price:
        """What the driver takes around a kernel to write back caches, by the bytes that the kernel uses."""
        ...

    def counter_moves(self, allocator: str) -> Price:
        """The move of pages to the GPU by access counters. Raises Unmeasured if these move none, too."""
        ...

    def isolated_fault(self, allocator: str) -> Time:
        """The least time of one fault of a kernel, which moves at most 2 MiB."""
        ...

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        """Turns of a kernel and the CPU over a small block. by_groups: thread groups update a word by atomics."""
        ...

    def own_pass(self, allocator: str) -> Price:
        """A kernel's pass over its own memory, in which it reads and writes every byte."""
        ...

    def prefetch(self, allocator: str) -> Price:
        """A prefetch of pages from the CPU to the GPU."""
        ...

    def prefetch_back(self, allocator: str) -> Price:
        """A prefetch of pages from the GPU to the CPU."""
        ...

    def eviction(self, allocator: str) -> Price:
        """Pages that leave the GPU's memory because others need it."""
        ...

    def advise(self, allocator: str, advice: str) -> Price:
        """The call that gives advice about memory whose pages are on the CPU."""
        ...

    def placements(self, allocator: str) -> tuple[Mapping[str, float], tuple[Ground, ...]]:
        """ms of all passes over data that start on the CPU, by advice, and their grounds. Raises Unmeasured unless
        several kinds of advice were tried.
        """
        ...
