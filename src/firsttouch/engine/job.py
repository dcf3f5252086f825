"""The task of measuring one point: what the runner sends to a worker."""

from __future__ import annotations

import dataclasses

import msgspec

from firsttouch.engine.planned import Planned
from firsttouch.records.schema import DeviceInfo, Point, Scalar
from firsttouch.workers.protocol import Task


class Job(Task, tag="job"):
    """Measure one point.

    rank: which of the processes this is that carry out the point together. counted: if a profiler counts this run of
    the point, the counters of the record with the timed samples. outputs: digests of outputs that earlier points
    checked.
    """

    planned: Planned
    rank: int = 0
    counted: dict[str, Scalar] | None = None
    outputs: list[str] = []

    def of_rank(self, rank: int) -> Job:
        """The job of one of the ranks."""
        return msgspec.structs.replace(self, rank=rank)

    @property
    def info(self) -> DeviceInfo:
        """The device of this process, as discovery found it."""
        return self.planned.ranks[self.rank] if self.planned.ranks else self.planned.info

    @property
    def point(self) -> Point:
        """The point, on the device of this process."""
        return dataclasses.replace(self.planned.point, device=self.info.name)
