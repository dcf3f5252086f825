"""What all charts share: rows of data, marks for flawed points, panels, and the configuration."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from firsttouch.records.figures import Figure
from firsttouch.records.schema import Record
from firsttouch.records.statistics import value
from firsttouch.records.text import label, meant, named, quantity
from firsttouch.report.drawing import Spec
from firsttouch.report.lettering import CHARACTER, COLUMN, TEXT, WIDE
from firsttouch.report.naming import called, heading, unit
from firsttouch.report.palette import COLOURS, GRID, INK, SHAPES, SUSPECT, THROTTLED, WRONG, Palette
from firsttouch.report.permalinks import point_id
from firsttouch.report.points import finite, flag
from firsttouch.report.roles import Roles, condition, labels
from firsttouch.report.sentences import quantity_texts
from firsttouch.report.vega import constant, field, layer

POINTS = "points"
"""The key in `usermeta` of a specification with the permalink, text, colour and dash of each point. Colour and dash are
numbers of entries of the legends.
"""
LINE_END = "\N{BROKEN BAR}"
"""Separates the lines of the text of a point."""


def tip(
    record: Record,
    figure: Figure,
    roles: Roles,
    axes: Sequence[str],
    text: str,
    low: str = "",
    high: str = "",
    *,
    of_median: bool = True,
) -> Spec:
    """What a page tells about a mark that is pointed at: its value, interval and conditions. of_median: whether the
    value is that of the point; otherwise the point's median and interval are told too.
    """
    names = dict.fromkeys(n for n in (*axes, *roles.names) if meant(record, n) is not None)
    conditions = [named(n, value(record, n), called(figure, n)) for n in names]
    between = _span(low, high) if low != high else ""
    median_text = [] if of_median or record.summary is None else [f"median of the point {_median(record)}"]
    return {"tip": [point_id(record), LINE_END.join([text, between, *median_text, *conditions])]}


def _median(record: Record) -> str:
    """The median of a point with its interval, if it has several samples."""
    s = record.summary
    assert s is not None
    text, low, high = (quantity(v, record.unit) for v in (s.median, s.ci_low, s.ci_high))
    return f"{text} ({_span(low, high)})" if record.has_interval else text


def _span(low: str, high: str) -> str:
    """An interval, with its unit once if both ends have the same."""
    return f"{low.removesuffix(' ' + high.partition(' ')[2])} to {high}"


PADDING = {"left": 6, "top": 6, "right": 22, "bottom": 6}
"""Pixels around a figure; text at its right may be wider in the reader's font."""
EDGES = PADDING["left"] + PADDING["right"]
SPACING = 34
"""Pixels between panels."""
BESIDE_SYMBOL, COLUMN_PADDING = 22, 26
"""Pixels of the symbol of a legend's entry, and between columns of entries."""
BESIDE_NAMES, BESIDE_BARS = 52, 12
"""Pixels of the title of an axis of names, and around the text at the end of a bar."""
BESIDE_AXIS = 84
"""Pixels of a vertical axis with its title."""
LEAST_BARS, MOST_OF_PANEL, MOST_BARS = 130, 270, 560
"""Pixels: the narrowest bars of which two panels are side by side, and the widest of one of several panels and of one
alone."""
LEAST_UPRIGHT = 8
"""The characters that a line of a vertical title may have in any case."""


def row(record: Record, figure: Figure, roles: Roles, x: str, y: str) -> Spec:
    """The data of one mark. low and high are the interval of a median."""
    amount = value(record, y)
    low, high = amount, amount
    one_unit = unit(figure, y, record)
    texts = [quantity(amount, one_unit) if isinstance(amount, int | float) else ""] * 3
    if y == "median" and record.summary is not None:
        low, high = record.summary.ci_low, record.summary.ci_high
        texts = quantity_texts(record.summary.median, low, high, one_unit)
    return {
        "kind": "point",
        "x": label(x, value(record, x)),
        "y": amount,
        "low": low,
        "high": high,
        "flag": flag(record),
        "text": texts[0],
        **tip(record, figure, roles, (x,), *texts, of_median=y == "median"),
        **condition(record, figure, roles),
    }


def numbers(rows: Iterable[Spec], *keys: str, kinds: Collection[str] = ("point",)) -> list[float]:
    """The finite values of these keys in the rows of points, or of other kinds."""
    return [float(row[k]) for row in rows if row["kind"] in kinds for k in keys if finite(row[k])]


def colour(figure: Figure, roles: Roles, records: Sequence[Record], palette: Palette, *, shape: bool = False) -> Spec:
    """The colour or shape channel. Constant if no factor uses it; otherwise each value has the same style everywhere in
    the report.
    """
    if not roles.colour:
        return constant(SHAPES[0] if shape else COLOURS[0])
    values = labels(records, roles.colour)
    colours, shapes = palette.styles(roles.colour, values)
    scale = {"domain": values, "range": shapes if shape else colours}
    return field("colour:N", title=heading(figure, roles.colour), scale=scale)


def flag_marks(
    rows: Iterable[Spec], encoding: Spec, *filters: str, usable: Mapping[str, Any] | None = None
) -> list[Spec]:
    """A layer for each kind of flawed points that occurs: those that failed verification, are suspect, were throttled,
    or were disturbed by other programs.

    usable: changes the look of the marks of points whose values are shown.
    """
    looks = {
        "wrong": {"shape": "M-1,-1L1,1M1,-1L-1,1", "stroke": WRONG, "strokeWidth": 3, "size": 130},
        "suspect": {"shape": "diamond", "stroke": SUSPECT, "strokeWidth": 2, "size": 130, **(usable or {})},
        "throttled": {"shape": "triangle-up", "stroke": THROTTLED, "strokeWidth": 1.3, "size": 70, **(usable or {})},
        "disturbed": {"shape": "square", "stroke": THROTTLED, "strokeWidth": 1.3, "size": 70, **(usable or {})},
    }
    occurring = {row.get("flag") for row in rows}
    return [
        layer("point", encoding, *filters, f"datum.flag == '{kind}'", filled=False, opacity=1, **look)
        for kind, look in looks.items()
        if kind in occurring
    ]


def panel(layers: Sequence[Spec], title: str, roles: Roles, width: int, height: Any, **more: Any) -> Spec:
    """The layers for the rows of one panel, with a title if there are several panels. more: parameters of the title."""
    chart: Spec = {"layer": [*layers], "width": width, "height": height}
    if roles.panel:
        chart["transform"] = [{"filter": {"field": "panel", "equal": title}}]
        chart["title"] = {"text": wrapped(title, width), "anchor": "start", "fontSize": TEXT, **more}
    return chart


def wrapped(title: str, width: int) -> list[str]:
    """The title of a panel in lines that are not wider than the panel, broken between conditions where possible."""
    most = max(12, int(width / WIDE))
    lines = [""]
    for part in title.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(longer) <= most:
            lines[-1] = longer
        else:
            lines += textwrap.wrap(part, most)
    return [line for line in lines if line] or [""]


def upright(title: str, height: float) -> str | list[str]:
    """The title of a vertical axis, in lines that are not longer than the axis where its words permit."""
    lines = textwrap.wrap(title, max(LEAST_UPRIGHT, int(height / CHARACTER)), break_long_words=False)
    return lines if len(lines) > 1 else title


def room_for_bars(names: Sequence[str], width: int, *, panels: bool, most_of_names: float) -> tuple[int, int]:
    """The width of a chart of bars with their names beside them, and how many such charts are side by side. width: of
    all of it. most_of_names: the limit of the names' width.
    """
    beside = min(most_of_names, CHARACTER * max(map(len, names), default=0)) + BESIDE_NAMES
    if panels and (half := (width - EDGES - SPACING) / 2 - beside) >= LEAST_BARS:
        return min(MOST_OF_PANEL, int(half)), 2
    return min(MOST_BARS, int(width - EDGES - beside)), 1


def beyond_bars(most: float, texts: Sequence[str], width: int) -> float:
    """The end of an axis from 0 on which the longest bar leaves room for the text at its end."""
    room = CHARACTER * max(map(len, texts), default=0) + BESIDE_BARS
    return most / (1 - min(0.6, room / width)) or 1.0


def side_by_side(charts: Sequence[Spec], columns: int = 2) -> Spec:
    """Panels with independent axes and shared colours."""
    if len(charts) == 1:
        return charts[0]
    return {"concat": [*charts], "columns": columns, "resolve": {"scale": {"color": "shared"}}}


def finish(chart: Spec, rows: list[Spec], width: int = COLUMN) -> Spec:
    """The specification with its data and its looks. width: that a legend may have."""
    font = "Helvetica, Arial, 'Liberation Sans', sans-serif"
    axis: Spec = {"labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": "#9aa5b1"}
    axis |= {"tickColor": "#9aa5b1", "labelFontSize": TEXT, "titleFontSize": TEXT, "titleFontWeight": "normal"}
    axis |= {"labelFlush": False, "aria": False}
    legend: Spec = {"orient": "bottom", "direction": "horizontal", "labelFontSize": TEXT}
    longest = max((len(str(row.get(key, ""))) for row in rows for key in ("colour", "dash")), default=0)
    legend |= {"columns": legend_columns(longest, width), "labelLimit": width - EDGES - BESIDE_SYMBOL}
    stacked = {"bottom": {"direction": "vertical", "anchor": "start"}}
    legend |= {"titleFontSize": TEXT, "symbolSize": 80, "symbolOpacity": 1, "layout": stacked}
    legend |= {"columnPadding": COLUMN_PADDING}  # the reader's font may be wider than the font used for the layout
    domains: dict[str, list[str]] = {}
    _collect(chart, domains)
    data = {"usermeta": {POINTS: _number(rows, domains)}, "datasets": {"rows": rows}, "data": {"name": "rows"}}
    config = {
        "font": font,
        "background": "white",
        "axis": axis,
        "axisX": {"labelSeparation": 14},  # the labels may be wider in the reader's font
        "axisY": {"titlePadding": 16},
        "legend": legend,
        "header": {"labelFontSize": TEXT, "titleFontSize": TEXT},
        "title": {"fontSize": TEXT, "subtitleFontSize": TEXT},
        "text": {"fontSize": TEXT},
        "view": {"stroke": None},
        "facet": {"spacing": SPACING},
        "concat": {"spacing": SPACING},
        "padding": PADDING,
    }
    return {**chart, **data, "config": config}


def legend_columns(longest: int, width: int, most: int = 4) -> int:
    """The columns of a legend whose longest entry has so many characters."""
    return max(1, min(most, int((width - EDGES) / (CHARACTER * longest + BESIDE_SYMBOL + COLUMN_PADDING))))


def _collect(part: Any, domains: dict[str, list[str]]) -> None:
    """Collects the values of the legends by channel."""
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _collect(inner, domains)
    for channel in ("color", "strokeDash") if isinstance(part, dict) and "mark" in part else ():
        scale = part["encoding"].get(channel, {}).get("scale") or {}
        if isinstance(domain := scale.get("domain"), list):
            domains[channel] = domain


def _number(rows: list[Spec], domains: Mapping[str, list[str]]) -> list[list[Any]]:
    """Numbers the points and their series in the rows. Returns what `usermeta` tells about each point."""
    colours, dashes = ({text: i for i, text in enumerate(domains.get(c, []))} for c in ("color", "strokeDash"))
    points: list[list[Any]] = []
    for data in rows:
        hue = colours.get(str(data.get("segment") or data.get("colour", "")), "")
        dash = dashes.get(data.get("dash", ""), "")
        data["series"] = f"s{hue}.{dash}"
        if tip_of_point := data.pop("tip", None):
            data["mark"] = f"p{len(points)}"
            points.append([*tip_of_point, hue, dash])
    return points
