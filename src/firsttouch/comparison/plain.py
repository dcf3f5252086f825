"""A comparison as plain data, for --json and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from firsttouch.comparison.compare import Regression, ResultsComparison
from firsttouch.comparison.differences import Difference, ExperimentDifference
from firsttouch.comparison.runs import Definition, factors_of
from firsttouch.comparison.words import answers, phase_answers, what_to_type


def plain(comparison: ResultsComparison) -> dict[str, Any]:
    """The comparison as plain data, for --json and Python."""
    names, table = comparison.names, comparison.table
    return {
        "answer": answers(comparison),
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
        "points": _points(comparison),
        "phases": {
            "answer": phase_answers(comparison),
            "experiments": [_group(group, names) for group in comparison.phases.groups],
            "points": _points(comparison.phases),
        }
        if comparison.phases is not None
        else None,
        "cannot_tell": [names[side] for side in comparison.cannot_tell],
        "to_tell": what_to_type(comparison),
        "regressions": [_regression(r, names) for r in comparison.regressions],
    }


def _definition(definition: Definition) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in ("unit", "version", "better", "inputs")}


def _group(group: ExperimentDifference, names: Sequence[str]) -> dict[str, Any]:
    return asdict(group) | {"side": names[group.side]}


def _points(comparison: ResultsComparison) -> list[dict[str, Any]]:
    return [_point(d, comparison.names) for group in comparison.groups for d in comparison.points_of(group)]


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
