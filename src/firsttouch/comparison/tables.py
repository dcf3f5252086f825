"""The tables of a comparison: heads and rows, which the terminal and the page draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firsttouch.comparison.answers import place_row
from firsttouch.comparison.compare import ResultsComparison
from firsttouch.comparison.differences import Difference, ExperimentDifference
from firsttouch.comparison.places import PlaceDifference
from firsttouch.comparison.table import Column
from firsttouch.comparison.words import group_cells, place_cells, point_cells, short_names, title_of


@dataclass(frozen=True)
class ComparisonTable:
    """title: of which experiment or place; '' of several. noun: what a row is. more: how many rows were left out."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    noun: str
    more: int


def table_of_experiments(
    comparison: ResultsComparison, groups: Sequence[ExperimentDifference], most: int, noun: str = "experiment"
) -> ComparisonTable:
    """noun: 'phase' of the phases of applications."""
    short, several = short_names(comparison), comparison.has_several_sides
    heads = ["side", noun, "device", "points", "that differ", "median", "interval", "as a whole"]
    rows = [[short[group.side], *group_cells(group)] for group in groups[:most]]
    left_out = {*(() if several else ("side",)), *(("device",) if comparison.of_devices else ())}  # a side is a device
    kept = [i for i, head in enumerate(heads) if head not in left_out]
    rows = [[cells[i] for i in kept] for cells in rows]
    return ComparisonTable("", [heads[i] for i in kept], rows, noun, max(0, len(groups) - most))


def table_of_points(
    comparison: ResultsComparison,
    group: ExperimentDifference,
    points: Sequence[Difference],
    conditions: Mapping[Column, str],
    most: int,
) -> ComparisonTable:
    """The points of an experiment on one side."""
    short = short_names(comparison)
    rows = [point_cells(d, conditions[d.column]) for d in points[:most]]
    title = title_of(group, of_devices=comparison.of_devices)
    return ComparisonTable(
        title, _heads(short[comparison.base], short[group.side]), rows, "point", max(0, len(points) - most)
    )


def table_of_places(comparison: ResultsComparison, most: int) -> ComparisonTable:
    """The devices and pairs that differ."""
    short, places = short_names(comparison), comparison.places
    several = comparison.has_several_sides and not comparison.of_devices
    heads = [*(["side"] if several else []), "where", "points", "that differ", "median", "in"]
    rows = [[*([short[place.side]] if several else []), *place_cells(place_row(place))] for place in places[:most]]
    return ComparisonTable("", heads, rows, "place", max(0, len(places) - most))


def table_of_place(
    comparison: ResultsComparison, place: PlaceDifference, conditions: Mapping[Column, str], most: int
) -> ComparisonTable:
    """The points of a place, whose experiment and device are named too."""
    short = short_names(comparison)

    def cells(d: Difference) -> list[str]:
        experiment, device = d.column.group
        device = d.side if comparison.of_devices else device
        return point_cells(d, f"{experiment} on {device}, {conditions[d.column]}")

    heads = _heads(short[comparison.base], "this pair" if comparison.of_devices else short[place.side])
    rows = [cells(d) for d in place.points[:most]]
    return ComparisonTable(place.name, heads, rows, "point", max(0, len(place.points) - most))


def _heads(base: str, side: str) -> list[str]:
    return ["point", base, side, "change", "interval", "difference"]
