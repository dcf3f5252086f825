"""Which copies a program does without, once its buffers are unified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import CopyCalls, CopyFate
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import Partners, joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedRange,
    TracedRun,
    TracedStep,
)


@dataclass
class CopiesByFate:
    """The numbers of copies between the host and blocks that have a partner, in their order. dropped: both sides become
    one. restoring: of calls that bring old values back. shared: the host's side is one with another block, so that they
    remain, from one block to the other.
    """

    dropped: list[int] = field(default_factory=list)
    restoring: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)


def copies_by_fate(run: TracedRun, partners: Partners, restoring: Iterable[int]) -> CopiesByFate:
    """restoring: numbers of copies that restore what one buffer would have lost."""
    fates, owners, life = CopiesByFate(), RangeMap[tuple[int, int]](), dict[int, int]()
    kept_calls = {_call_of(run.steps[number]) for number in restoring}
    alive: set[tuple[int, int]] = set()
    known: dict[object, list[int]] = {}
    """Where copies that are alike are, since blocks began or ended last."""
    for number, step in enumerate(run.steps):
        if isinstance(step, TracedAllocation):
            known.clear()
            if step.begins:
                life[step.block] = life.get(step.block, -1) + 1
                alive.add((step.block, life[step.block]))
            else:
                alive.discard((step.block, life.get(step.block, 0)))
        elif isinstance(step, TracedCopy) and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            if kept_calls and _call_of(step) in kept_calls:
                fates.restoring.append(number)
                continue
            side = step.device
            key = step.way, side.block, side.start, side.nbytes, side.rows, step.call.source, step.call.target
            into = known.get(key)
            if into is None:
                here = side.block, life.get(side.block, 0)
                into = known[key] = _fate(run, partners, fates, owners, step, here, alive)
            into.append(number)
    return fates


def _fate(
    run: TracedRun,
    partners: Partners,
    fates: CopiesByFate,
    owners: RangeMap[tuple[int, int]],
    copy: TracedCopy,
    here: tuple[int, int],
    alive: Collection[tuple[int, int]],
) -> list[int]:
    """The copies with which one is. here: its block and its life."""
    if not may_pair(run.blocks[copy.device.block], copy):
        return []
    if partners[here[0]][here[1]].window:
        return fates.dropped
    if _owned_by_another(owners, copy, here, alive):
        return fates.shared
    for start, end, host in joined(copy):
        owners.assign(host, host + end - start, here)
    return fates.dropped


def _call_of(step: TracedStep) -> object:
    return (step.call.site, step.way, step.device.block) if isinstance(step, TracedCopy) else None


def _owned_by_another(
    owners: RangeMap[tuple[int, int]], copy: TracedCopy, here: tuple[int, int], alive: Collection[tuple[int, int]]
) -> bool:
    return any(
        owner != here and owner in alive
        for start, end, host in joined(copy)
        for _, _, owner in owners.overlapping(host, host + end - start)
    )


def needed_copies(calls: Iterable[CopyCalls]) -> int:
    """How many copies a unified version needs too."""
    return sum(row.copies for row in calls if row.fate != "dropped")


def copy_calls(run: TracedRun, fates: CopiesByFate, places: Places) -> list[CopyCalls]:
    """The calls of copies by what becomes of them."""
    by_fate: tuple[tuple[CopyFate, Sequence[int]], ...] = (
        ("dropped", fates.dropped),
        ("restoring", fates.restoring),
        ("shared", fates.shared),
    )
    made = []
    for fate, numbers in by_fate:
        by_place: defaultdict[CallLocation, list[TracedRange]] = defaultdict(list)
        for number in numbers:
            step = run.steps[number]
            assert isinstance(step, TracedCopy)
            by_place[places.in_program(step.call.site)].append(step.device)
        for place, sides in by_place.items():
            blocks, size = [*dict.fromkeys(side.block for side in sides)], sum(side.total for side in sides)
            made.append(CopyCalls(fate=fate, blocks=blocks, place=place, copies=len(sides), bytes=size))
    return made
