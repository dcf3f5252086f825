"""Draws a Heat: one cell with its value for each x and y. All panels have the same cells and the same colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.records.figures import Heat
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import distinct, group_by, value
from firsttouch.records.text import RATIO, SECONDS, compact, count, join_names, label, quantity
from firsttouch.report import points
from firsttouch.report.axes import NAMES, as_time, extent, size_label, time_label
from firsttouch.report.chart import EDGES, finish, flag_marks, panel, side_by_side, tip, upright
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import CHARACTER, COLUMN, LINE, TEXT
from firsttouch.report.naming import heading, unit, without_unit
from firsttouch.report.narrow import ABOVE, names_above_cells
from firsttouch.report.palette import WRONG
from firsttouch.report.points import finite, flag
from firsttouch.report.roles import Roles, assign, channels, condition
from firsttouch.report.sentences import WIDE
from firsttouch.report.shades import DARK, GREYS, LIGHT, MOST_FACTOR, Shades, shades
from firsttouch.report.vega import field, layer

NARROWEST, WIDEST = 32, 68
"""The least width of a cell in pixels, and the most on a phone."""
NEARLY_ALL, MOST_NAMED = 0.2, 3
"""If fewer than this share of the values, and no more than so many, are known well, a sentence says so."""
UNSURE = "~"
"""What marks a value with a wide interval."""


def draw(figure: Heat, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    shown = points.complete(points.select(figure, records), figure.z, figure.x, figure.y)
    if not shown or all(value(record, figure.z) == figure.centre for record in shown):  # such as a baseline alone
        return None
    axes = (figure.x, figure.y)
    roles = assign(shown, axes=axes, apart=axes, facet=figure.facet)
    held = points.constants(figure, shown)
    shown, more = points.first_panels(roles, shown)
    cells = [same[0] for same in group_by(shown, *roles.panel, *axes).values()]
    notes = [*_notes(figure, roles, shown, len(cells)), *held, *more, *points.flaws(cells)]
    title = figure.title
    if not title:
        x, y = figure.x_title or heading(figure, figure.x), figure.y_title or heading(figure, figure.y)
        title = f"{_z_title(figure, cells)} by {x} and {y}"
    title += channels(figure, roles, "for each")
    return Drawing(title, _chart(figure, roles, cells, context), notes=notes, wrong=points.wrong(cells))


def _notes(figure: Heat, roles: Roles, records: Sequence[Record], cells: int) -> list[str]:
    """Sentences on what a cell shows, what its colour means, and why some cells are blank."""
    scale = _shades(figure, records)
    meaning = {"median": "the median", "value": f"one counter ({figure.series.replace('{}', '…')})"}
    notes = (
        [] if figure.title else [f"Each cell shows {meaning.get(figure.z, f'the counter {figure.z}')} of one point."]
    )
    if figure.centre is not None:
        end = f", strongest from a factor of {MOST_FACTOR:g}" if scale.cut else ""
        notes.append(f"Blue is below {figure.centre:g}, orange above{end}.")
    elif scale.log:
        notes.append("Colours are on a logarithmic scale.")
    unsure = [record for record in records if _is_unsure(figure, record)]
    if unsure and _is_said_of_all(figure, records):
        known = [record for record in records if _may_be_unsure(figure, record) and record not in unsure]
        names = [f"{label(figure.y, value(r, figure.y))}, {label(figure.x, value(r, figure.x))}" for r in known]
        but = f", but for {join_names(names)}" if names else ""
        notes.append(f"No value is known to within {100 * WIDE:.0f} %{but}.")
    elif unsure:
        notes.append(f"{UNSURE}: not known to within {100 * WIDE:.0f} %.")
    if cells < len(records):
        notes.append(f"{count(len(records) - cells, 'more point')} with the same conditions, only in the table.")
    panels = group_by(records, *roles.panel).values()
    if figure.diagonal and any(_is_diagonal(figure, record) for record in records):
        notes.append(f"Grey: {figure.diagonal}, which the colours leave out.")
    if any(_is_blank(figure, panel_records, records) for panel_records in panels):
        against = ", or nothing to compare it with" if figure.z.startswith("relative") else ""
        notes.append(f"Blank cells have no value{against}.")
    return notes


def _may_be_unsure(figure: Heat, record: Record) -> bool:
    """Whether a cell is neither that of the baseline nor on a diagonal."""
    return value(record, figure.z) != figure.centre and not _is_diagonal(figure, record)


def _is_said_of_all(figure: Heat, records: Sequence[Record]) -> bool:
    """Whether so few values are well known that a sentence names these, instead of a mark in each of the others."""
    told = [record for record in records if _may_be_unsure(figure, record)]
    known = sum(not _is_unsure(figure, record) for record in told)
    return known <= MOST_NAMED and known < NEARLY_ALL * len(told)


def _is_diagonal(figure: Heat, record: Record) -> bool:
    return bool(figure.diagonal) and value(record, figure.x) == value(record, figure.y)


def _is_blank(figure: Heat, panel: Sequence[Record], records: Sequence[Record]) -> bool:
    """Whether a cell of a panel is blank; one of the diagonal is not missed where that is no part of the others."""
    shown = {(value(r, figure.x), value(r, figure.y)) for r in panel}
    across, down = distinct(records, figure.x), distinct(records, figure.y)
    return any((x, y) not in shown and not (figure.diagonal and x == y) for x in across for y in down)


def _chart(figure: Heat, roles: Roles, records: Sequence[Record], context: DrawingContext) -> Spec:
    scale, greys, one_unit = _shades(figure, records), _greys(figure, records), _z_unit(figure, records)
    x, y = (_names(name, records, alike=bool(figure.diagonal)) for name in (figure.x, figure.y))
    marks = not _is_said_of_all(figure, records)
    rows = [
        {
            "kind": "point",
            "x": x[value(record, figure.x)],
            "y": y[value(record, figure.y)],
            "flag": flag(record),
            **condition(record, figure, roles),
            **_cell(record, figure, one_unit, greys if _is_diagonal(figure, record) else scale, marks=marks),
            **({"grey": greys.hex(_amounts(figure, [record])[0])} if _is_diagonal(figure, record) else {}),
            **_tip(record, figure, roles),
        }
        for record in records
    ]
    down = [*reversed(y.values())] if all(map(finite, y)) else [*y.values()]
    titles = dict.fromkeys(str(data["panel"]) for data in rows)
    panels_beside = len(titles) if figure.diagonal else 1
    room = layout([data["text"] for data in rows], [*x.values()], down, panels_beside, context.width)
    if room.broken:
        x = {v: broken(text) for v, text in x.items()}
    for data in rows:
        data["x"] = broken(str(data["x"])) if room.broken else data["x"]
        data["text"] = data["text"].split(" ") if room.lines else data["text"]
    across = _band("x", figure.x_title or heading(figure, figure.x), [*x.values()], room)
    width, height = room.width * len(x), room.height * len(y)
    beside = _band("y", upright(figure.y_title or heading(figure, figure.y), height), down, room)
    layers = _cells(rows, {"x": across, "y": beside}, _legend(figure, records, scale, context), room)
    layers += [names_above_cells(down, beside, room.height)] if room.above else []
    panels = [panel(layers, title, roles, width, height, limit=width + 60) for title in titles]
    return finish(side_by_side(panels, room.columns), rows, context.width)


def _cells(rows: Sequence[Spec], place: Spec, hue: Spec, room: HeatLayout) -> list[Spec]:
    """The layers of a heat map. A cell that failed verification has neither colour nor text, so that nobody uses it."""
    is_wrong, right = "datum.flag == 'wrong'", "datum.flag != 'wrong'"
    look: Spec = {"fontSize": TEXT, "lineHeight": LINE, "dy": -LINE / 2 if room.lines else 0}
    corner = {"xOffset": 5 - room.width / 2, "yOffset": 5 - (room.height - room.above) / 2, "fill": "white", "size": 26}
    text = {**place, "text": field("text:N")}
    has_wrong = any(r["flag"] == "wrong" for r in rows)
    blank = [layer("rect", place, is_wrong, fill="white", stroke=WRONG)] if has_wrong else []
    grey = {**place, "fill": field("grey:N", scale=None, legend=None)}
    has_grey = any("grey" in r for r in rows)
    coloured = [right, "!isValid(datum.grey)"] if has_grey else [right]
    return [
        *blank,
        layer("rect", {**place, "color": hue}, *coloured),
        *([layer("rect", grey, right, "isValid(datum.grey)")] if has_grey else []),
        *(
            layer("text", text, right, f"datum.ink == '{ink}'", **look, fill=ink)
            for ink in (DARK, LIGHT)
            if any(r["ink"] == ink for r in rows)
        ),
        *flag_marks(rows, place, usable=corner),
    ]


def _cell(record: Record, figure: Heat, unit: str, scale: Shades, *, marks: bool) -> Spec:
    """marks: whether it has a mark if its value is not well known."""
    z = value(record, figure.z)
    assert isinstance(z, int | float)
    mark = UNSURE if marks and _is_unsure(figure, record) else ""
    return {"z": z, "text": f"{mark}{compact(z, unit)}", "ink": scale.ink(z)}


def _is_unsure(figure: Heat, record: Record) -> bool:
    """Whether half of a value's interval is more than WIDE of it, or the interval is not known: of one sample."""
    z, s = value(record, figure.z), record.summary
    if not isinstance(z, int | float) or s is None or not (figure.z == "median" or figure.centre is not None):
        return False
    if z == figure.centre:  # the cell of the baseline
        return False
    bounds = _bounds(figure, record)
    return not record.has_interval or (bounds is not None and bounds[1] - bounds[0] > 2 * WIDE * abs(z))


def _bounds(figure: Heat, record: Record) -> tuple[float, float] | None:
    """The interval of a cell's value: of a median, or of a ratio by its own bounds, or else by those of its point."""
    s, z = record.summary, value(record, figure.z)
    if s is None or not isinstance(z, int | float):
        return None
    if figure.z == "median":
        return s.ci_low, s.ci_high
    own_bounds = [value(record, f"{figure.z}_{end}") for end in ("low", "high")]
    if all(map(finite, own_bounds)):
        return float(own_bounds[0]), float(own_bounds[1])  # type: ignore[arg-type]
    return (z * s.ci_low / s.median, z * s.ci_high / s.median) if figure.centre is not None and s.median else None


def _tip(record: Record, figure: Heat, roles: Roles) -> Spec:
    """What the page tells about a cell, with more digits than the cell has room for."""
    one_unit, bounds = unit(figure, figure.z, record), _bounds(figure, record)
    amounts = [value(record, figure.z), *(bounds if bounds and record.has_interval else ())]
    texts = [quantity(v, one_unit) if isinstance(v, int | float) else "" for v in amounts]
    return tip(record, figure, roles, (figure.x, figure.y), *texts, of_median=figure.z == "median")


def _shades(figure: Heat, records: Sequence[Record]) -> Shades:
    """The colour scale of the values that are neither wrong nor suspect nor on a diagonal, if there are any."""
    right = [r for r in records if flag(r) != "wrong"]
    right = [r for r in right if not _is_diagonal(figure, r)] or right
    return shades(_amounts(figure, [r for r in right if not r.suspect] or right), figure.centre)


def _greys(figure: Heat, records: Sequence[Record]) -> Shades:
    """The grey scale of the diagonal."""
    scale = shades(_amounts(figure, [r for r in records if _is_diagonal(figure, r)]), None)
    return Shades(scale.stops, GREYS, log=scale.log)


def _amounts(figure: Heat, records: Iterable[Record]) -> list[float]:
    return [float(z) for r in records if isinstance(z := value(r, figure.z), int | float)]


def _z_unit(figure: Heat, records: Sequence[Record]) -> str:
    """The unit of the text in cells: as declared; otherwise RATIO if the centre is 1, or a time if numbers would be
    long.
    """
    head = unit(figure, figure.z, records[0]).partition(" ")[0]
    plain = RATIO if figure.centre == 1 else ""
    return figure.z_unit or plain or (head if as_time(head, _amounts(figure, records)) else "")


def _z_title(figure: Heat, records: Sequence[Record]) -> str:
    median = f"median, {records[0].unit}".rstrip(", ")
    title = figure.z_title or (median if figure.z == "median" else heading(figure, figure.z))
    return without_unit(title, z_unit) if (z_unit := _z_unit(figure, records)) in SECONDS else title


def _names(name: str, records: Sequence[Record], *, alike: bool) -> dict[Scalar, str]:
    """The labels of an ordinal axis. Values with equal labels are written with all digits. alike: both axes have the
    same names, which are in the order of the numbers in them.
    """
    values = sorted(distinct(records, name), key=_in_order) if alike else distinct(records, name)
    labels = [label(name, v) for v in values]
    return {v: repr(v) if labels.count(text) > 1 else text for v, text in zip(values, labels, strict=True)}


def _in_order(name: Scalar) -> list[tuple[int, str]]:
    """Sorts cuda:10 behind cuda:9."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]{1,9})", str(name))]


def _band(channel: str, title: str | list[str], names: list[str], room: HeatLayout) -> Spec:
    look: Spec = {
        "ticks": False,
        "domain": False,
        "grid": False,
        "labelPadding": 6,
        "labelLimit": NAMES["labelLimit"],
        "maxExtent": 330,
    }
    if channel == "y":
        look |= NAMES | extent(names, NAMES["labelLimit"])
    if channel == "x" and room.tilted:
        align = "right" if room.above else "left"
        look |= {"labelAngle": -40, "labelAlign": align, "labelBaseline": "middle", "labelLimit": 150}
        look |= {"titlePadding": 14}
    elif channel == "x":
        look |= {"labelAngle": 0} | ({"labelExpr": "split(datum.label, '\\n')"} if room.broken else {})
    if channel == "x" and not room.above:  # on the first screen of a long map too
        lines = 0 if room.tilted else max(name.count("\n") for name in names)
        look |= {"orient": "top", "labelPadding": look["labelPadding"] + lines * LINE}
    inner = room.above / room.height if channel == "y" and room.above else 0.04
    scale = {"type": "band", "domain": names, "paddingInner": inner, "paddingOuter": 0}
    if channel == "y" and room.above:
        return field("y:N", scale=scale, axis=None)
    return field(f"{channel}:N", title=title, scale=scale, axis={**look, "labelOverlap": False})


def _legend(figure: Heat, records: Sequence[Record], scale: Shades, context: DrawingContext) -> Spec:
    """The colour channel of a heat map, with a colour bar."""
    unit, ends = _z_unit(figure, records), [scale.stops[0], scale.stops[-1]]
    stops = scale.stops[::2] if context.is_narrow else scale.stops
    look: Spec = {"gradientLength": min(400, context.width - 2 * EDGES), "gradientThickness": 10}
    look |= {"titleLimit": min(560, context.width - 2 * EDGES), "format": ".3~s"}
    if unit == "B":
        look |= {"labelExpr": size_label(".3"), "values": stops}
    elif unit in SECONDS:
        look |= {"labelExpr": time_label(SECONDS[unit])}
    elif max(map(abs, ends)) < 1000:
        look |= {"format": ".2~f" if unit == RATIO else ".3~r"}
    if scale.log:
        look |= {"values": stops}
    kind = {"type": "log" if scale.log else "linear", "domain": scale.stops, "range": [*scale.colours]}
    kinds = {**kind, "interpolate": "rgb", "clamp": True, "nice": False}
    return field("z:Q", title=_z_title(figure, records), scale=kinds, legend=look)


@dataclass(frozen=True)
class HeatLayout:
    """The layout of a heat map.

    width, height: of one cell, in pixels. lines: text is broken into two lines. tilted: x labels are tilted. broken:
    they are broken into lines. columns: the number of panels in a row. above: pixels above each row of cells for its
    name; 0 if names are beside them.
    """

    width: int
    height: int
    lines: bool
    tilted: bool
    broken: bool
    columns: int
    above: int = 0


def layout(texts: Sequence[str], x: Sequence[str], y: Sequence[str], panels: int = 1, page: int = COLUMN) -> HeatLayout:
    """Chooses a layout with room for every text. Cells grow with their text; if the page is too narrow, the text is
    broken at its space. Long x labels are broken into lines where there is room, and tilted otherwise. Cells are as
    narrow as their text if two panels then have room side by side.
    """
    if page < COLUMN:
        return _narrow(texts, x, page)
    outside = min(NAMES["labelLimit"], round(CHARACTER * max(map(len, y)))) + 70
    lines = False
    width = _cell_width(texts, len(x))
    if width * len(x) + outside > page and any(" " in t for t in texts):
        lines, width = True, _cell_width([part for t in texts for part in t.split(" ")], len(x))
    narrow = min(width, _cell_width(texts, len(x), NARROWEST))
    beside = panels > 1 and _columns(width, len(x), outside, page) < _columns(narrow, len(x), outside, page) == 2
    width = narrow if beside else width
    height = (2 if lines else 1) * LINE + 13 + (8 if len(y) <= 6 else 0)
    tilted = CHARACTER * max(map(len, x)) > width - 4
    parted = max(width, round(CHARACTER * max(len(part) for name in x for part in broken(name).split("\n"))) + 8)
    if in_lines := tilted and not beside and parted * len(x) + outside <= page:
        width, tilted = parted, False
    return HeatLayout(width, height, lines, tilted, in_lines, _columns(width, len(x), outside, page))


def _narrow(texts: Sequence[str], x: Sequence[str], page: int) -> HeatLayout:
    """A layout for a phone: names above their cells, which have the whole width if they fit in it."""
    room = (page - EDGES) // len(x)
    lines = _cell_width(texts, len(x), NARROWEST) > room and any(" " in t for t in texts)
    parts = [part for t in texts for part in t.split(" ")] if lines else texts
    width = max(_cell_width(parts, len(x), NARROWEST), min(room, WIDEST))
    parted = max(len(part) for name in x for part in broken(name).split("\n"))
    fits, fits_broken = (CHARACTER * most <= width - 4 for most in (max(map(len, x)), parted))
    height = (2 if lines else 1) * LINE + 9 + ABOVE
    return HeatLayout(width, height, lines, not fits_broken, fits_broken and not fits, 1, ABOVE)


def _columns(width: int, cells: int, outside: int, page: int) -> int:
    """How many panels the page has room for side by side."""
    return max(1, (page + 20) // (width * cells + outside + 20))


def broken(name: str) -> str:
    """A name in two lines, the second from its first + or - on."""
    return re.sub(r"(?<=\w)(?=[+-])", "\n", name, count=1)


def _cell_width(texts: Sequence[str], columns: int, least: int = 0) -> int:
    least = least or (68 if columns <= 4 else 48 if columns <= 10 else NARROWEST)
    return max(least, round(CHARACTER * max(map(len, texts), default=0)) + 9)
