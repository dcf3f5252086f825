"""A counter over time: a value from each reading to the next."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator


class Curve:
    """The readings of one counter in the order of time, at most `limit` of them.

    If there are more, time is divided into spans, whose width doubles when necessary, and of each span the least and
    the most remain, so that the extremes are always those of all readings.
    """

    def __init__(self, limit: int = 1 << 17) -> None:
        self.times, self.values = array("d"), array("d")
        self._limit, self._width, self._open = limit, 0.0, 0

    def add(self, t: float, value: float) -> None:
        """Adds a reading. One that is earlier than the last is taken for one of the same time."""
        if self.times:
            t = max(t, self.times[-1])
        self.times.append(t)
        self.values.append(value)
        if self._width and t // self._width != self.times[self._open] // self._width:
            self._close(len(self.times) - 1)
        if len(self.times) > self._limit:
            self._thin()

    def _close(self, end: int) -> None:
        """Reduces the readings from the open span's first one on, up to `end`."""
        kept = least_and_most(self.values, self._open, end)
        for column in (self.times, self.values):
            column[self._open : end] = array("d", [column[i] for i in kept])
        self._open += len(kept)

    def _thin(self) -> None:
        span = self.times[-1] - self.times[0]
        self._width = max(self._width * 2, span * 4 / self._limit, 1e-6)
        kept: list[int] = []
        first = 0
        for i in range(1, len(self.times) + 1):
            if i == len(self.times) or self.times[i] // self._width != self.times[first] // self._width:
                kept += least_and_most(self.values, first, i)
                first = i
        self._open = 0  # found below: the first of the readings in the last span
        self.times = array("d", [self.times[i] for i in kept])
        self.values = array("d", [self.values[i] for i in kept])
        last = self.times[-1] // self._width
        self._open = next(i for i, t in enumerate(self.times) if t // self._width == last)

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.times, self.values, strict=True)

    @property
    def peak(self) -> tuple[float, float]:
        """The time of the largest value, and that value. Raises ValueError without readings."""
        value = max(self.values)
        return self.times[self.values.index(value)], value

    def at(self, t: float) -> float | None:
        """The value at a time; None before the first reading."""
        place = bisect_right(self.times, t)
        return self.values[place - 1] if place else None

    def within(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """The value at `start`, if there is one, and the readings until `end`."""
        place = bisect_right(self.times, start)
        if place:
            yield start, self.values[place - 1]
        while place < len(self.times) and self.times[place] <= end:
            yield self.times[place], self.values[place]
            place += 1

    def thinned(self, most: int) -> list[tuple[float, float]]:
        """At most `most` readings, with the least and the most of every span."""
        if len(self) <= most:
            return list(self)
        spans = max(1, most // 2 - 1)
        width = (self.times[-1] - self.times[0]) / spans or 1.0
        kept: list[tuple[float, float]] = []
        first = 0
        for i in range(1, len(self) + 1):
            if i == len(self) or self._span(i, width) != self._span(first, width):
                kept += [(self.times[k], self.values[k]) for k in least_and_most(self.values, first, i)]
                first = i
        return kept

    def _span(self, i: int, width: float) -> float:
        return (self.times[i] - self.times[0]) // width


def least_and_most(values: array[float], first: int, end: int) -> list[int]:
    """The places of the least and of the most of values[first:end], in order; one if they are the same."""
    span = values[first:end]
    return sorted({first + span.index(min(span)), first + span.index(max(span))})
