"""Dot plots of a comparison: how many times as fast each experiment and each point of a side is, largest first."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

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
)
from firsttouch.comparison.speeds import Speed, ratio_text
from firsttouch.comparison.table import Column
from firsttouch.comparison.words import short_names, title_of, value_text
from firsttouch.records.text import count
from firsttouch.report.chart import EDGES, LINE_END, finish
from firsttouch.report.drawing import Drawing, Spec
from firsttouch.report.lettering import LINE, PHONE, TEXT
from firsttouch.report.palette import COLOURS, GRID, INK
from firsttouch.report.vega import field, layer

MOST_ROWS = 24
"""The rows of all dot plots of experiments of a page together."""
MOST_POINTS = 12
"""The rows of all dot plots of single points together."""
MOST_DOTS = 40
"""The most points of an experiment that are dots in its row."""
WIDEST = 16.0
"""Ratios of experiments and their dots beyond this, or below its inverse, are drawn at the edge."""
_WIDEST_POINT = 1e9
_COLOURS = {FASTER: COLOURS[0], SLOWER: COLOURS[1], HIGHER: COLOURS[6], LOWER: COLOURS[2], SAME: COLOURS[9],
            CANNOT_TELL: COLOURS[4]}  # fmt: skip
_TICKS: Sequence[tuple[float, Sequence[float]]] = (
    (1.4, (1.1, 1.2, 1.3)),
    (3.5, (1.5, 2, 3)),
    (20, (2, 4, 8, 16)),
    (math.inf, [10.0**power for power in range(1, 10)]),
)
"""The ticks on each side of 1, of an axis that ends below a factor."""
TITLE = "\N{LEFTWARDS ARROW} times as slow, or times as fast \N{RIGHTWARDS ARROW}"
"""Of the axis, which has 1 in its middle."""
WIDTH = PHONE - EDGES
"""Pixels of a plot: on a phone it has the whole page, elsewhere half of it."""
WHOLE = "whole"
"""The kind of a row with an interval: an experiment, or a point that is named."""
_LINE = 48
"""Characters of a line of a point's name."""


def dot_plots(
    comparison: ResultsComparison,
    conditions: Mapping[Column, str],
    sections: Mapping[tuple[str, str], str],
    ids: Mapping[Column, str],
) -> list[Drawing]:
    """The plots of each side: its experiments, and its points that differ most.

    sections: the anchors of experiments on devices. ids: those of the points in tables.
    """
    if comparison.differences.fleet:
        groups = [group for group in comparison.groups if group.differs]
        return [_experiments(comparison, groups[:MOST_ROWS], sections, ids)] if groups else []
    sides = list(dict.fromkeys(group.side for group in comparison.groups))
    drawings = []
    for side in sides:
        groups = [group for group in comparison.groups if group.side == side and group.ratio]
        if groups:
            drawings.append(_experiments(comparison, groups[: MOST_ROWS // len(sides)], sections, ids, len(groups)))
        points = [d for d in comparison.differences.points if d.side == side and d.is_apart and d.ratio]
        points.sort(key=lambda d: -d.size)
        if points:
            drawings.append(_points(comparison, points[: MOST_POINTS // len(sides)], conditions, ids, len(points)))
    return drawings


def _experiments(
    comparison: ResultsComparison,
    groups: Sequence[ExperimentDifference],
    sections: Mapping[tuple[str, str], str],
    ids: Mapping[Column, str],
    total: int = 0,
) -> Drawing:
    fleet, short = comparison.differences.fleet, short_names(comparison)
    rows: list[Spec] = []
    for group in groups:
        ratio = Speed.of(group)
        name = title_of(group, of_devices=comparison.of_devices)
        name = f"{short[group.side]}: {name}" if fleet else name
        if ratio is None:
            continue
        name = _new(name, rows)
        text = [f"{ratio.text}: {name}", ratio.interval, f"{count(group.points, 'point')}, {group.verdict}"]
        rows.append(_row(name, ratio, group.verdict, WHOLE, sections.get((group.experiment, group.device)), text))
        for d in [] if fleet else _evenly(comparison.points_of(group)):
            if (point := Speed.of(d)) is not None:
                rows.append(_row(name, point, d.verdict, "dot", None, []))
    side = short[groups[0].side]
    left = f"{count(total - len(groups), 'more experiment')} below." if total > len(groups) else ""
    notes = ["Large dots are the medians of experiments, with their intervals; small dots are their points."]
    if fleet:
        notes = ["Each side against the median of all."]
    notes += _explained(rows, groups)
    title = f"How many times as fast {'each outlier' if fleet else side} is, by experiment"
    return Drawing(title, _chart(rows), notes=[*notes, *_edge(rows), *([left] if left else [])])


def _points(
    comparison: ResultsComparison,
    points: Sequence[Difference],
    conditions: Mapping[Column, str],
    ids: Mapping[Column, str],
    total: int,
) -> Drawing:
    rows: list[Spec] = []
    for d in points:
        definition = d.column.definition
        ratio = Speed.of(d)
        assert ratio is not None
        experiment, device = d.column.group
        name = _new(f"{experiment} on {device}: {conditions[d.column]}", rows)
        base, value = (value_text(v, definition.unit) for v in (d.base, d.value))
        text = [f"{base} to {value}: {ratio.text}", ratio.interval, f"{experiment} on {device}",
                conditions[d.column], d.verdict]  # fmt: skip
        rows.append(_row(name, ratio, d.verdict, WHOLE, ids.get(d.column), text, _WIDEST_POINT))
    side = short_names(comparison)[points[0].side]
    which_points = "that differ most"
    more = [f"{len(points)} of {total:,} points."] if total > len(points) else []
    title = f"How many times as fast {side} is, in the points {which_points}"
    return Drawing(title, _chart(rows), notes=[*_explained(rows, points), *more])


def _explained(rows: Sequence[Spec], differences: Sequence[Difference | ExperimentDifference]) -> list[str]:
    """What a colour means that its name does not say, and what the axis means for counts."""
    notes = []
    if any(row["colour"] == CANNOT_TELL for row in rows):
        notes.append("Cannot tell: more than the samples vary, but with so few runs another run may differ as much.")
    if any("high" in speed.words for d in differences if (speed := Speed.of(d))):
        notes.append("Counts and bytes are higher on the right.")
    return notes


def _evenly(points: Sequence[Difference]) -> Sequence[Difference]:
    return points[:: max(1, -(-len(points) // MOST_DOTS))]


def _lines(text: str) -> list[str]:
    lines = textwrap.wrap(text, _LINE)
    return lines if len(lines) <= 2 else [lines[0], f"{lines[1][: _LINE - 2]} \N{HORIZONTAL ELLIPSIS}"]


def _new(text: str, rows: Sequence[Spec]) -> str:
    """A name in lines that no row has: a point's conditions may be too many for its row."""
    name, taken = "\n".join(_lines(text)), {row["x"] for row in rows}
    return next(n for n in (name, *(f"{name} ({i})" for i in range(2, len(rows) + 3))) if n not in taken)


def _row(
    name: str, ratio: Speed, verdict: str, size: str, anchor: str | None, text: Sequence[str], widest: float = WIDEST
) -> Spec:
    low, high = (ratio.value if bound is None else bound for bound in (ratio.low, ratio.high))
    drawn: Spec = {"x": name, "kind": size, "colour": verdict, "dash": "", "text": ratio_text(ratio.value)}
    drawn |= {key: _inside(v, widest) for key, v in (("y", ratio.value), ("low", low), ("high", high))}
    shown = (ratio.value, low, high) if size == WHOLE else (ratio.value,)
    drawn |= {"edge": any(_inside(v, widest) != v for v in shown)}
    return drawn | ({"tip": [anchor, LINE_END.join(text)]} if anchor else {})


def _inside(value: float, widest: float) -> float:
    return min(max(value, 1 / widest), widest)


def _edge(rows: Sequence[Spec]) -> list[str]:
    if not any(row["edge"] for row in rows):
        return []
    return [f"Ratios above {WIDEST:g} or below 1/{WIDEST:g} are drawn at the edge."]


def _chart(rows: list[Spec]) -> Spec:
    """The names of rows are in the plot, above the dots, since they are long and a phone is narrow."""
    values = [float(row[key]) for row in rows for key in ("y", "low", "high") if key == "y" or row["kind"] == WHOLE]
    most = 1.03 * max(1.1, *values, *(1 / value for value in values))
    steps = [t for t in next(steps for widest, steps in _TICKS if most < widest) if t < most]
    ticks = [*(1 / t for t in reversed(steps)), 1, *steps]
    factor = "format(datum.value < 1 ? 1 / datum.value : datum.value, '.3~r')"
    axis = {"values": ticks, "labelExpr": factor, "grid": False, "orient": "top", "labelOverlap": True}
    x = field("y:Q", title=TITLE, scale={"type": "log", "domain": [1 / most, most], "nice": False}, axis=axis)
    names = list(dict.fromkeys(row["x"] for row in rows))
    lines = max(name.count("\n") + 1 for name in names)
    step = LINE * lines + 26
    for row in rows:  # a name ends just above its dots
        row["name"] = "\n" * (lines - 1 - row["x"].count("\n")) + row["x"]
    y: Spec = {"y": field("x:N", title=None, sort=names, axis=None)}
    below: Spec = {"yOffset": {"value": LINE * lines + 9}}
    verdicts = [verdict for verdict in _COLOURS if any(row["colour"] == verdict for row in rows)]
    scale = {"domain": verdicts, "range": [_COLOURS[v] for v in verdicts]}
    place: Spec = {"x": x, **y, **below, "color": field("colour:N", title=None, scale=scale, legend={"orient": "top"})}
    lines_at = {"data": {"values": [{"x": name, "y": tick} for name in names for tick in ticks]}}
    look_of_lines = {"type": "tick", "size": 13, "thickness": 1}
    layers: list[Spec] = [  # lines leave out the names
        {**lines_at, "transform": [{"filter": f"(datum.y == 1) == {is_one}"}],
         "mark": {**look_of_lines, "color": colour}, "encoding": {"x": x, **y, **below}}
        for is_one, colour in (("false", GRID), ("true", INK))
    ]  # fmt: skip
    if any(row["kind"] != WHOLE for row in rows):
        layers.append(layer("point", place, f"datum.kind != '{WHOLE}'", filled=True, size=14, opacity=0.45))
    whole = f"datum.kind == '{WHOLE}'"
    layers.append(layer("rule", {**place, "x": field("low:Q"), "x2": field("high")}, whole, strokeWidth=1.6))
    layers.append(layer("point", place, whole, filled=True, size=80, opacity=1))
    look: Spec = {"align": "left", "baseline": "top", "fontSize": TEXT, "lineBreak": "\n", "dx": 2, "fill": INK}
    named = {**y, "x": {"value": 0}, "yOffset": {"value": 2}, "text": field("name:N")}
    layers.append(layer("text", named, whole, **look))
    return finish({"layer": layers, "width": WIDTH, "height": {"step": step}}, rows)
