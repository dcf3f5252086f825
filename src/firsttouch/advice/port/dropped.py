"""Which copies a program does without, once its buffers are unified, and where it then has to wait for the device.

A copy that blocks is a wait too. Where it was the only one between a kernel and the CPU, the CPU would use the shared
memory too early. The CPU is taken to read what was copied back as soon as it can, and not any more when the next kernel
may write it; and to write what is copied to the device at any time before the copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import MOST_RECORDS, CopyCalls, CopyFate, NeededWait, StepRecord
from firsttouch.profile.calls import CudaWait
from firsttouch.profile.cuda import CallSite
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import Partners, joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRange,
    TracedRun,
    TracedStep,
)

_ANY = -2
"""The block of launches of which it is not known what they use."""


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
        if type(step) is TracedAllocation:
            known.clear()
            if step.begins:
                life[step.block] = life.get(step.block, -1) + 1
                alive.add((step.block, life[step.block]))
            else:
                alive.discard((step.block, life.get(step.block, 0)))
        elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
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
    return (step.call.site, step.way, step.device.block) if type(step) is TracedCopy else None


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


class _Pending(NamedTuple):
    """Work of the device that the CPU has not waited for. step: its number."""

    step: int
    launch: TracedLaunch | None = None


class _Lost(NamedTuple):
    """A wait that is missing: of the copy `copy`, for `work`. before_write: the CPU writes too early, else it reads."""

    copy: int
    work: _Pending
    before_write: bool


class _Order:
    """The order of the device's work and the CPU's, in the program without some copies."""

    def __init__(self, run: TracedRun, partners: Partners, fates: CopiesByFate, unified: bool) -> None:
        self._run = run
        self._windows = {block for block, lives in enumerate(partners) if any(life.window for life in lives)}
        self._dropped, self._shared = set(fates.dropped), set(fates.shared)
        self._unified = unified
        self._writing: dict[int, _Pending] = {}
        """The work that may write a block, which the CPU uses in place."""
        self._using: dict[int, _Pending] = {}
        self._owed: _Pending | None = None
        """What is copied without blocking, so that the CPU waits for it later."""
        self._samples: dict[tuple[TracedRange, int], int | None] = {}
        self._sources: dict[int, int] = {}
        """Where on the host the bytes of a block were copied from last."""
        self._used_sources: defaultdict[int, set[int]] = defaultdict(set)
        """Those from which a block was filled when work began that may still use it."""
        self._joined = {run.steps[number].device.block for number in fates.dropped}  # type: ignore[union-attr]
        self._frees_later = False
        self.lost: list[_Lost] = []

    def go(self) -> list[_Lost]:
        for number, step in enumerate(self._run.steps):
            if type(step) is TracedLaunch:
                self._launch(number, step)
            elif type(step) is TracedCopy:
                self._copy(number, step)
            elif type(step) is TracedFill:
                self._use(number, step.target.block)
                if step.call.blocking:
                    self._waited()
            elif type(step) is CudaWait:
                if step.what != "copy" and not (step.what == "free" and self._frees_later):
                    self._waited()
            elif type(step) is TracedAllocation and not step.begins:
                # What replaces a host array is freed when the CPU has used it, and page-locked arrays are replaced.
                is_joined = step.block in self._joined or self._run.blocks[step.block].on_host
                self._frees_later = self._unified and is_joined
                self._writing.pop(step.block, None)
                self._using.pop(step.block, None)
        return self.lost

    def _waited(self, last: int | None = None) -> None:
        """The CPU has waited for all work, or for that up to a step."""
        if last is None:
            self._writing.clear()
            self._using.clear()
            self._owed = None
        else:
            for pending in (self._writing, self._using):
                for block in [block for block, work in pending.items() if work.step <= last]:
                    del pending[block]
            if self._owed is not None and self._owed.step <= last:
                self._owed = None
        if not self._using:
            self._used_sources.clear()

    def _launch(self, number: int, step: TracedLaunch) -> None:
        if not self._unified or step.call.captured:
            return
        work = _Pending(number, step)
        if step.call.arguments is None:
            self._using[_ANY] = self._writing[_ANY] = work
        for use in step.uses:
            self._using[use.block] = work
            if use.block in self._sources:
                self._used_sources[use.block].add(self._sources[use.block])
            if use.may_write:
                self._writing[use.block] = work

    def _use(self, number: int, written: int, read: int = NO_BLOCK) -> None:
        """A fill or a copy on the device."""
        if self._unified:
            self._using[written] = self._using[read] = self._writing[written] = _Pending(number)

    def _copy(self, number: int, step: TracedCopy) -> None:
        if step.call.captured:
            return
        if number in self._shared:
            self._use(number, step.target.block, step.source.block)
            if step.call.blocking:
                self._lose(number, _Pending(number))
        elif number in self._dropped:
            self._drop(number, step)
        elif step.call.blocking:
            self._waited()
        elif step.way == "d2d":
            self._use(number, step.target.block, step.source.block)
        else:
            self._owed = _Pending(number)

    def _drop(self, number: int, step: TracedCopy) -> None:
        block = step.device.block
        written = self._writing.get(block) or self._writing.get(_ANY)
        if step.way == "d2h" and written is not None and not step.call.blocking:
            self._owed = written
        elif step.way == "d2h" and written is not None:
            self._lose(number, written)
        elif step.call.blocking and self._owed is not None:
            self._lose(number, self._owed)
        if step.way == "h2d":
            used = self._using.get(block) or self._using.get(_ANY)
            if self._may_have_changed(step) and used is not None:
                self._lose(number, used, before_write=True)
            self._sources[block] = step.call.source

    def _may_have_changed(self, step: TracedCopy) -> bool:
        """Whether the CPU may have written the bytes that a copy brings, and a kernel may still use them."""
        key, block = (step.device, step.call.source), step.device.block
        before, self._samples[key] = self._samples.get(key), step.call.sample
        if block in self._windows and step.call.source not in self._used_sources[block]:
            return False
        return before is None or before != step.call.sample

    def _lose(self, number: int, work: _Pending, *, before_write: bool = False) -> None:
        self.lost.append(_Lost(number, work, before_write))
        self._waited(work.step if before_write else None)


def needed_waits(
    run: TracedRun, partners: Partners, fates: CopiesByFate, places: Places, record: Callable[[int], StepRecord]
) -> list[NeededWait]:
    """Where a unified version has to wait for the device since it does without the dropped copies."""
    rows: dict[object, list[_Lost]] = {}
    for lost in _Order(run, partners, fates, unified=True).go():
        sites = (_site(run, number) for number in (lost.copy, lost.work.step))
        key = lost.before_write, *(places.in_program(site) for site in sites)
        rows.setdefault(key, []).append(lost)
    return [_needed(run, alike, places, record) for alike in rows.values()]


def only_waits(run: TracedRun, partners: Partners, dropped: Sequence[int]) -> set[int]:
    """Which copies are the only wait for others that do not block, where arrays of both sides remain."""
    return (
        {lost.copy for lost in _Order(run, partners, CopiesByFate([*dropped]), unified=False).go()}
        if dropped
        else set()
    )


def _site(run: TracedRun, number: int) -> CallSite:
    step = run.steps[number]
    assert isinstance(step, TracedLaunch | TracedCopy | TracedFill)
    return step.call.site


def _needed(run: TracedRun, alike: list[_Lost], places: Places, record: Callable[[int], StepRecord]) -> NeededWait:
    first, launch = alike[0], alike[0].work.launch
    return NeededWait(
        before="writes" if first.before_write else "reads",
        copy=places.in_program(_site(run, first.copy)),
        work=places.in_program(_site(run, first.work.step)),
        kernel=kernel_name(launch.kernel) if launch is not None and launch.kernel else "",
        copies=len(alike),
        records=[record(lost.copy) for lost in alike[:MOST_RECORDS]],
    )
