"""What happened over time while one point was measured: the bytes that unified memory moved, and the memory in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from firsttouch.records.schema import Scalar

Readings = Sequence[tuple[float, float]]
"""Seconds and bytes, in the order of time. A reading holds until the next one."""
NamedInterval: TypeAlias = tuple[str, float, float]
"""Name, start and end in seconds."""


@dataclass
class TransferTimeline:
    """The bytes that one point moved. steps: by direction, pairs of seconds since recording began and bytes so far.
    phases: those of an application while they were recorded, in the same seconds.
    """

    factors: dict[str, Scalar]
    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    phases: list[NamedInterval] = field(default_factory=list)

    @property
    def end(self) -> float:
        """When the last phase ended; without phases, the last move."""
        moves = (steps[-1][0] for steps in self.steps.values() if steps)
        return max((end for _, _, end in self.phases), default=max(moves, default=0.0))

    @property
    def moved(self) -> float:
        return sum(steps[-1][1] for steps in self.steps.values())


@dataclass(frozen=True)
class Phase:
    """A phase, or a part of one, in seconds."""

    name: str
    start: float
    end: float
    is_part: bool = False


@dataclass(frozen=True)
class MemoryCourse:
    """The memory in use during the phases of one point, over what was in use before the first.

    Times are seconds of all phases so far; what happens between two phases is left out. host: the resident size of the
    worker; device: the memory of the device in use by all programs, empty if no source states it. source: that source,
    or '' with the reason in `why`. apart: why a page may be in both counters, '' if it is in one only. interval:
    seconds between two readings.
    """

    phases: Sequence[Phase]
    host: Readings
    device: Readings
    source: str
    why: str
    apart: str
    interval: float

    @property
    def seconds(self) -> float:
        return max((phase.end for phase in self.phases), default=0.0)

    @property
    def is_seen(self) -> bool:
        """Whether the phases last long enough for readings of them."""
        return self.seconds >= FEWEST * self.interval


FEWEST = 5
"""The least number of readings in the time of a point that is shown."""


def peak(readings: Readings) -> int | None:
    return max((round(value) for _, value in readings), default=None)


def peak_of_both(course: MemoryCourse) -> int | None:
    """The largest sum of both at one time; None if only one is known, or if a page may be in both."""
    if course.apart or not (course.host and course.device):
        return None
    merged = sorted([(t, 0, value) for t, value in course.host] + [(t, 1, value) for t, value in course.device])
    latest: list[float | None] = [None, None]
    most = None
    for i, (t, series, value) in enumerate(merged):
        latest[series] = value
        if i + 1 < len(merged) and merged[i + 1][0] == t:
            continue  # both were read at this time
        if latest[0] is not None and latest[1] is not None:
            most = max(latest[0] + latest[1], most if most is not None else latest[0] + latest[1])
    return None if most is None else round(most)
