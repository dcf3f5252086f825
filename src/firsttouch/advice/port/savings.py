"""How many bytes a unified version saves at most: at each moment those of the host that have a living partner."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from firsttouch.program.partners import Partners
from firsttouch.program.trace import TracedAllocation, TracedMapping, TracedRun, beside_launches


class SavingMoment(NamedTuple):
    """After a block began or ended at `t`. saved: bytes that a unified version does not have; device: of the living
    blocks; host: that have a living partner, those of windows included.
    """

    t: float
    saved: int
    device: int
    host: int


class _Overlapping:
    """How many bytes are in any of ranges that overlap each other, as they come and go: a tree over their edges, of
    which each node counts the ranges that have all of its bytes and not all of its parent's.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._edges = sorted({edge for pair in ranges for edge in pair})
        leaves = [last - first for first, last in pairwise(self._edges)]
        self._first_leaf = 1 << (len(leaves) - 1).bit_length()
        sizes = [0] * self._first_leaf + leaves + [0] * (self._first_leaf - len(leaves))
        for node in range(self._first_leaf - 1, 0, -1):
            sizes[node] = sizes[2 * node] + sizes[2 * node + 1]
        self._sizes, self._counts, self._covered = sizes, [0] * len(sizes), [0] * len(sizes)

    @property
    def total(self) -> int:
        return self._covered[1]

    def add(self, start: int, end: int, by: int) -> None:
        """by: 1 if the range comes, -1 if it goes."""
        low = bisect_left(self._edges, start) + self._first_leaf
        high = bisect_left(self._edges, end) + self._first_leaf
        while low < high:
            if low & 1:
                self._change(low, by)
                low += 1
            if high & 1:
                high -= 1
                self._change(high, by)
            low, high = low >> 1, high >> 1

    def _change(self, node: int, by: int) -> None:
        counts, covered = self._counts, self._covered
        counts[node] += by
        while node:
            inside = covered[2 * node] + covered[2 * node + 1] if node < self._first_leaf else 0
            now = self._sizes[node] if counts[node] else inside
            if now == covered[node]:
                return
            covered[node] = now
            node >>= 1


class _Cover:
    """How many bytes are in any of the ranges that are there, as ranges come and go. All must be known at first."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._overlapping: dict[tuple[int, int], _Overlapping] = {}
        """Of ranges that overlap others."""
        self._present = Counter[tuple[int, int]]()
        self.total = 0
        group, end = list[tuple[int, int]](), 0
        for pair in sorted(set(ranges)):
            if pair[0] >= end:
                self._add_group(group)
                group = []
            group.append(pair)
            end = max(end, pair[1])
        self._add_group(group)

    def _add_group(self, group: Sequence[tuple[int, int]]) -> None:
        if len(group) > 1:
            self._overlapping |= dict.fromkeys(group, _Overlapping(group))

    def add(self, ranges: Iterable[tuple[int, int]], by: int) -> None:
        """by: 1 if the ranges come, -1 if they go."""
        for pair in ranges:
            before = self._present[pair]
            self._present[pair] = before + by
            if before and before + by:
                continue
            others = self._overlapping.get(pair)
            if others is None:
                self.total += by * (pair[1] - pair[0])
            else:
                self.total -= others.total
                others.add(*pair, by)
                self.total += others.total


def moments(run: TracedRun, partners: Partners) -> Iterator[SavingMoment]:
    """The savings after each step at which a block, or a piece of one, begins or ends."""
    lives = [life for block_lives in partners for life in block_lives]
    saved = _Cover(pair for life in lives for pair in life.host)
    # Without windows, what a unified version saves of the host is all that has a partner.
    host = (
        _Cover(p for life in lives for p in (*life.host, *life.windows))
        if any(life.windows for life in lives)
        else saved
    )
    number, device, windows = Counter[int](), 0, 0
    for _, step in run.once(beside_launches):
        if not isinstance(step, TracedAllocation | TracedMapping) or run.blocks[step.block].on_host:
            continue
        device += step.change
        if type(step) is TracedAllocation:
            by = 1 if step.begins else -1
            number[step.block] += step.begins
            life = partners[step.block][number[step.block] - 1]
            windows += by * life.window.total()
            saved.add(life.host, by)
            if host is not saved:
                host.add((*life.host, *life.windows), by)
        yield SavingMoment(step.call.t, saved.total + windows, device, host.total)


def most_saved(run: TracedRun, partners: Partners) -> SavingMoment:
    """The moment at which a unified version saves most; of several, the first of those with most bytes in all."""
    sizes = moments(run, partners)
    return max(
        sizes, key=lambda moment: (moment.saved, moment.device + moment.host), default=SavingMoment(0.0, 0, 0, 0)
    )
