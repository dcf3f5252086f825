"""What a shadow run saw (--shadow): where the CPU or a kernel would have found other bytes if an array and the block of
the device that copies join had been one memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, TypeAlias

from firsttouch.advice.port.port_findings import ShadowLook
from firsttouch.advice.port.used_parts import UsedParts
from firsttouch.profile.calls import HostDifference, WaitCall
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
    is_wait,
)

ShadowHazard: TypeAlias = Literal["read", "written", "running", "replaced", "restored"]
_ANY, _END = -1, 1 << 64
"""Stands for a block that is not known; an offset behind every block."""


@dataclass(frozen=True)
class SeenDifference:
    """A hazard. copy: the number of the step that made both sides equal last; block: that it copies from or to; of
    "restored", `step` is the copy that brings old bytes back, else the same. is_certain: the bytes were the array's,
    not those of what has its place after it was freed, and it is known which pages were read.
    """

    hazard: ShadowHazard
    difference: HostDifference
    copy: int
    block: int
    step: int
    is_certain: bool


@dataclass
class ShadowRun:
    """found: in the order of the run. arrays: how many were looked at; partial: of how many not everything was. looked:
    the blocks whose arrays were looked at from the first copy of each to the end.
    """

    found: list[SeenDifference] = field(default_factory=list)
    arrays: int = 0
    partial: int = 0
    looked: set[int] = field(default_factory=set)

    @property
    def look(self) -> ShadowLook:
        return ShadowLook(arrays=self.arrays, partial=self.partial, differences=len(self.found))

    def restoring(self) -> list[int]:
        return [seen.step for seen in self.found if seen.hazard == "restored"]


def shadow_run(run: TracedRun) -> ShadowRun | None:
    """None if there was none. Take it with `run.once`."""
    return _DifferenceSearch(run).go() if run.differences is not None else None


class _DifferenceSearch:
    def __init__(self, run: TracedRun) -> None:
        self._run = run
        self._copies: defaultdict[int, list[tuple[float, int, int, int]]] = defaultdict(list)
        """When copies returned, their bytes of the host [start, end) and their steps, by the distance of the device's
        address from the host's.
        """
        self._launches: defaultdict[int, list[tuple[float, int, int]]] = defaultdict(list)
        """When each block was used, and the part [start, end) that may have been, of _ANY those of any block."""
        self._fills: defaultdict[int, list[tuple[float, int, int]]] = defaultdict(list)
        """When each block was filled or copied into on the device, and which part."""
        self._waits: list[float] = []
        self._missed: set[int] = set()
        parts = run.once(UsedParts)
        for number, step in enumerate(run.steps):
            if type(step) is TracedLaunch and not step.call.captured:
                if step.call.arguments is None:
                    self._launches[_ANY].append((step.call.t, 0, _END))
                for use in step.uses:
                    end = parts.end(use.block, use.start, step.kernel)
                    self._launches[use.block].append((step.call.t, use.start, end))
            elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
                self._add_copy(number, step)
            elif type(step) is TracedFill or (type(step) is TracedCopy and step.way == "d2d"):
                self._fills[step.target.block].append((step.call.t, step.target.start, step.target.end))
            if is_wait(step):
                self._waits.append(step.t if isinstance(step, WaitCall) else step.call.t)  # type: ignore[union-attr]
        for launches in self._launches.values():
            launches.sort()
        for copies in self._copies.values():
            copies.sort()
        self._waits.sort()

    def _add_copy(self, number: int, copy: TracedCopy) -> None:
        if copy.device.rows > 1 or copy.call.captured or copy.call.graph:
            self._missed.add(copy.device.block)
            return
        device, host = copy.call.source, copy.call.target
        if copy.way == "h2d":
            device, host = host, device
        self._copies[device - host].append((copy.call.t, host, host + copy.device.nbytes, number))

    def go(self) -> ShadowRun:
        shadow = ShadowRun()
        ended: defaultdict[int, list[HostDifference]] = defaultdict(list)
        partial = set[tuple[int, int]]()
        for difference in self._run.differences or ():
            equal = self._equal_copy(difference)
            if difference.kind == "ended":
                shadow.arrays += 1
                ended[difference.device - difference.address].append(difference)
            if equal is not None and self._is_unseen(difference, self._copy(equal)):
                self._missed.add(self._copy(equal).device.block)
                partial.add((difference.address, difference.device))
            if difference.kind in ("ended", "unseen"):
                continue
            if equal is not None and (hazard := self._hazard(difference, equal)) is not None:
                step = self._next_copy(difference) if hazard == "restored" else equal
                block = self._copy(equal).device.block
                seen = SeenDifference(
                    hazard, difference, equal, block, equal if step is None else step, self._is_certain(difference)
                )
                shadow.found.append(seen)
        for distance, copies in self._copies.items():
            for _, start, end, number in copies:
                block = self._copy(number).device.block
                shadow.looked.add(block)
                if not any(each.address <= start and end <= each.address + each.bytes for each in ended[distance]):
                    self._missed.add(block)
        shadow.looked -= self._missed
        shadow.partial = len(partial)
        return shadow

    def _copy(self, number: int) -> TracedCopy:
        step = self._run.steps[number]
        assert isinstance(step, TracedCopy)
        return step

    def _of(self, difference: HostDifference) -> Sequence[tuple[float, int, int, int]]:
        return self._copies.get(difference.device - difference.address, ())

    def _equal_copy(self, difference: HostDifference) -> int | None:
        """The last copy that made the array and the block equal before it."""
        copies = self._of(difference)
        for _, start, end, number in reversed(copies[: bisect_right(copies, (difference.copied,))]):
            if start < difference.address + difference.bytes and difference.address < end:
                return number
        return None

    def _copies_after(self, difference: HostDifference) -> Iterator[tuple[float, int]]:
        """The copies that make what it is about equal again, and when."""
        first, last = _extent(difference)
        copies = self._of(difference)
        for t, start, end, number in copies[bisect_left(copies, (difference.since,)) :]:
            if t > difference.since and start <= first and last <= end:
                yield t, number

    def _next_copy(self, difference: HostDifference) -> int | None:
        return next((number for t, number in self._copies_after(difference) if t >= difference.t), None)

    def _hazard(self, difference: HostDifference, equal: int) -> ShadowHazard | None:
        if difference.kind == "changed":
            return self._of_change(difference, self._copy(equal))
        return difference.kind  # type: ignore[return-value]

    def _is_certain(self, difference: HostDifference) -> bool:
        """Whether these were bytes of the array: what a later copy names was not given back before."""
        if difference.some:
            return False
        return not difference.in_heap or any(
            t > difference.since and start < difference.address + difference.bytes and difference.address < end
            for t, start, end, _ in self._of(difference)
        )

    def _is_unseen(self, difference: HostDifference, equal: TracedCopy) -> bool:
        """Whether a difference may have been overlooked."""
        if difference.kind != "unseen":
            return difference.is_partial or difference.was_gone
        start, end = _on_device(difference, equal)
        return any(
            difference.copied < t < difference.t and first < end and start < last
            for block in (equal.device.block, _ANY)
            for t, first, last in (*self._launches.get(block, ()), *self._fills.get(block, ()))
        )

    def _of_change(self, difference: HostDifference, equal: TracedCopy) -> ShadowHazard | None:
        """What the CPU changed matters to kernels that may still run, and to those that run before the next copy."""
        since = difference.since
        waited = self._waits[place - 1] if (place := bisect_right(self._waits, since)) else 0.0
        until = next((t for t, _ in self._copies_after(difference)), inf)
        start, end = _on_device(difference, equal)
        used: ShadowHazard | None = None
        for block in (equal.device.block, _ANY):
            launches = self._launches.get(block, [])
            for t, first, last in launches[bisect_right(launches, (waited, _END, _END)) :]:
                if t >= until:
                    break
                if first < end and start < last:
                    if t <= since:
                        return "running"
                    used = "written"
                    break
        return used


def _extent(difference: HostDifference) -> tuple[int, int]:
    """The bytes of the array, from the first page of it that is known to the last one."""
    end = difference.address + difference.bytes
    first = min((start for start, _ in difference.pages), default=difference.address)
    last = max((page_end for _, page_end in difference.pages), default=end)
    return max(difference.address, first), min(end, last)


def _on_device(difference: HostDifference, equal: TracedCopy) -> tuple[int, int]:
    """The same bytes in the block."""
    host = equal.call.target if equal.way == "d2h" else equal.call.source
    first, last = _extent(difference)
    return equal.device.start + first - host, equal.device.start + last - host
