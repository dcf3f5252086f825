"""How long a plan is expected to take: a sum of what its points and the processes that measure them cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_seconds
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned, PointGroup
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records.schema import DeviceInfo, Request
from firsttouch.records.text import count

START = 0.5
"""Seconds until a worker has started and opened a device."""
FURTHER_DEVICE = 0.4
"""Seconds until it has opened another one."""
RANKS = 1.0
"""Seconds until several processes have started and know each other, besides their devices."""


def planned_seconds(plan: Iterable[Planned]) -> float | None:
    """The time that a plan takes, without discovery and the report: an estimate from runs on H100 and H200 GPUs. None
    if it has points whose time depends on what a program does.
    """
    todo = [planned for planned in plan if not planned.reason]
    points = [p.seconds + p.setup + START * p.fresh for p in todo if p.setup is not None]
    if len(points) < len(todo):
        return None
    opened: dict[PointGroup, set[str]] = {}
    for planned in todo:
        names = planned.places or (planned.point.device, *(peer.name for peer in planned.peers))
        opened.setdefault(planned.group, set()).update(names)
    starts = sum(START + FURTHER_DEVICE * (len(names) - 1) for names in opened.values())
    ranked = RANKS * sum(len(group.places) > 1 and not group.one_process for group in opened)
    return sum(points) + starts + ranked


def in_words(seconds: float | None) -> str:
    """', about 4.2 min planned'; '' if the time is not known."""
    return f", about {format_seconds(seconds, 2)} planned" if seconds else ""


def planned_time(request: Request, devices: Sequence[DeviceInfo], experiments: Mapping[str, Experiment]) -> str:
    """How many points a request has, and how long they take, in words."""
    try:
        todo = [planned for planned in make_plan(request, devices, experiments, {}) if not planned.reason]
    except UsageError as error:
        return str(error)
    return f"{count(len(todo), 'point')}{in_words(planned_seconds(todo))}"
