"""A map of byte ranges: each byte has the value of the range that was assigned last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class RangeMap(Generic[V]):
    """Disjoint half-open ranges with values. An assignment splits what it overlaps."""

    __slots__ = ("_ends", "_starts", "_values")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[V] = []

    def __iter__(self) -> Iterator[tuple[int, int, V]]:
        return iter(zip(self._starts, self._ends, self._values, strict=True))

    def overlapping(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """The ranges that have any byte of [start, end), whole, in order."""
        first, last = self._span(start, end)
        rows = zip(self._starts[first:last], self._ends[first:last], self._values[first:last], strict=True)
        return list(rows) if start < end else []

    def assign(self, start: int, end: int, value: V) -> None:
        """Gives a value to all bytes of [start, end)."""
        self._replace(start, end, [(start, end, value)])

    def remove(self, start: int, end: int) -> None:
        """Leaves the bytes of [start, end) without a value."""
        self._replace(start, end, [])

    def clear(self) -> None:
        for column in (self._starts, self._ends, self._values):
            column.clear()

    def _span(self, start: int, end: int) -> tuple[int, int]:
        return bisect_right(self._ends, start), bisect_left(self._starts, end)

    def _replace(self, start: int, end: int, rows: list[tuple[int, int, V]]) -> None:
        if start >= end:
            return
        first, last = self._span(start, end)
        if first < last:
            if self._starts[first] < start:
                rows.insert(0, (self._starts[first], start, self._values[first]))
            if self._ends[last - 1] > end:
                rows.append((end, self._ends[last - 1], self._values[last - 1]))
        self._starts[first:last] = [row[0] for row in rows]
        self._ends[first:last] = [row[1] for row in rows]
        self._values[first:last] = [row[2] for row in rows]
