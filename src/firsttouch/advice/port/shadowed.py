"""What a shadow run saw (--shadow): where the CPU or a kernel would have found other bytes if an array and the block of
the device that copies join had been one memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from firsttouch.advice.port.port_findings import ShadowLook
from firsttouch.profile.calls import HostDifference
from firsttouch.program.trace import NO_BLOCK, TracedCopy, TracedLaunch, TracedRun, is_wait

ShadowHazard: TypeAlias = Literal["read", "written", "running", "replaced", "restored"]
HAZARDS: tuple[ShadowHazard, ...] = get_args(ShadowHazard)


@dataclass(frozen=True)
class SeenDifference:
    """A hazard. copy: the number of the step that made both sides equal last; block: that it copies from or to; of
    "restored", `step` is the copy that brings old bytes back, else the same.
    """

    hazard: ShadowHazard
    difference: HostDifference
    copy: int
    block: int
    step: int


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
    return _Search(run).go() if run.differences is not None else None


class _Search:
    def __init__(self, run: TracedRun) -> None:
        self._run = run
        self._copies: defaultdict[int, list[tuple[float, int, int, int]]] = defaultdict(list)
        """When copies returned, their bytes of the host [start, end) and their steps, by the distance of the device's
        address from the host's.
        """
        self._launches: defaultdict[int, list[float]] = defaultdict(list)
        self._any: list[float] = []
        """Launches of which it is not known what they use."""
        self._waits: list[float] = []
        self._missed: set[int] = set()
        for number, step in enumerate(run.steps):
            if type(step) is TracedLaunch and not step.call.captured:
                if step.call.arguments is None:
                    self._any.append(step.call.t)
                for block in {use.block for use in step.uses}:
                    self._launches[block].append(step.call.t)
            elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
                self._add_copy(number, step)
            if is_wait(step):
                self._waits.append(step.t if not isinstance(step, TracedCopy) else step.call.t)  # type: ignore[union-attr]
        for times in (*self._launches.values(), *self._copies.values(), self._any, self._waits):
            times.sort()  # type: ignore[attr-defined]

    def _add_copy(self, number: int, copy: TracedCopy) -> None:
        if copy.device.rows > 1 or copy.call.captured or copy.call.graph:
            self._missed.add(copy.device.block)
            return
        device, host = (copy.call.source, copy.call.target)[:: 1 if copy.way == "d2h" else -1]
        self._copies[device - host].append((copy.call.t, host, host + copy.device.nbytes, number))

    def go(self) -> ShadowRun:
        shadow = ShadowRun()
        ended: defaultdict[int, list[HostDifference]] = defaultdict(list)
        for difference in self._run.differences or ():
            equal = self._equal_copy(difference)
            if difference.kind == "ended":
                shadow.arrays += 1
                shadow.partial += difference.is_partial or difference.was_gone
                ended[difference.device - difference.address].append(difference)
                if equal is not None and (difference.is_partial or difference.was_gone):
                    self._missed.add(self._block(equal))
            elif equal is not None and (hazard := self._hazard(difference, equal)) is not None:
                step = equal if hazard != "restored" else self._next_copy(difference)
                shadow.found.append(SeenDifference(hazard, difference, equal, self._block(equal), step or equal))
        for delta, copies in self._copies.items():
            for _, start, end, number in copies:
                if not any(each.address <= start and end <= each.address + each.bytes for each in ended[delta]):
                    self._missed.add(self._block(number))
                shadow.looked.add(self._block(number))
        shadow.looked -= self._missed
        return shadow

    def _block(self, copy: int) -> int:
        step = self._run.steps[copy]
        assert isinstance(step, TracedCopy)
        return step.device.block

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
        first = max(difference.address, min((start for start, _ in difference.pages), default=difference.address))
        array_end = difference.address + difference.bytes
        last = min(array_end, max((end for _, end in difference.pages), default=array_end))
        copies = self._of(difference)
        for t, start, end, number in copies[bisect_left(copies, (difference.since,)) :]:
            if t > difference.since and start <= first and last <= end:
                yield t, number

    def _next_copy(self, difference: HostDifference) -> int | None:
        return next((number for t, number in self._copies_after(difference) if t >= difference.t), None)

    def _hazard(self, difference: HostDifference, equal: int) -> ShadowHazard | None:
        if difference.kind == "changed":
            return self._of_change(difference, self._block(equal))
        return difference.kind  # type: ignore[return-value]

    def _of_change(self, difference: HostDifference, block: int) -> ShadowHazard | None:
        """What the CPU changed matters to kernels that may still run, and to those that run before the next copy."""
        since = difference.since
        waited = self._waits[place - 1] if (place := bisect_right(self._waits, since)) else 0.0
        until = next((t for t, _ in self._copies_after(difference)), float("inf"))
        for launches in (self._launches.get(block, ()), self._any):
            if bisect_right(launches, since) > bisect_right(launches, waited):
                return "running"
            if (place := bisect_right(launches, since)) < len(launches) and launches[place] < until:
                return "written"
        return None
