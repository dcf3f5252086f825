"""A point with all that its measurement needs. The planner makes it, workers get it in a Job, and a record is of it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec

from firsttouch.records.reading import point_key
from firsttouch.records.schema import PEER, SELF, DeviceInfo, Location, Metric, Point

LIMIT = 30.0
"""Seconds that a point may take in all; more if its sampling or its experiment needs more."""


class PointGroup(NamedTuple):
    """What the points that share a worker have in common."""

    device: str
    with_peer: bool
    """Whether another device takes part. One worker opens all of them, each when a point first names it."""
    environment: tuple[tuple[str, str], ...]
    experiment: str = ""
    """The only experiment of the group, or '' if it may have several."""
    places: tuple[str, ...] = ()
    """The devices of the ranks, if there are several processes."""
    mpi: bool = False
    """Whether they use MPI."""
    one_process: bool = False
    """Whether one process has all of these devices."""
    state: str = ""
    """What these points leave changed in their process."""


class Planned(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """One point, and how it is measured. It is not changed after the plan is made.

    reason: why it is skipped instead, or '' if it is measured. name: the name of the experiment in the call, if that
    differs from the experiment's name in records. kind: the kind of work that the experiment belongs to
    (engine/work_kinds.py). tolerance: the relative width of the interval at which sampling ends; seconds: the time
    that sampling may take; setup: what else it takes, as expected, None if that is unknown; limit: the seconds after
    which the worker is killed. environment: the variables of its worker. fresh: it gets a new worker; own_worker: one
    in which no other experiment runs. places: the device of each rank, if the experiment has ranks; one_process:
    whether one process has all of them, otherwise each has a process of its own; ranks: these devices in the latter
    case. peers: the other devices that take part, of the process itself. sampled: whether the memory of its worker is
    sampled over time. stands_for: the equal places at which the plan does not measure it. state: what it leaves changed
    in its worker.
    """

    point: Point
    metric: Metric
    info: DeviceInfo
    reason: str = ""
    name: str = ""
    kind: str = "run"
    preset: str = "quick"
    seed: int = 1
    tolerance: float = 0.03
    seconds: float = 0.0
    setup: float | None = 0.0
    limit: float = LIMIT
    environment: dict[str, str] = {}
    fresh: bool = False
    own_worker: bool = False
    places: tuple[str, ...] = ()
    one_process: bool = False
    mpi: bool = False
    peers: list[DeviceInfo] = []
    ranks: list[DeviceInfo] = []
    sampled: bool = False
    stands_for: list[Location] = []
    state: str = ""

    @property
    def title(self) -> str:
        """The experiment or application and its device."""
        return f"{self.name or self.point.experiment} on {self.point.device}"

    @property
    def peer(self) -> str:
        """The other device that takes part, or '' if there is none."""
        peer = str(self.point.factors.get(PEER, ""))
        return "" if peer == SELF else peer

    @property
    def group(self) -> PointGroup:
        return PointGroup(
            self.point.device,
            bool(self.peer),
            tuple(sorted(self.environment.items())),
            self.point.experiment if self.own_worker else "",
            self.places,
            self.mpi,
            self.one_process,
            self.state,
        )

    @cached_property
    def key(self) -> str:
        return point_key(self.point.experiment, self.point.device, self.point.factors)
