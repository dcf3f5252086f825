"""Renders a specification as SVG, reduced to shapes and text, or as PNG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from firsttouch.report.converter import Another, converted, converting
from firsttouch.report.embedded import embed

_TAGS = {"svg", "g", "path", "text", "tspan", "rect", "line", "circle", "defs", "clipPath", "linearGradient", "stop"}
_DROPPED = ("href", "style", "class", "base", "role")
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
_SVG = "{http://www.w3.org/2000/svg}"
MOST_OF_ANOTHER = 12
"""The most figures of a page that another process draws alone; in this one, the converter takes as long to start."""


def _clean(part: Any) -> Any:
    """The specification without the characters that XML forbids, because they abort the process inside vl-convert."""
    if isinstance(part, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", part)
    if isinstance(part, Mapping):
        return {key: _clean(inner) for key, inner in part.items()}
    return [_clean(inner) for inner in part] if isinstance(part, list | tuple) else part


def to_svg(spec: Mapping[str, Any]) -> str:
    """The figure as an SVG document of shapes and text only."""
    return sanitise(converted(_clean(spec)))


def to_svgs(specs: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """The figures as SVG of a page, each with ids of its own; '' for those without a specification. If there is another
    process, it draws them, and of many figures this one draws some: it begins with the last, the other with the first.
    """
    figures = dict(enumerate((_clean(spec) for spec in specs if spec is not None), 1))
    futures = {number: Another.submit(_of_page, spec, number) for number, spec in figures.items()}
    are_many = len(figures) > MOST_OF_ANOTHER
    images = {}
    for number in sorted(figures, reverse=are_many):
        future = futures[number]
        if are_many and future is not None and future.cancel():
            future = None
        images[number] = _result(future, figures[number], number)
    numbers = iter(sorted(images))
    return ["" if spec is None else images[next(numbers)] for spec in specs]


def _result(future: Future[str] | None, spec: dict[str, Any], number: int) -> str:
    """A figure, from the other process if that was asked. If it has ended, this process tries, which shows why."""
    if future is not None:
        with suppress(BrokenProcessPool):
            return future.result()
    return _of_page(spec, number)


def _of_page(spec: dict[str, Any], number: int) -> str:
    return sanitise(embed(converted(spec), spec, number))


def to_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """The figure as a PNG image."""
    import vl_convert

    with converting():
        image: bytes = vl_convert.vegalite_to_png(_clean(spec), scale=scale, allowed_base_urls=[])
    return image


def sanitise(svg: str) -> str:
    """The SVG reduced to allowed elements, without handlers, styles and links."""
    ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.removeprefix(_SVG) not in _TAGS:
                parent.remove(child)
        for name, text in list(parent.attrib.items()):
            plain = name.rpartition("}")[2].lower()
            outside = "url(" in text and not text.strip().startswith("url(#")
            if plain.startswith(("on", "aria")) or plain in _DROPPED or outside:
                del parent.attrib[name]
    return ElementTree.tostring(root, encoding="unicode")
