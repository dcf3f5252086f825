"""Draws which interface is the fastest by size: a picture for each kind of movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from firsttouch.base.units import format_number, format_size
from firsttouch.experiments.analysis.fastest_interfaces import LEAST_WIN, MovementRow
from firsttouch.records.text import RATIO, compact, count, join_names
from firsttouch.report.chart import EDGES, LINE_END, finish, side_by_side
from firsttouch.report.drawing import Drawing, Spec, marked
from firsttouch.report.interface_answers import AnswersOfKind, InterfacesSection, ratio_text
from firsttouch.report.lettering import CHARACTER, COLUMN, PHONE, TEXT
from firsttouch.report.movements import between_whom, shared_and_own
from firsttouch.report.narrow import ABOVE, names_above_cells
from firsttouch.report.palette import Palette
from firsttouch.report.permalinks import id_of
from firsttouch.report.sentences import quantity_text
from firsttouch.report.shades import DARK, LIGHT, ink_on
from firsttouch.report.vega import constant, field, layer

MOST_STRIPS = 12
"""The most movements in one panel of a picture."""
CELL, ROW, NARROW = 52, 26, 230
"""Pixels: the width and the height of a cell of a picture, and the widest panels of which two are side by side."""
LEAST = 1.005
"""The ratio from which two decimals show a difference."""
UNCLEAR = "no clear difference"
GREY = "#b9c0c8"
_COLOURED_AS = {"copy": "engine"}
"""The factor with whose colours the figures of the experiment show interfaces, if it is not `interface`."""


def pictures(section: InterfacesSection, palette: Palette) -> list[Drawing]:
    """One picture for each kind of movement with a choice, in the forms for a page and for a phone."""
    drawn = []
    for kind in section.kinds:
        wide, narrow = (marked(picture(kind, palette, width), section.predicted) for width in (COLUMN, PHONE))
        drawn.append(replace(wide, narrow=narrow.spec))
    return drawn


def picture(parts: Sequence[AnswersOfKind], palette: Palette, page: int = COLUMN) -> Drawing:
    """The fastest interface of each movement over the size, a panel for each measure. of: parts of one kind. page: the
    width in pixels that it may have.
    """
    rows = [row for part in parts for curve in part.curves for row in curve]
    names = list(dict.fromkeys(name for row in rows for name in sorted(row.interfaces)))
    colours = dict(zip(names, palette.styles(_COLOURED_AS.get(parts[0].kind, "interface"), names)[0], strict=True))
    panels, cells, more = [], list[Spec](), 0
    for part in parts:
        panel_cells = _cells(_fullest(part.curves), part, colours)
        more = max(more, len(part.curves) - len(_fullest(part.curves)))
        panels.append(_panel(part, panel_cells, colours, page))
        cells += panel_cells
    is_narrow = max(panel["width"] for panel in panels) <= NARROW and page >= COLUMN
    chart = side_by_side(panels, 2 if is_narrow else 1)
    meaning_of_flag = {
        "": "Numbers say how many times as fast it is as the next interface.",
        "grey": f"Grey: {UNCLEAR}, since intervals overlap or it is below {LEAST_WIN} times (=), or since intervals "
        "are missing (?).",
        "pale": "Pale: no other interface has a value.",
    }
    notes = [text for flag, text in meaning_of_flag.items() if any(cell["flag"] == flag for cell in cells)]
    notes += [f"{count(more, 'more movement')} below."] if more else []
    return Drawing(f"{parts[0].title.kind}: the fastest interface by size", finish(chart, cells, page), notes=notes)


def _fullest(curves: Sequence[Sequence[MovementRow]]) -> Sequence[Sequence[MovementRow]]:
    """The movements that a picture shows: those at about as many sizes as the one at most sizes."""
    most = max(map(len, curves))
    return [rows for rows in curves if 2 * len(rows) >= most][:MOST_STRIPS]


def _cells(curves: Sequence[Sequence[MovementRow]], part: AnswersOfKind, colours: Mapping[str, str]) -> list[Spec]:
    own_conditions = shared_and_own([rows[0].conditions for rows in curves])[1]
    return [
        {
            "kind": "point",
            "panel": str(part.title),
            "x": format_size(row.size),
            "y": ", ".join(movement.values()) or part.open[0].what or between_whom(dict(rows[0].conditions)),
            "colour": row.fastest[0] if row.verdict in ("fastest", "one interface") else UNCLEAR,
            "flag": {"fastest": "", "one interface": "pale"}.get(row.verdict, "grey"),
            "ink": ink_on(colours[row.fastest[0]]) if row.verdict == "fastest" else DARK,
            "text": _in_cell(row),
            "size": row.size,
            "tip": [id_of(row.measured[0].point.key), LINE_END.join(_details(row))],
        }
        for movement, rows in zip(own_conditions, curves, strict=True)
        for row in rows
    ]


def _in_cell(row: MovementRow) -> str:
    if row.ratio is None:
        return {"one interface": "", "tie": "=", "no interval": "?"}.get(row.verdict, "")
    return f"{compact(row.ratio.value, RATIO) if row.ratio.value >= LEAST else format_number(row.ratio.value, 4)}x"


def _details(row: MovementRow) -> list[str]:
    """What the page tells about a cell: the fastest, the interval of its ratio, the size, and every interface."""
    names, between = join_names(row.fastest, "or"), ""
    if row.ratio:
        names += f", {ratio_text(row.ratio)} times as fast as {row.measured[1].interface}"
        if row.ratio.low is not None and row.ratio.high is not None:
            between = f"{format_number(row.ratio.low, 4)} to {format_number(row.ratio.high, 4)} times"
    values = [f"{value.interface} {quantity_text(value.value, interval=True)}" for value in row.measured]
    return [names, between, f"size {format_size(row.size)}", *values]


def _panel(part: AnswersOfKind, cells: Sequence[Spec], colours: Mapping[str, str], page: int) -> Spec:
    sizes = {cell["size"]: cell["x"] for cell in sorted(cells, key=lambda cell: int(cell["size"]))}
    down = list(dict.fromkeys(str(cell["y"]) for cell in cells))
    band: Spec = {"type": "band", "paddingInner": 0.06, "paddingOuter": 0}
    room = {"labelLimit": 340, "minExtent": round(min(340, CHARACTER * max(map(len, down))))}
    look: Spec = {"ticks": False, "domain": False, "grid": False, "labelPadding": 6, "labelOverlap": False}
    width = max(CELL, round(CHARACTER * max(map(len, sizes.values()))) + 6)
    angle: Spec = {"labelAngle": 0}
    row, above = ROW, list[Spec]()
    y = field("y:N", title=None, scale={**band, "domain": down}, axis={**look, **room})
    if page < COLUMN:
        row = ROW + ABOVE
        y = field("y:N", scale={**band, "domain": down, "paddingInner": ABOVE / row}, axis=None)
        above = [names_above_cells(down, y, row)]
        fitting = (page - EDGES) // len(sizes)
        angle = {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle"} if fitting < width else angle
        width = min(width, max(fitting, round(CHARACTER * max(len(cell["text"]) for cell in cells)) + 4))
    x = field("x:N", title="size", scale={**band, "domain": [*sizes.values()]}, axis={**look, **angle})
    shades = {**colours, UNCLEAR: GREY}
    hue = field("colour:N", title="fastest", scale={"domain": [*shades], "range": [*shades.values()]})
    place = {"x": x, "y": y}
    text = {**place, "text": field("text:N")}
    return {
        "layer": [
            layer("rect", {**place, "color": hue}, "datum.flag != 'pale'"),
            layer("rect", {**place, "color": hue, "opacity": constant(0.25)}, "datum.flag == 'pale'"),
            *(layer("text", text, f"datum.ink == '{ink}'", fill=ink, fontSize=TEXT) for ink in (DARK, LIGHT)),
            *above,
        ],
        "transform": [{"filter": {"field": "panel", "equal": str(part.title)}}],
        "title": {"text": part.title.measure, "anchor": "start", "fontSize": TEXT},
        "width": width * len(sizes),
        "height": row * len(down),
    }
