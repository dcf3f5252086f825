"""Draws a Line: y over x with bands, dots, and the names of plateaus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from firsttouch.experiments.analysis.plateaus import find_plateaus, name_plateaus
from firsttouch.experiments.analysis.tlb import name_levels
from firsttouch.records.figures import Line
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import distinct, group_by, value
from firsttouch.records.text import label, quantity
from firsttouch.report import points
from firsttouch.report.axes import quantitative
from firsttouch.report.chart import BESIDE_AXIS, EDGES, colour, finish, flag_marks, numbers, row, upright, wrapped
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import LINE, TEXT
from firsttouch.report.naming import amount_title, heading, quantity_title, unit
from firsttouch.report.palette import DASHES, INK
from firsttouch.report.points import finite
from firsttouch.report.roles import Roles, assign, channels, condition, labels
from firsttouch.report.stated import KIND as STATED
from firsttouch.report.stated import note, stated_marks, stated_rows
from firsttouch.report.vega import constant, field, layer

MOST_DOTS = 40
"""The most dots of one line over a series."""


def draw(figure: Line, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    shown = points.complete(points.select(figure, records), figure.y, figure.x)
    if not shown:
        return None
    roles = assign(shown, axes=(figure.x, figure.y), colour=figure.colour, dash=figure.dash, facet=figure.facet)
    notes = [f"Bands are {points.interval(shown)}."] if figure.y == "median" else []
    notes += points.constants(figure, shown)
    shown, fewer = points.first_series(roles, shown)
    shown, more = points.first_panels(roles, shown)
    shown, evenly = ([*shown], []) if figure.series else points.thinned(roles, shown)
    notes += [*fewer, *more, *evenly, *points.flaws(shown)]
    if roles.colour == figure.colour:
        context.palette.styles(roles.colour, figure.order)
    notes += _covered(figure, roles, shown)
    rows = [row(r, figure, roles, figure.x, figure.y) | _numeric_x(r, figure) | _mark(r, figure) for r in shown]
    rows += [
        data | _numeric_x(r, figure)
        for r in shown
        for data in stated_rows(context.stated, [r], figure, roles, figure.x, figure.y)
    ]
    notes += note(context.stated, rows)
    if figure.levels and not any(r.modelled for r in shown):  # their curves are sums of values, without plateaus
        rows += _levels(figure, roles, shown, context.device)
    default_title = (
        f"{quantity_title(figure, figure.y, figure.y_title)} over {figure.x_title or heading(figure, figure.x)}"
    )
    title = (figure.title or default_title) + channels(figure, roles)
    return Drawing(title, _chart(figure, roles, shown, rows, context), notes=notes, wrong=points.wrong(shown))


def _covered(figure: Line, roles: Roles, records: Sequence[Record]) -> list[str]:
    """Which lines later ones hide, in sentences."""
    hidden: dict[tuple[str, str], None] = {}
    for panel in group_by(records, *roles.panel, *([roles.dash] if roles.dash else [])).values():
        curves = {
            name: {value(r, figure.x): value(r, figure.y) for r in curve}
            for (name,), curve in (group_by(panel, roles.colour).items() if roles.colour else ())
        }
        for (below, hidden_curve), (above, curve) in combinations(curves.items(), 2):
            if len(hidden_curve) > 1 and all(curve.get(x) == y for x, y in hidden_curve.items()):
                hidden.setdefault((label(roles.colour, below), label(roles.colour, above)))
    return [f"The line of {below} is hidden by that of {above}." for below, above in list(hidden)[:1]]


def _numeric_x(record: Record, figure: Line) -> Spec:
    """The x of a mark if it is a number, which replaces the label that `row` sets."""
    x = value(record, figure.x)
    return {"x": x} if finite(x) else {}


def _mark(record: Record, figure: Line) -> Spec:
    return {"marked": value(record, figure.x) == record.counters.get(figure.mark)} if figure.mark else {}


def _levels(figure: Line, roles: Roles, records: Sequence[Record], device: DeviceInfo | None) -> list[Spec]:
    """Labels for the plateaus of one curve in each panel: of the GPU's curves if there are any, the one with the most
    points.
    """
    rows: list[Spec] = []
    for panel in group_by(records, *roles.panel).values():
        agent = "gpu" if any(r.factors.get("agent") == "gpu" for r in panel) else "cpu"
        curves = group_by(panel, *filter(None, (roles.colour, roles.dash))).values()
        main = max(curves, key=lambda c: (c[0].factors.get("agent", agent) == agent, len(c)))
        pairs = [(x, y) for r in main if finite(x := value(r, figure.x)) and finite(y := value(r, figure.y))]
        xs, ys = [int(x) for x, _ in pairs], [float(y) for _, y in pairs]  # type: ignore[arg-type]
        if figure.levels == "tlb":
            named = name_levels(xs, ys)
        else:
            named = name_plateaus(find_plateaus(xs, ys), device.facts if device else {})
        for name, p in named:
            text = [*name.replace(", ", ",\n").split("\n"), quantity(p.value, main[0].unit.partition(" ")[0])]
            where = {"x": math.sqrt(p.low * p.high), "y": p.value}
            rows.append({"kind": "level", "text": text, **where, **condition(main[0], figure, roles)})
    return rows


def _chart(figure: Line, roles: Roles, records: Sequence[Record], rows: list[Spec], context: DrawingContext) -> Spec:
    xs = numbers(rows, "x")
    x_title = figure.x_title or heading(figure, figure.x)
    if len(xs) == len(records):
        x = field("x:Q", **quantitative(figure.x, x_title, "", xs, figure.log_x, is_x=True))
    else:
        rows = [r | {"x": label(figure.x, r["x"])} for r in rows if r["kind"] in ("point", STATED)]
        x = field("x:N", title=x_title, sort=[label(figure.x, v) for v in distinct(records, figure.x)])
    ys = numbers(rows, "y")
    if figure.log_y and min(ys) > 0:
        for r in rows:  # a logarithmic axis cannot show an interval that reaches zero
            r["low"] = max(r.get("low", 0.0), min(ys) / 10)
    title = amount_title(figure, figure.y, figure.y_title, records[0])
    ys = numbers(rows, "y", "low", "high", kinds=("point", STATED))
    amount = quantitative(figure.y, title, unit(figure, figure.y, records[0]), ys, figure.log_y)
    y = field("y:Q", **{**amount, "title": upright(amount["title"], _size(roles, context)[1])})
    hue, shape = (colour(figure, roles, records, context.palette, shape=is_shape) for is_shape in (False, True))
    drawn, place = "datum.kind == 'point'", {"x": x, "y": y}
    hued = {**place, "color": hue}
    layers = []
    if figure.y == "median":
        band = {**hued, "y": field("low:Q"), "y2": field("high"), "detail": field("dash:N")}
        layers.append(layer("area", band, drawn, opacity=0.18, clip=True))
    layers.append(layer("line", {**hued, "strokeDash": _dash(figure, roles, records)}, drawn, strokeWidth=1.6))
    dots = [drawn, "datum.dot"] if _thin_dots(figure, rows) else [drawn]
    layers.append(layer("point", {**hued, "shape": shape}, *dots, filled=True, size=26, opacity=1))
    if figure.mark:
        layers.append(layer("point", hued, drawn, "datum.marked", filled=False, size=160, strokeWidth=2, opacity=1))
    layers += flag_marks(rows, place)
    layers += stated_marks(place, "y") if any(r["kind"] == STATED for r in rows) else []
    if any(r["kind"] == "level" for r in rows):
        lines = max(len(r["text"]) for r in rows if r["kind"] == "level")
        look: Spec = {"dy": -3 - LINE * lines, "fontSize": TEXT, "lineBreak": "\n", "fill": INK}
        for halo in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {}):
            layers.append(layer("text", {**place, "text": field("text:N")}, "datum.kind == 'level'", **look, **halo))
    return finish(_facets(layers, rows, roles, context), rows, context.width)


def _dash(figure: Line, roles: Roles, records: Sequence[Record]) -> Spec:
    if not roles.dash:
        return constant([1, 0])
    dashes = labels(records, roles.dash)
    looks = {"domain": dashes, "range": [DASHES[i % len(DASHES)] for i in range(len(dashes))]}
    strokes = {"symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 1.6}
    return field("dash:N", title=heading(figure, roles.dash), scale=looks, legend=strokes)


def _thin_dots(figure: Line, rows: list[Spec]) -> bool:
    """Marks the points of a long series that get a dot, so that adjacent dots do not hide the dashes of a line."""
    xs = sorted({r["x"] for r in rows}, key=str) if figure.series else []
    if len(xs) <= MOST_DOTS or not all(map(finite, xs)):
        return False
    xs.sort()
    chosen = {*xs[:: -(-len(xs) // MOST_DOTS)]}
    for r in rows:
        r["dot"] = r["x"] in chosen
    return True


def _size(roles: Roles, context: DrawingContext) -> tuple[int, int]:
    """The width and the height of a chart."""
    if context.is_narrow:
        return context.width - EDGES - BESIDE_AXIS, 200
    return (345, 140) if roles.panel else (720, 180)


def _facets(layers: list[Spec], rows: list[Spec], roles: Roles, context: DrawingContext) -> Spec:
    """One chart, or one chart per panel with shared axes."""
    width, height = _size(roles, context)
    chart = {"layer": layers, "width": width, "height": height}
    if not roles.panel:
        return chart
    for r in rows:
        r["panel"] = "\n".join(wrapped(r["panel"], width))
    order = list(dict.fromkeys(r["panel"] for r in rows))
    lines = "split(datum.label, '\\n')"
    header = {"title": None, "labelFontWeight": "bold", "labelLimit": 0, "labelAnchor": "start", "labelExpr": lines}
    columns = 1 if context.is_narrow else 2
    return {"facet": field("panel:N", sort=order, header=header), "spec": chart, "columns": columns}
