"""From a request to points: what will be measured, in which order, for how long, and what is skipped and why."""

from __future__ import annotations

import difflib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from firsttouch.engine.work import DEFAULT_FACTS, PlanningFacts
from firsttouch.errors import UsageError
from firsttouch.events import log as events
from firsttouch.experiments.base import Experiment, Factor, Point, Preset, describe_factors
from firsttouch.experiments.contract import (
    environment_of,
    factors_of,
    why_meaningless,
    why_skipped,
    why_unsupported,
)
from firsttouch.experiments.presets import Candidate, left_out
from firsttouch.machine.backends import kind_of
from firsttouch.machine.switches import optimistic_device
from firsttouch.records.reading import point_key
from firsttouch.records.schema import PEER, SELF, DeviceInfo, Factors, Metric, Request, Scalar, TimeClass
from firsttouch.units import format_size, parse_size


@dataclass(frozen=True)
class Budget:
    """One preset: sampling ends at this relative width of the interval, or after these seconds by time class, which
    the devices of one kind and class share.
    """

    tolerance: float
    seconds: Mapping[TimeClass, float]


BUDGETS: dict[Preset, Budget] = {
    "quick": Budget(0.03, {"host": 12.0, "host-kernels": 12.0, "gpu": 60.0}),
    "standard": Budget(0.01, {"host": 40.0, "host-kernels": 30.0, "gpu": 170.0}),
    "full": Budget(0.005, {"host": 1000.0, "host-kernels": 1000.0, "gpu": 4800.0}),
}
_MOST_NAMED = 4
"""Points or experiments that one sentence names."""
_MOST_COMBINATIONS = 10_000_000
"""Of the values of an experiment's factors on a device."""
_MOST_SKIPPED = 100
"""Points of an experiment on a device that are recorded as skipped for one reason; of more, the first one is."""
SHORTEST = 2e-3
"""Seconds that every point may sample at least."""


class Group(NamedTuple):
    """What the points that one worker serves have in common."""

    device: str
    peer: str
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Planned:
    """One point with how to measure it; reason says why it is skipped instead, '' where it is not."""

    point: Point
    metric: Metric
    reason: str = ""
    seconds: float = 0.0
    fresh: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    name: str = ""
    """By which the call knows the experiment, where that is not the experiment's own name."""

    @property
    def title(self) -> str:
        """What is measured, and its device."""
        return f"{self.name or self.point.experiment} on {self.point.device}"

    @property
    def peer(self) -> str:
        """The other device that takes part, '' where there is none."""
        named = str(self.point.factors.get(PEER, ""))
        return "" if named == SELF else named

    @property
    def group(self) -> Group:
        return Group(self.point.device, self.peer, tuple(sorted(self.environment.items())))

    @cached_property
    def key(self) -> str:
        return point_key(self.point.experiment, self.point.device, self.point.factors)


def unknown(what: str, given: str, accepted: Iterable[str]) -> UsageError:
    """The sentence for a word that is not one of those accepted."""
    words = list(accepted)
    near = difflib.get_close_matches(given, words, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return UsageError(f"unknown {what} '{given}'{hint}; accepted: {', '.join(words) or 'none here'}")


def choose(what: str, given: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """The known names that are given, in their own order; all where none is. Raises UsageError for an unknown one."""
    for name in given:
        if name not in known:
            raise unknown(what, name, known)
    return [name for name in known if name in given or not given]


def choose_preset(given: str) -> Preset:
    for preset in BUDGETS:
        if preset == given:
            return preset
    raise unknown("preset", given, BUDGETS)


def choose_devices(given: Sequence[str], devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The given devices, or all that are available. Raises UsageError for one that is unknown or unavailable."""
    available = {d.name: d for d in devices if d.available}
    reasons = {d.name: d.reason for d in devices if not d.available}
    for name in given:
        reason = reasons.get(name) or reasons.get(kind_of(name))  # a library that failed stands for its kind
        if reason and name not in available:
            accepted = f"; accepted: {', '.join(available)}" if available else ""
            raise UsageError(f"device '{name}' is not available: {reason}{accepted}")
    return [available[name] for name in choose("device", given, available)]


def parse_sets(texts: Iterable[str]) -> dict[str, list[Scalar]]:
    """``["size=4KiB,1MiB"]`` to ``{"size": ["4KiB", "1MiB"]}``; a factor given twice takes the values of both."""
    found: dict[str, list[Scalar]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not name.strip() or not all(words):
            raise UsageError(f"--set '{text}' is not factor=value or factor=value,value")
        found.setdefault(name.strip(), []).extend(words)
    return found


def _parse_count(text: str) -> int:
    """A whole number; 2^20 is one too."""
    if text.startswith("2^"):
        return parse_size(text)
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"'{text:.40}' is not a whole number, zero or more")
    if len(text) > 40 or int(text) >= 2**63:  # the largest that a record can hold
        raise ValueError(f"'{text:.40}' is not a whole number below 2^63")
    return int(text)


def _parse_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < float("inf"):
        raise ValueError(f"'{text}' is not a number above 0")
    return ratio


def _parse_extent(factor: Factor, text: str) -> Scalar:
    if text in factor.known:
        return factor.known[text]
    try:
        return parse_size(text)
    except ValueError as error:
        raise ValueError(f"{error}; or one of {', '.join(factor.known)}") from None


def accepted_values(factor: Factor) -> dict[str, Scalar]:
    """What a factor of kind "choice" takes, by the word that means it."""
    return {str(value): value for value in (*factor.choices, *factor.values)}


def parse_value(factor: Factor, text: str) -> Scalar:
    """The value that `text` means for `factor`. Raises ValueError with what is accepted."""
    if factor.kind == "size":
        return _within(factor, parse_size(text), text)
    if factor.kind == "count":
        return _within(factor, _parse_count(text), text)
    if factor.kind == "ratio":
        return _parse_ratio(text)
    if factor.kind == "extent":
        return _parse_extent(factor, text)
    words = accepted_values(factor)
    if text not in words:
        raise ValueError(str(unknown(factor.name, text, words)))
    return words[text]


def _within(factor: Factor, number: int, text: str) -> int:
    """`number`, where it lies in the factor's range. Raises ValueError where it does not."""
    if number < factor.least:
        raise ValueError(f"'{text}' is less than can be measured; accepted: {factor.accepted()}")
    if factor.most is not None and number > factor.most:
        raise ValueError(f"'{text}' is more than can be measured; accepted: {factor.accepted()}")
    if number % factor.multiple:
        raise ValueError(f"'{text}' is no multiple of {factor.multiple}; accepted: {factor.accepted()}")
    return number


@dataclass
class _Pair:
    """One experiment on one device. name: by which the call knows it."""

    name: str
    experiment: Experiment
    device: DeviceInfo
    factors: list[Factor]
    preset: Preset
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of every worker; an experiment's own has the last word."""
    chosen: set[str] = field(default_factory=set)
    """The factors that --set gave."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """What the call names and the plan does not give: by the reason, in words."""

    def keep_chosen_devices(self, selected: Collection[str], sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Of factors that name devices and that --set does not give, keep the devices that the call chose."""
        known = {peer.name for peer in self.device.peers if peer.name not in selected}
        for index, factor in enumerate(self.factors):
            if not factor.names_devices or factor.name in sets:
                continue
            values = [value for value in factor.values if value not in known]
            self.factors[index] = replace(factor, values=values)
            if not values:
                choices = ", ".join(factor.choices)
                self.reason = f"{self.experiment.name} on {self.device.name} needs a {factor.name}" + (
                    f"; accepted: {choices}, by --device or --set {factor.name}=" if choices else ", and there is none"
                )

    def restrict(self, sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Replace values by those of --set that mean something here; where none does, the pair is skipped."""
        for index, factor in enumerate(self.factors):
            if factor.name not in sets:
                continue
            self.chosen.add(factor.name)
            values = [value for text in sets[factor.name] for value in _understood(factor, str(text))]
            foreign = [f"{factor.name}={text}" for text in sets[factor.name] if not _understood(factor, str(text))]
            if not values:
                words = ", ".join(map(str, sets[factor.name]))
                self.reason = f"{self.name} on {self.device.name} has no {factor.name} {words}"
            elif foreign:
                self.refused[f"{self.device.name} has no such {factor.name}"] = foreign
            self.factors[index] = replace(factor, values=list(dict.fromkeys(values)))

    def plan(self) -> list[Planned]:
        experiment, where = self.experiment, (self.experiment.name, self.device.name)
        if self.reason:
            return [Planned(Point(*where, Factors()), experiment.metric, self.reason, name=self.name)]
        names = [f.name for f in self.factors]
        if (combinations := math.prod(len(f.values) for f in self.factors)) > _MOST_COMBINATIONS:
            raise UsageError(
                f"{self.name} on {self.device.name} has {combinations:,} combinations of {', '.join(names)}, more than "
                f"{_MOST_COMBINATIONS:,}; choose fewer values with --set"
            )
        planned: dict[str, Planned] = {}
        meaningless: dict[tuple[Scalar, ...], str] = {}
        for values in itertools.product(*(f.values for f in self.factors)):
            factors = Factors(zip(names, values, strict=True))
            if why := why_meaningless(experiment, factors, self.device):
                meaningless.setdefault(self._choice(factors), why)
                continue
            reason = why_skipped(experiment, factors, optimistic_device(self.device, factors))
            environment = {**self.environment, **environment_of(experiment, factors)}
            one = Planned(
                Point(*where, factors),
                experiment.metric,
                reason,
                fresh=experiment.fresh_process,
                environment=environment,
                name=self.name,
            )
            planned.setdefault(one.key, one)
        given = {self._choice(one.point.factors) for one in planned.values()}
        for choice, why in meaningless.items():
            if self.chosen and choice not in given:
                self.refused.setdefault(why, []).append(self._in_words(choice))
        if not planned:
            without = [f.name for f in self.factors if not f.values]
            reasons = dict.fromkeys(meaningless.values()) or [f"there is no value of {', '.join(without)} here"]
            self.reason = "; ".join(reasons)
        return self._without_repeated_skips(self._thinned(list(planned.values())))

    def _choice(self, factors: Factors) -> tuple[Scalar, ...]:
        """The values of the factors that --set gave."""
        return tuple(value for name, value in factors.items() if name in self.chosen)

    def _in_words(self, choice: tuple[Scalar, ...]) -> str:
        names = [f.name for f in self.factors if f.name in self.chosen]
        return " ".join(f"{name}={value}" for name, value in zip(names, choice, strict=True))

    def _thinned(self, planned: list[Planned]) -> list[Planned]:
        """Without the points that the preset leaves out, except where that would leave nothing of what --set names.
        Then its points that can be measured come back or, where there is none, one for each reason.
        """
        excluded = {p.key: why for p in planned if (why := self._why_excluded(p.point.factors))}
        kept = [p for p in planned if p.key not in excluded]
        if planned and not kept and not self.chosen:
            reasons = "; ".join(dict.fromkeys(excluded.values()))
            self.reason = f"preset {self.preset} leaves out all of its points: {reasons}"
        if not self.chosen:
            return kept
        given = {self._choice(p.point.factors) for p in kept}
        lost = [p for p in planned if self._choice(p.point.factors) not in given]
        able = {self._choice(p.point.factors) for p in lost if not p.reason}
        keys, said = {p.key for p in kept}, set()
        for one in lost:
            choice = self._choice(one.point.factors)
            if not one.reason or (choice not in able and (choice, one.reason) not in said):
                keys.add(one.key)
                said.add((choice, one.reason))
        return [p for p in planned if p.key in keys]

    def _without_repeated_skips(self, planned: list[Planned]) -> list[Planned]:
        """Of very many points that one reason skips, the first."""
        counts, found = Counter(p.reason for p in planned if p.reason), dict[str, Planned]()
        for reason, count in counts.items():
            if count > _MOST_SKIPPED:
                self.refused.setdefault(reason, []).append(f"{count - 1} of {count} points that can't be measured")
        for one in planned:
            found.setdefault(one.reason if counts[one.reason] > _MOST_SKIPPED else one.key, one)
        return list(found.values())

    def _why_excluded(self, factors: Factors) -> str:
        """Why the preset does not measure the point, '' where it does."""
        device = optimistic_device(self.device, factors)
        return left_out(Candidate(self.experiment, factors, device, self.preset))


def _understood(factor: Factor, text: str) -> list[Scalar]:
    """The one value that `text` means for `factor`, or none."""
    try:
        return [parse_value(factor, text)]
    except ValueError:
        return []


def _check_sets(sets: Mapping[str, Sequence[Scalar]], pairs: Sequence[_Pair], limits: Mapping[str, int]) -> None:
    """Every factor and every value of --set must mean something to at least one pair."""
    by_name: dict[str, list[Factor]] = {}
    for pair in pairs:
        for factor in pair.factors:
            by_name.setdefault(factor.name, []).append(factor)
    for name, values in sets.items():
        if name not in by_name:
            raise unknown(
                "factor", name, dict.fromkeys([*by_name, *(f.name for p in pairs for f in p.experiment.optional())])
            )
        for value in values:
            _check_value(name, str(value), by_name[name], limits)


def _check_value(name: str, text: str, factors: Sequence[Factor], limits: Mapping[str, int]) -> None:
    understood = [f for f in factors if _understood(f, text)]
    if not understood:
        if factors[0].kind == "choice":
            raise unknown(name, text, dict.fromkeys(word for f in factors for word in accepted_values(f)))
        widest = max(factors, key=lambda factor: math.inf if factor.most is None else factor.most)
        try:
            parse_value(widest, text)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    largest = max(limits.values(), default=0)
    if all(f.kind == "size" for f in understood) and limits and parse_size(text) > largest:
        known = ", ".join(f"{where} {format_size(limit)}" for where, limit in limits.items())
        raise UsageError(f"{name}: '{text}' exceeds every memory limit here ({known})")


def _with_seconds(points: list[Planned], pair: _Pair, total: float, shares: float) -> list[Planned]:
    """The pair's part of the preset's time, evenly over its runnable points."""
    runnable = sum(not p.reason for p in points)
    seconds = max(SHORTEST, total * pair.experiment.share / shares / max(1, runnable))
    return [p if p.reason else replace(p, seconds=seconds) for p in points]


def make_plan(
    request: Request,
    devices: Sequence[DeviceInfo],
    experiments: Mapping[str, Experiment],
    limits: Mapping[str, int],
    facts: PlanningFacts = DEFAULT_FACTS,
    tell: Callable[[str], None] = lambda sentence: None,
) -> list[Planned]:
    """The points of `request` in the order in which they are measured: device, environment, experiment, factors.

    The order is the same for the same request on the same machine, and results.jsonl keeps it. The time of a preset
    is split over all experiments, chosen or not, so that a run's length does not grow with the number chosen.

    Args:
        devices: all that discovery saw; request.devices chooses among them.
        experiments: by the name that request.experiments may give.
        limits: bytes by name of the limits that a size must not all exceed ("host" and the devices' own).
        facts: of the kind of work.
        tell: is told what the call names and the plan can't give, a sentence for each reason.

    Raises:
        UsageError: an unknown experiment, device, preset, factor or value; nothing left to measure.
    """
    budget = BUDGETS[choose_preset(request.preset)]
    chosen = choose(facts.noun, request.experiments, experiments)
    selected, preset = choose_devices(request.devices, devices), choose_preset(request.preset)
    pairs = [_pair(name, experiments[name], device, preset) for device in selected for name in chosen]
    if all(pair.reason for pair in pairs):
        raise UsageError(_nobody_can(chosen, pairs, devices))
    _keep_chosen_devices(pairs, selected, request.set)
    if able := [pair for pair in pairs if not pair.reason]:
        _check_sets(request.set, able, {k: v for k, v in limits.items() if v > 0})
    shares = sum(e.share for e in experiments.values())
    sharing = Counter((d.kind, d.capabilities.time_class) for d in selected)
    plan: list[Planned] = []
    for pair in pairs:
        if not pair.reason:
            pair.restrict(request.set)
        if request.events:
            pair.environment = {events.VARIABLE: "1"}
        kind, time_class = pair.device.kind, pair.device.capabilities.time_class
        total = budget.seconds[time_class] / sharing[kind, time_class]
        plan += _with_seconds(pair.plan(), pair, total, shares)
    if all(pair.reason for pair in pairs) or (not facts.skips_are_results and all(p.reason for p in plan)):
        told = [p.reason for p in plan] or [f"{p.name} on {p.device.name}: {p.reason}" for p in pairs if p.reason]
        reasons = dict.fromkeys(told) or [f"no device or no {facts.noun} is available"]
        hints = [hint for name, hint in facts.hints.items() if name in request.set]
        raise UsageError(f"nothing to measure: {'; '.join([*reasons, *hints])}")
    for sentence in _refusals(pairs):
        tell(sentence)
    return _grouped(plan)


def _nobody_can(names: Sequence[str], pairs: Sequence[_Pair], devices: Sequence[DeviceInfo]) -> str:
    """The sentence for a call of which no chosen device can do anything. It names the devices that are not there, too:
    one of them may be what the caller counted on.
    """
    reasons = list(dict.fromkeys(pair.reason for pair in pairs))
    absent = [f"{d.name} is not available: {d.reason:.200}" for d in devices if not d.available]
    who = ", ".join(dict.fromkeys(pair.device.name for pair in pairs)) or "no device"
    return f"nothing to measure: {_some(names)} can't run on {who}: {'; '.join([*reasons, *absent])}"


def _refusals(pairs: Iterable[_Pair]) -> list[str]:
    """What the call names and the plan does not give, one sentence for each reason."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for pair in pairs:
        for reason, points in pair.refused.items():
            where, what = found.setdefault(reason, ([], []))
            where.append(f"{pair.name} on {pair.device.name}")
            what += points
    return [
        f"left out of {_some(where)}: {_some(list(dict.fromkeys(what)))} ({reason})"
        for reason, (where, what) in found.items()
    ]


def _some(words: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def list_experiment(experiment: Experiment, devices: Sequence[DeviceInfo], preset: Preset) -> dict[str, Any]:
    """What a reader of --list wants to know of one experiment; values as --set takes them."""
    pairs = [_pair(experiment.name, experiment, device, preset) for device in devices]
    _keep_chosen_devices(pairs, devices, {})
    return {
        "name": experiment.name,
        "question": experiment.question,
        "unit": experiment.metric.unit,
        "factors": describe_factors([*(f for pair in pairs for f in pair.factors), *experiment.optional()]),
        "devices": {p.device.name: {f.name: _words(f) for f in p.factors} for p in pairs if not p.reason},
        "not_on": {p.device.name: p.reason for p in pairs if p.reason},
    }


def _words(factor: Factor) -> list[str]:
    as_size = factor.kind == "size"
    return [format_size(v).replace(" ", "") if as_size and isinstance(v, int) else str(v) for v in factor.values]


def _pair(name: str, experiment: Experiment, device: DeviceInfo, preset: Preset) -> _Pair:
    if reason := why_unsupported(experiment, device):
        return _Pair(name, experiment, device, [], preset, reason)
    return _Pair(name, experiment, device, factors_of(experiment, device, preset), preset)


def _keep_chosen_devices(
    pairs: Iterable[_Pair], selected: Iterable[DeviceInfo], sets: Mapping[str, Sequence[Scalar]]
) -> None:
    names = {device.name for device in selected}
    for pair in pairs:
        if not pair.reason:
            pair.keep_chosen_devices(names, sets)


def _grouped(plan: list[Planned]) -> list[Planned]:
    """Points that can share a worker side by side, otherwise in the given order."""
    groups: dict[Group, list[Planned]] = {}
    order = {device: i for i, device in enumerate(dict.fromkeys(p.point.device for p in plan))}
    for one in plan:
        groups.setdefault(one.group, []).append(one)
    return [p for key in sorted(groups, key=lambda key: order[key.device]) for p in groups[key]]
