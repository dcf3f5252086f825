"""Pairs of devices as a whole: the median of all that crosses from one to the other, whatever measured it.

A pair that is slower by a little, or whose points vary, shows in no single one of them. Pairs are compared apart from
experiments, so that they widen no other interval, in the same way: see between_runs.py. Rates are taken as times.
"""

from __future__ import annotations

from collections.abc import Collection

from firsttouch.comparison.differences import ExperimentDifference, find
from firsttouch.comparison.places import directed_pair
from firsttouch.comparison.runs import Definition
from firsttouch.comparison.table import AlignedPoints, Column

_TIME = Definition("pair", "s", 1, "lower")


def pairs_as_a_whole(table: AlignedPoints, few: Collection[str]) -> list[ExperimentDifference]:
    """Each pair on each side, with its name as the device; only those of which some data cross one way."""
    named = [(i, column, name) for i, column in enumerate(table.columns) if (name := directed_pair(column))]
    if not named:
        return []
    places = [i for i, _, _ in named]
    value, low, high = (numbers[:, places] for numbers in (table.value, table.low, table.high))
    rates = [at for at, (_, column, _) in enumerate(named) if column.definition.better == "higher"]
    value[:, rates], low[:, rates], high[:, rates] = 1 / value[:, rates], 1 / high[:, rates], 1 / low[:, rates]
    pairs = AlignedPoints(
        [Column(_TIME, name, column.factors) for _, column, name in named],
        value,
        low,
        high,
        table.sides,
        disturbed=None if table.disturbed is None else table.disturbed[:, places],
    )
    return find(pairs, few).groups
