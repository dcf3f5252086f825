"""What the CPU does with memory that a traced program has as managed memory already, from the pages that moved.

A page that comes to the CPU is used there; one that goes to the GPU for the first time was written by the CPU before.
Pages that leave the GPU for want of room tell nothing. Neither do pages that both reach without moving them, nor
records that the driver dropped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from firsttouch.profile.calls import WaitCall
from firsttouch.profile.events.log import MemoryEvent
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import MANAGED_KINDS, TracedLaunch, TracedRun, time_of

EVICTION = "eviction"
"""The cause of moves for want of room (native/events, migration_causes)."""


class ManagedUse(msgspec.Struct, frozen=True, gc=False):
    """The CPU used bytes [start, end) of a managed block: it read them, or wrote them before the GPU used them."""

    block: int
    start: int
    end: int
    writes: bool


class _Lives:
    """The managed blocks by address and time."""

    def __init__(self, run: TracedRun) -> None:
        rows = [
            (life.address, life.begin, float("inf") if life.end is None else life.end, block.nbytes, block.number)
            for block in run.blocks
            if block.kind in MANAGED_KINDS
            for life in block.lives
        ]
        self._rows = sorted(rows)
        self._longest = max((row[3] for row in rows), default=0)

    def find(self, address: int, t: float) -> tuple[int, int, int] | None:
        """The block that has an address at a time, the offset in it, and its bytes."""
        index = bisect_right(self._rows, (address, float("inf")))
        while index and self._rows[index - 1][0] + self._longest > address:
            index -= 1
            begins, begin, end, nbytes, number = self._rows[index]
            if begin <= t <= end and address < begins + nbytes:
                return number, address - begins, nbytes
        return None


class _NamingLaunches:
    """Which launch a page went to the GPU for."""

    def __init__(self, run: TracedRun) -> None:
        self._waits = [number for number, step in enumerate(run.steps) if type(step) is WaitCall]
        self._naming: dict[int, list[int]] = defaultdict(list)
        managed = {block.number for block in run.blocks if block.kind in MANAGED_KINDS}
        for number, step in enumerate(run.steps):
            for use in step.uses if managed and type(step) is TracedLaunch else ():
                if use.block in managed:
                    self._naming[use.block].append(number)

    def before(self, step: int, block: int) -> int:
        """The first launch since the last wait before a step that names a block, or else the last one; or else that
        step.
        """
        naming = self._naming[block]
        waits_before = bisect_left(self._waits, step)
        first = bisect_right(naming, self._waits[waits_before - 1]) if waits_before else 0
        if first < len(naming) and naming[first] < step:
            return naming[first]
        last = bisect_left(naming, step)
        return naming[last - 1] if last else step


def managed_uses(run: TracedRun, events: Iterable[MemoryEvent]) -> dict[int, list[ManagedUse]]:
    """What the CPU used, by the number of the step before which it did; that of all steps for what came last."""
    lives, times = _Lives(run), [time_of(step) for step in run.steps]
    for index in range(1, len(times)):
        times[index] = max(times[index], times[index - 1])
    launches = _NamingLaunches(run)
    moved: dict[int, dict[tuple[int, bool], Ranges]] = defaultdict(lambda: defaultdict(Ranges))
    on_cpu: dict[int, Ranges] = defaultdict(Ranges)
    for event in sorted(events, key=lambda event: event.start):
        found = lives.find(event.address, event.start) if event.kind in ("h2d", "d2h") else None
        if found is None:
            continue
        block, start, nbytes = found
        end = min(nbytes, start + event.bytes)
        step = bisect_left(times, event.start)
        if event.kind == "h2d":
            for first, last in on_cpu[block].missing(start, end):
                moved[launches.before(step, block)][block, True].add(first, last)
            on_cpu[block].remove(start, end)
        else:
            on_cpu[block].add(start, end)
            if event.cause != EVICTION:
                moved[step][block, False].add(start, end)
    return {
        step: [ManagedUse(block, *pair, writes) for (block, writes), ranges in rows.items() for pair in ranges]
        for step, rows in moved.items()
    }
