"""Where a program has to wait for the device by a call of its own, once it does without some copies.

A copy that blocks is a wait too. Where it was the only one between a kernel and the CPU, the CPU would use the shared
memory too early. Unless the watch of the host's memory tells more (--host), the CPU is taken to read what was copied
back as soon as it can, and not any more when the next kernel may write it; and to write what is copied to the device at
any time before the copy. Where the watch told of some copies of a call, and the CPU read after none of these before the
program's next wait, it only may do so after the others. A copy to the device that stays, from a host array that is now
another buffer, is waited for only before the CPU writes that array.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from firsttouch.advice.port.cpu_use import cpu_uses
from firsttouch.advice.port.dropped import CopiesByFate, site_of
from firsttouch.advice.port.kept import CopyCall, CopySites
from firsttouch.advice.port.places import PlaceGroups, Places
from firsttouch.advice.port.port_findings import MOST_RECORDS, NeededWait, StepRecord, TooEarly, WaitCertainty
from firsttouch.profile.calls import HostUse, WaitCall
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.program.partners import Partners, joined
from firsttouch.program.range_map import RangeMap
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRange,
    TracedRun,
    beside_launches,
)
from firsttouch.program.unrecorded_waits import unrecorded_waits
from firsttouch.program.watched import PAGE_BYTES, HostHistory, SinceCopy

_ANY = -2
"""The block of launches of which it is not known what they use."""
_FAR = 1000
"""Past so many pieces of work that do not write what was copied, no wait is looked for."""


@dataclass(frozen=True)
class _Lost:
    """A wait that is missing: of the copy `copy`, for the steps `work`, the latest last. before: what the CPU does too
    early else. following: where the program waits next, if nothing may write what was copied before. unread: after so
    many copies of the same call the CPU was seen not to use what was copied.
    """

    copy: int
    work: tuple[int, ...]
    before: TooEarly
    certainty: WaitCertainty = "likely"
    following: CallSite | None = None
    unread: int = 0


class _Pending:
    """Work of the device that the CPU has not waited for, by blocks: the latest step of each call."""

    def __init__(self) -> None:
        self._of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By block and the identity of the call's site."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, block: int, number: int, site: CallSite) -> None:
        self._of[block][id(site)] = number

    def of(self, block: int) -> tuple[int, ...]:
        """What may use a block, in order."""
        steps = [*self._of[block].values()] if block in self._of else []
        if _ANY in self._of:
            steps = [*{*steps, *self._of[_ANY].values()}]
        return tuple(sorted(steps)) if len(steps) > 1 else tuple(steps)

    def end(self, block: int) -> None:
        self._of.pop(block, None)

    def waited(self, last: int | None) -> None:
        """The CPU has waited for all of it, or for that up to a step."""
        if last is None:
            self._of.clear()
            return
        for block, steps in [*self._of.items()]:
            self._of[block] = {site: number for site, number in steps.items() if number > last}
            if not self._of[block]:
                del self._of[block]


class _Order:
    """The order of the device's work and the CPU's, in the program without some copies."""

    def __init__(self, run: TracedRun, partners: Partners, fates: CopiesByFate, unified: bool) -> None:
        self._run = run
        self._owners: RangeMap[int] = RangeMap()
        """The blocks that the host's bytes are one with."""
        self._written_later = _written_later(run, fates.shared)
        self._windows = {block for block, lives in enumerate(partners) if any(life.window for life in lives)}
        self._dropped, self._shared = set(fates.dropped), set(fates.shared)
        self._dropped_fills = {row.fill for row in fates.fills if row.is_whole}
        self._unified = unified
        self._writing = _Pending()
        """What may write a block, which the CPU uses in place."""
        self._using = _Pending()
        self._owed = _Pending()
        """What is copied without blocking, so that the CPU waits for it later; of no block."""
        self._waits = run.once(unrecorded_waits)
        self._samples: dict[tuple[TracedRange, int], int | None] = {}
        self._sources: dict[int, int] = {}
        """Where on the host the bytes of a block were copied from last."""
        self._used_sources: defaultdict[int, set[int]] = defaultdict(set)
        """Those from which a block was filled when work began that may still use it."""
        self._joined = {run.steps[number].device.block for number in fates.dropped}  # type: ignore[union-attr]
        self._watched = any(type(step) is HostUse for _, step in run.once(beside_launches))
        self._history = HostHistory()
        self._unread = run.once(cpu_uses).unread
        self._frees_later = False
        self._following: dict[int | None, tuple[int, CallSite | None]] = {}
        """The next wait, as it was looked for last: before work that may write a block, or past all work (None)."""
        self._calls = CopySites()
        self._unread_at = self._calls_unread()
        """After how many copies of a call the CPU was seen not to use what was copied. Not of calls after which it was
        seen to use it, unless the program waits before.
        """
        self.lost: list[_Lost] = []

    def go(self) -> list[_Lost]:
        for number, step in enumerate(self._run.steps):
            if number in self._waits:
                self._wait_for(self._waits[number])
            if type(step) is TracedLaunch:
                self._launch(number, step)
            elif type(step) is TracedCopy:
                self._copy(number, step)
            elif type(step) is TracedFill:
                if number in self._dropped_fills:
                    continue
                self._use(number, step, step.target.block)
                if step.call.blocking:
                    self._wait_for(None)
            elif type(step) is WaitCall:
                if step.what != "copy" and not (step.what == "free" and self._frees_later):
                    self._wait_for(None)
            elif type(step) is HostUse:
                self._history.watched(step)
            elif type(step) is TracedAllocation:
                self._allocate(step)
        return self.lost

    def _wait_for(self, last: int | None) -> None:
        """The CPU has waited for all work, or for that up to a step."""
        for pending in (self._writing, self._using, self._owed):
            pending.waited(last)
        if not self._using:
            self._used_sources.clear()

    def _allocate(self, step: TracedAllocation) -> None:
        if step.begins:
            return
        self._frees_later = self._is_freed_later(step)
        self._writing.end(step.block)
        self._using.end(step.block)

    def _is_freed_later(self, step: TracedAllocation) -> bool:
        """What replaces a host array is freed when the CPU has used it, and page-locked arrays are replaced."""
        return self._unified and (step.block in self._joined or self._run.blocks[step.block].on_host)

    def _launch(self, number: int, step: TracedLaunch) -> None:
        if not self._unified or step.call.captured:
            return
        if step.call.arguments is None:
            self._using.add(_ANY, number, step.call.site)
            self._writing.add(_ANY, number, step.call.site)
        for use in step.uses:
            self._using.add(use.block, number, step.call.site)
            if use.block in self._sources:
                self._used_sources[use.block].add(self._sources[use.block])
            if use.may_write:
                self._writing.add(use.block, number, step.call.site)

    def _use(self, number: int, step: TracedCopy | TracedFill, written: int, read: int = NO_BLOCK) -> None:
        """A fill or a copy on the device."""
        if self._unified:
            for block in (written, read):
                self._using.add(block, number, step.call.site)
            self._writing.add(written, number, step.call.site)

    def _copy(self, number: int, step: TracedCopy) -> None:
        if step.call.captured:
            return
        if number in self._shared:
            self._use(number, step, step.target.block, step.source.block)
            if step.way == "h2d":
                self._read_array(number, step)
            elif step.call.blocking:
                self._lose(number, (number,))
        elif number in self._dropped:
            self._drop(number, step)
        elif step.call.blocking:
            self._wait_for(None)
        elif step.way == "d2d":
            self._use(number, step, step.target.block, step.source.block)
        else:
            self._owed.add(NO_BLOCK, number, step.call.site)
        if self._watched and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            self._history.copied(step, number)

    def _read_array(self, number: int, step: TracedCopy) -> None:
        """The device copies a host array that is now another buffer, which the CPU may write later."""
        if not self._unified:
            return
        for start, end, host in joined(step):
            for _, _, owner in self._owners.overlapping(host, host + end - start):
                self._using.add(owner, number, step.call.site)
        if step.call.blocking and (is_written := self._written_later.get(number)) is not False:
            following = self._next_wait(number, None)
            certainty: WaitCertainty = "likely" if is_written and following is None else "possible"
            self.lost.append(_Lost(number, (number,), "writes", certainty, following))

    def _drop(self, number: int, step: TracedCopy) -> None:
        for start, end, host in joined(step):
            self._owners.assign(host, host + end - start, step.device.block)
        block, owed = step.device.block, self._owed.of(NO_BLOCK)
        written = self._writing.of(block) if step.way == "d2h" and number not in self._unread else ()
        if written and not step.call.blocking:
            for work in written:
                self._owed.add(NO_BLOCK, work, site_of(self._run, work))
        elif written:
            self._lose(number, written, block)
        elif step.call.blocking and owed:
            self._lose(number, owed)
        if step.way == "h2d":
            used = self._using.of(block)
            certainty = self._written(step, used)
            if used and certainty is not None:
                self.lost.append(_Lost(number, used, "writes", certainty))
                if certainty == "likely":
                    self._wait_for(used[-1])
            self._sources[block] = step.call.source

    def _written(self, step: TracedCopy, used: Sequence[int]) -> WaitCertainty | None:
        """Whether the CPU wrote the bytes that a copy brings, while steps may use them. Not known: possible."""
        key, block, now = (step.device, step.call.source), step.device.block, step.call.sample
        before, self._samples[key] = self._samples.get(key), now
        if not used or (block in self._windows and step.call.source not in self._used_sources[block]):
            return None
        parts = [(host, host + end - start) for start, end, host in joined(step)] if self._watched else []
        if parts and all(self._history.is_unwritten(*part, used[0]) for part in parts):
            return None
        if any(self._is_written(*part) for part in parts):
            return "likely"
        if before is None or now is None:
            return "possible"
        return "likely" if before != now else None

    def _is_written(self, start: int, end: int) -> bool:
        """Whether the watch told that the CPU wrote a page of the host's bytes that holds no other data."""
        return any(
            since.writes == "told" and since.unwritten is None and -(-first // PAGE_BYTES) < last // PAGE_BYTES
            for first, last, since in self._history.since(start, end)
        )

    def _lose(self, number: int, work: tuple[int, ...], block: int = _ANY) -> None:
        """block: of which the CPU reads what was copied; _ANY: of several, or not known."""
        following, unread = self._next_wait(number, block), self._unread_at[self._call(number)]
        certainty: WaitCertainty = "likely" if following is None and not unread else "possible"
        if unread and following is None:
            following = self._next_wait(number, None)
        self.lost.append(_Lost(number, work, "reads", certainty, following, unread))
        if certainty == "likely" or not self._unified:
            self._wait_for(None)

    def _call(self, number: int) -> CopyCall:
        copy = self._run.steps[number]
        assert type(copy) is TracedCopy
        return self._calls.of(copy)

    def _calls_unread(self) -> Counter[CopyCall]:
        uses = self._run.once(cpu_uses)
        unread = Counter(map(self._call, uses.unread))
        for number in uses.used if unread else ():
            call = self._call(number)
            if call in unread and self._look_ahead(number, call[2])[1] is None:
                del unread[call]
        return unread

    def _next_wait(self, number: int, block: int | None) -> CallSite | None:
        """Where the program waits after a copy, if nothing that may write a block comes before, nor the CPU's data for
        the device. block: _ANY: nothing that the device is asked for, but for copies to the host that are dropped;
        None: whatever comes before.
        """
        end, site = self._following.get(block, (-1, None))
        if number >= end:
            end, site = self._following[block] = self._look_ahead(number, block)
        return site

    def _look_ahead(self, number: int, block: int | None) -> tuple[int, CallSite | None]:
        """The next wait, or what comes before; the site is None if that is no wait."""
        stops, waits = self._stops
        stops = stops if block is not None else self._wait_steps
        first = bisect_right(stops, number)
        for at in range(first, min(len(stops), first + _FAR)):
            place = stops[at]
            if (site := waits.get(place)) is not None:
                return place, site
            if block == _ANY or (block is not None and self._may_write(place, block)):
                return place, None
        return (stops[first + _FAR] if first + _FAR < len(stops) else len(self._run.steps)), None

    @cached_property
    def _stops(self) -> tuple[list[int], dict[int, CallSite]]:
        """The steps at which the program waits, or asks for work other than copies to the host that are dropped; and
        the sites of those at which it waits.
        """
        stops, waits, frees_later = list[int](), dict[int, CallSite](), False
        for number, step in enumerate(self._run.steps):
            if type(step) is TracedLaunch:
                if not step.call.captured:
                    stops.append(number)
            elif type(step) is TracedAllocation:
                frees_later = not step.begins and self._is_freed_later(step)
            elif type(step) is WaitCall:
                if step.what != "copy" and not (step.what == "free" and frees_later):
                    stops.append(number)
                    waits[number] = step.site
            elif (type(step) is TracedCopy or type(step) is TracedFill) and not step.call.captured:
                vanishes = number in self._dropped or number in self._shared
                if step.call.blocking and not vanishes:
                    waits[number] = step.call.site
                if not (type(step) is TracedCopy and step.way == "d2h" and number in self._dropped):
                    stops.append(number)
        return stops, waits

    @cached_property
    def _wait_steps(self) -> list[int]:
        return [*self._stops[1]]

    def _may_write(self, number: int, block: int) -> bool:
        """Whether work may write a block, or shows that the CPU has prepared data before."""
        step = self._run.steps[number]
        if type(step) is TracedLaunch:
            return step.call.arguments is None or any(use.block == block and use.may_write for use in step.uses)
        assert isinstance(step, TracedCopy | TracedFill)
        if type(step) is TracedCopy and (step.way in ("h2d", "h2h") or number in self._shared):
            return True
        return step.target.block == block


def _written_later(run: TracedRun, copies: Sequence[int]) -> dict[int, bool]:
    """Whether the CPU writes what was copied, before it is copied again; without those of which that is not known."""
    history, found, unknown, wanted = HostHistory(), dict[int, bool](), set[int](), set(copies)

    def look(known: Iterable[tuple[int, int, SinceCopy]]) -> None:
        for _, _, since in known:
            if since.copy in wanted:
                found[since.copy] = found.get(since.copy, False) or since.unwritten is None
                if since.writes != "told":
                    unknown.add(since.copy)

    for number, step in run.once(beside_launches) if wanted else ():
        if type(step) is HostUse:
            history.watched(step)
        elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            for start, end, host in joined(step):
                look(history.since(host, host + end - start))
            history.copied(step, number)
    look(history.all_since())
    return {number: is_written for number, is_written in found.items() if is_written or number not in unknown}


def needed_waits(
    run: TracedRun, partners: Partners, fates: CopiesByFate, places: Places, record: Callable[[int], StepRecord]
) -> list[NeededWait]:
    """Where a unified version has to wait for the device, as it does without the dropped copies; likely ones first."""
    rows = PlaceGroups[_Lost](places)
    for lost in _Order(run, partners, fates, unified=True).go():
        rows.add(lost, site_of(run, lost.copy), site_of(run, lost.work[-1]), apart=lost.before)
    shared = set(fates.shared)
    waits = [_needed(run, alike, places, record, stays=alike[0].copy in shared) for alike in rows.groups.values()]
    return sorted(waits, key=lambda wait: wait.certainty != "likely")


def only_waits(run: TracedRun, partners: Partners, dropped: Sequence[int]) -> set[int]:
    """Which copies are the only wait for others that do not block, where arrays of both sides remain."""
    return (
        {lost.copy for lost in _Order(run, partners, CopiesByFate([*dropped]), unified=False).go()}
        if dropped
        else set()
    )


def _needed(
    run: TracedRun, alike: list[_Lost], places: Places, record: Callable[[int], StepRecord], *, stays: bool
) -> NeededWait:
    first, launch = alike[0], run.steps[alike[0].work[-1]]
    kernel = launch.kernel if isinstance(launch, TracedLaunch) else ""
    work = places.in_program(site_of(run, first.work[-1]))
    earlier = dict.fromkeys(places.in_program(site_of(run, number)) for lost in alike for number in lost.work[:-1])
    following = {lost.following for lost in alike}
    (site,) = following if len(following) == 1 else (None,)
    return NeededWait(
        before=first.before,
        certainty="likely" if any(lost.certainty == "likely" for lost in alike) else "possible",
        copy=places.in_program(site_of(run, first.copy)),
        work=work,
        earlier=[place for place in earlier if place != work],
        kernel=kernel_name(kernel) if kernel else "",
        following=places.in_program(site) if site is not None else None,
        copies=len(alike),
        records=[record(lost.copy) for lost in alike[:MOST_RECORDS]],
        stays=stays,
        unread=first.unread,
    )
