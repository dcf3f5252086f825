"""Draws a Stack: bars of labelled segments, with the sum at the end of each bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from firsttouch.records.figures import Stack
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct, group_by, series
from firsttouch.records.text import SECONDS, count, label, quantity
from firsttouch.report import points
from firsttouch.report.axes import NAMES, quantitative, time_label
from firsttouch.report.chart import LINE_END, finish, flag_marks, numbers, panel, row, side_by_side, upright
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.naming import amount_title, heading, unit, without_unit
from firsttouch.report.palette import INK
from firsttouch.report.roles import Roles, assign, channels
from firsttouch.report.shades import DARK, HUGE, LIGHT, ink_on
from firsttouch.report.vega import field, layer

MOST_SEGMENTS = 12
"""The most segments of one bar. All further ones are combined into one."""
REST = "others"
CHARACTER, THIN = 4.6, 1.2
"""The width of one character in a segment, and the width below which a segment is drawn as a hairline, in pixels."""


def draw(figure: Stack, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    shown = points.complete(points.matching(figure, with_sums(records, figure)), "value", figure.x)
    if not shown:
        return None
    roles = assign(shown, axes=(figure.x,), apart=(figure.x,), facet=figure.facet)
    held = points.constants(figure, shown)
    shown, more = points.first_panels(roles, shown)
    bars = [same[0] for same in group_by(shown, *roles.panel, figure.x).values()]
    notes = [*_notes(figure, len(shown) - len(bars)), *held, *more, *points.flaws(bars)]
    spec = _chart(figure, roles, bars, context)
    return Drawing(_title(figure, roles, bars), spec, notes=notes, wrong=points.wrong(bars))


def segments(record: Record, figure: Stack) -> dict[str, float]:
    """The values of one bar by label, in the order of the counters. Values that are not amounts are left out."""
    amounts: dict[str, float] = {}
    for which, v in series(record, figure.series).items():
        name = label("series", which).replace("_", " ")
        if name in figure.without or isinstance(v, bool | str | None) or not 0 <= v < HUGE:
            continue
        name = figure.names.get(name, name)
        name = name if len(amounts) < MOST_SEGMENTS or name in amounts else REST
        amounts[name] = amounts.get(name, 0.0) + v
    return amounts


def with_sums(records: Sequence[Record], figure: Stack) -> list[Record]:
    """The records that have segments, with their sum as the counter 'value'."""
    made = []
    for record in records:
        if parts := segments(record, figure):
            factors = {name: v for name, v in record.factors.items() if name != "value"}
            counters = {**record.counters, "value": math.fsum(parts.values())}
            made.append(msgspec.structs.replace(record, factors=factors, counters=counters))
    return made


def _notes(figure: Stack, hidden: int) -> list[str]:
    """The sentences of the caption on the bars."""
    notes = ["The figure at the end of a bar is the sum of its segments; hairlines are segments too thin to draw."]
    if figure.without:
        notes.append(f"Left out: {', '.join(figure.without)}.")
    if hidden:
        notes.append(f"{count(hidden, 'more point')} with the same conditions, only in the table.")
    return notes


def _title(figure: Stack, roles: Roles, records: Sequence[Record]) -> str:
    per = channels(figure, roles, "for each")
    if figure.title:
        return figure.title + per
    x, y = figure.x_title or heading(figure, figure.x), figure.y_title or heading(figure, "value")
    return f"{without_unit(y, unit(figure, 'value', records[0]))} by {x} and {heading(figure, 'series')}{per}"


def _chart(figure: Stack, roles: Roles, records: Sequence[Record], context: DrawingContext) -> Spec:
    parts = [segments(record, figure) for record in records]
    names = list(dict.fromkeys(name for bar_parts in parts for name in bar_parts))
    fills = dict(zip(names, context.palette.styles(heading(figure, "series"), names)[0], strict=True))
    scale = {"domain": names, "range": [fills[n] for n in names]}
    hue = field(
        "segment:N", title=heading(figure, "series"), scale=scale, legend={"columns": 6, "symbolType": "square"}
    )
    width, one_unit = 270 if roles.panel else 560, unit(figure, "value", records[0])
    panels: dict[str, list[tuple[Spec, dict[str, float]]]] = {}
    for record, bar_parts in zip(records, parts, strict=True):
        bar = row(record, figure, roles, figure.x, "value")
        panels.setdefault(str(bar["panel"]), []).append((bar, bar_parts))
    rows: list[Spec] = []
    charts = []
    for title, pairs in panels.items():
        bars = [bar for bar, _ in pairs]
        most = max(bar["y"] for bar in bars) * 1.25 or 1.0
        parts_of_panel: list[Spec] = []
        for bar, bar_parts in pairs:
            inside = _segment_rows(bar_parts, fills, width / most, one_unit)
            point, conditions = bar["tip"][0], bar["tip"][1].split(LINE_END)[2:]
            for segment in inside:
                tip_text = LINE_END.join([f"{segment['segment']}: {segment.pop('amount')}", "", *conditions])
                parts_of_panel.append({**segment, "x": bar["x"], "panel": title, "tip": [point, tip_text]})
            parts_of_panel.append(bar)
        rows += parts_of_panel
        stacked = _stacked(figure, records, parts_of_panel, hue, {"domain": [0, most]})
        charts.append(panel(stacked, title, roles, width, {"step": 22}, limit=width + 60))
    return finish(side_by_side(charts), rows)


def _segment_rows(parts: Mapping[str, float], fills: Mapping[str, str], scale: float, unit: str) -> list[Spec]:
    """One row per segment that is not zero. scale: pixels per unit of the values."""
    made, start = [], 0.0
    for name, v in parts.items():
        if v > 0:
            text = quantity(v, unit)
            fits = v * scale >= CHARACTER * len(text) + 6
            made.append({
                "kind": "segment",
                "segment": name,
                "start": start,
                "end": start + v,
                "middle": start + v / 2,
                "thin": v * scale < THIN,
                "amount": text,
                "text": text if fits else "",
                "ink": ink_on(fills[name]) if fits else "",
            })  # fmt: skip
        start += v
    return made


def _stacked(figure: Stack, records: Sequence[Record], rows: list[Spec], hue: Spec, scale: Spec) -> list[Spec]:
    """The layers of one panel: segments, hairlines for segments that are too thin to see, their labels, and totals."""
    bars = [r for r in rows if r["kind"] == "point"]
    one_unit = unit(figure, "value", records[0])
    title = amount_title(figure, "value", figure.y_title, records[0])
    amount = quantitative("value", title, one_unit, numbers(bars, "y"), False)
    amount |= _time_axis(amount, one_unit) | {"scale": scale}
    present = {bar["x"] for bar in bars}
    names = [n for v in distinct(records, figure.x) if (n := label(figure.x, v)) in present]
    x_title = upright(figure.x_title or heading(figure, figure.x), 22 * len(names))
    y = field("x:N", title=x_title, sort=names, axis=NAMES)
    part, point = "datum.kind == 'segment'", "datum.kind == 'point'"
    place = {"x": field("start:Q", **amount), "x2": field("end"), "y": y, "color": hue}
    total: Spec = {"x": field("y:Q", **amount), "y": y}
    end: Spec = {"align": "left", "fontSize": 10, "fill": INK}
    thin = {"x": field("start:Q"), "y": y, "color": hue}
    inside = {"x": field("middle:Q"), "y": y, "text": field("text:N")}
    layers = [layer("bar", place, part, height=15)]
    if any(r.get("thin") for r in rows):
        layers.append(layer("tick", thin, part, "datum.thin", thickness=1.2, height=15))
    for ink in (DARK, LIGHT):
        if any(r.get("ink") == ink for r in rows):
            layers.append(layer("text", inside, part, f"datum.ink == '{ink}'", fontSize=9, fill=ink))
    for test, dx in (("datum.flag == ''", 5), ("datum.flag != ''", 13)):
        layers.append(layer("text", {**total, "text": field("text:N")}, point, test, dx=dx, **end))
    return [*layers, *flag_marks(bars, total, point)]


def _time_axis(amount: Spec, unit: str) -> Spec:
    """Title and axis of `amount` with few ticks, each labelled in a suitable unit, as the text in the bars is."""
    if unit not in SECONDS:
        return {}
    axis = {"grid": True, "tickCount": 7, "labelExpr": f"datum.value == 0 ? '0' : {time_label(SECONDS[unit])}"}
    return {"title": without_unit(amount["title"], unit), "axis": axis}
