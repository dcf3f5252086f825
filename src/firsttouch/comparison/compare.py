"""Compares the sides of a call, and turns the outcome into plain data for --json and Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from firsttouch.comparison.differences import CANNOT_TELL, Difference, Differences, ExperimentDifference, find
from firsttouch.comparison.runs import Definition, Unreadable, factors_of
from firsttouch.comparison.sides import Sides, read_sides
from firsttouch.comparison.table import AlignedPoints, Missing, Side, align
from firsttouch.errors import UsageError
from firsttouch.records.schema import Scalar
from firsttouch.text import count, join_names

IMPORTANT = (
    *("device ", "nvidia.driver", "nvidia.cuda", "nvidia_uvm.", "amd.", "memory.page_bytes", "huge_pages."),
    *("kernel.release", "kernel.boot_options", "cpu.model", "cpu.", "clock of", "throttled", "run.", "firsttouch"),
    *("environment.", "numa.", "links.", "gpu", "memory."),
)
"""Beginnings of the names of conditions, those that explain most differences first."""


Regression: TypeAlias = Difference | ExperimentDifference | Missing


@dataclass(frozen=True)
class DifferingCondition:
    """A condition that is not the same on all sides. values: one for each side, None if it is not known there."""

    name: str
    values: list[Scalar]


@dataclass(frozen=True)
class ResultsComparison:
    """of_devices: whether the sides are the devices of one machine. limit: the fraction by which a side may be worse.
    regressions: what exceeds it.
    """

    sides: list[Side]
    unreadable: list[Unreadable]
    table: AlignedPoints
    differences: Differences
    conditions: list[DifferingCondition]
    of_devices: bool
    limit: float | None = None
    regressions: list[Regression] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [side.name for side in self.sides]

    @property
    def kind(self) -> str:
        """The word for a side."""
        return "device" if self.of_devices else "side"

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
    def _points(self) -> dict[tuple[str, str, int], list[Difference]]:
        by_group: dict[tuple[str, str, int], list[Difference]] = {}
        for d in sorted(self.differences.points, key=lambda d: (not d.is_apart, -d.size)):
            by_group.setdefault((*d.column.group, d.side), []).append(d)
        return by_group

    def points_of(self, group: ExperimentDifference) -> list[Difference]:
        """The points of an experiment, those that differ clearly and most first."""
        return self._points.get((group.experiment, group.device, group.side), [])

    @property
    def cannot_tell(self) -> list[int]:
        """The sides of which points are apart, but which one run a side cannot tell from what differs between runs."""
        groups = self.differences.groups
        return list(dict.fromkeys(group.side for group in groups if CANNOT_TELL in group.counts))

    @property
    def exit_status(self) -> int:
        return 1 if self.unreadable or self.regressions else 0


def compare(specs: Sequence[str], limit: float | None = None) -> ResultsComparison:
    """Compares what `specs` name: each a directory, or several of one machine joined by commas.

    limit: the fraction by which a side may be worse; what exceeds it becomes a regression.

    Raises:
        UsageError: fewer than two sides can be read, or they have no point in common.
    """
    sides = read_sides(specs)
    table = align(sides.sides)
    if not table.columns:
        raise UsageError(_why_nothing(sides, table))
    differences = find(table, _single(sides))
    return ResultsComparison(
        sides.sides,
        sides.unreadable,
        table,
        differences,
        _conditions(sides, table),
        sides.of_devices,
        limit,
        [] if limit is None else _regressions(differences, table, limit),
    )


def _single(sides: Sides) -> list[int]:
    """The sides that are one run, as is the first: nothing says how much a further run of either would differ."""
    runs = [len(side.runs) for side in sides.sides]
    return [] if sides.of_devices or runs[0] != 1 else [i for i, n in enumerate(runs) if n == 1 and i]


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
        how = join_names([f"{d.unit}, version {d.version}" for d in definitions])
        return (
            f"{names} measured {name} by different definitions ({how}), which are never compared; "
            "measure both with one version of firsttouch"
        )
    return f"{names} have no point in common; run the same experiments on both, with the same --preset and --set"


def _regressions(differences: Differences, table: AlignedPoints, limit: float) -> list[Regression]:
    """Experiments and points that are clearly worse, by a ratio beyond the limit; and points that failed. Of many sides
    only experiments as a whole: among all their points, some are far off by chance.
    """
    most = math.log1p(limit)
    groups = [g for g in differences.groups if g.worse and g.ratio and abs(math.log(g.ratio)) > most]
    points = [] if differences.fleet else [d for d in differences.points if d.worse and d.size > most]
    return [*groups, *sorted(points, key=lambda d: -d.size), *table.lost]


# ---------------------------------------------------------------------------------------------------- conditions


def _conditions(sides: Sides, table: AlignedPoints) -> list[DifferingCondition]:
    if sides.of_devices:
        return []
    by_side = []
    for side, renamed in zip(sides.sides, table.devices, strict=True):
        names = {own: slot for slot, own in renamed.items()}
        merged: dict[str, dict[Scalar, None]] = {}
        for run in side.runs:
            for name, value in run.conditions.items():
                merged.setdefault(_on_first(name, names), {})[value] = None
        by_side.append({name: _joined(list(values)) for name, values in merged.items()})
    conditions = [
        DifferingCondition(name, [side.get(name) for side in by_side])
        for name in dict.fromkeys(name for side in by_side for name in side)
    ]
    topics = [{name.partition(".")[0] for name in side} for side in by_side]
    differing = [c for c in conditions if _differs(c, topics)]
    return sorted(differing, key=lambda c: next((i for i, s in enumerate(IMPORTANT) if c.name.startswith(s)), 99))


def _differs(condition: DifferingCondition, topics: Sequence[set[str]]) -> bool:
    """True if a condition is not the same on all sides, apart from sides that state nothing on its topic."""
    topic = condition.name.partition(".")[0]
    return len({repr(v) for v, stated in zip(condition.values, topics, strict=True) if topic in stated}) > 1


def _on_first(name: str, slots: dict[str, str]) -> str:
    """The name of a condition of a device, with the device's name on the first side."""
    for prefix in ("device ", "clock of ", "throttled points of "):
        if name.startswith(prefix):
            device, comma, unit = name.removeprefix(prefix).partition(",")
            return f"{prefix}{slots.get(device, device)}{comma}{unit}"
    return name


def _joined(values: Sequence[Scalar]) -> Scalar:
    return values[0] if len(values) == 1 else ", ".join("unknown" if v is None else str(v) for v in values)


# ---------------------------------------------------------------------------------------------------- plain data


def plain(comparison: ResultsComparison) -> dict[str, Any]:
    """The comparison as plain data, for --json and Python."""
    names, table = comparison.names, comparison.table
    return {
        "base": comparison.base,
        "sides": [
            {
                "name": side.name,
                "directories": [run.name for run in side.runs],
                "host": side.runs[0].host if side.runs else "",
                "published": [msgspec.to_builtins(value) for value in side.stated],
                "devices": {d.name: d.title for run in side.runs for d in run.devices},
                "points": sum(len(run.points) for run in side.runs),
                "renamed": table.devices[i],
                "without_counterpart": dict(table.alone[i]),
            }
            for i, side in enumerate(comparison.sides)
        ],
        "unreadable": [{"name": bad.name, "reason": bad.reason} for bad in comparison.unreadable],
        "conditions": [
            {"name": c.name, "values": dict(zip(names, c.values, strict=True))} for c in comparison.conditions
        ],
        "not_compared": [
            {"experiment": name, "definitions": [_definition(d) for d in definitions]}
            for name, definitions in table.redefined.items()
        ],
        "experiments": [_group(group, names) for group in comparison.groups],
        "points": [_point(d, names) for group in comparison.groups for d in comparison.points_of(group)],
        "cannot_tell": [names[side] for side in comparison.cannot_tell],
        "regressions": [_regression(r, names) for r in comparison.regressions],
    }


def _definition(definition: Definition) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in ("unit", "version", "better")}


def _group(group: ExperimentDifference, names: Sequence[str]) -> dict[str, Any]:
    return asdict(group) | {"side": names[group.side]}


def _point(d: Difference, names: Sequence[str]) -> dict[str, Any]:
    definition = d.column.definition
    return {
        "experiment": definition.experiment,
        "device": d.column.device,
        "factors": factors_of(d.column.factors),
        "unit": definition.unit,
        "better": definition.better,
        "metric_version": definition.version,
        "side": names[d.side],
        "base": asdict(d.base),
        "value": asdict(d.value),
        "ratio": d.ratio,
        "low": d.low,
        "high": d.high,
        "verdict": d.verdict,
        "worse": d.worse,
    }


def _regression(regression: Regression, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(regression, ExperimentDifference):
        return {"kind": "experiment", **_group(regression, names)}
    if isinstance(regression, Difference):
        return {"kind": "point", **_point(regression, names)}
    return {
        "kind": "failed",
        **regression._asdict(),
        "side": names[regression.side],
        "factors": factors_of(regression.factors),
    }
