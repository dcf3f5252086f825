"""Bars and cells below their names, so that they have the whole width of a phone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from firsttouch.report.drawing import Spec
from firsttouch.report.lettering import CHARACTER, LINE, TEXT
from firsttouch.report.palette import INK
from firsttouch.report.vega import field, layer

BAR, BETWEEN, APART = 15, 2, 8
"""Pixels: the height of a bar, and the gaps between bars of one name and between names."""


ABOVE = LINE + 6
"""Pixels of a name above a row of cells."""


def below_names(bars: Mapping[str, Sequence[Spec]], width: int) -> tuple[list[Spec], int]:
    """Adds to each bar where it is, in pixels from the top. bars: their rows by name. Returns the rows of the names,
    and the height of it all.
    """
    names: list[Spec] = []
    at = 0
    for name, of_name in bars.items():
        lines = textwrap.wrap(name, int(width / CHARACTER)) or [""]
        names.append({"kind": "name", "text": lines, "top": at, "panel": of_name[0]["panel"]})
        at += LINE * len(lines) + BETWEEN
        for bar in of_name:
            bar |= {"top": at, "centre": at + BAR / 2, "bottom": at + BAR}
            at += BAR + BETWEEN
        at += APART
    return names, at


def names_above_cells(names: Sequence[str], rows_of_cells: Spec, row: float) -> Spec:
    """The layer of the names of rows of cells, each above its row. rows_of_cells: the vertical channel. row: its height
    with the name, in pixels.
    """
    look = {"type": "text", "aria": False, "align": "left", "baseline": "bottom", "fontSize": TEXT, "fill": INK}
    look |= {"dy": (ABOVE - row) / 2 - 3}
    place = {"x": {"value": 0}, "y": rows_of_cells, "text": field("y:N")}
    return {"data": {"values": [{"y": name} for name in names]}, "mark": look, "encoding": place}


def down(key: str, height: int) -> Spec:
    """A vertical channel of pixels from the top of a chart."""
    return field(f"{key}:Q", scale={"domain": [height, 0], "nice": False}, axis=None)


def names_above(height: int) -> Spec:
    """The layer of the names."""
    place = {"x": {"value": 0}, "y": down("top", height), "text": field("text:N")}
    look: Spec = {"align": "left", "baseline": "top", "fontSize": TEXT, "lineHeight": LINE, "fill": INK}
    return layer("text", place, "datum.kind == 'name'", **look)
