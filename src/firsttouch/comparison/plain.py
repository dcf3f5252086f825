"""A comparison as --json has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from firsttouch.base.outputs import Output
from firsttouch.comparison.answers import (
    ComparisonAnswer,
    PlaceRow,
    PointRow,
    answers,
    phase_answers,
    place_row,
    point_row,
)
from firsttouch.comparison.compare import Regression, ResultsComparison
from firsttouch.comparison.differences import Difference, ExperimentDifference
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.places import PlaceDifference
from firsttouch.comparison.runs import Definition
from firsttouch.comparison.table import FailedPoint
from firsttouch.comparison.words import clause, sentences, what_to_type
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


class PlaceOutput(PlaceRow, frozen=True, kw_only=True, tag="place"):
    """A place, with the sentence on it."""

    text: str


class MissingOutput(MissingDevices, frozen=True, kw_only=True, tag="missing"):
    """Devices that a side lacks, with the sentence on them."""

    text: str


class PhasesOutput(msgspec.Struct, kw_only=True):
    """The phases of applications, compared in the same way."""

    answer: list[str]
    answers: list[ComparisonAnswer]
    experiments: list[ExperimentDifference]
    points: list[PointRow]


class ComparisonOutput(Output, frozen=True, kw_only=True, tag="firsttouch-compare/1"):
    """What `firsttouch compare --json` prints.

    answer: the first sentences. answers: what each of them says, as data. base: what the others are compared with.
    phases: null without applications. places: where they differ, of machines with several devices of a kind. missing:
    devices that a side lacks. cannot_tell: the sides that have too few runs. to_tell: calls that measure what is
    missing. regressions: with --fail-over. report: the path of the page, null if none was written.
    """

    answer: list[str]
    answers: list[ComparisonAnswer]
    base: str
    sides: list[SideOutput]
    unreadable: list[UnreadableSide]
    conditions: list[ConditionOutput]
    not_compared: list[RedefinedExperiment]
    experiments: list[ExperimentDifference]
    points: list[PointRow]
    phases: PhasesOutput | None
    places: list[PlaceOutput]
    missing: list[MissingOutput]
    cannot_tell: list[str]
    to_tell: list[str]
    regressions: list[ExperimentDifference | PointRow | PlaceOutput | MissingOutput | FailedPoint]
    report: str | None = None


def output(comparison: ResultsComparison, report: str | None = None) -> ComparisonOutput:
    """The comparison for --json and Python. report: the path of its page, if one was written."""
    names, table, phases = comparison.names, comparison.table, comparison.phases
    found, found_of_phases = answers(comparison), phase_answers(comparison)
    answer = sentences(found, comparison)
    return ComparisonOutput(
        summary=" ".join(answer),
        answer=answer,
        answers=found,
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
        experiments=comparison.groups,
        points=_points(comparison),
        phases=None
        if phases is None
        else PhasesOutput(
            answer=sentences(found_of_phases, comparison),
            answers=found_of_phases,
            experiments=phases.groups,
            points=_points(phases),
        ),
        places=[_place(place) for place in comparison.places],
        missing=[_missing(lacking) for lacking in comparison.missing],
        cannot_tell=comparison.cannot_tell,
        to_tell=what_to_type(comparison),
        regressions=[_regression(r) for r in comparison.regressions],
        report=report,
    )


def _side(comparison: ResultsComparison, i: int) -> SideOutput:
    side, table = comparison.sides[i], comparison.table
    return SideOutput(
        name=side.name,
        directories=[run.name for run in side.runs],
        host=side.runs[0].host if side.runs else "",
        predicted=side.predicted,
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


def _points(comparison: ResultsComparison) -> list[PointRow]:
    return [point_row(d) for group in comparison.groups for d in comparison.points_of(group)]


def _place(place: PlaceDifference) -> PlaceOutput:
    row = place_row(place)
    return PlaceOutput(**asdict(row), text=clause(row))


def _missing(lacking: MissingDevices) -> MissingOutput:
    return MissingOutput(**asdict(lacking), text=clause(lacking))


def _regression(
    regression: Regression,
) -> ExperimentDifference | PointRow | PlaceOutput | MissingOutput | FailedPoint:
    if isinstance(regression, Difference):
        return point_row(regression)
    if isinstance(regression, PlaceDifference):
        return _place(regression)
    return _missing(regression) if isinstance(regression, MissingDevices) else regression
