"""Turns a request into points: what is measured, in which order and for how long, and what is skipped and why."""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
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
    is_sampled,
    places_of,
    why_meaningless,
    why_skipped,
    why_unsupported,
)
from firsttouch.experiments.presets import Candidate, excluded, left_out
from firsttouch.machine.backends import kind_of
from firsttouch.machine.switches import SWITCHES, optimistic_device
from firsttouch.records.reading import point_key
from firsttouch.records.schema import PEER, RANKS, SELF, DeviceInfo, Factors, Metric, Request, Scalar, TimeClass
from firsttouch.units import format_size, parse_size


@dataclass(frozen=True)
class Budget:
    """The limits of one preset.

    tolerance: the relative width of the interval at which sampling ends. seconds: the time of sampling by time class,
    shared by the devices of one kind and class.
    """

    tolerance: float
    seconds: Mapping[TimeClass, float]


BUDGETS: dict[Preset, Budget] = {
    "quick": Budget(0.03, {"host": 10.0, "host-kernels": 8.0, "gpu": 42.0}),
    "standard": Budget(0.01, {"host": 34.0, "host-kernels": 22.0, "gpu": 125.0}),
    "full": Budget(0.005, {"host": 1000.0, "host-kernels": 1000.0, "gpu": 4800.0}),
}
_MOST_NAMED = 4
"""The most points or experiments that one sentence names."""
_MOST_COMBINATIONS = 10_000_000
"""The most combinations of the values of an experiment's factors on a device."""
_MOST_SKIPPED = 100
"""The most points of an experiment on a device that are recorded as skipped for one reason. If there are more, only the
first is recorded."""
SHORTEST = 2e-3
"""The least sampling time of a point, in seconds."""


class PointGroup(NamedTuple):
    """What the points that share a worker have in common."""

    device: str
    peer: str
    environment: tuple[tuple[str, str], ...]
    experiment: str = ""
    """The only experiment of the group, or '' if it may have several."""
    places: tuple[str, ...] = ()
    """The devices of the ranks, if there are several processes."""
    mpi: bool = False
    """Whether they use MPI."""
    one_process: bool = False
    """Whether one process has all of these devices."""


@dataclass(frozen=True)
class Planned:
    """One point and how to measure it. reason: why it is skipped instead, or '' if it is measured. seconds: for its
    sampling; timeout: that it may take at least.
    """

    point: Point
    metric: Metric
    reason: str = ""
    seconds: float = 0.0
    timeout: float = 0.0
    fresh: bool = False
    own_worker: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    """The device of each rank, if the experiment has ranks."""
    mpi: bool = False
    one_process: bool = False
    """Whether one process has the devices of all ranks. Otherwise each has a process of its own."""
    sampled: bool = False
    """Whether the memory of its worker is sampled over time."""
    name: str = ""
    """The name of the experiment in the call, if that differs from the experiment's name in records."""

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
    def others(self) -> Sequence[str]:
        """What else one process has: the peer, or the devices of further ranks."""
        return self.places[1:] if self.one_process else [self.peer]

    @property
    def group(self) -> PointGroup:
        alone, environment = self.point.experiment if self.own_worker else "", tuple(sorted(self.environment.items()))
        return PointGroup(self.point.device, self.peer, environment, alone, self.places, self.mpi, self.one_process)

    @cached_property
    def key(self) -> str:
        return point_key(self.point.experiment, self.point.device, self.point.factors)


def unknown(what: str, given: str, accepted: Iterable[str]) -> UsageError:
    """Returns the error for a word that is not among those accepted."""
    words = list(accepted)
    alike = [word for word in words if ("." in word) == ("." in given)]  # settings of a buffer, such as advice.power
    near = difflib.get_close_matches(given, alike, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return UsageError(f"unknown {what} '{given}'{hint}; accepted: {', '.join(words) or 'none here'}")


def choose(what: str, given: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Returns the given names in the order of `known`; all of them if none is given. Raises UsageError for an unknown
    name.
    """
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
    """Returns the given devices, or all that are available if none is given. Raises UsageError for a device that is
    unknown or unavailable.
    """
    available = {d.name: d for d in devices if d.available}
    reasons = {d.name: d.reason for d in devices if not d.available}
    for name in given:
        reason = reasons.get(name) or reasons.get(kind_of(name))  # a library that failed is listed by its kind
        if reason and name not in available:
            accepted = f"; accepted: {', '.join(available)}" if available else ""
            raise UsageError(f"device '{name}' is not available: {reason}{accepted}")
    return [available[name] for name in choose("device", given, available)]


def parse_sets(texts: Iterable[str]) -> dict[str, list[Scalar]]:
    """Turns ``["size=4KiB,1MiB"]`` into ``{"size": ["4KiB", "1MiB"]}``. A factor given twice gets all values."""
    found: dict[str, list[Scalar]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not name.strip() or not all(words):
            raise UsageError(f"--set '{text}' is not factor=value or factor=value,value")
        found.setdefault(name.strip(), []).extend(words)
    return found


def _parse_count(text: str) -> int:
    """Parses a whole number, which may be written as 2^20."""
    if text.startswith("2^"):
        return parse_size(text)
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"'{text:.40}' is not a whole number, zero or more")
    if len(text) > 40 or int(text) >= 2**63:  # more than a record can hold
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


def _parse_fraction(factor: Factor, text: str) -> float:
    """Parses a number from 0 to 1; 0.50 and .5 are the same point."""
    with suppress(ValueError):
        if 0 <= (fraction := float(text)) <= 1:
            return fraction + 0.0  # -0 is 0
    raise ValueError(f"'{text:.40}' is no {factor.name}; accepted: {factor.accepted()}")


def _parse_number(factor: Factor, parse: Callable[[str], int], text: str) -> int:
    """Returns parse(text). Its message also names the words that the factor accepts."""
    try:
        return parse(text)
    except ValueError as error:
        words = f"; or one of {', '.join(factor.known)}" if factor.known else ""
        raise ValueError(f"{error}{words}") from None


def parse_value(factor: Factor, text: str) -> Scalar:
    """Parses a value of `factor`. Raises ValueError with a message that says what is accepted."""
    if text in factor.known:
        return factor.known[text]
    if factor.kind == "size":
        return _check_range(factor, parse_size(text), text)
    if factor.kind == "count":
        return _check_range(factor, _parse_number(factor, _parse_count, text), text)
    if factor.kind == "ratio":
        return _parse_ratio(text)
    if factor.kind == "fraction":
        return _parse_fraction(factor, text)
    if factor.kind == "name":
        if not re.fullmatch(factor.pattern, text):
            raise ValueError(f"'{text:.40}' is no such name; accepted: {factor.accepted()}")
        return text
    if factor.kind == "extent":
        return _parse_number(factor, parse_size, text)
    words = factor.words()
    if text not in words:
        raise ValueError(str(unknown(factor.name, text, words)))
    return words[text]


def _check_range(factor: Factor, number: int, text: str) -> int:
    """Returns `number`. Raises ValueError if it is outside the factor's range."""
    if number < factor.least:
        raise ValueError(f"'{text}' is less than can be measured; accepted: {factor.accepted()}")
    if factor.most is not None and number > factor.most:
        raise ValueError(f"'{text}' is more than can be measured; accepted: {factor.accepted()}")
    if number % factor.multiple:
        raise ValueError(f"'{text}' is not a multiple of {factor.multiple}; accepted: {factor.accepted()}")
    return number


@dataclass
class _Pair:
    """One experiment on one device. name: the name of the experiment in the call."""

    name: str
    experiment: Experiment
    device: DeviceInfo
    factors: list[Factor]
    preset: Preset
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of every worker. Those of the experiment take precedence."""
    chosen: set[str] = field(default_factory=set)
    """The factors whose values were given with --set."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """What the call names and the plan leaves out, in words, by the reason."""
    most_ranks: int = 1
    """The most processes that may carry out a point together."""
    elsewhere: bool = False
    """True if a factor that --set names belongs to another device; the pair then has no points."""
    _devices: dict[tuple[Scalar | None, ...], DeviceInfo] = field(default_factory=dict, init=False)
    """The device as it may be, by the values of the switches."""

    def keep_chosen_devices(self, selected: Collection[str], sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Restricts factors that name devices to the devices that the call chose, unless --set gives their values."""
        not_chosen = {peer.name for peer in self.device.peers if peer.name not in selected}
        for index, factor in enumerate(self.factors):
            if not factor.names_devices or factor.name in sets:
                continue
            values = [value for value in factor.values if value not in not_chosen]
            self.factors[index] = replace(factor, values=values)
            if not values:
                choices = ", ".join(factor.choices)
                self.reason = f"{self.experiment.name} on {self.device.name} needs a {factor.name}" + (
                    f"; accepted: {choices}, by --device or --set {factor.name}=" if choices else ", and there is none"
                )

    def limit_ranks(self, most: int | None) -> None:
        """Restricts the numbers of ranks to at most `most`, and adds that number itself where the experiment takes any.
        If even the least number is more, the pair is skipped. By default it is one for each GPU of the driver, or one
        where one process can carry out points alone.
        """
        if not self.experiment.ranked or self.reason:
            return
        least, gpus = self.experiment.least_ranks, 1 + sum(peer.same_driver for peer in self.device.peers)
        if most is None and self.experiment.alone:
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
                self.factors[index] = replace(factor, values=sorted({*values, most}))

    def restrict(self, sets: Mapping[str, Sequence[Scalar]]) -> None:
        """Replaces the values of factors by those of --set that are valid here. If none is, the pair is skipped."""
        for index, factor in enumerate(self.factors):
            if factor.name not in sets:
                continue
            self.chosen.add(factor.name)
            values = [value for text in sets[factor.name] for value in _valid_values(factor, str(text))]
            invalid = [f"{factor.name}={text}" for text in sets[factor.name] if not _valid_values(factor, str(text))]
            if not values:
                words = ", ".join(map(str, sets[factor.name]))
                self.reason = f"{self.name} on {self.device.name} has no {factor.name} {words}"
            elif invalid:
                self.refused[f"{self.device.name} has no such {factor.name}"] = invalid
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
        left_out_why: dict[str, None] = {}
        for values in itertools.product(*(f.values for f in self.factors)):
            factors = Factors(zip(names, values, strict=True))
            candidate = self._candidate(factors)
            if why := why_meaningless(experiment, factors, self.device) or excluded(candidate):
                meaningless.setdefault(self._choice(factors), why)
                continue
            if not self.chosen and (why := left_out(candidate)):
                left_out_why[why] = None
                continue
            places = places_of(experiment, factors, self.device)
            one_process = bool(places) and experiment.in_one_process(factors)
            if len(places) > self.most_ranks:
                takes = "devices; --ranks {} allows them" if one_process else "processes; --ranks {} starts them"
                why = f"{self.name} takes {len(places)} {takes.format(len(places))}"
                meaningless.setdefault(self._choice(factors), why)
                continue
            reason = why_skipped(experiment, factors, candidate.device)
            environment = {**self.environment, **environment_of(experiment, factors)}
            point = Planned(
                Point(*where, factors),
                experiment.metric,
                reason,
                timeout=experiment.timeout,
                fresh=experiment.fresh_process,
                own_worker=experiment.own_worker,
                environment=environment,
                places=places,
                mpi=bool(places) and experiment.takes_mpi(factors),
                one_process=one_process,
                sampled=is_sampled(experiment, factors),
                name=self.name,
            )
            planned.setdefault(point.key, point)
        covered = {self._choice(p.point.factors) for p in planned.values()}
        for choice, why in meaningless.items():
            if self.chosen and choice not in covered:
                self.refused.setdefault(why, []).append(self._in_words(choice))
        if left_out_why and not planned:
            self.reason = f"preset {self.preset} leaves out all of its points: {'; '.join(left_out_why)}"
        elif not planned:
            empty = [f.name for f in self.factors if not f.values]
            reasons = dict.fromkeys(meaningless.values()) or [f"there is no value of {', '.join(empty)} here"]
            self.reason = "; ".join(reasons)
        points = list(planned.values())
        return self._without_repeated_skips(self._apply_preset(points) if self.chosen else points)

    def _choice(self, factors: Factors) -> tuple[Scalar, ...]:
        """The values of those factors that were given with --set."""
        return tuple(value for name, value in factors.items() if name in self.chosen)

    def _in_words(self, choice: tuple[Scalar, ...]) -> str:
        names = [f.name for f in self.factors if f.name in self.chosen]
        return " ".join(f"{name}={value}" for name, value in zip(names, choice, strict=True))

    def _apply_preset(self, planned: list[Planned]) -> list[Planned]:
        """Removes the points that the preset leaves out. If that would remove all points of values given with --set,
        those of them that can be measured are kept; if there are none, one point for each reason is kept.
        """
        kept = [p for p in planned if not left_out(self._candidate(p.point.factors))]
        covered = {self._choice(p.point.factors) for p in kept}
        missing = [p for p in planned if self._choice(p.point.factors) not in covered]
        measurable = {self._choice(p.point.factors) for p in missing if not p.reason}
        keys, skipped = {p.key for p in kept}, set()
        for p in missing:
            choice = self._choice(p.point.factors)
            if not p.reason or (choice not in measurable and (choice, p.reason) not in skipped):
                keys.add(p.key)
                skipped.add((choice, p.reason))
        return [p for p in planned if p.key in keys]

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
        switches = tuple(factors.get(name) for name in SWITCHES)
        if switches not in self._devices:
            self._devices[switches] = optimistic_device(self.device, factors)
        return Candidate(self.experiment, factors, self._devices[switches], self.preset, self.chosen)


def _valid_values(factor: Factor, text: str) -> list[Scalar]:
    """A list with the value of `text`, or an empty list if `factor` does not accept it."""
    try:
        return [parse_value(factor, text)]
    except ValueError:
        return []


def _check_sets(sets: Mapping[str, Sequence[Scalar]], pairs: Sequence[_Pair], limits: Mapping[str, int]) -> None:
    """Raises UsageError for a factor or a value of --set that no pair accepts."""
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
    accepting = [f for f in factors if _valid_values(f, text)]
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
        known = ", ".join(f"{where} {format_size(limit)}" for where, limit in limits.items())
        raise UsageError(f"{name}: '{text}' exceeds every memory limit here ({known})")


def _with_seconds(points: list[Planned], pair: _Pair, total: float, shares: float) -> list[Planned]:
    """Splits the pair's part of the preset's time evenly over its points that are not skipped."""
    runnable = sum(not p.reason for p in points)
    seconds = max(SHORTEST, total * pair.experiment.share / shares / max(1, runnable))
    return [p if p.reason else replace(p, seconds=seconds) for p in points]


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
    is split over all experiments, chosen or not, so that a run's length does not grow with the number chosen.

    Args:
        devices: all devices that discovery found; request.devices chooses among them.
        experiments: all experiments by name; request.experiments chooses among them.
        limits: memory limits in bytes by name ("host" and the devices). A size must not exceed all of them.
        facts: the facts of the kind of work.
        warn: is called with a sentence for each reason for which something that the call names is left out.

    Raises:
        UsageError: an experiment, device, preset, factor or value is unknown, or there is nothing to measure.
    """
    budget = BUDGETS[choose_preset(request.preset)]
    chosen = choose(facts.noun, request.experiments, experiments)
    selected, preset = choose_devices(request.devices, devices), choose_preset(request.preset)
    if request.ranks is not None and not any(experiments[name].ranked for name in chosen):
        ranked = ", ".join(name for name, experiment in experiments.items() if experiment.ranked)
        raise UsageError(
            f"--ranks was given, but nothing that was chosen takes several processes; accepted with: {ranked or 'none'}"
        )
    pairs = [_pair(name, experiments[name], device, preset, request.set) for device in selected for name in chosen]
    for pair in pairs:
        pair.limit_ranks(request.ranks)
    if all(pair.reason for pair in pairs):
        raise UsageError(_nothing_supported(chosen, pairs, devices))
    pairs = [pair for pair in pairs if not pair.elsewhere]
    _keep_chosen_devices(pairs, selected, request.set)
    if supported := [pair for pair in pairs if not pair.reason]:
        _check_sets(request.set, supported, {k: v for k, v in limits.items() if v > 0})
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
        stated = [p.reason for p in plan] or [f"{p.name} on {p.device.name}: {p.reason}" for p in pairs if p.reason]
        reasons = dict.fromkeys(stated) or [f"no device or no {facts.noun} is available"]
        hints = [hint for name, hint in facts.hints.items() if name in request.set]
        raise UsageError(f"nothing to measure: {'; '.join([*reasons, *hints])}")
    for sentence in _refusals(pairs):
        warn(sentence)
    return _grouped(plan)


def _nothing_supported(names: Sequence[str], pairs: Sequence[_Pair], devices: Sequence[DeviceInfo]) -> str:
    """The message for a call of which no chosen device can measure anything. It also names the devices that are not
    available, because the user may have expected one of them.
    """
    reasons = list(dict.fromkeys(pair.reason for pair in pairs))
    absent = [f"{d.name} is not available: {d.reason:.200}" for d in devices if not d.available]
    chosen = ", ".join(dict.fromkeys(pair.device.name for pair in pairs)) or "no device"
    return f"nothing to measure: {_first_few(names)} can't run on {chosen}: {'; '.join([*reasons, *absent])}"


def _refusals(pairs: Iterable[_Pair]) -> list[str]:
    """What the call names and the plan leaves out, one sentence for each reason."""
    by_reason: dict[str, tuple[list[str], list[str]]] = {}
    for pair in pairs:
        for reason, points in pair.refused.items():
            where, what = by_reason.setdefault(reason, ([], []))
            where.append(f"{pair.name} on {pair.device.name}")
            what += points
    return [
        f"left out of {_first_few(where)}: {_first_few(list(dict.fromkeys(what)))} ({reason})"
        for reason, (where, what) in by_reason.items()
    ]


def _first_few(words: Sequence[str]) -> str:
    """The first few words, and how many more there are."""
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def list_experiment(experiment: Experiment, devices: Sequence[DeviceInfo], preset: Preset) -> dict[str, Any]:
    """The entry of --list for one experiment. Values are written as --set accepts them."""
    pairs = [_pair(experiment.name, experiment, device, preset, {}) for device in devices]
    for pair in pairs:
        pair.limit_ranks(experiment.least_ranks)
    _keep_chosen_devices(pairs, devices, {})
    return {
        "name": experiment.name,
        "question": experiment.question,
        "unit": experiment.metric.unit,
        "factors": describe_factors([*(f for pair in pairs for f in pair.factors), *experiment.optional()]),
        "devices": {p.device.name: {f.name: _words(f) for f in p.factors} for p in pairs if not p.reason},
        "not_on": {p.device.name: p.reason for p in pairs if p.reason},
        "counters": experiment.counters_offered,
    }


def _words(factor: Factor) -> list[str]:
    as_size = factor.kind == "size"
    return [format_size(v).replace(" ", "") if as_size and isinstance(v, int) else str(v) for v in factor.values]


def _pair(
    name: str, experiment: Experiment, device: DeviceInfo, preset: Preset, sets: Mapping[str, Sequence[Scalar]]
) -> _Pair:
    """The pair with its factors, including the optional ones that --set names."""
    if reason := why_unsupported(experiment, device):
        return _Pair(name, experiment, device, [], preset, reason)
    factors = {factor.name: factor for factor in factors_of(experiment, device, preset)}
    for factor in experiment.optional():
        if factor.name in sets:
            if factor.only_on not in ("", device.name):
                reason = f"{factor.name} goes with the device {factor.only_on} only"
                return _Pair(name, experiment, device, [], preset, reason, elsewhere=True)
            factors.setdefault(factor.name, factor)
    return _Pair(name, experiment, device, list(factors.values()), preset)


def _keep_chosen_devices(
    pairs: Iterable[_Pair], selected: Iterable[DeviceInfo], sets: Mapping[str, Sequence[Scalar]]
) -> None:
    names = {device.name for device in selected}
    for pair in pairs:
        if not pair.reason:
            pair.keep_chosen_devices(names, sets)


def _grouped(plan: list[Planned]) -> list[Planned]:
    """Puts the points that share a worker next to each other. The order is kept otherwise."""
    groups: dict[PointGroup, list[Planned]] = {}
    order = {device: i for i, device in enumerate(dict.fromkeys(p.point.device for p in plan))}
    for p in plan:
        groups.setdefault(p.group, []).append(p)
    return [p for key in sorted(groups, key=lambda key: order[key.device]) for p in groups[key]]
