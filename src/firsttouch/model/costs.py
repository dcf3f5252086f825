"""Times, prices, and what they rest on. A price is time per amount, with an interval and its grounds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import accumulate
from statistics import median
from typing import TypeAlias

import msgspec

from firsttouch.records.reading import PointIdentity
from firsttouch.records.schema import Record


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

    def without(self, part: Time) -> Time:
        """What is left of it, bound by bound, without a part of it."""
        return Time(*(max(0.0, a - b) for a, b in zip(astuple(self), astuple(part), strict=True)))

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


LARGE_PAGE = 64 << 10
"""Fewer bytes take as long as these, by pages."""
DOUBLING = 1.1
"""By how much a range grows for each doubling beyond the largest size that was measured. Of prices of an H200 and an
H100 from 1 MiB on, cut off at each size, nine of ten grow by less.
"""
HARDLY_GROWS = 0.5
"""The time of a call hardly grows with its size if it grows by less than this power of it."""


@dataclass(frozen=True)
class Price:
    """Nanoseconds by number of bytes: a line through known sizes, continued beyond them in proportion, with a range
    that widens. More bytes never take less time: where measured times fall, as noise lets them, their mean stands for
    both. of_call: of a call that allocates or frees, whose time may grow more slowly than its size.
    """

    sizes: tuple[float, ...]
    times: tuple[Time, ...]
    grounds: tuple[Ground, ...]
    of_call: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", non_decreasing(self.times))

    def of(self, nbytes: float) -> Time:
        if nbytes <= 0:
            return Time()
        if nbytes >= self.sizes[-1]:
            return self._above(nbytes)
        if nbytes <= self.sizes[0]:
            first = self.times[0]
            if self.sizes[0] <= LARGE_PAGE:
                return first
            return Time(first.value, first.low * max(nbytes, LARGE_PAGE) / self.sizes[0], first.high)
        i = bisect_left(self.sizes, nbytes)
        part = (nbytes - self.sizes[i - 1]) / (self.sizes[i] - self.sizes[i - 1])
        return self.times[i - 1].times(1 - part) + self.times[i].times(part)

    def _above(self, nbytes: float) -> Time:
        """In proportion to the largest known size. Beyond it the range holds what the line through the two largest
        would say, or that a call takes no longer, and grows by DOUBLING; but for a price that is a rate.
        """
        last, factor = self.times[-1], nbytes / self.sizes[-1]
        time = last.times(factor)
        if len(self.sizes) < 2 or self.sizes[-1] <= 1 or factor <= 1:
            return time
        slope = (last.low - self.times[-2].low) / (self.sizes[-1] - self.sizes[-2])
        line = last.low + max(0.0, slope) * (nbytes - self.sizes[-1])
        low = last.low if self._hardly_grows else min(time.low, line)
        return Time(time.value, low, time.high * DOUBLING ** math.log2(factor))

    @property
    def _hardly_grows(self) -> bool:
        """Whether it is of a call whose time grew by less than HARDLY_GROWS between the two largest known sizes."""
        before, last = self.times[-2], self.times[-1]
        return self.of_call and last.high < before.low * (self.sizes[-1] / self.sizes[-2]) ** HARDLY_GROWS

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
