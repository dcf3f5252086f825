"""Sets of byte ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    """A sorted set of disjoint half-open ranges; adjacent ranges are merged."""

    __slots__ = ("_ends", "_starts", "_total")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._total = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()
        self._total = 0

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        if first < len(self._ends) and self._starts[first] <= start and end <= self._ends[first]:
            return
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._replace(first, last, [start], [end])

    def remove(self, start: int, end: int) -> None:
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= last or start >= end:
            return
        starts = [s for s in (self._starts[first],) if s < start]
        ends = [e for e in (self._ends[last - 1],) if e > end]
        self._replace(first, last, [*starts, *(end for _ in ends)], [*(start for _ in starts), *ends])

    def _replace(self, first: int, last: int, starts: list[int], ends: list[int]) -> None:
        self._total += sum(ends) - sum(starts) - sum(self._ends[first:last]) + sum(self._starts[first:last])
        self._starts[first:last] = starts
        self._ends[first:last] = ends

    def overlaps(self, start: int, end: int) -> bool:
        first = bisect_right(self._ends, start)
        return start < end and first < len(self._starts) and self._starts[first] < end

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are not in the set, in order."""
        gaps = []
        for index in range(bisect_right(self._ends, start), len(self._starts)):
            if self._starts[index] >= end or start >= end:
                break
            if start < self._starts[index]:
                gaps.append((start, self._starts[index]))
            start = self._ends[index]
        if start < end:
            gaps.append((start, end))
        return gaps

    def common(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are in the set, in order."""
        parts = []
        for index in range(bisect_right(self._ends, start), len(self._starts)):
            if self._starts[index] >= end:
                break
            parts.append((max(start, self._starts[index]), min(end, self._ends[index])))
        return parts

    def overlapping(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges that have any byte of [start, end), whole, in order."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return list(zip(self._starts[first:last], self._ends[first:last], strict=True)) if start < end else []

    def number_in(self, start: int, end: int) -> int:
        """How many parts of [start, end) are in the set."""
        return max(0, bisect_left(self._starts, end) - bisect_right(self._ends, start)) if start < end else 0

    def extent(self, start: int, end: int) -> tuple[int, int]:
        """From the first to behind the last byte of [start, end) in the set; (end, start) if there is none."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end) - 1
        return (max(start, self._starts[first]), min(end, self._ends[last])) if first <= last else (end, start)

    def bytes_in(self, start: int, end: int) -> int:
        """The number of bytes of [start, end) that are in the set."""
        return sum(last - first for first, last in self.common(start, end))

    def total(self) -> int:
        return self._total
