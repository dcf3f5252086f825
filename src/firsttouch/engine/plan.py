"""Turns a request into points: what is measured, in which order and for how long, and what is skipped and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.outputs import Output
from firsttouch.base.units import format_size, parse_size
from firsttouch.engine.choices import BUDGETS, choose, choose_devices, choose_preset
from firsttouch.engine.on_device import ExperimentOnDevice, on_device
from firsttouch.engine.planned import Planned, PointGroup
from firsttouch.engine.values import parse_value, valid_values
from firsttouch.engine.work import DEFAULT_FACTS, PlanningFacts
from firsttouch.experiments.contract.base import CountingRules, Experiment, Factor, describe_factors
from firsttouch.experiments.contract.rules import Preset
from firsttouch.profile.events import log as events
from firsttouch.records.equal_places import EqualPlaces
from firsttouch.records.schema import DeviceInfo, Request, Scalar, TimeClass
from firsttouch.records.text import first_few

SHORTEST = 2e-3
"""The least sampling time of a point, in seconds."""
_MOST_NAMED = 4
"""The most points or experiments that one sentence names."""


def _check_sets(
    sets: Mapping[str, Sequence[Scalar]],
    pairs: Sequence[ExperimentOnDevice],
    limits: Mapping[str, int],
    facts: PlanningFacts,
) -> None:
    """Raises UsageError for a factor or a value of --set that no pair accepts."""
    by_name: dict[str, list[Factor]] = {}
    for pair in pairs:
        for factor in pair.factors:
            by_name.setdefault(factor.name, []).append(factor)
    for name, values in sets.items():
        if name not in by_name:
            if reason := next(filter(None, (facts.why_no_factor(pair.name, name) for pair in pairs)), ""):
                raise UsageError(reason)
            raise unknown("factor", name, dict.fromkeys([*by_name, *(f.name for p in pairs for f in p.optional)]))
        for value in values:
            _check_value(name, str(value), by_name[name], limits)


def _check_value(name: str, text: str, factors: Sequence[Factor], limits: Mapping[str, int]) -> None:
    accepting = [f for f in factors if valid_values(f, text)]
    if not accepting:
        if factors[0].kind == "choice":
            raise unknown(name, text, dict.fromkeys(word for f in factors for word in f.words()))
        widest = max(factors, key=lambda factor: math.inf if factor.most is None else factor.most)
        try:
            parse_value(widest, text)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    largest = max(limits.values(), default=0)
    if all(f.kind == "size" for f in accepting) and limits and parse_size(text) > largest:
        limits_text = ", ".join(f"{device} {format_size(limit)}" for device, limit in limits.items())
        raise UsageError(f"{name}: '{text}' exceeds every memory limit here ({limits_text})")


def make_plan(
    request: Request,
    devices: Sequence[DeviceInfo],
    experiments: Mapping[str, Experiment],
    limits: Mapping[str, int],
    facts: PlanningFacts = DEFAULT_FACTS,
    warn: Callable[[str], None] = lambda sentence: None,
) -> list[Planned]:
    """The points of `request` in the order in which they are measured: device, environment, experiment, factors.

    The order is the same for the same request on the same machine, and results.jsonl keeps it. The time of a preset
    is split over all experiments, chosen or not, so that a run's length does not grow with the number chosen. Unless
    the request is for every device, of equal devices the first has all points, and the others those that ask about
    each (records/equal_places.py).

    Args:
        devices: all devices that discovery found; request.devices chooses among them.
        experiments: all experiments by name; request.experiments chooses among them.
        limits: memory limits in bytes by name ("host" and the devices). A size must not exceed all of them.
        facts: the facts of the kind of work.
        warn: is called with a sentence for each reason for which something that the call names is left out.

    Raises:
        UsageError: an experiment, device, preset, factor or value is unknown, or there is nothing to measure.
    """
    chosen = choose(facts.noun, request.experiments, experiments)
    selected, preset = choose_devices(request.devices, devices), choose_preset(request.preset)
    if request.ranks is not None and not any(experiments[name].ranks for name in chosen):
        ranked = ", ".join(name for name, experiment in experiments.items() if experiment.ranks)
        raise UsageError(
            f"--ranks was given, but nothing that was chosen takes several processes; accepted with: {ranked or 'none'}"
        )
    pairs = [on_device(name, experiments[name], device, preset, request.set) for device in selected for name in chosen]
    for pair in pairs:
        pair.limit_ranks(request.ranks)
    if all(pair.reason for pair in pairs):
        raise UsageError(_nothing_supported_message(chosen, pairs, devices))
    pairs = [pair for pair in pairs if not pair.elsewhere]
    _keep_chosen_devices(pairs, selected, request.set)
    if supported := [pair for pair in pairs if not pair.reason]:
        _check_sets(request.set, supported, {k: v for k, v in limits.items() if v > 0}, facts)
    alike = EqualPlaces.of(d for d in selected if d.role == "gpu" and not request.every_device)
    pairs = _set_equal_places(pairs, alike)
    sharing = Counter((d.kind, d.capabilities.time_class) for d in selected if alike.first(d.name) == d.name)
    plan = _points(pairs, request, devices, sharing, sum(e.planning.share for e in experiments.values()))
    if all(pair.reason for pair in pairs) or (not facts.skips_are_results and all(p.reason for p in plan)):
        stated = [p.reason for p in plan] or [f"{p.name} on {p.device.name}: {p.reason}" for p in pairs if p.reason]
        reasons = dict.fromkeys(stated) or [f"no device or no {facts.noun} is available"]
        hints = [hint for name, hint in facts.hints.items() if name in request.set]
        raise UsageError(f"nothing to {_verb(selected)}: {'; '.join([*reasons, *hints])}")
    for sentence in _refusals(pairs):
        warn(sentence)
    return _group_by_worker(plan)


def _set_equal_places(pairs: Sequence[ExperimentOnDevice], alike: EqualPlaces) -> list[ExperimentOnDevice]:
    """Tells each pair on which equal devices its experiment has points too. Without those that have none, but of the
    first of equal devices.
    """
    having: dict[str, list[DeviceInfo]] = {}
    for pair in pairs:
        if not pair.reason:
            having.setdefault(pair.name, []).append(pair.device)
    kept = [pair for pair in pairs if not pair.reason or alike.first(pair.device.name) == pair.device.name]
    for pair in kept:
        pair.equal_places = alike.among(having.get(pair.name, ()))
    return kept


def _points(
    pairs: Sequence[ExperimentOnDevice],
    request: Request,
    devices: Sequence[DeviceInfo],
    sharing: Mapping[tuple[str, TimeClass], int],
    shares: float,
) -> list[Planned]:
    """The points of all pairs; those of equal devices get the same time for sampling.

    sharing: how many devices of one kind and time class share its time. shares: of all experiments together.
    """
    budget, plan = BUDGETS[choose_preset(request.preset)], list[Planned]()
    of_first: dict[tuple[str, str], float] = {}
    for pair in pairs:
        if not pair.reason:
            pair.restrict(request.set)
            pair.keep_on_each()
        if request.events:
            pair.environment = {events.VARIABLE: "1"}
        kind, time_class = pair.device.kind, pair.device.capabilities.time_class
        total = budget.seconds[time_class] / sharing[kind, time_class] * pair.experiment.planning.share / shares
        points = pair.plan(request, {device.name: device for device in devices})
        seconds = max(SHORTEST, total / max(1, sum(not p.reason for p in points)))
        seconds = of_first.setdefault((pair.name, pair.equal_places.first(pair.device.name)), seconds)
        plan += pair.timed(points, seconds, request.timeout)
    return plan


def _nothing_supported_message(
    names: Sequence[str], pairs: Sequence[ExperimentOnDevice], devices: Sequence[DeviceInfo]
) -> str:
    """The message for a call of which no chosen device can measure anything. It also names the devices that are not
    available, because the user may have expected one of them.
    """
    reasons = list(dict.fromkeys(pair.reason for pair in pairs))
    absent = [f"{d.name} is not available: {d.reason:.200}" for d in devices if not d.available]
    chosen = ", ".join(dict.fromkeys(pair.device.name for pair in pairs)) or "no device"
    verb = _verb(pair.device for pair in pairs)
    return f"nothing to {verb}: {first_few(names, _MOST_NAMED)} can't run on {chosen}: {'; '.join([*reasons, *absent])}"


def _verb(devices: Iterable[DeviceInfo]) -> str:
    return "predict" if any(device.modelled for device in devices) else "measure"


def _refusals(pairs: Iterable[ExperimentOnDevice]) -> list[str]:
    """What the call names and the plan leaves out, one sentence for each reason."""
    by_reason: dict[str, tuple[list[str], list[str]]] = {}
    for pair in pairs:
        for reason, points in pair.refused.items():
            pairs_left, points_left = by_reason.setdefault(reason, ([], []))
            pairs_left.append(f"{pair.name} on {pair.device.name}")
            points_left += points
    return [
        f"left out of {first_few(pairs_left, _MOST_NAMED)}: "
        f"{first_few(list(dict.fromkeys(points_left)), _MOST_NAMED)} ({reason})"
        for reason, (pairs_left, points_left) in by_reason.items()
    ]


@dataclass(frozen=True)
class ExperimentListing:
    """The entry of one experiment in --list. factors: what --set accepts. devices: the values of each factor that the
    preset chooses on each device, as --set accepts them. not_on: why it is not measured on other devices. counters:
    whether --counters adds any.
    """

    name: str
    question: str
    unit: str
    factors: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, Mapping[str, Sequence[str]]]
    not_on: Mapping[str, str]
    counters: bool


class ExperimentsOutput(Output, frozen=True, kw_only=True, tag="firsttouch-run-list/1"):
    """What `firsttouch run --list --json` prints."""

    experiments: list[ExperimentListing]


def list_experiment(experiment: Experiment, devices: Sequence[DeviceInfo], preset: Preset) -> ExperimentListing:
    pairs = [on_device(experiment.name, experiment, device, preset, {}) for device in devices]
    for pair in pairs:
        pair.limit_ranks(experiment.ranks.least if experiment.ranks else None)
    _keep_chosen_devices(pairs, devices, {})
    return ExperimentListing(
        name=experiment.name,
        question=experiment.question,
        unit=experiment.metric.unit,
        factors=describe_factors([*(f for p in pairs for f in p.factors), *(f for p in pairs for f in p.optional)]),
        devices={p.device.name: {f.name: _accepted_words(f) for f in p.factors} for p in pairs if not p.reason},
        not_on={p.device.name: p.reason for p in pairs if p.reason},
        counters=isinstance(experiment.counting, CountingRules),
    )


def _accepted_words(factor: Factor) -> list[str]:
    as_size = factor.kind == "size"
    return [format_size(v).replace(" ", "") if as_size and isinstance(v, int) else str(v) for v in factor.values]


def _keep_chosen_devices(
    pairs: Iterable[ExperimentOnDevice], selected: Iterable[DeviceInfo], sets: Mapping[str, Sequence[Scalar]]
) -> None:
    names = {device.name for device in selected}
    for pair in pairs:
        if not pair.reason:
            pair.keep_chosen_devices(names, sets)


def _group_by_worker(plan: list[Planned]) -> list[Planned]:
    """Puts the points that share a worker next to each other. The order is kept otherwise."""
    groups: dict[PointGroup, list[Planned]] = {}
    order = {device: i for i, device in enumerate(dict.fromkeys(p.point.device for p in plan))}
    for p in plan:
        groups.setdefault(p.group, []).append(p)
    return [p for key in sorted(groups, key=lambda key: order[key.device]) for p in groups[key]]
