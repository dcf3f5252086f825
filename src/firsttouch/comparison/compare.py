"""Compares the sides of a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from firsttouch.base.errors import NOT_JUDGED, UsageError
from firsttouch.comparison.between_runs import LEAST_FREEDOM
from firsttouch.comparison.differences import CANNOT_TELL, FLEET, Difference, Differences, ExperimentDifference, find
from firsttouch.comparison.differing import DifferingCondition, differing
from firsttouch.comparison.missing import MissingDevices, missing_devices, unusable
from firsttouch.comparison.places import PlaceDifference, pairs_of_one, places_of
from firsttouch.comparison.pooled_pairs import pairs_as_a_whole
from firsttouch.comparison.runs import Unreadable
from firsttouch.comparison.sides import Sides, as_predicted, of_phases, read_sides
from firsttouch.comparison.table import AlignedPoints, FailedPoint, Side, align, what_differs
from firsttouch.records.text import count, join_names

Regression: TypeAlias = Difference | ExperimentDifference | PlaceDifference | FailedPoint | MissingDevices


@dataclass(frozen=True)
class ResultsComparison:
    """of_devices: whether the sides are the devices of one machine. few: the sides that have too few runs to
    tell. limit: the fraction by which a side may be worse. regressions: what exceeds it. phases: the comparison of the
    phases of applications, which is separate, so that more values do not widen the intervals of others; None if there
    are none. places: on which device or pair it differs, of machines with several of a kind. missing: devices that a
    side lacks.
    """

    sides: list[Side]
    unreadable: list[Unreadable]
    table: AlignedPoints
    differences: Differences
    conditions: list[DifferingCondition]
    of_devices: bool
    few: list[str]
    limit: float | None = None
    regressions: list[Regression] = field(default_factory=list)
    phases: ResultsComparison | None = None
    places: list[PlaceDifference] = field(default_factory=list)
    missing: list[MissingDevices] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [side.name for side in self.sides]

    @property
    def runs(self) -> dict[str, int]:
        """How many runs each side has."""
        return {side.name: len(side.runs) for side in self.sides}

    @property
    def kind(self) -> str:
        """The word for a side."""
        return "device" if self.of_devices else "side"

    @property
    def is_about_predictions(self) -> bool:
        return any(side.predicted for side in self.sides)

    @property
    def base(self) -> str:
        """What the other sides, or all of them, are compared with."""
        return f"the median of {count(len(self.sides), self.kind)}" if self.differences.fleet else self.names[0]

    @cached_property
    def groups(self) -> list[ExperimentDifference]:
        """All experiments, those that differ most first."""

        def order(group: ExperimentDifference) -> tuple[bool, bool, float, float]:
            largest = max((d.size for d in self.points_of(group) if d.is_apart), default=0.0)
            size = abs(math.log(group.ratio)) if group.ratio else 0.0
            return not group.differs, not group.differing, -size, -largest

        return sorted(self.differences.groups, key=order)

    @cached_property
    def _points(self) -> dict[tuple[str, str, str], list[Difference]]:
        by_group: dict[tuple[str, str, str], list[Difference]] = {}
        for d in sorted(self.differences.points, key=lambda d: (not d.is_apart, -d.size)):
            by_group.setdefault((*d.column.group, d.side), []).append(d)
        return by_group

    def points_of(self, group: ExperimentDifference) -> list[Difference]:
        """The points of an experiment, those that differ clearly and most first."""
        return self._points.get((group.experiment, group.device, group.side), [])

    def is_shown(self, group: ExperimentDifference) -> bool:
        """Whether some of its points differ; of many sides, whether it differs as a whole."""
        return group.differs if self.differences.fleet else bool(group.apart)

    @property
    def cannot_tell(self) -> list[str]:
        """The sides of which points are apart, but which too few runs cannot tell from what differs between runs."""
        groups = self.differences.groups
        return list(dict.fromkeys(group.side for group in groups if CANNOT_TELL in group.counts))

    @property
    def has_several_sides(self) -> bool:
        """Whether more than one is compared with the first, so that it must be said which is meant."""
        return len(self.sides) > 2

    @property
    def not_judged(self) -> list[str]:
        """The sides to which a limit was not applied, or not to all of their points."""
        if self.limit is None or self.differences.fleet:
            return []
        others = self.names if self.of_devices else self.names[1:]
        return others if self.is_about_predictions else [n for n in others if n in {*self.few, *self.cannot_tell}]

    @property
    def exit_status(self) -> int:
        return 1 if self.unreadable or self.regressions else NOT_JUDGED if self.not_judged else 0


def compare_results(specs: Sequence[str], limit: float | None = None) -> ResultsComparison:
    """Compares what `specs` name: each a directory, or several of one machine joined by commas.

    limit: the fraction by which a side may be worse; what exceeds it becomes a regression.

    Raises:
        UsageError: fewer than two sides can be read, or they have no point in common.
    """
    return compare_sides(read_sides(specs), limit)


def compare_sides(sides: Sides, limit: float | None = None) -> ResultsComparison:
    """Compares sides that are already read, as `compare` does."""
    about_predictions = any(side.predicted for side in sides.sides)
    if about_predictions:
        sides = replace(sides, sides=[as_predicted(side) for side in sides.sides])
    table = align(sides.sides)
    if not table.columns:
        raise UsageError(_why_nothing(sides, table))
    if len(sides.sides) >= FLEET and len({bool(side.predicted) for side in sides.sides}) > 1:
        raise UsageError(f"from {FLEET} sides on, all are measured or all predicted, since each is compared with all")
    few = _few(sides)
    differences = find(table, few, [side.name for side in sides.sides if side.stated])
    if sides.of_devices:
        places = pairs_of_one(table, differences)
    else:
        wholes = [] if differences.fleet else pairs_as_a_whole(table, few)
        places = places_of(sides.sides, table, differences, wholes)
    compared = ResultsComparison(
        sides.sides, sides.unreadable, table, differences, [], sides.of_devices, few, limit, [], _by_phase(sides, few)
    )
    if about_predictions:  # nothing of them is a change, and no device is missing
        return compared
    missing = unusable(sides.sides) if sides.of_devices else missing_devices(sides.sides, fleet=differences.fleet)
    # The first of few machines is what the others should be.
    lacking = [some for some in missing if some.side != compared.base or sides.of_devices]
    return replace(
        compared,
        conditions=[] if sides.of_devices else differing(sides.sides, table.devices),
        regressions=[] if limit is None else [*lacking, *regressions(differences, table, limit, places)],
        places=places,
        missing=missing,
    )


def _by_phase(sides: Sides, few: list[str]) -> ResultsComparison | None:
    phases = of_phases(sides.sides)
    table = align(phases)
    if not table.columns:
        return None
    return ResultsComparison(phases, [], table, find(table, few), [], sides.of_devices, few)


def _few(sides: Sides) -> list[str]:
    """The sides that have too few runs, together with the first: nothing says how much a further run would differ."""
    first, *others = sides.sides
    if len(sides.sides) >= FLEET or not first.runs:
        return []
    return [side.name for side in others if side.runs and len(side.runs) + len(first.runs) < LEAST_FREEDOM + 2]


def limit_of(text: str) -> float:
    """The fraction that a percentage such as '5%' means. Raises UsageError."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise UsageError(f"'{text}' is not a percentage such as 5%")
    return value


def _why_nothing(sides: Sides, table: AlignedPoints) -> str:
    names = join_names([side.name for side in sides.sides][:3])
    if table.redefined:
        name, definitions = next(iter(table.redefined.items()))
        how = what_differs(definitions)
        return (
            f"{names} measured {name} by different definitions ({how}), which are never compared; "
            "measure both with one version of firsttouch"
        )
    return f"{names} have no point in common; run the same experiments on both, with the same --preset and --set"


def regressions(
    differences: Differences, table: AlignedPoints, limit: float, places: Sequence[PlaceDifference] = ()
) -> list[Regression]:
    """Experiments and points that are clearly worse, by a ratio beyond the limit; and points that failed. Of many sides
    only experiments as a whole, and places of which most points are: among all their points, some are far off by
    chance.
    """
    most = math.log1p(limit)
    groups = [g for g in differences.groups if g.worse and g.ratio and abs(math.log(g.ratio)) > most]
    worse = [p for p in places if p.worse and p.size > most and (differences.fleet or p.whole)]
    points = [] if differences.fleet else [d for d in differences.points if d.worse and d.size > most]
    return [*groups, *worse, *sorted(points, key=lambda d: -d.size), *table.lost]
