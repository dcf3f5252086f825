"""One experiment on one device: which combinations of its factors are points, skipped or left out, and why."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec.structs import replace

from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.engine.choices import BUDGETS
from firsttouch.engine.modelled import device_under
from firsttouch.engine.planned import LIMIT, Planned
from firsttouch.engine.values import valid_values
from firsttouch.experiments.contract.base import Candidate, Experiment, Factor, Meaningless
from firsttouch.experiments.contract.contract import (
    environment_of,
    factors_of,
    is_sampled,
    places_of,
    why_skipped,
)
from firsttouch.experiments.contract.presets import excluded, holds, meets, not_measured
from firsttouch.experiments.contract.rank_interfaces import gpu_environment
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.switches import SWITCHES, optimistic_device
from firsttouch.records.equal_places import MOST_PAIRS, EqualPlaces
from firsttouch.records.schema import PEER, RANKS, DeviceInfo, Factors, Location, Point, Request, Scalar
from firsttouch.records.text import join_names

_MOST_COMBINATIONS = 10_000_000
"""The most combinations of the values of an experiment's factors on a device."""
_MOST_SKIPPED = 100
"""The most points of an experiment on a device that are recorded as skipped for one reason. If there are more, only the
first is recorded."""
_Placed: TypeAlias = tuple[Candidate, tuple[str, ...]]
"""A combination of factors with the device of each rank."""
_MANY = f"more than {MOST_PAIRS} pairs are equal; --device names those to measure"
"""Why a pair of devices is in no plan."""
_FROM_FIRST = "ranks are assigned to the driver's devices from {0} on; --device {0} measures them"
"""Why a point is not this device's. Points that several devices carry out belong to that of the first rank."""


@dataclass
class ExperimentOnDevice:
    """One experiment on one device: its factors, and the points that they make.

    name: the name of the experiment in the call. reason: why it has no points; '' if it has some.
    """

    name: str
    experiment: Experiment
    device: DeviceInfo
    factors: list[Factor]
    preset: Preset
    reason: str = ""
    optional: Sequence[Factor] = ()
    """The factors that points have only if --set names them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of every worker. Those of the experiment take precedence."""
    chosen: set[str] = field(default_factory=set)
    """The factors whose values were given with --set."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """What the call names and the plan leaves out, in words, by the reason."""
    most_ranks: int = 1
    """The most processes that may carry out a point together."""
    elsewhere: bool = False
    """True if its points are another device's: a factor that --set names goes with that device, or the first rank is
    always there.
    """
    equal_places: EqualPlaces = field(default_factory=EqualPlaces)
    """Those at which the experiment has points too."""
    _devices: dict[tuple[Scalar | None, ...], DeviceInfo] = field(default_factory=dict, init=False)
    """The device as it may be, by the values of the switches."""
    _own_values: dict[str, Sequence[Scalar]] = field(default_factory=dict, init=False)
    """Of the factors in `chosen`, the values without --set."""
    _measured_by_preset: dict[tuple[tuple[str, Scalar], ...], bool] = field(default_factory=dict, init=False)
    _usual_with_own: dict[tuple[Scalar, ...], bool] = field(default_factory=dict, init=False)
    """Whether the preset measures a point with the values without --set, by the values of the other factors."""

    def keep_chosen_devices(self, selected: Collection[str], sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Restricts factors that name devices to the devices that the call chose, unless --set gives their values."""
        not_chosen = {peer.name for peer in self.device.peers if peer.name not in selected}
        for index, factor in enumerate(self.factors):
            if not factor.names_devices or factor.name in sets:
                continue
            values = [value for value in factor.values if value not in not_chosen]
            self.factors[index] = dataclasses.replace(factor, values=values)
            if not values:
                choices = ", ".join(factor.choices)
                self.reason = f"{self.experiment.name} on {self.device.name} needs a {factor.name}" + (
                    f"; accepted: {choices}, by --device or --set {factor.name}=" if choices else ", and there is none"
                )

    def keep_on_each(self) -> None:
        """Leaves out the values of factors with which no point is measured here, if other devices stand for this one
        everywhere.
        """
        if self.equal_places.leads_nowhere(self.device.name):
            for index, factor in enumerate(self.factors):
                values = _values_on_each(factor, self.experiment)
                self.factors[index] = dataclasses.replace(factor, values=values)

    def limit_ranks(self, most: int | None) -> None:
        """Restricts the numbers of ranks to at most `most`, and adds that number itself where the experiment takes any.
        If even the least number is more, all is skipped. By default it is one for each GPU of the driver, or one
        where one process can carry out points alone.
        """
        ranks = self.experiment.ranks
        if ranks is None or self.reason:
            return
        least, gpus = ranks.least, 1 + sum(peer.same_driver for peer in self.device.peers)
        if most is None and ranks.alone:
            most = 1
        if most is None and (self.device.capabilities.time_class != "gpu" or gpus < 2):
            self.reason = f"{self.name} takes several processes; --ranks {max(2, least)} starts them"
            return
        most = gpus if most is None else most
        self.most_ranks = most
        if most < least:
            self.reason = f"{self.name} takes at least {least} processes; --ranks {least} starts them"
        for index, factor in enumerate(self.factors):
            if factor.name == RANKS:
                values = [value for value in factor.values if isinstance(value, int) and value <= most]
                self.factors[index] = dataclasses.replace(factor, values=sorted({*values, most}))
        fewest = Factors((factor.name, factor.values[0]) for factor in self.factors if factor.values)
        first = next(iter(places_of(self.experiment, fewest, self.device)), self.device.name)
        if first != self.device.name and not self.reason:
            self.reason, self.elsewhere = _FROM_FIRST.format(first), True

    def restrict(self, sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Replaces the values of factors by those of --set that are valid here. If none is, all is skipped."""
        for index, factor in enumerate(self.factors):
            if factor.name not in sets:
                continue
            self.chosen.add(factor.name)
            self._own_values[factor.name] = factor.values
            values = [value for text in sets[factor.name] for value in valid_values(factor, str(text))]
            invalid = [f"{factor.name}={text}" for text in sets[factor.name] if not valid_values(factor, str(text))]
            if not values:
                words = ", ".join(map(str, sets[factor.name]))
                self.reason = f"{self.name} on {self.device.name} has no {factor.name} {words}"
            elif invalid:
                self.refused[f"{self.device.name} has no such {factor.name}"] = invalid
            self.factors[index] = dataclasses.replace(factor, values=list(dict.fromkeys(values)))

    @property
    def is_first(self) -> bool:
        """Whether it is the first of equal devices."""
        return self.equal_places.first(self.device.name) == self.device.name

    def plan(self, request: Request, devices: Mapping[str, DeviceInfo]) -> list[Planned]:
        """The points, in the order of the factors' values. devices: all, by name."""
        if self.reason:
            return [self._point(Factors(), request, reason=self.reason)]
        self._check_count()
        candidates: list[_Placed] = []
        meaningless: dict[tuple[Scalar, ...], str] = {}
        left_out_why: dict[str, None] = {}
        elsewhere: dict[str, dict[tuple[Scalar, ...], int]] = {}
        name = self.device.name
        for candidate in self._candidates():
            factors = candidate.factors
            if reason := _why_no_point(candidate):
                meaningless.setdefault(self._chosen_values(factors), reason)
            elif not self.chosen and (reason := not_measured(candidate)):
                left_out_why[reason] = None
            elif (first := next(iter(places := places_of(self.experiment, factors, self.device)), name)) != name:
                elsewhere.setdefault(first, {})[self._chosen_values(factors)] = len(places)
            elif reason := self._why_too_many(factors, places):
                meaningless.setdefault(self._chosen_values(factors), reason)
            else:
                candidates.append((candidate, places))
        covered = {self._chosen_values(candidate.factors) for candidate, _ in candidates}
        for first, choices in elsewhere.items():
            covered |= choices.keys()
            if request.devices and first not in request.devices:
                counts = sorted(set(choices.values()))
                self.refused[_FROM_FIRST.format(first)] = [f"points of {join_names([*map(str, counts)])} ranks"]
        for choice, reason in meaningless.items():
            if self.chosen and choice not in covered:
                self.refused.setdefault(reason, []).append(self._choice_in_words(choice))
        if not candidates and self.is_first:
            self.reason = self._why_no_point(
                [*left_out_why], [*map(_FROM_FIRST.format, elsewhere)] or [*dict.fromkeys(meaningless.values())]
            )
        if self.chosen:
            candidates = self._apply_preset(candidates)
        planned: dict[str, Planned] = {}
        for candidate, places in candidates:
            point = self._measured_point(candidate, places, request, devices)
            if not point.reason or self.equal_places.leads(self.device.name, candidate.factors):
                planned.setdefault(point.key, point)
        return self._without_repeated_skips([*planned.values()])

    def _candidates(self) -> Iterator[Candidate]:
        """All combinations of the factors' values, without those for which an equal device or pair stands."""
        names = [f.name for f in self.factors]
        roles: dict[Scalar, tuple[bool, bool]] = {}
        for values in itertools.product(*(f.values for f in self.factors)):
            factors = Factors(zip(names, values, strict=True))
            if (peer := factors.get(PEER)) not in roles:
                roles[peer] = (
                    self.equal_places.has(self.device.name, factors),
                    self.equal_places.leads(self.device.name, factors),
                )
            is_planned, leads = roles[peer]
            if not is_planned:
                self.refused[_MANY] = ["pairs that are not of each with the next"]
                continue
            candidate = self._candidate(factors)
            if leads or _on_each(candidate):
                yield candidate

    def _check_count(self) -> None:
        if (combinations := math.prod(len(f.values) for f in self.factors)) > _MOST_COMBINATIONS:
            names = ", ".join(f.name for f in self.factors)
            raise UsageError(
                f"{self.name} on {self.device.name} has {combinations:,} combinations of {names}, more than "
                f"{_MOST_COMBINATIONS:,}; choose fewer values with --set"
            )

    def _why_too_many(self, factors: Factors, places: Sequence[str]) -> str:
        """Why so many ranks are not started; '' if they are."""
        if len(places) <= self.most_ranks:
            return ""
        one_process = self.experiment.ranks is not None and self.experiment.ranks.in_one_process(factors)
        takes = "devices; --ranks {} allows" if one_process else "processes; --ranks {} starts"
        return f"{self.name} takes {len(places)} {takes.format(len(places))} them"

    def _why_no_point(self, left_out_why: Sequence[str], meaningless: Sequence[str]) -> str:
        if left_out_why:
            return f"preset {self.preset} leaves out all of its points: {'; '.join(left_out_why)}"
        empty = [f.name for f in self.factors if not f.values]
        return "; ".join(meaningless or [f"there is no value of {', '.join(empty)} here"])

    def _measured_point(
        self, candidate: Candidate, places: tuple[str, ...], request: Request, devices: Mapping[str, DeviceInfo]
    ) -> Planned:
        """A point that is measured, or skipped because the device cannot measure it."""
        experiment, factors = self.experiment, candidate.factors
        if self.device.modelled is not None:  # a worker predicts any number of points, and leaves nothing changed
            return self._point(factors, request, reason=why_skipped(candidate))
        ranks = experiment.ranks if places else None
        one_process = ranks is not None and ranks.in_one_process(factors)
        peer_names = (
            places[1:] if one_process else [str(factors.get(PEER, ""))]
        )  # the latter may be "self" or a NUMA node
        return self._point(
            factors,
            request,
            reason=why_skipped(candidate),
            fresh=experiment.worker.fresh,
            own_worker=experiment.worker.own,
            environment={
                **self.device.environment,
                **self.environment,
                **gpu_environment(factors, self.device),
                **environment_of(experiment, factors),
            },
            places=places,
            one_process=one_process,
            mpi=ranks is not None and ranks.takes_mpi(factors),
            peers=[devices[name] for name in peer_names if name in devices],
            ranks=[] if one_process else [devices[name] for name in places],
            sampled=is_sampled(experiment, factors),
            stands_for=self._stands_for(candidate),
            state=experiment.worker.state(factors),
        )

    def _stands_for(self, candidate: Candidate) -> list[Location]:
        others = self.equal_places.others(self.device.name, candidate.factors)
        return [] if others and _on_each(candidate) else others

    def _point(self, factors: Factors, request: Request, **how: Any) -> Planned:
        return Planned(
            Point(self.experiment.name, self.device.name, factors),
            self.experiment.metric,
            self.device,
            name=self.name,
            kind=request.kind,
            preset=request.preset,
            seed=request.seed,
            tolerance=BUDGETS[self.preset].tolerance,
            setup=self.experiment.planning.setup if self.device.modelled is None else 0.0,
            **how,
        )

    def timed(self, points: Sequence[Planned], seconds: float, timeout: float | None) -> list[Planned]:
        """The points with their limits of time. seconds: of the sampling of each; timeout: --timeout."""
        if self.device.modelled is not None:
            seconds = 0.0
        limit = timeout or max(LIMIT, 20 * seconds, self.experiment.worker.timeout)
        return [p if p.reason else replace(p, seconds=seconds, limit=limit) for p in points]

    def _chosen_values(self, factors: Factors) -> tuple[Scalar, ...]:
        """The values of those factors that were given with --set."""
        return tuple([value for name, value in factors.items() if name in self.chosen]) if self.chosen else ()

    def _choice_in_words(self, choice: tuple[Scalar, ...]) -> str:
        names = [f.name for f in self.factors if f.name in self.chosen]
        return " ".join(f"{name}={value}" for name, value in zip(names, choice, strict=True))

    def _apply_preset(self, candidates: Sequence[_Placed]) -> list[_Placed]:
        """Removes the points that the preset leaves out. If that would remove all points of values given with --set,
        those of them that can be measured are kept; of these only those whose other factors are usual, if there are
        any. If none can be measured, one point for each reason is kept.
        """
        kept = [not not_measured(candidate) for candidate, _ in candidates]
        choices = [self._chosen_values(candidate.factors) for candidate, _ in candidates]
        covered = set(itertools.compress(choices, kept))
        missing = [i for i, choice in enumerate(choices) if choice not in covered]
        reasons = {i: why_skipped(candidates[i][0]) for i in missing}
        measurable = {choices[i] for i in missing if not reasons[i]}
        usual = {i for i in missing if not reasons[i] and self._is_usual(candidates[i][0].factors)}
        with_usual = {choices[i] for i in usual}
        skipped = set()
        for i in missing:
            if not reasons[i]:
                kept[i] = i in usual or choices[i] not in with_usual
                continue
            kept[i] = choices[i] not in measurable and (choices[i], reasons[i]) not in skipped
            skipped.add((choices[i], reasons[i]))
        return [*itertools.compress(candidates, kept)]

    def _is_usual(self, factors: Factors) -> bool:
        """Whether the preset measures a point that differs in factors of --set only."""
        others = tuple(value for name, value in factors.items() if name not in self.chosen)
        if others not in self._usual_with_own:
            own_values = {name: self._own_values[name] for name in factors if name in self.chosen}
            self._usual_with_own[others] = self._is_any_measured(factors, own_values)
        return self._usual_with_own[others] or self._is_any_measured(
            factors, {name: (value, *self._own_values[name]) for name, value in factors.items() if name in self.chosen}
        )

    def _is_any_measured(self, factors: Factors, values: Mapping[str, Sequence[Scalar]]) -> bool:
        """Whether the preset measures a point that differs in some factors only, which have one of some values."""
        alternatives = (factors | dict(zip(values, v, strict=True)) for v in itertools.product(*values.values()))
        return any(map(self._is_measured, alternatives))

    def _is_measured(self, factors: Factors) -> bool:
        key = tuple(factors.items())
        if key not in self._measured_by_preset:
            candidate = self._candidate(factors)
            self._measured_by_preset[key] = not _why_no_point(candidate) and not not_measured(candidate)
        return self._measured_by_preset[key]

    def _without_repeated_skips(self, planned: list[Planned]) -> list[Planned]:
        """Keeps only the first of the points that are skipped for one reason, if there are more than _MOST_SKIPPED."""
        counts, kept = Counter(p.reason for p in planned if p.reason), dict[str, Planned]()
        for reason, count in counts.items():
            if count > _MOST_SKIPPED:
                self.refused.setdefault(reason, []).append(f"{count - 1} of {count} points that can't be measured")
        for p in planned:
            kept.setdefault(p.reason if counts[p.reason] > _MOST_SKIPPED else p.key, p)
        return list(kept.values())

    def _candidate(self, factors: Factors) -> Candidate:
        switches = tuple(map(factors.get, SWITCHES))
        if switches not in self._devices:
            modelled = self.device.modelled is not None
            self._devices[switches] = (device_under if modelled else optimistic_device)(self.device, factors)
        return Candidate(self.experiment, factors, self._devices[switches], self.preset, self.chosen)


def _why_no_point(candidate: Candidate) -> str:
    """Why a combination is no point at all; '' if it is one, which may be skipped or left out by the preset."""
    reason = why_skipped(candidate)
    return reason if isinstance(reason, Meaningless) else excluded(candidate)


def on_device(
    name: str, experiment: Experiment, device: DeviceInfo, preset: Preset, sets: Mapping[str, Sequence[Scalar]]
) -> ExperimentOnDevice:
    """An experiment on a device, with its factors, including the optional ones that --set names."""
    try:
        factors = factors_of(experiment, device, preset)
    except Unsupported as error:
        return ExperimentOnDevice(name, experiment, device, [], preset, str(error))
    optional = [factor for factor in factors if factor.optional]
    named = [factor for factor in optional if factor.name in sets]
    if elsewhere := [factor for factor in named if factor.only_on not in ("", device.name)]:
        reason = f"{elsewhere[0].name} goes with the device {elsewhere[0].only_on} only"
        return ExperimentOnDevice(name, experiment, device, [], preset, reason, elsewhere=True)
    usual = [factor for factor in factors if not factor.optional]
    return ExperimentOnDevice(name, experiment, device, [*usual, *named], preset, optional=optional)


def _values_on_each(factor: Factor, experiment: Experiment) -> list[Scalar]:
    """The values of a factor with which a point may be measured on each of several equal devices."""
    conditions = [each.get(factor.name, tuple(factor.values)) for each in experiment.planning.on_each]
    return [value for value in factor.values if any(holds(condition, value) for condition in conditions)]


def _on_each(candidate: Candidate) -> bool:
    """Whether a point is measured on each of several equal devices."""
    return any(meets(candidate, conditions) for conditions in candidate.experiment.planning.on_each)
