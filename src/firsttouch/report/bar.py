"""Draws a Bar: horizontal bars from zero, with whiskers; on a logarithmic axis, which has no zero, dots. Axes are not
shared between panels, whose values may differ widely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from firsttouch.records.figures import Bar
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct
from firsttouch.records.text import join_names, label
from firsttouch.report import points
from firsttouch.report.axes import FEW_TICKS, NAMES, WIDE_NAMES, extent, quantitative
from firsttouch.report.chart import (
    BESIDE_BARS,
    EDGES,
    beyond_bars,
    colour,
    finish,
    flag_marks,
    numbers,
    panel,
    room_for_bars,
    row,
    side_by_side,
    upright,
)
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import CHARACTER, TEXT
from firsttouch.report.naming import amount_title, called, heading, quantity_title, unit
from firsttouch.report.narrow import below_names, down, names_above
from firsttouch.report.palette import INK
from firsttouch.report.roles import Roles, assign, channels, labels
from firsttouch.report.stated import KIND as STATED
from firsttouch.report.stated import note, stated_marks, stated_rows
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
    stated = [] if context.is_narrow else stated_rows(context.stated, shown, figure, roles, figure.x, figure.y)
    notes += note(context.stated, stated)
    return Drawing(title, _chart(figure, roles, shown, stated, context), notes=notes, wrong=points.wrong(shown))


def _chart(
    figure: Bar, roles: Roles, records: Sequence[Record], stated: Sequence[Spec], context: DrawingContext
) -> Spec:
    hue = colour(figure, roles, records, context.palette)
    rows = [row(r, figure, roles, figure.x, figure.y) for r in records]
    panels: dict[str, list[tuple[Record, Spec]]] = {}
    for record, data in zip(records, rows, strict=True):
        panels.setdefault(str(data["panel"]), []).append((record, data))
    charts, names = [], [str(data["x"]) for data in rows]
    axis = NAMES if roles.panel else WIDE_NAMES
    width, columns = room_for_bars(names, context.width, panels=bool(roles.panel), most_of_names=axis["labelLimit"])
    if context.is_narrow:
        width, columns = context.width - EDGES, 1
    heads: list[Spec] = []
    for title, pairs in panels.items():
        of_panel = [record for record, _ in pairs], [data for _, data in pairs]
        there = [data for data in stated if str(data["panel"]) == title]
        bars, height, names_of_panel = _bars(figure, roles, *of_panel, there, hue, width, is_narrow=context.is_narrow)
        charts.append(panel(bars, title, roles, width, height))
        heads += names_of_panel
    return finish(side_by_side(charts, columns), [*rows, *heads, *stated], context.width)


def _bars(
    figure: Bar,
    roles: Roles,
    records: Sequence[Record],
    rows: list[Spec],
    stated: Sequence[Spec],
    hue: Spec,
    width: int,
    *,
    is_narrow: bool,
) -> tuple[list[Spec], Any, list[Spec]]:
    """The layers of one panel, its height, and rows of names above bars."""
    ys = numbers([*rows, *stated], "y", "low", "high", kinds=("point", STATED))
    log = figure.log_y and min(ys) > 0
    y_title = amount_title(figure, figure.y, figure.y_title, records[0])
    amount = quantitative(figure.y, y_title, unit(figure, figure.y, records[0]), ys, log)
    if log:
        first = 10.0 ** (math.floor(math.log10(min(ys))) - (math.log10(min(ys)) % 1 < 0.1))
        share = 1 - min(0.6, (CHARACTER * max(len(data["text"]) for data in rows) + BESIDE_BARS) / width)
        domain = [first, first * (max(ys) / first) ** (1 / share)]
        amount["scale"] = {"type": "log", "domain": domain, "nice": False}
    elif min(ys) >= 0:
        end_of_axis = beyond_bars(max(ys), [data["text"] for data in rows], width)
        amount["scale"] = {"domain": [0, end_of_axis], "nice": False}
    if is_narrow:
        amount["axis"] |= FEW_TICKS
    names = [label(figure.x, v) for v in distinct(records, figure.x)]
    x_title = figure.x_title or heading(figure, figure.x)
    axis = NAMES if roles.panel else WIDE_NAMES
    beside = bool(roles.colour) and len(rows) > len(names)  # several bars for one name
    step = 15 if beside else 22 if len(names) <= 8 else 18
    place: Spec = {
        "y": field(
            "x:N", title=upright(x_title, step * len(rows)), sort=names, axis=axis | extent(names, axis["labelLimit"])
        )
    }
    if beside:
        place["yOffset"] = field("colour:N", sort=labels(records, roles.colour))
    thick, drawn, heads = place, ["datum.kind == 'point'"], list[Spec]()
    height: Any = {"step": step, **({"for": "offset"} if beside else {})}
    if is_narrow:
        order = labels(records, roles.colour) if roles.colour else []
        by_colour = sorted(rows, key=lambda data: order.index(str(data["colour"])) if order else 0)
        heads, height = below_names({name: [d for d in by_colour if d["x"] == name] for name in names}, width)
        place = {"y": down("centre", height)}
        thick = {"y": down("top", height), "y2": field("bottom")}
    x = field("y:Q", **amount)
    whiskers = [layer("rule", {"x": field("low:Q"), "x2": field("high"), **place}, *drawn, color=INK)]
    layers = whiskers if figure.y == "median" else []
    if log:
        layers = [*layers, layer("point", {"x": x, "color": hue, **place}, *drawn, filled=True, opacity=1, size=70)]
    else:
        kind, bar = "rect" if is_narrow else "bar", {"x": x, "x2": field("zero"), "color": hue, **thick}
        layers = [layer(kind, bar, *drawn, opacity=0.85), *layers]
        for data in rows:
            data["zero"] = 0.0
    end: Spec = {"align": "left", "dx": 5, "fontSize": TEXT, "fill": INK}
    layers.append(layer("text", {"x": field("high:Q"), "text": field("text:N"), **place}, *drawn, **end))
    layers += flag_marks(rows, {"x": x, **place}, *drawn)
    layers += stated_marks({"x": x, **place}, "x") if stated else []
    layers += [names_above(height)] if is_narrow else []
    return layers, height, heads
