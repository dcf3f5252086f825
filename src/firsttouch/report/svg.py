"""Renders a specification as SVG, reduced to shapes and text, or as PNG."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from firsttouch.base.errors import UsageError
from firsttouch.report.embedded import embed
from firsttouch.workers.protocol import die_with

_TAGS = {"svg", "g", "path", "text", "tspan", "rect", "line", "circle", "defs", "clipPath", "linearGradient", "stop"}
_DROPPED = ("href", "style", "class", "base", "role")
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
_SVG = "{http://www.w3.org/2000/svg}"
MOST_HERE = 12
"""The most figures of a page that one process draws; a second one takes as long to start as it saves then."""


def _clean(part: Any) -> Any:
    """The specification without the characters that XML forbids, because they abort the process inside vl-convert."""
    if isinstance(part, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", part)
    if isinstance(part, Mapping):
        return {key: _clean(inner) for key, inner in part.items()}
    return [_clean(inner) for inner in part] if isinstance(part, list | tuple) else part


@contextmanager
def _converting() -> Iterator[None]:
    """Raises UsageError if the converter fails, for example for lack of file descriptors or threads."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the converter derives from BaseException alone
        raise UsageError(f"a figure could not be drawn: {' '.join(str(error).split())}") from None


def to_svg(spec: Mapping[str, Any]) -> str:
    """The figure as an SVG document of shapes and text only."""
    return sanitise(_drawn(_clean(spec)))


def to_svgs(specs: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """The figures as SVG of a page, each with ids of its own; '' for those without a specification. Many figures are
    drawn by two processes: this one begins with the last, the other one with the first.
    """
    figures = dict(enumerate((_clean(spec) for spec in specs if spec is not None), 1))
    if len(figures) <= MOST_HERE:
        images = {number: _of_page(spec, number) for number, spec in figures.items()}
    else:
        images = _by_two(figures)
    numbers = iter(sorted(images))
    return ["" if spec is None else images[next(numbers)] for spec in specs]


def _by_two(figures: Mapping[int, dict[str, Any]]) -> dict[int, str]:
    try:
        # A new process, since the converter has threads. It ends with this one, however that ends.
        pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=die_with, initargs=(os.getpid(),))
    except (OSError, ImportError, NotImplementedError):  # no semaphores: /dev/shm is full or is not there
        return {number: _of_page(spec, number) for number, spec in figures.items()}
    images = {}
    try:
        futures = {number: pool.submit(_of_page, spec, number) for number, spec in figures.items()}
        for number in sorted(futures, reverse=True):
            future, spec = futures[number], figures[number]
            images[number] = _of_page(spec, number) if future.cancel() else _result(future, spec, number)
    finally:
        pool.shutdown(cancel_futures=True)
    return images


def _result(future: Future[str], spec: dict[str, Any], number: int) -> str:
    """The figure that the other process draws. If that has ended, this process tries, which shows why."""
    try:
        return future.result()
    except BrokenProcessPool:
        return _of_page(spec, number)


def _of_page(spec: dict[str, Any], number: int) -> str:
    return sanitise(embed(_drawn(spec), spec, number))


def _drawn(spec: dict[str, Any]) -> str:
    import vl_convert

    with _converting():
        text: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return text


def to_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """The figure as a PNG image."""
    import vl_convert

    with _converting():
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
