"""Helpers for tests of figures: the drawing of some records, and all text of its SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import sample

from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette
from firsttouch.report.svg import to_svg


def point(factors, median=1.0, counters=None, **more):
    return sample.point("allocation", "cpu", median, factors=factors, counters=counters or {}, **more)


def drawing_of(figure, records, device=None):
    """The drawing, or None if the figure has nothing to show."""
    return draw(figure, records, DrawingContext(device, Palette()))


def texts_of(drawing):
    """All text of the SVG. The lines of one label are joined."""
    found = ElementTree.fromstring(to_svg(drawing.spec)).iter("{http://www.w3.org/2000/svg}text")
    return [" ".join(text.itertext()) for text in found]


def drawn(figure, records):
    drawing = drawing_of(figure, records)
    assert drawing
    return drawing, texts_of(drawing)


def domains_of(part, channel):
    """The ends of the scales of a channel, such as "x", in all charts of a specification."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    found = set().union(*(domains_of(one, channel) for one in inner))
    encoded = part.get(channel) if isinstance(part, dict) else None
    scale = encoded.get("scale") if isinstance(encoded, dict) else None
    return found | {tuple(scale["domain"])} if scale and "domain" in scale else found


def rows_of(drawing, kind="point"):
    return [row for row in drawing.spec["datasets"]["rows"] if row["kind"] == kind]
