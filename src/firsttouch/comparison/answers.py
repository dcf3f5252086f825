"""The answer of a comparison as data: what is said of each side, or of all together, in rows.

An experiment on a device is faster or slower, the same within a bound that its interval shows, mixed, or not told
apart. Experiments of a device that are alike in this are one row. Every ratio is the value of a side over that of the
base. words.py makes sentences of this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import msgspec

from firsttouch.comparison.compare import ResultsComparison
from firsttouch.comparison.differences import (
    CANNOT_TELL,
    FASTER,
    HIGHER,
    LOWER,
    SAME,
    SLOWER,
    Difference,
    ExperimentDifference,
    SideValue,
    is_speed,
    judge,
)
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.places import LEAST, MOST, ROLES, PlaceDifference, has_several, how_many
from firsttouch.comparison.runs import PHASE, factors_of
from firsttouch.comparison.table import Column
from firsttouch.records.codebook import codebook_of
from firsttouch.records.reading import point_key
from firsttouch.records.schema import Scalar
from firsttouch.records.text import join_names

ALIKE_WITHIN = 0.10
"""The widest bound within which experiments are called the same."""
FEW_POINTS = 0.05
"""Experiments are the same only if at most this part of their points differs clearly."""
PART = 0.02
"""A difference of a phase that is less than this part of the run is in no answer."""
MOST_PLACES = 4
"""The most places, and devices, that the answer on one side names."""
_MOST_NAMES = 3
_ALONE = {"CPU-kernel": "CPU kernels"}
ALIKE, MIXED, UNCLEAR = "the same", "mixed", "not told apart"
DIFFERING = (FASTER, SLOWER, HIGHER, LOWER)

COMPARED, FEW_RUNS, PHASES = "compared", "few runs", "phases"
PREDICTED, MEASURED, BOTH_PREDICTED = "predicted over measured", "measured over predicted", "two predictions"
ALL_SIDES, ONE_ROW, OUTLIER, FAR = "all sides", "one row", "outlier", "far, but other programs ran"
"""The kinds of answers: on one side against the first, and on many against their median."""


class PointRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="point"):
    """A point on one side, against the base. ratio: the side's value over the base's; null if that is not positive."""

    experiment: str
    device: str
    factors: Mapping[str, Scalar]
    unit: str
    better: str
    metric_version: int
    side: str
    base: SideValue
    value: SideValue
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    worse: bool | None


class PlaceRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="place"):
    """A device, a pair of devices, several of either, or the ranks of operations, that differs on one side. name: in
    words, such as 'cuda:2 to cuda:5'. several: whether it is more than one place. devices: of each place. experiments:
    in which it differs, most in the first. of_own_memory: those in which a device differs with itself as the peer.
    points: how many are apart, of `of_points`. ratio: the median of the first experiment; or, where it differs as a
    whole rather than in single points, of all its points, with an interval. example: one of its points.
    """

    name: str
    side: str
    several: bool
    devices: list[list[str]]
    experiments: list[str]
    of_own_memory: list[str]
    verdict: str
    worse: bool | None
    points: int
    of_points: int
    as_a_whole: bool
    unit: str
    ratio: float | None
    low: float | None
    high: float | None
    example: PointRow


class AlikeExperiments(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="experiments"):
    """Experiments of a device, or of several of one role, of which the same is said.

    subject: such as 'CPU copies'. verdict: that of an experiment, or 'the same', 'mixed' or 'not told apart'. ratio,
    low, high, unit: of the experiment that differs most. within: of those that are the same, the part by which they may
    differ; null for others. points: how many they have. counts: points by verdict. experiments: the largest
    differences first.
    """

    subject: str
    side: str
    verdict: str
    unit: str
    ratio: float | None
    low: float | None
    high: float | None
    within: float | None
    points: int
    counts: Mapping[str, int]
    experiments: list[ExperimentDifference]


class More(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="more"):
    """Places or devices that differ too, and are in no other row of the answer. subject: their noun."""

    subject: str
    side: str
    number: int


AnswerRow: TypeAlias = AlikeExperiments | ExperimentDifference | PlaceRow | MissingDevices | More


class ComparisonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a sentence says. kind: 'compared', 'few runs', 'predicted over measured', 'measured over predicted', 'two
    predictions' or 'phases' of one side against the base; with many sides 'all sides', 'outlier' of one, 'one row' on a
    place of any, or 'far, but other programs ran'. side: '' if not of one. of_devices: whether the sides are devices of
    one machine. runs: of the base, and of the side. points: how many were compared. counts: points by verdict; of 'all
    sides', how many these are, and how many sides and pairs of devices differ. differing: experiments that differ as a
    whole. half_within, most_within: the parts by which half of the predictions, and 90 %, are off at most.
    """

    kind: str
    side: str
    base: str
    of_devices: bool
    runs: list[int]
    points: int
    counts: Mapping[str, int]
    differing: int
    rows: Sequence[AnswerRow]
    half_within: float | None = None
    most_within: float | None = None


def answers(comparison: ResultsComparison) -> list[ComparisonAnswer]:
    """One answer for each side; of many sides, one on all, and on those that differ from the others."""
    if comparison.differences.fleet:
        return _of_many(comparison)
    return [_of_side(comparison, side) for side in dict.fromkeys(g.side for g in comparison.differences.groups)]


def phase_answers(comparison: ResultsComparison) -> list[ComparisonAnswer]:
    """For each side that has some: the phases of applications that differ as a whole, by more than a small part of the
    run, the largest differences first.
    """
    phases, by_side = comparison.phases, dict[str, list[ExperimentDifference]]()
    if phases is None:
        return []
    for group in phases.groups:
        if group.differs and _part_of_run(phases, group) >= PART:
            by_side.setdefault(group.side, []).append(group)
    return [_answer(comparison, PHASES, some, some, side) for side, some in by_side.items()]


def _answer(
    comparison: ResultsComparison,
    kind: str,
    rows: Sequence[AnswerRow],
    groups: Sequence[ExperimentDifference],
    side: str = "",
    **more: Any,
) -> ComparisonAnswer:
    """groups: what the answer is about."""
    return ComparisonAnswer(
        kind=kind,
        side=side,
        base=comparison.base,
        of_devices=comparison.of_devices,
        runs=[comparison.runs.get(comparison.base, 0), comparison.runs.get(side, 0)],
        differing=sum(group.differs for group in groups),
        rows=rows,
        **{"points": sum(group.points for group in groups), "counts": _added_counts(groups), **more},
    )


def _added_counts(groups: Iterable[ExperimentDifference]) -> dict[str, int]:
    counts = Counter[str]()
    for group in groups:
        counts.update(group.counts)
    return dict(counts)


def _of_side(comparison: ResultsComparison, side: str) -> ComparisonAnswer:
    groups = [group for group in comparison.groups if group.side == side]
    of_base, of_side = (one.predicted for one in comparison.sides if one.name in (comparison.base, side))
    if of_base or of_side:
        kind = BOTH_PREDICTED if of_base and of_side else MEASURED if of_base else PREDICTED
        rows = sorted((g for g in groups if g.ratio), key=lambda g: -abs(math.log(g.ratio or 1.0)))
        apart = sorted(math.expm1(abs(math.log(d.ratio))) for g in groups for d in comparison.points_of(g) if d.ratio)
        half, most = (apart[min(len(apart) - 1, int(part * len(apart)))] if apart else None for part in (0.5, 0.9))
        within = {"points": len(apart), "half_within": half, "most_within": most}
        return _answer(comparison, kind, rows, groups, side, **within)
    missing = [lacking for lacking in comparison.missing if lacking.side == side]
    if side in comparison.few:
        places = [place_row(place) for place in comparison.places if place.side == side]
        return _answer(comparison, FEW_RUNS, [*missing, *_seen(comparison, groups), *places], groups, side)
    return _answer(comparison, COMPARED, [*missing, *_differing(comparison, groups, side)], groups, side)


def _of_many(comparison: ResultsComparison) -> list[ComparisonAnswer]:
    differing = [group for group in comparison.groups if group.differs]
    places: list[MissingDevices | PlaceRow] = [*comparison.missing, *map(place_row, comparison.places)]
    by_side: dict[str, list[AnswerRow]] = {}
    for row in (*(places if not comparison.of_devices else ()), *differing):
        by_side.setdefault(row.side, []).append(row)
    pairs = len(comparison.places) if comparison.of_devices else 0
    counts = {"sides": len(comparison.sides), "outliers": len(by_side), "pairs": pairs}
    points = len(comparison.table.columns)
    found = [_answer(comparison, ALL_SIDES, [], comparison.groups, points=points, counts=counts)]
    found += [_answer(comparison, ONE_ROW, [row], []) for row in (places if comparison.of_devices else ())]
    for side, rows in sorted(by_side.items(), key=lambda item: -len(item[1])):
        groups = [group for group in comparison.groups if group.side == side]
        found.append(_answer(comparison, OUTLIER, rows, groups, side))
    untold = [group for group in comparison.groups if group.verdict == CANNOT_TELL]
    return [*found, *([_answer(comparison, FAR, untold, untold)] if untold else [])]


# ---------------------------------------------------------------------------------------------------- experiments


@dataclass(frozen=True)
class ExperimentShift:
    """An experiment on a device. state: a verdict, ALIKE, MIXED or UNCLEAR. within: of ALIKE, the part by which it may
    differ.
    """

    group: ExperimentDifference
    state: str
    within: float = 0.0

    @property
    def size(self) -> float:
        return abs(math.log(self.group.ratio)) if self.state in DIFFERING and self.group.ratio else 0.0

    @property
    def is_notable(self) -> bool:
        return self.state in (*DIFFERING, MIXED)


def shift_of(group: ExperimentDifference, ratios: Sequence[float]) -> ExperimentShift:
    """ratios: of its points, whose plain median must be within a bound too: the weighted one may rest on the few that
    are steady, such as loads from a cache on a busy machine.
    """
    ratio, low, high = group.ratio, group.low, group.high
    if group.verdict == CANNOT_TELL:
        return ExperimentShift(group, UNCLEAR)
    counts = {word: n for word, n in group.counts.items() if word not in (SAME, CANNOT_TELL)}
    one_way = max(counts, key=lambda word: counts[word], default="") if len(counts) == 1 else ""
    verdict = group.verdict if group.differs else one_way if 2 * counts.get(one_way, 0) > group.points else SAME
    large = verdict != SAME and ratio and abs(math.log(ratio)) >= math.log1p(LEAST)
    if large and ratio and judge(group.unit, group.better, 1 if ratio > 1 else -1)[0] == verdict:
        return ExperimentShift(group, verdict)
    bound = max(abs(math.log(b)) for b in (low, high)) if low and high else math.inf
    bound = max(bound, abs(math.log(median(ratios)))) if ratios else bound
    if sum(counts.values()) > max(1, FEW_POINTS * group.points):
        return ExperimentShift(group, MIXED)
    return (
        ExperimentShift(group, ALIKE, math.expm1(bound))
        if bound <= math.log1p(ALIKE_WITHIN)
        else ExperimentShift(group, UNCLEAR)
    )


def _differing(comparison: ResultsComparison, groups: Sequence[ExperimentDifference], side: str) -> Iterable[AnswerRow]:
    """What differs between a side and the base, the largest differences first; and what does not."""
    by_device: dict[str, list[ExperimentShift]] = {}
    for group in groups:
        ratios = [d.ratio for d in comparison.points_of(group) if d.ratio]
        by_device.setdefault(group.device, []).append(shift_of(group, ratios))
    names = device_names(comparison)
    if not has_several(comparison.sides) or comparison.of_devices:
        for device in sorted(by_device, key=lambda device: -max(shift.size for shift in by_device[device])):
            yield from _alike(names.get(device, device), by_device[device])
        return
    places = [place for place in comparison.places if place.side == side and place.can_tell]
    yield from map(place_row, places[:MOST_PLACES])
    yield from _more(side, "place", len(places) - MOST_PLACES)
    explained = {d.column.group for place in places for d in place.points}
    rest = {device: [s for s in some if (s.group.experiment, device) not in explained]
            for device, some in by_device.items()}  # fmt: skip
    yield from _of_roles(comparison, rest, side, others=bool(places))


def _of_roles(
    comparison: ResultsComparison, by_device: Mapping[str, Sequence[ExperimentShift]], side: str, *, others: bool
) -> Iterable[AnswerRow]:
    """What is left to say of the devices of each role: of all together, but of a few that differ by name.

    others: whether something was said of some of their points before.
    """
    roles = device_roles(comparison)
    together: dict[str, list[str]] = {}
    for device in by_device:
        together.setdefault(roles.get(device, device), []).append(device)
    for role, devices in together.items():
        called, several = ROLES.get(role, role), len(devices) > 1
        number = how_many(devices)
        differing = Counter(s.group.experiment for device in devices for s in by_device[device] if s.is_notable)
        few = {name for name, n in differing.items() if several and n < MOST * len(devices)}
        notable = {device: [s for s in by_device[device] if s.is_notable and s.group.experiment in few]
                   for device in devices}  # fmt: skip
        alone = [
            device
            for device in sorted(devices, key=lambda d: -max((shift.size for shift in notable[d]), default=0))
            if notable[device]
        ]
        for device in alone[:MOST_PLACES]:
            yield from _alike(device, notable[device])
        yield from _more(side, called, len(alone) - MOST_PLACES)
        other_shifts = [s for device in devices for s in by_device[device] if s not in notable[device]]
        if other_shifts:
            all_of_them = f"{number} {called}s" if number > 1 else _ALONE.get(called, called)
            yield from _alike(called, other_shifts, f"all else on {all_of_them}" if others or alone else all_of_them)


def _more(side: str, subject: str, number: int) -> list[More]:
    return [More(subject=subject, side=side, number=number)] if number > 0 else []


def _alike(device: str, shifts: Sequence[ExperimentShift], alone: str = "") -> Iterable[AlikeExperiments]:
    """What differs on one device, or several, what does not, and what cannot be told. alone: what they are called if
    that is all one.
    """
    by_state: dict[str, list[ExperimentShift]] = {}
    for shift in sorted(shifts, key=lambda shift: shift.size, reverse=True):
        by_state.setdefault(shift.state, []).append(shift)
    order = (*DIFFERING, MIXED, ALIKE, UNCLEAR)
    most = max(by_state, key=lambda state: len(by_state[state]))
    most_common_state = most if len(by_state) > 1 and len(_names(by_state[most], shifts)) > _MOST_NAMES else ""
    for state in sorted(by_state, key=lambda s: (s == most_common_state, -by_state[s][0].size, order.index(s))):
        subject = f"{device} {join_names(_names(by_state[state], shifts))}"
        if len(by_state) == 1 or state == most_common_state:
            subject = alone or _ALONE.get(device, device) if len(by_state) == 1 else f"other {device} experiments"
        within = max(LEAST, *(shift.within for shift in by_state[state])) if state == ALIKE else None
        yield _alike_row(subject, state, [shift.group for shift in by_state[state]], within)


def _alike_row(
    subject: str, verdict: str, groups: list[ExperimentDifference], within: float | None = None
) -> AlikeExperiments:
    first = max(groups, key=lambda group: abs(math.log(group.ratio)) if group.ratio else 0.0)
    return AlikeExperiments(
        subject=subject,
        side=first.side,
        verdict=verdict,
        unit=first.unit,
        ratio=first.ratio,
        low=first.low,
        high=first.high,
        within=within,
        points=sum(group.points for group in groups),
        counts=_added_counts(groups),
        experiments=groups,
    )


def _names(alike: Sequence[ExperimentShift], all_of_device: Sequence[ExperimentShift]) -> list[str]:
    """The kinds of these experiments; an experiment by its name where others of its kind are in another state."""
    other_kinds = {kind_called(shift.group.experiment) for shift in all_of_device if shift not in alike}
    experiments = [shift.group.experiment for shift in alike]
    names = list(dict.fromkeys(
        name if kind_called(name) in other_kinds else kind_called(name) for name in experiments
    ))  # fmt: skip
    return names if len(names) <= _MOST_NAMES + 1 else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]


def _seen(comparison: ResultsComparison, groups: Sequence[ExperimentDifference]) -> Iterable[AlikeExperiments]:
    """With too few runs: the times and rates of each device, or of all of a role where there are several, of which none
    can be called a difference.
    """
    roles, names = device_roles(comparison), device_names(comparison)
    compared = {group.device for group in groups}
    alike = {role: [device for device in compared if roles.get(device) == role] for role in roles.values()}
    by_name: dict[str, list[ExperimentDifference]] = {}
    for group in groups:
        if group.ratio and is_speed(group.unit, group.better):
            role = roles.get(group.device, "")
            n = how_many(alike.get(role, [group.device]))
            name = names.get(group.device, group.device)
            if n > 1 and not comparison.of_devices:
                name = f"{n} {ROLES.get(role, role)}s"
            by_name.setdefault(_ALONE.get(name, name), []).append(group)
    return [_alike_row(name, CANNOT_TELL, some) for name, some in by_name.items()]


def kind_called(experiment: str) -> str:
    """What users call an experiment."""
    return codebook_of(experiment.partition(" ")[0]).called or experiment


def device_names(comparison: ResultsComparison) -> dict[str, str]:
    """The devices as users call them: CPU or GPU, or by name where a machine has several of a kind."""
    roles = device_roles(comparison)
    if comparison.of_devices:  # the sides are devices of one kind
        return {device: ROLES.get(role, device) for device, role in roles.items()}
    values = list(roles.values())
    return {d: ROLES.get(role, d) if values.count(role) == 1 else d for d, role in roles.items()}


def device_roles(comparison: ResultsComparison) -> dict[str, str]:
    """The role of each device, by its name on the first side that has it."""
    roles: dict[str, str] = {}
    for side, renamed in zip(comparison.sides, comparison.table.devices, strict=True):
        slots = {own_name: slot for slot, own_name in renamed.items()}
        for run in side.runs:
            for device in run.devices:
                roles.setdefault(slots.get(device.name, device.name), device.role)
    return roles


# ---------------------------------------------------------------------------------------------------- other rows


def point_row(d: Difference) -> PointRow:
    definition = d.column.definition
    return PointRow(
        experiment=definition.experiment,
        device=d.column.device,
        factors=factors_of(d.column.factors),
        unit=definition.unit,
        better=definition.better,
        metric_version=definition.version,
        side=d.side,
        base=d.base,
        value=d.value,
        ratio=d.ratio,
        low=d.low,
        high=d.high,
        verdict=d.verdict,
        worse=d.worse,
    )


def place_row(place: PlaceDifference) -> PlaceRow:
    ratio, low, high = place.ratio_with_bounds
    return PlaceRow(
        name=place.name,
        side=place.side,
        several=place.is_several,
        devices=[[*one.devices] for one in place.places],
        experiments=place.experiments,
        of_own_memory=place.of_own_memory,
        verdict=place.verdict,
        worse=place.worse,
        points=len(place.points),
        of_points=place.total,
        as_a_whole=place.whole is not None,
        unit=place.example.column.definition.unit,
        ratio=ratio,
        low=low,
        high=high,
        example=point_row(place.example),
    )


def _part_of_run(phases: ResultsComparison, group: ExperimentDifference) -> float:
    """The largest part of a run that a phase's difference is."""
    runs: dict[str, float] = {}
    for d in phases.differences.points:
        if d.side == group.side:
            run = _without_phase(d.column)
            runs[run] = runs.get(run, 0.0) + max(d.base.value, d.value.value)
    points = phases.points_of(group)
    return max((abs(d.value.value - d.base.value) / runs[_without_phase(d.column)] for d in points), default=0.0)


def _without_phase(column: Column) -> str:
    factors = {name: value for name, value in factors_of(column.factors).items() if name != PHASE}
    return point_key(column.definition.experiment, column.device, factors)
