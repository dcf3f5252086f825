"""Which copies a program does without, once its buffers are unified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from firsttouch.advice.port.kept import CopySites, FilledBefore, kept_arrays, strongest
from firsttouch.advice.port.places import PlaceGroups, Places
from firsttouch.advice.port.port_findings import CopyCalls, CopyFate, FilledFirst, KeptBecause
from firsttouch.advice.port.shadowed import ShadowRun, shadow_run
from firsttouch.advice.port.wording import KEPT
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import Partners, joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
)


@dataclass
class CopiesByFate:
    """The numbers of copies between the host and blocks that have a partner, in their order. dropped: both sides become
    one. restoring: of calls that bring old values back. shared: the host's side is one with another block, so that they
    remain, from one block to the other. kept: of host arrays that stay beside their block. reasons: why, by the numbers
    of copies, or what is not seen of those that are dropped. fills: that come before dropped copies.
    """

    dropped: list[int] = field(default_factory=list)
    restoring: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    reasons: dict[int, KeptBecause] = field(default_factory=dict)
    fills: list[FilledBefore] = field(default_factory=list)


def copies_by_fate(
    run: TracedRun, partners: Partners, restoring: Iterable[int], doubtful: Iterable[int] = ()
) -> CopiesByFate:
    """restoring: numbers of copies that restore what one buffer would have lost; doubtful: of those that perhaps do. A
    shadow run tells that, and what the CPU does, of the blocks that it looked at.
    """
    if (shadow := run.once(shadow_run)) is not None:
        restoring, doubtful = (_unlooked(run, shadow, numbers) for numbers in (restoring, doubtful))
        restoring = [*restoring, *shadow.restoring()]
    fates, owners, life, sites = CopiesByFate(), RangeMap[tuple[int, int]](), dict[int, int](), CopySites()
    restored = {sites.of(step) for number in restoring if isinstance(step := run.steps[number], TracedCopy)}
    kept = kept_arrays(run, partners, sites, restored)
    for number in doubtful:
        if isinstance(step := run.steps[number], TracedCopy):
            kept.reasons.setdefault(sites.of(step), "reset")
    fates.fills = kept.fills
    alive: set[tuple[int, int]] = set()
    known: dict[object, list[int]] = {}
    """Where copies that are alike are, since blocks began or ended last."""
    for number, step in enumerate(run.steps):
        if type(step) is TracedAllocation:
            known.clear()
            if step.begins:
                life[step.block] = life.get(step.block, -1) + 1
                alive.add((step.block, life[step.block]))
            else:
                alive.discard((step.block, life.get(step.block, 0)))
        elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            call = sites.of(step) if restored or kept.reasons else None
            is_restoring = call in restored
            if call in kept.reasons and not is_restoring:
                fates.reasons[number] = kept.reasons[call]
            if is_restoring or (call is not None and kept.keeps(call)):
                if may_pair(run.blocks[step.device.block], step):
                    (fates.restoring if is_restoring else fates.kept).append(number)
                continue
            side, call_of = step.device, step.call
            key = step.way, side.block, side.start, side.nbytes, side.rows, call_of.source, call_of.target, call_of.host
            into = known.get(key)
            if into is None:
                here = side.block, life.get(side.block, 0)
                into = known[key] = _fate(run, partners, fates, owners, step, here, alive)
            into.append(number)
    return fates


def _unlooked(run: TracedRun, shadow: ShadowRun, numbers: Iterable[int]) -> list[int]:
    """Those of some copies whose blocks a shadow run did not look at."""
    copies = ((number, run.steps[number]) for number in numbers)
    return [
        number for number, step in copies if isinstance(step, TracedCopy) and step.device.block not in shadow.looked
    ]


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


def _owned_by_another(
    owners: RangeMap[tuple[int, int]], copy: TracedCopy, here: tuple[int, int], alive: Collection[tuple[int, int]]
) -> bool:
    return any(
        owner != here and owner in alive
        for start, end, host in joined(copy)
        for _, _, owner in owners.overlapping(host, host + end - start)
    )


def kept_ranges(run: TracedRun, fates: CopiesByFate) -> dict[int, Ranges]:
    """The host's bytes that stay beside each block."""
    kept: defaultdict[int, Ranges] = defaultdict(Ranges)
    for number in fates.kept:
        copy = run.steps[number]
        assert isinstance(copy, TracedCopy)
        for start, end, host in joined(copy):
            kept[copy.device.block].add(host, host + end - start)
    return kept


def needed_copies(calls: Iterable[CopyCalls]) -> int:
    """How many copies a unified version needs too, or may need as far as was seen."""
    return sum(row.copies for row in calls if row.fate != "dropped" or row.unless)


def are_perhaps_needed(calls: Iterable[CopyCalls]) -> bool:
    """Whether a unified version may do without some of these copies."""
    return any(row.unless for row in calls)


def copy_calls(run: TracedRun, fates: CopiesByFate, places: Places) -> list[CopyCalls]:
    """The calls of copies by what becomes of them."""
    by_fate: tuple[tuple[CopyFate, Sequence[int]], ...] = (
        ("dropped", fates.dropped),
        ("restoring", fates.restoring),
        ("shared", fates.shared),
        ("kept", fates.kept),
    )
    made = []
    for fate, numbers in by_fate:
        rows = PlaceGroups[int](places)
        for number in numbers:
            rows.add(number, site_of(run, number))
        for (_, (place,)), alike in rows.groups.items():
            sides = [run.steps[number].device for number in alike]  # type: ignore[union-attr]
            blocks = [*dict.fromkeys(side.block for side in sides)]
            size = sum(run.times.get(number, 1) * side.total for number, side in zip(alike, sides, strict=True))
            reason = strongest(fates.reasons[number] for number in alike if number in fates.reasons)
            unless = KEPT[reason].unless if reason else ""
            row = CopyCalls(fate=fate, blocks=blocks, place=place, copies=run.count(alike), bytes=size,
                            reason=reason or "", unless=unless)  # fmt: skip
            made.append(row)
    return made


def filled_first(run: TracedRun, fates: CopiesByFate, places: Places) -> list[FilledFirst]:
    """The calls of fills that come before dropped copies."""
    by_place: defaultdict[tuple[CallLocation, bool], list[FilledBefore]] = defaultdict(list)
    for row in fates.fills:
        by_place[places.in_program(site_of(run, row.fill)), row.is_whole].append(row)
    made = []
    for (place, is_whole), rows in by_place.items():
        targets = [(row.fill, step.target) for row in rows if isinstance(step := run.steps[row.fill], TracedFill)]
        copies = [*dict.fromkeys(places.in_program(site_of(run, row.copy)) for row in rows)]
        made.append(
            FilledFirst(
                is_needless=is_whole,
                blocks=[*dict.fromkeys(target.block for _, target in targets)],
                place=place,
                copies=copies,
                fills=run.count(row.fill for row in rows),
                bytes=sum(run.times.get(fill, 1) * target.total for fill, target in targets),
            )
        )
    return made


def site_of(run: TracedRun, number: int) -> CallSite:
    """Where a step was called that copies, fills or launches."""
    step = run.steps[number]
    assert isinstance(step, TracedLaunch | TracedCopy | TracedFill)
    return step.call.site
