"""Marks in the stream between the iterations of a loop of launches: events, by which each is timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

from firsttouch import _core

InUse: TypeAlias = Mapping[str, int]

MAX_MARKS = 200
"""Most marks of one loop after its first; longer loops are timed in groups of iterations."""


class IterationMarks:
    """The marks of the last loop. record: records an event in the stream.

    marker: queues a launch at each mark, by which a profiler tells iterations apart, if set. placed: whether the CPU
    waits at the end of a loop to note when that is. read: what is read after each iteration, or group of them, for
    which the CPU waits then, if set.
    """

    def __init__(self, record: Callable[[], _core.Event]) -> None:
        self._record = record
        self.marker: Callable[[], None] | None = None
        self.placed = False
        self.read: Callable[[], InUse] | None = None
        self.begin(0, timed=False)

    def begin(self, count: int, *, timed: bool) -> None:
        """Begins a loop of `count` iterations, without marks if it is not to be timed."""
        self._count, self._timed = count, timed
        self._each = max(1, math.ceil(count / MAX_MARKS))
        self._events: list[_core.Event] = []
        self._over: float | None = None
        self.readings: list[InUse] = []
        """What was read after each iteration, or group of them."""

    def first(self) -> None:
        """Called before each launch. The first call in a loop sets its first mark."""
        if self._timed and not self._events:
            self._mark()

    def after(self, index: int) -> None:
        """Called after each iteration. Sets a mark after each, or after each group of them."""
        if self._timed and ((index + 1) % self._each == 0 or index + 1 == self._count):
            self.first()
            self._mark()
            if self.read is not None:
                self.total()  # waits
                self.readings.append(self.read())

    def end(self) -> None:
        """Called after a loop that did not end early."""
        if self.placed and self._events:
            self.total()  # waits
            self._over = time.monotonic()

    def _mark(self) -> None:
        if self.marker is not None:
            self.marker()
        self._events.append(self._record())

    def numbers(self) -> list[int]:
        """How many iterations are between two marks: 1 each, unless there are many."""
        groups = max(0, len(self._events) - 1)
        return [min(self._each, self._count - i * self._each) for i in range(groups)]

    def seconds(self) -> list[float]:
        """Seconds of each iteration by the device's clock; the mean of a group where they are timed in groups."""
        spans = pairwise(self._events)
        return [a.seconds_until(b) / number for (a, b), number in zip(spans, self.numbers(), strict=True)]

    def total(self) -> float:
        """Seconds of all iterations by the device's clock."""
        return self._events[0].seconds_until(self._events[-1]) if self._events else 0.0

    def times(self) -> list[float]:
        """When the marks were reached, in seconds of time.monotonic(). Empty if the end of the loop was not noted."""
        if self._over is None:
            return []
        return [self._over - event.seconds_until(self._events[-1]) for event in self._events[:-1]] + [self._over]
