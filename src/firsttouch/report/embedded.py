"""Prepares the SVG of a figure for the page: less text, colours that follow the page, and data for page.js.

The script reads these attributes. Of a point: data-p, its permalink, and data-t, the lines of its description.
Of all marks: data-c and data-d, the numbers of the colour and the dash in the legends. Of an entry of a legend: data-c
or data-d.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from firsttouch.report.chart import POINTS
from firsttouch.report.lettering import TEXT
from firsttouch.report.palette import GRID, INK, SUSPECT, THROTTLED, WRONG

_SVG = "{http://www.w3.org/2000/svg}"
_PAINTS = {
    **{INK: "var(--ink)", "#000": "var(--ink)", "black": "var(--ink)", "white": "var(--paper)"},
    **{GRID: "var(--grid)", "#9aa5b1": "var(--axis)"},
    **{WRONG: "var(--red)", SUSPECT: "var(--purple)", THROTTLED: "var(--brown)"},
}
"""Colours of text, axes and flaws, which differ between light and dark pages. Those of series do not."""
_USELESS = {"role", "aria-label", "aria-hidden", "aria-roledescription", "pointer-events", "font-family", "class"}
_DEFAULTS = {
    **{"opacity": "1", "fill-opacity": "1", "stroke-opacity": "1", "font-size": f"{TEXT}px", "font-weight": "normal"},
    **{"stroke-width": "1", "stroke-miterlimit": "10", "transform": "translate(0,0)", "stroke-dasharray": "1,0"},
}
_NUMBERS = ("d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height")
_DECIMALS = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")
_DOT = re.compile(r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0")
_PLACE = re.compile(r"translate\((-?[\d.]+),(-?[\d.]+)\)")
_MARK = re.compile(r"p(\d+)")
_SERIES = re.compile(r"s(\d*)\.(\d*)")
_REFERENCE = re.compile(r"url\(#(.*)\)")
_EMPTY = re.compile(r"(M0,0)?h0v0h0Z|")


def embed(svg: str, spec: Mapping[str, Any], number: int) -> str:
    """The SVG of a figure of the page. number: tells the ids of the figures of a page apart."""
    ElementTree.register_namespace("", _SVG[1:-1])
    root = ElementTree.fromstring(svg)
    points = spec.get("usermeta", {}).get(POINTS, [])
    for group in root.iter(f"{_SVG}g"):
        if group.get("aria-roledescription") == "legend":
            _name_entries(group)
    named = [str(part.get("id")) for part in root.iter() if "id" in part.attrib]
    names = {name: f"f{number}-{i}" for i, name in enumerate(named, 1)}  # the converter numbers those of all figures
    for part in root.iter():
        _annotate(part, points)
        _simplify(part, names)
    backdrop = root.find(f"{_SVG}rect")
    if backdrop is not None and backdrop.get("fill") == "var(--paper)":
        root.remove(backdrop)
    _drop_empty(root)
    _merge_lines(root)
    root.set("font-size", str(TEXT))
    return ElementTree.tostring(root, encoding="unicode")


def _name_entries(legend: Any) -> None:
    """Numbers the entries of a legend of symbols."""
    number = 0
    for group in legend.iter(f"{_SVG}g"):
        kinds = [child.get("class", "") for child in group]
        if any("role-legend-symbol" in kind for kind in kinds) and any("role-legend-label" in kind for kind in kinds):
            dashed = any("stroke-dasharray" in part.attrib for part in group.iter())
            group.set("data-d" if dashed else "data-c", str(number))
            group.set("data-legend", "")
            number += 1


def _annotate(part: Any, points: list[Any]) -> None:
    described = part.get("aria-label") or ""
    if (match := _MARK.fullmatch(described)) and int(match[1]) < len(points):
        point = points[int(match[1])]
        for name, text in zip(("p", "t", "c", "d"), point, strict=True):
            if text != "":
                part.set(f"data-{name}", str(text))
    elif match := _SERIES.fullmatch(described):
        part.attrib.update({f"data-{name}": text for name, text in zip("cd", match.groups(), strict=True) if text})


def _simplify(part: Any, names: Mapping[str, str]) -> None:
    for name, text in list(part.attrib.items()):
        if name in _USELESS or _DEFAULTS.get(name) == text:
            del part.attrib[name]
        elif name in ("fill", "stroke", "stop-color"):
            part.set(name, _PAINTS.get(text, text))
        elif name in _NUMBERS:
            part.set(name, _DECIMALS.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text))
        elif name == "id":
            part.set(name, names[text])
        if reference := _REFERENCE.fullmatch(text):
            part.set(name, f"url(#{names.get(reference[1], '')})")
    if "stroke" not in part.attrib:
        part.attrib.pop("stroke-width", None)
    if part.tag == f"{_SVG}text" and part.get("fill") == "var(--ink)":
        del part.attrib["fill"]  # the style of the page has it
    place = _PLACE.fullmatch(part.get("transform", ""))
    if place and (dot := _DOT.fullmatch(part.get("d", ""))):
        part.tag = f"{_SVG}circle"
        del part.attrib["d"], part.attrib["transform"]
        part.attrib.update({"cx": place[1], "cy": place[2], "r": dot[1]})


def _drop_empty(parent: Any) -> None:
    """Removes what draws nothing, and groups that only hold others."""
    for child in list(parent):
        _drop_empty(child)
        nothing = child.tag == f"{_SVG}path" and _EMPTY.fullmatch(child.get("d", ""))
        unseen = child.get("display") == "none" or (child.tag == f"{_SVG}text" and child.get("opacity") == "0")
        if nothing or unseen or (child.tag == f"{_SVG}g" and not len(child)):
            parent.remove(child)
        elif child.tag == f"{_SVG}g" and not child.attrib:
            at = list(parent).index(child)
            parent.remove(child)
            for i, inner in enumerate(list(child)):
                parent.insert(at + i, inner)


def _merge_lines(parent: Any) -> None:
    """Draws adjacent plain lines of one colour, such as those of a grid, by one path."""
    last: Any = None
    for child in list(parent):
        _merge_lines(child)
        if child.tag != f"{_SVG}line" or set(child.attrib) - {"transform", "x2", "y2", "stroke"}:
            last = None
            continue
        place = _PLACE.fullmatch(child.get("transform", "translate(0,0)"))
        if not place:
            last = None
            continue
        drawn = f"M{place[1]},{place[2]}l{child.get('x2', '0')},{child.get('y2', '0')}"
        if last is not None and last.get("stroke") == child.get("stroke"):
            last.set("d", last.get("d") + drawn)
            parent.remove(child)
        else:
            child.tag, last = f"{_SVG}path", child
            stroke = child.get("stroke")
            child.attrib.clear()
            child.attrib.update({"stroke": stroke, "d": drawn} if stroke else {"d": drawn})
