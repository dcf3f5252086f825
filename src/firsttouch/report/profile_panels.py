"""The figure of a profile: panels of lines over one axis of time, with bands behind them for the phases.

Strings of a profile enter the specification as data values and scale domains only. Lines have their names beside them
instead of a legend.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile.headline import short
from firsttouch.records.text import number
from firsttouch.report.axes import size_label
from firsttouch.report.chart import EDGES, LINE_END, finish, wrapped
from firsttouch.report.drawing import Spec
from firsttouch.report.lettering import CHARACTER, LINE, PHONE, TEXT, WIDE
from firsttouch.report.palette import GRID, INK
from firsttouch.report.vega import constant, layer
from firsttouch.report.vega import field as channel

WIDTH, OF_AXIS = 620, 62
"""Pixels of a panel, and of its axis of memory."""
MOST_READINGS = 1400
"""The most readings of a line that are drawn: the least and the most of every pixel."""
MOST_NAME = 24
MOST_BANDS = 400
ROW = 18
"""The height of a row of phases in pixels."""
MOST_KEYS = 12
"""The most phases that are named below their rows, because their bands are too short for their names."""
_SWATCH = 16
"""Pixels of a square of a phase's colour and the space after it."""
_UNSEEABLE = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)
_LONGEST_TEXT = 160
_HOVER = 80
"""The places of a line that tell their value."""
_FEW_DOTS = 40
"""Up to so many dots of a line are large."""
_LABEL = LINE + 0.5
"""The least distance in pixels of the names beside lines."""
_UNITS = ((7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (1.0, 1.0, "s"), (0.0, 1e-3, "ms"))
"""From how many seconds on an axis of time has a unit, and its length in seconds."""


@dataclass(frozen=True)
class Series:
    """A line: readings in the order of time, which hold until the next one.

    peak: the reading that is marked, with what is said about it. shows_values: whether its values are shown where it is
    pointed at.
    """

    name: str
    readings: Sequence[tuple[float, float]]
    colour: str
    width: float = 1.3
    peak: tuple[float, float] | None = None
    about: Sequence[str] = ()
    shows_values: bool = True
    label: str = ""
    """What is written at the peak, if that is not its value and its time."""
    ended: bool = False
    """The line ends with its last reading; the others go on."""
    dots: bool = False
    """Readings are too few to hold until the next one, so that they are dots."""


@dataclass(frozen=True)
class Panel:
    """Lines over one axis. key: letters and digits; unit: 'B' or '/s'."""

    key: str
    title: str
    series: Sequence[Series]
    height: int = 150
    unit: str = "B"
    span: tuple[float, float] = (0.0, 0.0)
    """Values that the axis has in any case, as where panels of several figures have one scale."""
    names: bool = True
    """Whether the names of lines are beside them."""


@dataclass(frozen=True)
class Band:
    """A phase. row: in the rows of phases above the panels; row 0 is also drawn behind them. anchor: its id."""

    name: str
    start: float
    end: float
    row: int
    colour: str
    anchor: str
    about: Sequence[str] = ()
    label: str = ""
    """What is written in it, if that is not its name."""


@dataclass(frozen=True)
class Instant:
    """A mark without a length."""

    name: str
    t: float
    anchor: str


@dataclass(frozen=True)
class MemoryFigure:
    """All that is drawn, from 0 to `until` seconds. width: of the panels in pixels."""

    panels: Sequence[Panel]
    until: float
    bands: Sequence[Band] = ()
    instants: Sequence[Instant] = ()
    width: int = WIDTH
    time: str = "time since the start"
    is_narrow: bool = False
    """Whether names of lines are in the panels, as on a phone, instead of beside them."""


def specification(figure: MemoryFigure) -> Spec:
    """The figure as a Vega-Lite specification."""
    rows: list[Spec] = []
    return finish(stacked(figure, rows), rows)


def narrow(figure: MemoryFigure) -> Spec:
    """The figure as a phone shows it."""
    rows: list[Spec] = []
    form = replace(figure, width=PHONE - EDGES - OF_AXIS, is_narrow=True)
    return finish(stacked(form, rows), rows, PHONE)


def stacked(figure: MemoryFigure, rows: list[Spec]) -> Spec:
    """The rows of phases and the panels one below another. Adds their data to `rows`."""
    scale, unit = time_unit(figure.until)
    parts = []
    if figure.bands or figure.instants:
        parts.append(_phases(figure, rows, scale))
    for i, panel in enumerate(figure.panels):
        title = f"{figure.time}, {unit}" if i == len(figure.panels) - 1 else ""
        parts.append(_panel(figure, panel, rows, scale, title))
    lines = max(len(part["title"]["text"]) for part in parts)
    return {"vconcat": parts, "spacing": 27 + LINE * (lines - 1), "bounds": "flush"}


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit of an axis of time up to `seconds`: its length in seconds, and its name."""
    return next((length, name) for least, length, name in _UNITS if seconds >= least)


def spaced(wanted: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in the same order, at least `least` apart, between low and high if there is room."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places, at = [0.0] * len(wanted), low
    for i in order:
        places[i] = at = max(wanted[i], at)
        at += least
    limit = high
    for i in reversed(order):
        places[i] = limit = min(places[i], limit)
        limit -= least
    return places


def size_ticks(low: float, high: float) -> list[float]:
    """About five ticks between two sizes, in steps of a power of two."""
    step = 2.0 ** math.ceil(math.log2(max(high - low, 5.0) / 5))
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def when(t: float) -> str:
    """A time since the start in words."""
    return format_seconds(t) if t >= 1e-6 else "0 s"


def plain(text: str, most: int = _LONGEST_TEXT) -> str:
    """Text from a target as it may be shown: without characters that are not seen, and not too long."""
    return short(_UNSEEABLE.sub("\N{REPLACEMENT CHARACTER}", text), most)


def format_amount(value: float, unit: str) -> str:
    """A value of a panel in words."""
    return format_size(value, 3) if unit == "B" else f"{number(value)} {unit}".replace(" /", "/")


# ------------------------------------------------------------------------------------------------------------ panels


def _panel(figure: MemoryFigure, panel: Panel, rows: list[Spec], scale: float, title: str) -> Spec:
    values = [value for series in panel.series for _, value in series.readings]
    low, high = min([0.0, *panel.span, *values]), max([0.0, *panel.span, *values])
    top = high + 0.2 * ((high - low) or 1.0)  # room for the text at the peak
    y_axis: Spec = {"minExtent": OF_AXIS, "maxExtent": OF_AXIS, "grid": True, "title": None}
    if panel.unit == "B":
        y_axis |= {"values": size_ticks(low, top), "labelExpr": size_label(".3")}
    else:
        y_axis |= {"tickCount": 3, "format": "~s"}
    y = channel("y:Q", title=None, scale={"domain": [low, top], "nice": False}, axis=y_axis)
    x = _time(figure.until / scale, title, ticks=4 if figure.is_narrow else 8)
    colour = channel("stroke:N", scale=None, legend=None)
    is_panel = f"datum.panel == '{panel.key}'"
    drawn = list(_rows(panel, scale, low, top, figure.until, is_narrow=figure.is_narrow))
    rows += [{**row, "panel": panel.key} for row in drawn]
    layers = [_behind(x, panel)] if figure.bands else []
    for series_number, series in enumerate(panel.series):
        mine = f"{is_panel} && datum.part == 'line' && datum.number == {series_number}"
        look: Spec = {"strokeWidth": series.width, "interpolate": "step-after"}
        kind, look = (
            ("point", {"filled": True, "size": 14 if len(series.readings) > _FEW_DOTS else 45})
            if series.dots
            else ("line", look)
        )
        layers.append(layer(kind, {"x": x, "y": y, "color": colour}, mine, **look))
    hover = {"x": x, "y": y, "opacity": constant(0), "size": constant(90)}
    layers.append(layer("point", hover, f"{is_panel} && datum.part == 'value'", filled=True))
    peaks = f"{is_panel} && datum.part == 'peak'"
    layers.append(layer("point", {"x": x, "y": y, "color": colour, "size": constant(55)}, peaks, filled=True))
    for side, align, dx in (("left", "right", -7), ("right", "left", 7)):
        is_side = f"{peaks} && datum.side == '{side}'"
        text = {"x": x, "y": y, "text": channel("text:N"), "color": constant(INK)}
        layers.append(layer("text", text, is_side, align=align, dx=dx, dy=-8, fontSize=TEXT, fontWeight="bold"))
    beside = {"x": constant(figure.width), "y": y, "text": channel("text:N"), "color": colour}
    names_of = f"{is_panel} && datum.part == 'name'"
    look = {"align": "left", "dx": 8, "fontSize": TEXT, "baseline": "middle", "clip": False}
    if figure.is_narrow:
        look |= {"align": "right", "dx": -3}
        halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
        layers.append(layer("text", {**beside, "color": constant("white")}, names_of, **look, **halo))
    layers.append(layer("text", beside, names_of, **look))
    title_lines = wrapped(plain(panel.title), figure.width + OF_AXIS)
    return {
        "layer": layers, "width": figure.width, "height": panel.height,
        "title": {"text": title_lines, "anchor": "start", "frame": "group", "fontSize": TEXT, "offset": 4},
    }  # fmt: skip


def _time(until: float, title: str, *, labels: bool = True, ticks: int = 8) -> Spec:
    axis: Spec = {"grid": False, "title": title or None, "tickCount": ticks, "format": ",~r"}
    if not title or not labels:
        axis |= {"labels": False, "ticks": False}
    return channel("x:Q", scale={"domain": [0, until or 1.0], "nice": False}, axis=axis)


def _behind(x: Spec, panel: Panel) -> Spec:
    """The bands of the phases behind a panel."""
    encoding = {
        "x": x, "x2": channel("end"), "y": constant(0), "y2": constant(panel.height),
        "color": channel("fill:N", scale=None, legend=None),
    }  # fmt: skip
    return layer("rect", encoding, "datum.part == 'band' && datum.row == 0", opacity=0.11)


def _rows(
    panel: Panel, scale: float, low: float, top: float, until: float, *, is_narrow: bool = False
) -> Iterator[Spec]:
    """The data of a panel."""
    for series_number, series in enumerate(panel.series):
        common = {"kind": "point", "stroke": series.colour, "number": series_number}
        readings = thinned(series.readings, MOST_READINGS)
        for t, value in readings if series.ended or series.dots else _held(readings, until):
            yield {**common, "part": "line", "x": t / scale, "y": value}
        if series.shows_values:
            yield from ({**common, **row} for row in _values(panel, series, scale))
        if series.peak:
            t, value = series.peak
            text = f"peak {format_amount(value, panel.unit)} at {when(t)}"
            side = "left" if t > (0.5 if is_narrow else 0.7) * until else "right"
            written = f"peak {format_amount(value, panel.unit)}" if is_narrow else text
            tip = _tip(text, series.name, *series.about)
            named = {
                "text": (series.label or written) if series.width > 1.5 else "",
                "side": side,
                "tip": [f"{panel.key}-peak-{series_number}", tip],
            }
            yield {**common, "part": "peak", "x": t / scale, "y": value, **named}
    if panel.names:
        yield from _names(panel, low, top)


def _values(panel: Panel, series: Series, scale: float) -> Iterator[Spec]:
    """Places of a line that tell their value."""
    for i, (t, value) in enumerate(thinned(series.readings, _HOVER)):
        words = _tip(format_amount(value, panel.unit), series.name, f"at {when(t)}")
        anchor = f"{panel.key}-{panel.series.index(series)}-{i}"
        yield {"part": "value", "x": t / scale, "y": value, "tip": [anchor, words]}


def _names(panel: Panel, low: float, top: float) -> Iterator[Spec]:
    """The names beside the lines, at the height of their last values where there is room."""
    shown = [series for series in panel.series if series.readings]
    per_pixel = (top - low) / panel.height
    wanted = [(top - _at_end(series)) / per_pixel for series in shown]
    for series, place in zip(shown, spaced(wanted, _LABEL, 0, panel.height), strict=True):
        yield {
            "kind": "name",
            "stroke": series.colour,
            "part": "name",
            "y": top - place * per_pixel,
            "text": plain(series.name, MOST_NAME),
        }


def _at_end(series: Series) -> float:
    """The last value of a line; if it ended, that before."""
    return series.readings[-2 if series.ended and len(series.readings) > 1 else -1][1]


def _tip(head: str, *lines: str) -> str:
    """What is told about a mark that is pointed at. Its second line is an interval, which these have none of."""
    return LINE_END.join([plain(head), "", *map(plain, lines)])


def _held(readings: Sequence[tuple[float, float]], until: float) -> Iterator[tuple[float, float]]:
    yield from readings
    if readings and readings[-1][0] < until:
        yield until, readings[-1][1]


def thinned(readings: Sequence[tuple[float, float]], most: int) -> Sequence[tuple[float, float]]:
    """At most about `most` readings, with the least and the most of every span of time."""
    if len(readings) <= most:
        return readings
    first, width = readings[0][0], (readings[-1][0] - readings[0][0]) / max(1, most // 2 - 1) or 1.0
    spans: dict[int, list[tuple[float, float]]] = {}
    for reading in readings:
        spans.setdefault(int((reading[0] - first) / width), []).append(reading)
    kept: list[tuple[float, float]] = []
    for span in spans.values():
        ends = {min(span, key=lambda r: r[1]), max(span, key=lambda r: r[1])}
        kept += sorted(ends)
    return kept


# ------------------------------------------------------------------------------------------------------------ phases


def _phases(figure: MemoryFigure, rows: list[Spec], scale: float) -> Spec:
    """The rows of phases above the panels."""
    bands = longest(figure.bands, MOST_BANDS)
    depth = max((band.row for band in bands), default=0) + 1
    height = ROW * depth + (8 if figure.instants else 0)
    keys = list(_keys(bands, figure, height, figure.until / scale / figure.width))
    rows += keys
    for band in bands:
        lines = _tip(band.name or "(no name)", *band.about)
        rows.append(
            {
                "kind": "band", "part": "band", "x": band.start / scale, "end": band.end / scale, "row": band.row,
                "y": band.row * ROW + 0.5, "y2": (band.row + 1) * ROW - 1.5, "middle": (band.row + 0.5) * ROW - 0.5,
                "fill": band.colour, "tip": [band.anchor, lines],
                "text": _written(band, figure),
            }
        )  # fmt: skip
    for instant in figure.instants:
        tip = _tip(instant.name or "(no name)", f"at {when(instant.t)}")
        rows.append({"kind": "instant", "part": "instant", "x": instant.t / scale, "tip": [instant.anchor, tip]})
    x = _time(figure.until / scale, "", labels=False)
    x["axis"] = None
    bottom = max((key["middle"] + ROW / 2 for key in keys), default=height)
    down: Spec = {"scale": {"domain": [bottom, 0], "nice": False}, "axis": None}
    box = {
        "x": x, "x2": channel("end"), "y": channel("y:Q", **down), "y2": channel("y2"),
        "color": channel("fill:N", scale=None, legend=None),
    }  # fmt: skip
    text = {"x": x, "y": channel("middle:Q", **down), "text": channel("text:N"), "color": constant(INK)}
    marks = {"x": x, "y": constant(height - 4), "color": constant(INK), "size": constant(30)}
    is_band = "datum.part == 'band'"
    key = {"x": x, "y": text["y"]}
    is_key = "datum.part == 'key'"
    return {
        "layer": [
            layer("rect", box, is_band, opacity=0.32),
            layer("text", text, f"{is_band} && datum.text != ''", align="left", dx=4, fontSize=TEXT, baseline="middle"),
            layer("point", marks, "datum.part == 'instant'", filled=True, shape="triangle-up"),
            layer("point", {**key, "color": box["color"]}, is_key, filled=True, shape="square", size=80),
            layer("text", {**key, "text": text["text"]}, is_key, align="left", dx=10, fontSize=TEXT, baseline="middle"),
        ],
        "width": figure.width, "height": bottom,
        "title": {"text": ["Phases"], "anchor": "start", "frame": "group", "fontSize": TEXT, "offset": 4},
        "view": {"stroke": GRID},
    }  # fmt: skip


def _written(band: Band, figure: MemoryFigure) -> str:
    """What is written in a band: all of its name, or nothing."""
    text = band.label or plain(band.name)
    width = (band.end - band.start) / (figure.until or 1.0) * figure.width
    return text if width > 8 + CHARACTER * len(text) else ""


def _keys(bands: Sequence[Band], figure: MemoryFigure, top: float, pixel: float) -> Iterator[Spec]:
    """The names that no band has room for, below the rows, beside a square of their colour. pixel: on the time axis."""
    written = {band.name for band in bands if _written(band, figure)}
    seconds: dict[str, float] = {}
    for band in bands:
        if band.name not in written and not band.label:
            seconds[band.name] = seconds.get(band.name, 0.0) + band.end - band.start
    kept = set(sorted(seconds, key=lambda name: -seconds[name])[:MOST_KEYS])
    colours = {band.name: band.colour for band in bands}
    x, middle = 6.0, top + ROW / 2 + 4
    for name in seconds:
        if name not in kept:
            continue
        text = plain(name, int((figure.width - _SWATCH) / WIDE))
        length = _SWATCH + WIDE * len(text) + 8
        if x > 6 and x + length > figure.width:
            x, middle = 6.0, middle + ROW
        yield {"kind": "key", "part": "key", "x": x * pixel, "middle": middle, "fill": colours[name], "text": text}
        x += length


def longest(bands: Iterable[Band], most: int) -> list[Band]:
    """At most `most` bands, the longest ones, in the order of time."""
    kept = sorted(bands, key=lambda band: band.start - band.end)[:most]
    return sorted(kept, key=lambda band: (band.start, band.row))
