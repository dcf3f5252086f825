"""Draws a Stack: bars of labelled segments, with the sum at the end of each bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from firsttouch.records.figures import Stack
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct, group_by, series, value
from firsttouch.records.text import SECONDS, count, label, quantity
from firsttouch.report import points
from firsttouch.report.axes import FEW_TICKS, NAMES, quantitative, time_label
from firsttouch.report.chart import (
    EDGES,
    LINE_END,
    beyond_bars,
    finish,
    flag_marks,
    legend_columns,
    numbers,
    panel,
    room_for_bars,
    row,
    side_by_side,
    upright,
)
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import CHARACTER, TEXT
from firsttouch.report.naming import amount_title, heading, unit, without_unit
from firsttouch.report.narrow import BAR, below_names, down, names_above
from firsttouch.report.palette import INK
from firsttouch.report.roles import Roles, assign, channels
from firsttouch.report.sentences import quantity_text
from firsttouch.report.shades import DARK, HUGE, LIGHT, ink_on
from firsttouch.report.vega import field, layer

MOST_SEGMENTS = 12
"""The most segments of one bar. All further ones are combined into one."""
REST = "others"
BELOW_LABELS = 6
"""Pixels from the middle of a bar to its whisker, which crosses no label there."""
THIN = 1.2
"""The width in pixels below which a segment is drawn as a hairline."""
LEAST_BESIDE_GAP = 3.0
"""The width in pixels from which segments have a gap between them: their colours may look alike."""


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
    notes += ["Lines below bars are whiskers: the range of the sum."] if figure.bounds else []
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
    columns = legend_columns(max(map(len, names)), context.width, 6)
    legend = {"columns": columns, "symbolType": "square"}
    hue = field("segment:N", title=heading(figure, "series"), scale=scale, legend=legend)
    one_unit = unit(figure, "value", records[0])
    panels: dict[str, list[tuple[Spec, dict[str, float]]]] = {}
    for record, bar_parts in zip(records, parts, strict=True):
        bar = row(record, figure, roles, figure.x, "value")
        if figure.bounds:
            ends = [record.counters.get(name) for name in figure.bounds]
            bar["low"], bar["high"] = (end if points.finite(end) else bar["y"] for end in ends)
        if (q := _rounded(record, bar, one_unit)) is not None:
            bar["text"] = quantity_text(q)
            bar["tip"][1] = LINE_END.join([bar["text"], *bar["tip"][1].split(LINE_END)[1:]])
        panels.setdefault(str(bar["panel"]), []).append((bar, bar_parts))
    on_axis = [label(figure.x, value(record, figure.x)) for record in records]
    limit = NAMES["labelLimit"]
    width, columns = room_for_bars(on_axis, context.width, panels=bool(roles.panel), most_of_names=limit)
    if context.is_narrow:
        width, columns = context.width - EDGES, 1
    rows: list[Spec] = []
    charts = []
    for title, pairs in panels.items():
        bars = [bar for bar, _ in pairs]
        most = beyond_bars(max(max(bar["y"], bar["high"]) for bar in bars), [bar["text"] for bar in bars], width)
        heads, height = below_names({bar["x"]: [bar] for bar in bars}, width) if context.is_narrow else ([], None)
        parts_of_panel: list[Spec] = []
        for bar, bar_parts in pairs:
            inside = _segment_rows(bar_parts, fills, width / most, one_unit)
            point, conditions = bar["tip"][0], bar["tip"][1].split(LINE_END)[2:]
            for segment in inside:
                tip_text = LINE_END.join([f"{segment['segment']}: {segment.pop('amount')}", "", *conditions])
                place: Spec = {key: bar[key] for key in ("x", "panel", "top", "centre", "bottom") if key in bar}
                parts_of_panel.append({**segment, **place, "tip": [point, tip_text]})
            parts_of_panel.append(bar)
        rows += [*parts_of_panel, *heads]
        stacked = _stacked(figure, records, parts_of_panel, hue, {"domain": [0, most], "nice": False}, height)
        charts.append(panel(stacked, title, roles, width, height or {"step": 22}, limit=width + 60))
    return finish(side_by_side(charts, columns), rows, context.width)


def _rounded(record: Record, bar: Spec, unit: str) -> Quantity | None:
    """The sum of a bar with the interval that says how many digits sentences give it; None if it has none."""
    if record.summary is None or not record.has_interval or record.unit != unit:
        return None
    return Quantity(bar["y"], unit, record.summary.ci_low, record.summary.ci_high)


def _segment_rows(parts: Mapping[str, float], fills: Mapping[str, str], scale: float, unit: str) -> list[Spec]:
    """One row per segment that is not zero. scale: pixels per unit of the values."""
    made, start = list[Spec](), 0.0
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
                "gap": bool(made) and min(v, made[-1]["end"] - made[-1]["start"]) * scale >= LEAST_BESIDE_GAP,
                "amount": text,
                "text": text if fits else "",
                "ink": ink_on(fills[name]) if fits else "",
            })  # fmt: skip
        start += v
    return made


def _stacked(
    figure: Stack, records: Sequence[Record], rows: list[Spec], hue: Spec, scale: Spec, height: int | None
) -> list[Spec]:
    """The layers of one panel: segments, hairlines for segments that are too thin to see, their labels, and totals.
    height: that of a chart of bars below their names; None if the names are beside them.
    """
    bars = [r for r in rows if r["kind"] == "point"]
    one_unit = unit(figure, "value", records[0])
    title = amount_title(figure, "value", figure.y_title, records[0])
    amount = quantitative("value", title, one_unit, numbers(bars, "y"), False)
    amount |= _time_axis(amount, one_unit) | {"scale": scale}
    amount["axis"] |= FEW_TICKS if height else {}
    present = {bar["x"] for bar in bars}
    names = [n for v in distinct(records, figure.x) if (n := label(figure.x, v)) in present]
    x_title = upright(figure.x_title or heading(figure, figure.x), 22 * len(names))
    y = down("centre", height) if height else field("x:N", title=x_title, sort=names, axis=NAMES)
    thick = {"y": down("top", height), "y2": field("bottom")} if height else {"y": y}
    part, point = "datum.kind == 'segment'", "datum.kind == 'point'"
    place = {"x": field("start:Q", **amount), "x2": field("end"), **thick, "color": hue}
    total: Spec = {"x": field("y:Q", **amount), "y": y}
    ends: Spec = {"x": field("high:Q", **amount), "y": y}
    end: Spec = {"align": "left", "fontSize": TEXT, "fill": INK}
    thin = {"x": field("start:Q"), **thick, "color": hue}
    inside = {"x": field("middle:Q"), "y": y, "text": field("text:N")}
    layers = [layer("rect", place, part) if height else layer("bar", place, part, height=BAR)]
    if any(r.get("thin") for r in rows):
        line = ("rule", {"strokeWidth": THIN}) if height else ("tick", {"thickness": THIN, "height": BAR})
        layers.append(layer(line[0], thin, part, "datum.thin", **line[1]))
    if any(r.get("gap") for r in rows):
        gap = ("rule", {"strokeWidth": 1}) if height else ("tick", {"thickness": 1, "height": BAR})
        place_of_gap = {key: channel for key, channel in thin.items() if key != "color"}
        layers.append(layer(gap[0], place_of_gap, part, "datum.gap", color="white", **gap[1]))
    for ink in (DARK, LIGHT):
        if any(r.get("ink") == ink for r in rows):
            layers.append(layer("text", inside, part, f"datum.ink == '{ink}'", fontSize=TEXT, fill=ink))
    if figure.bounds:
        whisker = {"x": field("low:Q"), "x2": field("high"), "y": y}
        layers.append(layer("rule", whisker, point, color=INK, yOffset=BELOW_LABELS))
    for test, dx in (("datum.flag == ''", 5), ("datum.flag != ''", 13)):
        layers.append(layer("text", {**ends, "text": field("text:N")}, point, test, dx=dx, **end))
    layers += [names_above(height)] if height else []
    return [*layers, *flag_marks(bars, total, point)]


def _time_axis(amount: Spec, unit: str) -> Spec:
    """Title and axis of `amount` with few ticks, each labelled in a suitable unit, as the text in the bars is."""
    if unit not in SECONDS:
        return {}
    axis = {"grid": True, "tickCount": 7, "labelExpr": f"datum.value == 0 ? '0' : {time_label(SECONDS[unit])}"}
    return {"title": without_unit(amount["title"], unit), "axis": axis}
