"""Predicts the points that published rows and claims are about, in this process, each once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from firsttouch.base.errors import NotModelled, UsageError
from firsttouch.base.units import size_option
from firsttouch.comparison.papers.calls import PointsCall
from firsttouch.comparison.papers.comparisons import values_of
from firsttouch.comparison.papers.pooled import CONDITIONS
from firsttouch.engine.filling import blank_record
from firsttouch.engine.job import Job
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.predicting import predict_point
from firsttouch.engine.values import parse_sets
from firsttouch.engine.work import Work
from firsttouch.engine.work_kinds import KINDS
from firsttouch.experiments.contract.base import Experiment
from firsttouch.experiments.contract.common import switch_factors
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.parameters import PARAMETERS
from firsttouch.model.platform import Platform
from firsttouch.records.papers.files import FactorValues
from firsttouch.records.schema import PEER, SCHEMA, SELF, DeviceInfo, Factors, Record, Request, Scalar

_TAKES_VALUE = ("size", "iterations", "budget", "oversubscribe")
"""Options of a call that are factors."""
_ALLOWED = ("--allow-oversubscription", "--counters")
"""Further options of calls: memory of a model is not used up, and counters that no model has are missing."""


class PlatformPoints:
    """The points of a platform, predicted when a call first needs them."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._records: dict[str, Record] = {}
        self._changed: dict[str, PlatformPoints] = {}

    @cached_property
    def devices(self) -> Sequence[DeviceInfo]:
        """The host, and the devices."""
        return self.platform.devices

    @property
    def hosts(self) -> list[DeviceInfo]:
        return [device for device in self.devices if device.role == "host"]

    @property
    def gpus(self) -> list[DeviceInfo]:
        return [device for device in self.devices if device.role != "host"]

    def changed(self, changes: Mapping[str, str]) -> PlatformPoints:
        """The points of the platform with other values."""
        platform = self.platform.changed(changes)
        return self._changed.setdefault(platform.device_name, PlatformPoints(platform))

    def of(self, call: PointsCall, wanted: Callable[[Factors], bool]) -> list[Record]:
        """The records of those points of a call whose factors are wanted: those that are not predicted with the reason,
        and last those that are not possible. Raises UsageError if the call has no point on this platform.
        """
        plan = [planned for planned in self._plan(call) if not planned.point.factors or wanted(planned.point.factors)]
        return [self._record(planned) for planned in sorted(plan, key=lambda planned: bool(planned.reason))]

    def _plan(self, call: PointsCall) -> list[Planned]:
        work = KINDS[call.kind]
        sets: dict[str, list[Scalar]] = {name: [_as_set_value(v) for v in values] for name, values in call.sets.items()}
        chosen, ranks = _chosen_in_options(call.options)
        sets = {**chosen, **sets}
        if call.exceeds_memory:
            sets.setdefault("size", ["oversubscribed"])
        experiments = work.experiments(sets)
        for name in call.names:
            if type(experiments[name]).predict is Experiment.predict:
                raise UsageError(str(NotModelled(f"what {name} measures")))
        hosts, gpus = ([d.name for d in some if d.name in call.devices] for some in (self.hosts, self.gpus))
        if len(gpus) > 1:  # measure the first of equal devices with each of its peers
            sets[PEER] = [SELF, *(peer.name for peer in self.gpus[0].peers)]
        sets = {**self._switches([experiments[name] for name in call.names], call.devices), **sets}
        request = Request(
            schema=SCHEMA,
            experiments=[*call.names],
            devices=[*hosts, *gpus[:1]],
            preset="standard" if call.standard else "quick",
            seed=1,
            set=sets,
            ranks=ranks,
            kind=work.name,
            allow_oversubscription=True,
            every_device=True,
        )
        return make_plan(request, self.devices, experiments, {}, replace(work.planning, hints={}))

    def _switches(self, experiments: Iterable[Experiment], devices: Collection[str]) -> dict[str, list[Scalar]]:
        """All values of the switches of the devices' runtimes that experiments depend on."""
        return {
            factor.name: [*SWITCHES[factor.name].values]
            for experiment in experiments
            for device in self.gpus
            if device.name in devices
            for factor in switch_factors(device, experiment.planning.switches_of)
        }

    def _record(self, planned: Planned) -> Record:
        if planned.key not in self._records:
            self._records[planned.key] = predicted(planned)
        return self._records[planned.key]


def predicted(planned: Planned) -> Record:
    """The record of a planned point, in this process."""
    if planned.reason:
        return blank_record(planned, "skipped", planned.reason)
    reply = predict_point(_experiment, Job(planned=planned))
    assert reply.record is not None
    return reply.record


def _experiment(job: Job) -> Experiment:
    work: Work = KINDS[job.planned.kind]
    return work.find(job.planned.point.experiment, job.planned.point.factors)


def _as_set_value(value: Scalar) -> Scalar:
    """A factor's value as --set takes it."""
    return str(value) if not isinstance(value, int) or isinstance(value, bool) else value


def _chosen_in_options(text: str) -> tuple[dict[str, list[Scalar]], int | None]:
    """The factors among the options of a call, such as "--size 8GiB --set peak=measured", and what --ranks gives."""
    words, sets, ranks = iter(shlex.split(text)), list[str](), None
    for word in words:
        if word == "--set":
            sets.append(next(words))
        elif word.removeprefix("--") in _TAKES_VALUE:
            sets.append(f"{word.removeprefix('--')}={next(words)}")
        elif word == "--ranks":
            ranks = int(next(words))
        elif word not in _ALLOWED:
            raise UsageError(f"{word} is no option of the calls of claims")
    return parse_sets(sets), ranks


def conditions_of(factors: Iterable[Mapping[str, FactorValues]]) -> dict[str, list[Scalar]]:
    """The conditions of a machine, such as the page of its kernel, in which the sides of a test differ."""
    values: dict[str, list[Scalar]] = {}
    for side in factors:
        for name in CONDITIONS.keys() & side.keys():
            values.setdefault(name, []).extend(values_of(side[name]))
    return values


def under_condition(points: PlatformPoints, name: str, value: Scalar) -> PlatformPoints:
    """The points of a platform with another condition. Raises UsageError if no value of a platform states it."""
    fact = ".".join(("machine", *CONDITIONS[name]))
    stating = next((parameter.name for parameter in PARAMETERS if fact in parameter.facts), None)
    if stating is None:
        raise UsageError(f"no value of a platform states {name}")
    return points.changed({stating: size_option(value) if isinstance(value, int) else str(value)})
