"""How many bytes a unified version saves at most: at each moment those of the host that have a living partner."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
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


class _Cover:
    """How many bytes are in any of the ranges that are there, as ranges come and go. All must be known at first."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._edges = sorted({edge for pair in ranges for edge in pair})
        self._counts = [0] * len(self._edges)
        self._present = Counter[tuple[int, int]]()
        self.total = 0

    def add(self, ranges: Iterable[tuple[int, int]], by: int) -> None:
        """by: 1 if the ranges come, -1 if they go."""
        edges, counts = self._edges, self._counts
        for pair in ranges:
            before = self._present[pair]
            self._present[pair] = before + by
            if before and before + by:
                continue
            for n in range(bisect_left(edges, pair[0]), bisect_left(edges, pair[1])):
                self.total += by * (edges[n + 1] - edges[n]) if counts[n] == (by < 0) else 0
                counts[n] += by


def moments(run: TracedRun, partners: Partners) -> Iterator[SavingMoment]:
    """The savings after each step at which a block, or a piece of one, begins or ends."""
    lives = [life for block_lives in partners for life in block_lives]
    saved = _Cover(pair for life in lives for pair in life.host)
    host = _Cover(pair for life in lives for pair in (*life.host, *life.windows))
    number, device, windows = Counter[int](), 0, 0
    for _, step in run.once(beside_launches):
        if not isinstance(step, TracedAllocation | TracedMapping) or run.blocks[step.block].on_host:
            continue
        device += step.change
        if isinstance(step, TracedAllocation):
            by = 1 if step.begins else -1
            number[step.block] += step.begins
            life = partners[step.block][number[step.block] - 1]
            windows += by * life.window.total()
            saved.add(life.host, by)
            host.add((*life.host, *life.windows), by)
        yield SavingMoment(step.call.t, saved.total + windows, device, host.total)


def most_saved(run: TracedRun, partners: Partners) -> SavingMoment:
    """The moment at which a unified version saves most; of several, the first of those with most bytes in all."""
    sizes = moments(run, partners)
    return max(
        sizes, key=lambda moment: (moment.saved, moment.device + moment.host), default=SavingMoment(0.0, 0, 0, 0)
    )
