"""A map of byte ranges: each byte has the value of the range that was assigned last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
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

    def __bool__(self) -> bool:
        return bool(self._starts)

    def overlapping(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """The ranges that have any byte of [start, end), whole, in order."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= last or start >= end:
            return []
        if last - first == 1:
            return [(self._starts[first], self._ends[first], self._values[first])]
        return list(zip(self._starts[first:last], self._ends[first:last], self._values[first:last], strict=True))

    def exactly(self, start: int, end: int) -> V | None:
        """The value of a range that is [start, end), if there is one."""
        at = self._place(start, end)
        return self._values[at] if at >= 0 else None

    def assign(self, start: int, end: int, value: V) -> None:
        """Gives a value to all bytes of [start, end)."""
        if (at := self._place(start, end)) >= 0:
            self._values[at] = value
        else:
            self._replace(start, end, (start, end, value))

    def change(self, start: int, end: int, value_of: Callable[[int, int, V | None], V]) -> None:
        """Gives all bytes of [start, end) values by what they have: None where they have none. Neighbours that get
        equal values become one.
        """
        rows, at = list[tuple[int, int, V]](), start
        known: list[tuple[int, int, V | None]] = [*self.overlapping(start, end), (end, end, None)]
        for first, last, value in known:
            first, last = max(first, start), min(last, end)
            for a, b, before in ((at, first, None), (first, last, value)):
                if a < b:
                    new = value_of(a, b, before)
                    if rows and rows[-1][2] == new:
                        a = rows.pop()[0]
                    rows.append((a, b, new))
            at = last
        self._replace(start, end, *rows)

    def remove(self, start: int, end: int) -> None:
        """Leaves the bytes of [start, end) without a value."""
        self._replace(start, end)

    def clear(self) -> None:
        for column in (self._starts, self._ends, self._values):
            column.clear()

    def _place(self, start: int, end: int) -> int:
        """Of a range that is [start, end); -1 if there is none."""
        at = bisect_left(self._starts, start)
        return at if at < len(self._starts) and self._starts[at] == start and self._ends[at] == end else -1

    def _replace(self, start: int, end: int, *rows: tuple[int, int, V]) -> None:
        if start >= end:
            return
        starts, ends, values = self._starts, self._ends, self._values
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first < last:
            if starts[first] < start:
                rows = (starts[first], start, values[first]), *rows
            if ends[last - 1] > end:
                rows = *rows, (end, ends[last - 1], values[last - 1])
        elif not rows:
            return
        starts[first:last] = [row[0] for row in rows]
        ends[first:last] = [row[1] for row in rows]
        values[first:last] = [row[2] for row in rows]
