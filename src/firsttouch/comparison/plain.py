"""A comparison as --json has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

import msgspec

from firsttouch.base.outputs import Output
from firsttouch.comparison.compare import Regression, ResultsComparison
from firsttouch.comparison.differences import Difference, ExperimentDifference, SideValue
from firsttouch.comparison.headline import place_text
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.places import PlaceDifference
from firsttouch.comparison.predictions import prediction
from firsttouch.comparison.runs import Definition, factors_of
from firsttouch.comparison.words import answers, phase_answers, what_to_type
from firsttouch.records.papers.rows import PublishedValue
from firsttouch.records.schema import Scalar


class SideOutput(msgspec.Struct, kw_only=True):
    """One side. devices: the title of each. points: how many it has. renamed: the name on the first side of devices
    that have another name here. without_counterpart: points that no other side has, by experiment. published: the
    values of a paper. predicted: 'predicted for gh200' if nothing of it was measured, '' otherwise.
    """

    name: str
    directories: list[str]
    host: str
    predicted: str
    published: Sequence[PublishedValue]
    devices: dict[str, str]
    points: int
    renamed: Mapping[str, str]
    without_counterpart: Mapping[str, int]


class UnreadableSide(msgspec.Struct, kw_only=True):
    """A side that could not be read."""

    name: str
    reason: str


class ConditionOutput(msgspec.Struct, kw_only=True):
    """A condition that differs. values: by side, null where it is not known."""

    name: str
    values: Mapping[str, Scalar]


class DefinitionOutput(msgspec.Struct, kw_only=True):
    """What the values of an experiment mean. inputs: what an application ran with, '' for experiments."""

    unit: str
    version: int
    better: str
    inputs: str


class RedefinedExperiment(msgspec.Struct, kw_only=True):
    """An experiment that is not compared, since the sides define it differently."""

    experiment: str
    definitions: list[DefinitionOutput]


class ExperimentOutput(msgspec.Struct, kw_only=True):
    """An experiment on one device as a whole, on one side, against the base. counts: points by verdict. ratio: the
    median ratio of its points. worse: by the metric's direction; null where it does not differ clearly.
    """

    experiment: str
    device: str
    better: str
    unit: str
    side: str
    points: int
    counts: Mapping[str, int]
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    worse: bool | None


class PointOutput(msgspec.Struct, kw_only=True):
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


class PlaceOutput(msgspec.Struct, kw_only=True):
    """A device, a pair of devices, several of either, or the ranks of operations, that differs on one side. name: in
    words, such as 'cuda:2 to cuda:5'. devices: of each place. experiments: in which it differs, most in the first.
    points: how many are apart, of `of_points`. ratio: the median of the first experiment, or of the place as a whole.
    text: the sentence on it. example: one of its points.
    """

    name: str
    side: str
    devices: list[list[str]]
    experiments: list[str]
    verdict: str
    worse: bool | None
    points: int
    of_points: int
    ratio: float | None
    text: str
    example: PointOutput


class MissingOutput(msgspec.Struct, kw_only=True, tag_field="kind", tag="missing"):
    """Devices that a side lacks. missing: how many of `expected`. names: by which it lists them. addresses: PCI
    addresses of other sides that it has not, where it lists none. why: what their driver said.
    """

    side: str
    role: str
    missing: int
    expected: int
    names: Sequence[str]
    addresses: Sequence[str]
    why: str
    text: str


class WorsePlace(PlaceOutput, kw_only=True, tag_field="kind", tag="place"):
    """Of many sides: a place that is worse by more than the limit."""


class WorseExperiment(ExperimentOutput, kw_only=True, tag_field="kind", tag="experiment"):
    """An experiment that is worse by more than the limit."""


class WorsePoint(PointOutput, kw_only=True, tag_field="kind", tag="point"):
    """A point that is worse by more than the limit."""


class FailedPoint(msgspec.Struct, kw_only=True, tag_field="kind", tag="failed"):
    """A point that another side measured and that failed on this one."""

    side: str
    experiment: str
    device: str
    factors: Mapping[str, Scalar]
    why: str


class PhasesOutput(msgspec.Struct, kw_only=True):
    """The phases of applications, compared in the same way."""

    answer: list[str]
    experiments: list[ExperimentOutput]
    points: list[PointOutput]


class ComparisonOutput(Output, frozen=True, kw_only=True, tag="firsttouch-compare/1"):
    """What `firsttouch compare --json` prints.

    answer: the first sentences. base: what the others are compared with. phases: null without applications.
    places: where they differ, of machines with several devices of a kind. missing: devices that a side lacks.
    cannot_tell: the sides that have too few runs. to_tell: calls that measure what is missing. regressions: with
    --fail-over. report: the path of the page, null if none was written.
    """

    answer: list[str]
    base: str
    sides: list[SideOutput]
    unreadable: list[UnreadableSide]
    conditions: list[ConditionOutput]
    not_compared: list[RedefinedExperiment]
    experiments: list[ExperimentOutput]
    points: list[PointOutput]
    phases: PhasesOutput | None
    places: list[PlaceOutput]
    missing: list[MissingOutput]
    cannot_tell: list[str]
    to_tell: list[str]
    regressions: list[WorseExperiment | WorsePoint | WorsePlace | MissingOutput | FailedPoint]
    report: str | None = None


_Group = TypeVar("_Group", bound=ExperimentOutput)
_Point = TypeVar("_Point", bound=PointOutput)
_Place = TypeVar("_Place", bound=PlaceOutput)


def output(comparison: ResultsComparison, report: str | None = None) -> ComparisonOutput:
    """The comparison for --json and Python. report: the path of its page, if one was written."""
    names, table, answer = comparison.names, comparison.table, answers(comparison)
    phases = comparison.phases
    return ComparisonOutput(
        summary=" ".join(answer),
        answer=answer,
        base=comparison.base,
        sides=[_side(comparison, i) for i in range(len(names))],
        unreadable=[UnreadableSide(name=bad.name, reason=bad.reason) for bad in comparison.unreadable],
        conditions=[
            ConditionOutput(name=c.name, values=dict(zip(names, c.values, strict=True))) for c in comparison.conditions
        ],
        not_compared=[
            RedefinedExperiment(experiment=name, definitions=[_definition(d) for d in definitions])
            for name, definitions in table.redefined.items()
        ],
        experiments=[_group(ExperimentOutput, group, names) for group in comparison.groups],
        points=_points(comparison),
        phases=None
        if phases is None
        else PhasesOutput(
            answer=phase_answers(comparison),
            experiments=[_group(ExperimentOutput, group, names) for group in phases.groups],
            points=_points(phases),
        ),
        places=[_place(PlaceOutput, place, names) for place in comparison.places],
        missing=[_missing(lacking, names) for lacking in comparison.missing],
        cannot_tell=[names[side] for side in comparison.cannot_tell],
        to_tell=what_to_type(comparison),
        regressions=[_regression(r, names) for r in comparison.regressions],
        report=report,
    )


def _side(comparison: ResultsComparison, i: int) -> SideOutput:
    side, table = comparison.sides[i], comparison.table
    return SideOutput(
        name=side.name,
        directories=[run.name for run in side.runs],
        host=side.runs[0].host if side.runs else "",
        predicted=prediction(side),
        published=list(side.stated),
        devices={d.name: d.title for run in side.runs for d in run.devices},
        points=sum(len(run.points) for run in side.runs),
        renamed=table.devices[i],
        without_counterpart=table.alone[i],
    )


def _definition(definition: Definition) -> DefinitionOutput:
    return DefinitionOutput(
        unit=definition.unit, version=definition.version, better=definition.better, inputs=definition.inputs
    )


def _group(kind: type[_Group], group: ExperimentDifference, names: Sequence[str]) -> _Group:
    return kind(**asdict(group) | {"side": names[group.side]})


def _points(comparison: ResultsComparison) -> list[PointOutput]:
    return [
        _point(PointOutput, d, comparison.names) for group in comparison.groups for d in comparison.points_of(group)
    ]


def _point(kind: type[_Point], d: Difference, names: Sequence[str]) -> _Point:
    definition = d.column.definition
    return kind(
        experiment=definition.experiment,
        device=d.column.device,
        factors=factors_of(d.column.factors),
        unit=definition.unit,
        better=definition.better,
        metric_version=definition.version,
        side=names[d.side],
        base=d.base,
        value=d.value,
        ratio=d.ratio,
        low=d.low,
        high=d.high,
        verdict=d.verdict,
        worse=d.worse,
    )


def _place(kind: type[_Place], place: PlaceDifference, names: Sequence[str]) -> _Place:
    return kind(
        name=place.name,
        side=names[place.side],
        devices=[[*p.devices] for p in place.places],
        experiments=place.experiments,
        verdict=place.verdict,
        worse=place.worse,
        points=len(place.points),
        of_points=place.total,
        ratio=place.ratio,
        text=place_text(place),
        example=_point(PointOutput, place.example, names),
    )


def _missing(lacking: MissingDevices, names: Sequence[str]) -> MissingOutput:
    return MissingOutput(**asdict(lacking) | {"side": names[lacking.side], "text": lacking.text})


def _regression(
    regression: Regression, names: Sequence[str]
) -> WorseExperiment | WorsePoint | WorsePlace | MissingOutput | FailedPoint:
    if isinstance(regression, ExperimentDifference):
        return _group(WorseExperiment, regression, names)
    if isinstance(regression, Difference):
        return _point(WorsePoint, regression, names)
    if isinstance(regression, PlaceDifference):
        return _place(WorsePlace, regression, names)
    if isinstance(regression, MissingDevices):
        return _missing(regression, names)
    fields = regression._asdict() | {"side": names[regression.side], "factors": factors_of(regression.factors)}
    return FailedPoint(**fields)
