"""When GPUs had work, and how long they stood idle because the program waited.

A wait is charged with the time from the end of the last work on a device to the start of the next that was launched
after the wait, over all streams, but no more than the program waited: without the wait, it would have launched the
next work earlier by that. So it is at most what is said. A wait at which nothing was pending is charged with nothing.
When a wait began is not recorded in journals of version 2: not before the thread's call before it. Times are seconds of
CLOCK_MONOTONIC.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate, chain
from typing import NamedTuple

from firsttouch.profile.recorded import ProcessJournal, RecordedCopy, RecordedKernel

_RETURNS_WITHIN = 200e-6
"""Seconds within which a wait returns when the work that it waits for has ended: one that returns later was called when
nothing was pending.
"""


class ChargedWait(NamedTuple):
    """What a wait cost at most. seconds: for which the program waited; idle: for which GPUs had nothing to do."""

    seconds: float
    idle: float


class _DeviceWork:
    """What ran on one device, in the order of launches."""

    def __init__(self, work: Iterable[tuple[float, float, float]]) -> None:
        ordered = sorted(work)
        self.launched = [launched for launched, _, _ in ordered]
        self.ended = list(accumulate((end for _, _, end in ordered), max))
        """When the last of all work up to each had ended."""
        self.next_start = list(accumulate((start for _, start, _ in reversed(ordered)), min))[::-1]
        """When the first of all work from each on started."""


class GpuWork:
    """The kernels, copies and fills of a process. launched: when the call of each correlation returned."""

    def __init__(self, journal: ProcessJournal, launched: Mapping[int, float]) -> None:
        by_device: defaultdict[int, list[tuple[float, float, float]]] = defaultdict(list)
        copies = (copy for copy in journal.copies if copy.direction != "h2h")
        work: Iterable[RecordedKernel | RecordedCopy] = chain(journal.kernels, copies)
        for ran in work:
            start = ran.start
            called = launched.get(ran.correlation, start)
            by_device[ran.device].append((called if called < start else start, start, ran.end))
        self._devices = {device: _DeviceWork(work) for device, work in by_device.items()}
        self.first = min((work.next_start[0] for work in self._devices.values()), default=0.0)
        self.last = max((work.ended[-1] for work in self._devices.values()), default=0.0)
        self._charged: set[tuple[int, int]] = set()

    def charge(
        self, began: float, ended: float, own: RecordedCopy | None = None, *, is_bound: bool = True
    ) -> ChargedWait | None:
        """What a wait cost; None if nothing was pending. Waits are told in their order: idle time is charged once.

        is_bound: it may have begun later. own: the copy that the wait is part of, which pends as long as it runs.
        """
        idle, is_pending = 0.0, False
        for device, work in self._devices.items():
            following = bisect_right(work.launched, ended)
            if not following:
                continue
            last = work.ended[following - 1]
            is_own = own is not None and own.device == device
            if not is_own and (last <= began or (is_bound and last < ended - _RETURNS_WITHIN)):
                continue
            is_pending = True
            if following < len(work.launched) and (device, following) not in self._charged:
                self._charged.add((device, following))
                idle += max(0.0, min(work.next_start[following] - last, ended - began))
        return ChargedWait(max(0.0, ended - began), idle) if is_pending else None

    def was_busy(self, t: float, device: int) -> bool:
        """Whether work was pending on a device."""
        work = self._devices.get(device)
        earlier = bisect_right(work.launched, t) if work else 0
        return bool(work and earlier and work.ended[earlier - 1] > t)
