"""When GPUs had work, and how long they stood idle because the program waited.

A wait is charged with the time from the end of the last work on a device to the start of the next that was launched
after the wait, over all streams, but no more than the program waited: without the wait, it would have launched the
next work earlier by that. When a wait began is not recorded: not before the thread's call before it. So both are at
most what is said. A wait at which nothing was pending is charged with nothing. Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from firsttouch.profile.cuda import CudaCopy, CudaKernel, ProcessJournal

_RETURNS_WITHIN = 200e-6
"""Seconds within which a wait returns when the work that it waits for has ended: one that returns later was called when
nothing was pending.
"""


@dataclass(frozen=True)
class ChargedWait:
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
        work: list[CudaKernel | CudaCopy] = [*journal.kernels, *(c for c in journal.copies if c.direction != "h2h")]
        for ran in work:
            called = min(ran.start, launched.get(ran.correlation, ran.start))
            by_device[ran.device].append((called, ran.start, ran.end))
        self._devices = {device: _DeviceWork(work) for device, work in by_device.items()}
        self._charged: set[tuple[int, int]] = set()
        self.first = min((ran.start for ran in work), default=0.0)
        self.last = max((ran.end for ran in work), default=0.0)

    def charge(self, began: float, ended: float, own: CudaCopy | None = None) -> ChargedWait | None:
        """What a wait cost; None if nothing was pending. Waits are told in their order: idle time is charged once.

        began: at the earliest. own: the copy that the wait is part of, which pends as long as it runs.
        """
        idle, is_pending = 0.0, False
        for device, work in self._devices.items():
            following = bisect_right(work.launched, ended)
            if not following:
                continue
            last = work.ended[following - 1]
            is_own = own is not None and own.device == device
            if not is_own and (last <= began or last < ended - _RETURNS_WITHIN):
                continue
            is_pending = True
            if following < len(work.launched) and (device, following) not in self._charged:
                self._charged.add((device, following))
                idle += max(0.0, min(work.next_start[following] - last, ended - began))
        return ChargedWait(max(0.0, ended - began), idle) if is_pending else None

    def was_busy(self, t: float, before: float, device: int) -> bool:
        """Whether work that was launched before `before` was still pending on a device at `t`."""
        work = self._devices.get(device)
        earlier = bisect_right(work.launched, before) if work else 0
        return bool(work and earlier and work.ended[earlier - 1] > t)
