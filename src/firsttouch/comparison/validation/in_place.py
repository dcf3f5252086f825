"""How right it is to say from a profile what kernels take in memory of the host: each run judged by what was measured
at other sizes in other visits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from firsttouch.apps import all_apps
from firsttouch.harness.app import App
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Time
from firsttouch.model.kernels import KernelPoint, KernelProfile, KernelProfiles, NoProfile, kernels_at, known_profiles
from firsttouch.model.platform import Platform, load_platform, platform_names
from firsttouch.model.platform_prices import PlatformPrices

FARTHEST = 32
"""How far, as a factor, sizes may be apart from which a run is predicted."""
SAME_SIZE = 0.1
"""Footprints that differ by at most this part are of one size."""
TWICE = 2.0


@dataclass(frozen=True)
class RunInPlace:
    """The kernels of an application whose buffers are memory of the host, in ns: predicted and measured."""

    application: str
    footprint: int
    title: str
    predicted: Time
    measured: float

    @property
    def ratio(self) -> float:
        return self.predicted.value / self.measured


@dataclass(frozen=True)
class JudgedInPlace:
    """error: the median of the relative errors. within: the part of the runs that are right within a factor of two.
    held: the part whose measured time is in the interval.
    """

    runs: Sequence[RunInPlace]

    @property
    def error(self) -> float:
        return median(abs(run.ratio - 1) for run in self.runs)

    @property
    def within(self) -> float:
        return sum(1 / TWICE <= run.ratio <= TWICE for run in self.runs) / len(self.runs)

    @property
    def held(self) -> float:
        return sum(run.predicted.low <= run.measured <= run.predicted.high for run in self.runs) / len(self.runs)


def judged_in_place() -> JudgedInPlace:
    """All runs of the program's profiles on machines that it describes, each by profiles of other sizes and visits."""
    profiles, apps = known_profiles(), all_apps()
    machines = {p.device.title: p for p in map(load_platform, platform_names())}
    runs = [
        run
        for name, profile in profiles.applications.items()
        for point in profile.points
        if point.link and (machine := machines.get(profiles.devices[point.device].title)) and name in apps
        if (run := _run(apps[name], profiles, point, machine))
    ]
    return JudgedInPlace(runs)


def _run(app: type[App], profiles: KernelProfiles, point: KernelPoint, machine: Platform) -> RunInPlace | None:
    """Predicts a point from the others; None if nothing was measured at another size in another visit."""
    profile = profiles.applications[app.name]
    other_points = tuple(
        p
        for p in profile.points
        if p.source != point.source and not _alike(p, point) and _within(p.footprint, point.footprint)
    )
    held_profiles = msgspec.structs.replace(
        profiles, applications={app.name: KernelProfile(profile.digest, other_points)}
    )
    try:
        kernels = kernels_at(app, point.footprint, machine, held_profiles, point.settings)
        link = PlatformPrices(machine)["remote", "h2d", common_allocator("page-locked")]
        predicted = kernels.in_place(point.kernel_bytes, point.link_bytes, link)
    except NoProfile:
        return None
    title = profiles.devices[point.device].title
    return RunInPlace(app.name, point.footprint, title, predicted, point.link or 0.0)


def _within(footprint: int, other: int) -> bool:
    """Whether one size is at most FARTHEST times the other."""
    return footprint <= FARTHEST * other and other <= FARTHEST * footprint


def _alike(a: KernelPoint, b: KernelPoint) -> bool:
    return abs(a.footprint - b.footprint) <= SAME_SIZE * b.footprint
