"""A map of byte ranges: each byte has the value of the range that was assigned last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

V = TypeVar("V")
_Chunk: TypeAlias = tuple[list[int], list[int], list[V]]
LONGEST = 1 << 10
"""The most ranges of a chunk: an assignment moves what follows it in its chunk."""


class RangeMap(Generic[V]):
    """Disjoint half-open ranges with values. An assignment splits what it overlaps."""

    __slots__ = ("_chunks", "_splits")

    def __init__(self) -> None:
        self._chunks: list[_Chunk[V]] = [([], [], [])]
        """Starts, ends and values of some ranges each, in order. None is empty, but for a single one."""
        self._splits: list[int] = []
        """Between each two chunks, a byte before which the ranges of the first end, and from which the second's are."""

    def __iter__(self) -> Iterator[tuple[int, int, V]]:
        return chain.from_iterable(zip(*chunk, strict=True) for chunk in self._chunks)

    def __bool__(self) -> bool:
        return bool(self._chunks[0][0])

    def overlapping(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """The ranges that have any byte of [start, end), whole, in order."""
        if start >= end:
            return []
        at = bisect_right(self._splits, start)
        until = bisect_left(self._splits, end, at)
        starts, ends, values = self._chunks[at]
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if at == until and last - first == 1:
            return [(starts[first], ends[first], values[first])]
        found = list(zip(starts[first:last], ends[first:last], values[first:last], strict=True))
        for starts, ends, values in self._chunks[at + 1 : until + 1]:
            last = bisect_left(starts, end)
            found += zip(starts[:last], ends[:last], values[:last], strict=True)
        return found

    def exactly(self, start: int, end: int) -> V | None:
        """The value of a range that is [start, end), if there is one."""
        starts, ends, values = self._chunk(start)
        at = _place(starts, ends, start, end)
        return values[at] if at >= 0 else None

    def assign(self, start: int, end: int, value: V) -> None:
        """Gives a value to all bytes of [start, end)."""
        starts, ends, values = self._chunk(start)
        if (at := _place(starts, ends, start, end)) >= 0:
            values[at] = value
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
        self._chunks, self._splits = [([], [], [])], []

    def _chunk(self, start: int) -> _Chunk[V]:
        """The one that a range with this start is in."""
        return self._chunks[bisect_right(self._splits, start)]

    def _replace(self, start: int, end: int, *rows: tuple[int, int, V]) -> None:
        if start >= end:
            return
        at = bisect_right(self._splits, start)
        if (until := bisect_left(self._splits, end, at)) > at:
            self._join(at, until)
        starts, ends, values = self._chunks[at]
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
        if len(starts) > LONGEST:
            self._split(at)
        elif not starts and self._splits:
            del self._chunks[at], self._splits[max(at - 1, 0)]

    def _join(self, at: int, until: int) -> None:
        """Makes one chunk of several, which is the first of them."""
        starts, ends, values = self._chunks[at]
        for more_starts, more_ends, more_values in self._chunks[at + 1 : until + 1]:
            starts += more_starts
            ends += more_ends
            values += more_values
        del self._chunks[at + 1 : until + 1], self._splits[at:until]

    def _split(self, at: int) -> None:
        """Makes several chunks of a long one."""
        starts, ends, values = self._chunks[at]
        places = range(0, len(starts), LONGEST // 2)
        pieces = [slice(place, place + LONGEST // 2) for place in places]
        self._chunks[at : at + 1] = [(starts[piece], ends[piece], values[piece]) for piece in pieces]
        self._splits[at:at] = [starts[place] for place in places[1:]]


def _place(starts: list[int], ends: list[int], start: int, end: int) -> int:
    """Of a range that is [start, end); -1 if there is none."""
    at = bisect_left(starts, start)
    return at if at < len(starts) and starts[at] == start and ends[at] == end else -1
