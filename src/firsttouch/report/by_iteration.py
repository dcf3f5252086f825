"""Draws a ByIteration: for each iteration its time, and below it a line for each part, side by side for each point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firsttouch.records.figures import ByIteration
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record
from firsttouch.records.statistics import expand, group_by
from firsttouch.report import points
from firsttouch.report.axes import quantitative
from firsttouch.report.chart import BESIDE_AXIS, EDGES, colour, finish, flag_marks, numbers, row, wrapped
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import TEXT
from firsttouch.report.line import MOST_DOTS
from firsttouch.report.naming import unit
from firsttouch.report.palette import INK
from firsttouch.report.roles import Roles, assign, channels
from firsttouch.report.vega import constant, field, layer

WIDTH, TIME_HEIGHT, HEIGHT = 315, 80, 170
ITERATION = "series"


def draw(figure: ByIteration, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    parts = points.complete(points.select(figure, records), "value", ITERATION)
    if not parts:
        return None
    roles = assign(parts, axes=(ITERATION, "part"), apart=(ITERATION, "part"), facet=figure.by)
    roles = replace(roles, colour="part")
    parts, more = points.first_panels(roles, parts)
    shown = _used(parts)
    times = points.complete(expand(_points_of(parts, records), figure.time), "value", ITERATION)
    held = points.constants(figure, parts)
    unused = [words for words in figure.parts.values() if any(r.factors["part"] == words for r in parts)]
    zero = [words for words in unused if all(r.factors["part"] != words for r in shown)]
    notes = [f"Always zero, and not drawn: {'; '.join(zero)}."] if zero and shown else []
    notes += ["All panels have the same scales."] if len(group_by(parts, *roles.panel)) > 1 else []
    spec = _chart(figure, roles, shown or parts, times, context)
    title = figure.title + channels(figure, replace(roles, colour=""), "for each")
    return Drawing(title, spec, notes=[*notes, *held, *more, *points.flaws(parts)], wrong=points.wrong(parts))


def _used(parts: Sequence[Record]) -> list[Record]:
    """Without the parts that are zero everywhere."""
    used = {r.factors["part"] for r in parts if r.counters["value"]}
    return [r for r in parts if r.factors["part"] in used]


def _points_of(parts: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The points that the parts are of."""
    keys = {key_of(r, *points.OF_SERIES, "value") for r in parts}
    return [r for r in records if key_of(r, "value") in keys]


def _chart(
    figure: ByIteration, roles: Roles, parts: list[Record], times: list[Record], context: DrawingContext
) -> Spec:
    context.palette.styles("part", figure.parts.values())
    of_time = replace(figure, series=figure.time)
    rows = [{**_row(r, figure, roles), "of": "part"} for r in parts]
    time_rows = [{**_row(r, of_time, replace(roles, colour="")), "of": "time"} for r in times]
    iterations = numbers([*rows, *time_rows], "x")
    dotted = {*sorted({*iterations})[:: -(-len({*iterations}) // MOST_DOTS)]}
    for r in (*rows, *time_rows):
        r["dot"] = r["x"] in dotted
    x = field("x:Q", **_same_scale(quantitative(ITERATION, "iteration", "", iterations, False, is_x=True), iterations))
    hidden = {**x, "axis": {**x["axis"], "labels": False, "title": None}}
    upper: list[Spec] = []
    if time_rows:
        amounts = numbers(time_rows, "y")
        log = max(amounts) > 10 * min(amounts) > 0
        channel = quantitative("value", "time, ms", unit(of_time, "value", times[0]), amounts, log)
        y = field("y:Q", **_same_scale(channel, [0, *amounts]))
        upper = _lines({"x": hidden, "y": y, "color": constant(INK)}, time_rows, "time")
    amounts = numbers(rows, "y")
    channel = quantitative("value", figure.y_title, unit(figure, "value", parts[0]), amounts, False)
    y = field("y:Q", **_same_scale(channel, [0, *amounts]))
    hue, shape = (colour(figure, roles, parts, context.palette, shape=is_shape) for is_shape in (False, True))
    lower = _lines({"x": x, "y": y, "color": {**hue, "title": None}}, rows, "part", {"shape": {**shape, "title": None}})
    width = context.width - EDGES - BESIDE_AXIS if context.is_narrow else WIDTH
    charts = []
    for panel in dict.fromkeys(r["panel"] for r in rows):
        of_panel = {"filter": {"field": "panel", "equal": panel}}
        halves = [{"layer": lower, "width": width, "height": HEIGHT}]
        if upper:
            halves.insert(0, {"layer": upper, "width": width, "height": TIME_HEIGHT})
        title = {"title": {"text": wrapped(panel, width), "anchor": "start", "fontSize": TEXT}} if panel else {}
        charts.append({"vconcat": halves, "spacing": 8, "transform": [of_panel], **title})
    spec = charts[0] if len(charts) == 1 else {"concat": charts, "columns": 1 if context.is_narrow else 2}
    return finish(spec, [*time_rows, *rows], context.width)


def _same_scale(channel: Spec, amounts: Sequence[float]) -> Spec:
    """The channel with one scale for all panels, which are charts of their own with scales of their own."""
    return {**channel, "scale": {"domain": [min(amounts), max(amounts)], **channel["scale"]}}


def _row(record: Record, figure: ByIteration, roles: Roles) -> Spec:
    return row(record, figure, roles, ITERATION, "value") | {"x": record.factors[ITERATION]}


def _lines(place: Spec, rows: list[Spec], of: str, dots: Spec | None = None) -> list[Spec]:
    test = f"datum.of == '{of}'"
    bare = {k: v for k, v in place.items() if k != "color"}
    return [
        layer("line", place, test, strokeWidth=1.6),
        layer("point", {**place, **(dots or {})}, test, "datum.dot", filled=True, size=26, opacity=1),
        *flag_marks(rows, bare, test),
    ]
