"""From a request to points: what will be measured, in which order, for how long, and what is skipped and why."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from firsttouch.errors import UsageError
from firsttouch.experiments.base import Experiment, Factor, Point, Preset
from firsttouch.machine.switches import presumed
from firsttouch.run import events
from firsttouch.run.catalogue import WORDS
from firsttouch.run.store import point_key
from firsttouch.schema import DeviceInfo, Factors, Request, Scalar
from firsttouch.units import format_size, parse_size


@dataclass(frozen=True)
class Budget:
    """One preset: sampling ends at this relative width of the interval, or after these seconds per kind of device."""

    tolerance: float
    seconds: Mapping[str, float]


BUDGETS: dict[Preset, Budget] = {
    "quick": Budget(0.03, {"cpu": 12.0, "opencl": 12.0, "cuda": 60.0, "hip": 60.0}),
    "standard": Budget(0.01, {"cpu": 40.0, "opencl": 30.0, "cuda": 170.0, "hip": 170.0}),
    "full": Budget(0.005, {"cpu": 1000.0, "opencl": 1000.0, "cuda": 4800.0, "hip": 4800.0}),
}
SHORTEST = 2e-3
"""Seconds that every point may sample at least."""


@dataclass(frozen=True)
class Planned:
    """One point with how to measure it; reason says why it is skipped instead, '' where it is not."""

    point: Point
    unit: str
    reason: str = ""
    seconds: float = 0.0
    fresh: bool = False
    environment: dict[str, str] = field(default_factory=dict)

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
        reason = reasons.get(name) or reasons.get(name.partition(":")[0])  # a library that failed stands for its kind
        if reason and name not in available:
            raise UsageError(f"device '{name}' is not available: {reason}; accepted: {', '.join(available)}")
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
    number = parse_size(text) if text.startswith("2^") else int(text) if text.isdecimal() else -1
    if number < 0:
        raise ValueError(f"'{text}' is not a whole number, zero or more")
    return number


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
        return parse_size(text)
    if factor.kind == "count":
        return _parse_count(text)
    if factor.kind == "ratio":
        return _parse_ratio(text)
    if factor.kind == "extent":
        return _parse_extent(factor, text)
    words = accepted_values(factor)
    if text not in words:
        raise ValueError(str(unknown(factor.name, text, words)))
    return words[text]


@dataclass
class _Pair:
    """One experiment on one device."""

    experiment: Experiment
    device: DeviceInfo
    factors: list[Factor]
    preset: Preset
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of every worker; an experiment's own has the last word."""
    chosen: set[str] = field(default_factory=set)
    """The factors that --set gave."""

    def restrict(self, sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Replace values by those of --set that mean something here; where none does, the pair is skipped."""
        for index, factor in enumerate(self.factors):
            if factor.name not in sets:
                continue
            self.chosen.add(factor.name)
            values = [value for text in sets[factor.name] for value in _understood(factor, str(text))]
            if not values:
                words = ", ".join(map(str, sets[factor.name]))
                self.reason = f"{self.experiment.name} on {self.device.name} has no {factor.name} {words}"
            self.factors[index] = replace(factor, values=list(dict.fromkeys(values)))

    def plan(self) -> list[Planned]:
        experiment, where = self.experiment, (self.experiment.name, self.device.name)
        if self.reason:
            return [Planned(Point(*where, {}), experiment.unit, self.reason)]
        names = [f.name for f in self.factors]
        planned: dict[str, Planned] = {}
        for values in itertools.product(*(f.values for f in self.factors)):
            factors = dict(zip(names, values, strict=True))
            if experiment.drop(factors):
                continue
            reason = experiment.skip(factors, presumed(self.device, factors)) or ""
            environment = {**self.environment, **experiment.environment(factors)}
            one = Planned(Point(*where, factors), experiment.unit, reason, 0.0, experiment.fresh_process, environment)
            planned.setdefault(one.key, one)
        return self._thinned(list(planned.values()))

    def _thinned(self, planned: list[Planned]) -> list[Planned]:
        """Without the points that the preset leaves out, except where that would leave nothing of a value of --set."""
        out = {p.key for p in planned if self._left_out(p.point.factors)}
        for name in self.chosen:
            kept = {p.point.factors[name] for p in planned if p.key not in out}
            out -= {p.key for p in planned if p.point.factors[name] not in kept}
        return [p for p in planned if p.key not in out]

    def _left_out(self, factors: Factors) -> bool:
        return self.experiment.thin(factors, presumed(self.device, factors), self.preset)


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
                "factor", name, dict.fromkeys([*by_name, *(n for p in pairs for n in p.experiment.optional())])
            )
        for value in values:
            _check_value(name, str(value), by_name[name], limits)


def _check_value(name: str, text: str, factors: Sequence[Factor], limits: Mapping[str, int]) -> None:
    understood = [f for f in factors if _understood(f, text)]
    if not understood:
        if factors[0].kind == "choice":
            raise unknown(name, text, dict.fromkeys(word for f in factors for word in accepted_values(f)))
        try:
            parse_value(factors[0], text)
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
) -> list[Planned]:
    """The points of `request` in the order in which they are measured: device, environment, experiment, factors.

    The order is the same for the same request on the same machine, and results.jsonl keeps it. The time of a preset
    is split over all experiments, chosen or not, so that a run's length does not grow with the number chosen.

    Args:
        devices: all that discovery saw; request.devices chooses among them.
        limits: bytes by name of the limits that a size must not all exceed ("host" and the devices' own).

    Raises:
        UsageError: an unknown experiment, device, preset, factor or value; nothing left to measure.
    """
    budget = BUDGETS[choose_preset(request.preset)]
    chosen = [experiments[name] for name in choose(WORDS[request.kind], request.experiments, experiments)]
    selected = choose_devices(request.devices, devices)
    pairs = [_pair(experiment, device, choose_preset(request.preset)) for device in selected for experiment in chosen]
    _check_sets(request.set, [p for p in pairs if not p.reason], {k: v for k, v in limits.items() if v > 0})
    shares = sum(e.share for e in experiments.values())
    of_kind = Counter(d.kind for d in selected)
    plan: list[Planned] = []
    for pair in pairs:
        if not pair.reason:
            pair.restrict(request.set)
        if request.events:
            pair.environment = {events.VARIABLE: "1"}
        kind = pair.device.kind
        total = budget.seconds.get(kind, budget.seconds["cpu"]) / of_kind[kind]
        plan += _with_seconds(pair.plan(), pair, total, shares)
    # Of an experiment, what can't be measured is an answer too. Of an application that was called for, it is not.
    if all(pair.reason for pair in pairs) or (request.kind == "app" and all(p.reason for p in plan)):
        reasons = "; ".join(dict.fromkeys(p.reason for p in plan))
        why = reasons or f"no device or no {WORDS[request.kind]} is available"
        hint = "; without --strategy, all that the device offers are tried" if "strategy" in request.set else ""
        raise UsageError(f"nothing to measure: {why}{hint if request.kind == 'app' else ''}")
    return _grouped(plan)


def list_experiment(experiment: Experiment, devices: Sequence[DeviceInfo], preset: Preset) -> dict[str, Any]:
    """What a reader of --list wants to know of one experiment; values as --set takes them."""
    pairs = [_pair(experiment, device, preset) for device in devices]
    return {
        "name": experiment.name,
        "question": experiment.question,
        "unit": experiment.unit,
        "devices": {p.device.name: {f.name: _words(f) for f in p.factors} for p in pairs if not p.reason},
        "not_on": {p.device.name: p.reason for p in pairs if p.reason},
    }


def _words(factor: Factor) -> list[str]:
    as_size = factor.kind == "size"
    return [format_size(v).replace(" ", "") if as_size and isinstance(v, int) else str(v) for v in factor.values]


def _pair(experiment: Experiment, device: DeviceInfo, preset: Preset) -> _Pair:
    if reason := experiment.supports(device):
        return _Pair(experiment, device, [], preset, reason)
    return _Pair(experiment, device, experiment.factors(device, preset), preset)


def _grouped(plan: list[Planned]) -> list[Planned]:
    """Points that can share a worker side by side, otherwise in the given order."""
    groups: dict[tuple[str, str], list[Planned]] = {}
    order = {device: i for i, device in enumerate(dict.fromkeys(p.point.device for p in plan))}
    for one in plan:
        groups.setdefault((one.point.device, repr(sorted(one.environment.items()))), []).append(one)
    return [p for key in sorted(groups, key=lambda key: order[key[0]]) for p in groups[key]]
