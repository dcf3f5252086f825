"""Draws a Bar: horizontal bars from zero, with whiskers; on a logarithmic axis, which has no zero, dots. Axes are not
shared between panels, whose values may differ widely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from firsttouch.records.figures import Bar
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct
from firsttouch.records.text import join_names, label
from firsttouch.report import points
from firsttouch.report.axes import NAMES, WIDE_NAMES, quantitative
from firsttouch.report.chart import colour, finish, flag_marks, numbers, panel, row, side_by_side, upright
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.naming import amount_title, called, heading, quantity_title, unit
from firsttouch.report.palette import INK
from firsttouch.report.roles import Roles, assign, channels, labels
from firsttouch.report.vega import field, layer


def draw(figure: Bar, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    shown = points.complete(points.select(figure, records), figure.y, figure.x)
    if not shown:
        return None
    axes, apart = (figure.x, figure.y), (figure.x,)
    roles = assign(shown, axes=axes, apart=apart, colour=figure.colour, facet=figure.facet)
    notes = [f"Whiskers are {points.interval(shown)}."] if figure.y == "median" else []
    notes += points.constants(figure, shown)
    shown, fewer = points.first_series(roles, shown)
    shown, more = points.first_panels(roles, shown)
    shown, evenly = points.thinned(roles, shown)
    notes += [*fewer, *more, *evenly, *points.flaws(shown)]
    names = [figure.x_title or heading(figure, figure.x), *(called(figure, n) for n in roles.names)]
    title = f"{quantity_title(figure, figure.y, figure.y_title)} by {join_names(names)}"
    if figure.title:
        title = figure.title + channels(figure, roles)
    return Drawing(title, _chart(figure, roles, shown, context), notes=notes, wrong=points.wrong(shown))


def _chart(figure: Bar, roles: Roles, records: Sequence[Record], context: DrawingContext) -> Spec:
    hue = colour(figure, roles, records, context.palette)
    rows = [row(r, figure, roles, figure.x, figure.y) for r in records]
    panels: dict[str, list[tuple[Record, Spec]]] = {}
    for record, data in zip(records, rows, strict=True):
        panels.setdefault(str(data["panel"]), []).append((record, data))
    charts = []
    for title, pairs in panels.items():
        bars, height = _bars(figure, roles, [record for record, _ in pairs], [data for _, data in pairs], hue)
        charts.append(panel(bars, title, roles, 270 if roles.panel else 560, height))
    return finish(side_by_side(charts), rows)


def _bars(figure: Bar, roles: Roles, records: Sequence[Record], rows: list[Spec], hue: Spec) -> tuple[list[Spec], Spec]:
    """The layers of one panel, and its height."""
    ys = numbers(rows, "y", "low", "high")
    log = figure.log_y and min(ys) > 0
    y_title = amount_title(figure, figure.y, figure.y_title, records[0])
    amount = quantitative(figure.y, y_title, unit(figure, figure.y, records[0]), ys, log)
    if log:
        domain = [10.0 ** (math.floor(math.log10(min(ys))) - (math.log10(min(ys)) % 1 < 0.1)), max(ys) * 1.6]
        amount["scale"] = {"type": "log", "domain": domain, "nice": False}
    elif min(ys) >= 0:
        amount["scale"] = {"domain": [0, max(ys) * 1.25 or 1]}
    names = [label(figure.x, v) for v in distinct(records, figure.x)]
    x_title = figure.x_title or heading(figure, figure.x)
    axis = NAMES if roles.panel else WIDE_NAMES
    beside = bool(roles.colour) and len(rows) > len(names)  # several bars for one name
    step = 15 if beside else 22 if len(names) <= 8 else 18
    place: Spec = {"y": field("x:N", title=upright(x_title, step * len(rows)), sort=names, axis=axis)}
    if beside:
        place["yOffset"] = field("colour:N", sort=labels(records, roles.colour))
    x = field("y:Q", **amount)
    whiskers = [layer("rule", {"x": field("low:Q"), "x2": field("high"), **place}, color=INK)]
    layers = whiskers if figure.y == "median" else []
    if log:
        layers = [*layers, layer("point", {"x": x, "color": hue, **place}, filled=True, opacity=1, size=70)]
    else:
        layers = [layer("bar", {"x": x, "x2": field("zero"), "color": hue, **place}, opacity=0.85), *layers]
        for data in rows:
            data["zero"] = 0.0
    end: Spec = {"align": "left", "dx": 5, "fontSize": 10, "fill": INK}
    layers.append(layer("text", {"x": field("high:Q"), "text": field("text:N"), **place}, **end))
    layers += flag_marks(rows, {"x": x, **place})
    return layers, {"step": step, **({"for": "offset"} if beside else {})}
