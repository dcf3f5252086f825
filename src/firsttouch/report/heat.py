"""What a heat map is made of: the colours of its values, the text of its cells and the room that they need.

Nothing here draws; figures.py does.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.report.text import SECONDS
from firsttouch.units import format_seconds, format_size

# ColorBrewer's Blues, and its blue and orange ends on both sides of white: told apart with any common colour vision.
SEQUENTIAL = ("#f3f7fc", "#c6dbef", "#7ab6dc", "#3182bd", "#0b4f94")
DIVERGING = ("#2166ac", "#92c5de", "#f7f7f7", "#fdb863", "#b35806")
DARK, LIGHT = "#000000", "#ffffff"  # on any colour one of them has a contrast of 4.5

LEAST_SPAN = 0.25
"""Colours never spread over less than this part of the largest value: noise must not look like a pattern."""
LEAST_FACTOR, MOST_FACTOR = 1.25, 8.0
"""The same of ratios, and where their colours end."""
LOGARITHMIC_FROM = 100.0
RATIO = "ratio"
HUGE = 1e150
"""No value of a stranger's file may overflow the arithmetic of a scale."""

CHARACTER, LINE, FONT_SIZE = 5.7, 11, 10
"""Pixels of one character and of one line of text in a cell."""
PAGE = 830
"""Pixels of a figure that the report shows unscaled."""


def cell_text(value: float, unit: str) -> str:
    """The value of a cell: 'B' as signed bytes, RATIO with two decimals, times in the unit that suits them.

    Anything else has three digits, and k, M, G or T where it is long.
    """
    sign, size = ("\N{MINUS SIGN}" if value < 0 else ""), abs(value)
    if value == 0:
        return "0"
    if unit == "B":
        return f"{sign or '+'}{_bytes(size)}"
    if unit == RATIO:
        return sign + (f"{size:.2f}" if 0.095 <= size < 9.995 else f"{size:.2g}" if size < 1 else _plain(size))
    return sign + (format_seconds(size * SECONDS[unit]) if unit in SECONDS else _plain(size))


def _bytes(size: float) -> str:
    number, _, unit = format_size(size).partition(" ")
    return f"{_three(float(number))} {unit}"


def _plain(size: float) -> str:
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if 1e15 > size >= scale * (10 if suffix == "k" else 1):
            return f"{_three(size / scale)}{suffix}"
    return _three(size)


def _three(size: float) -> str:
    return f"{size:.0f}" if 1000 <= size < 1e4 else f"{size:.3g}"


@dataclass(frozen=True)
class Shades:
    """A colour scale: `stops` are the values of `colours`; logarithmic between them where `log`."""

    stops: list[float]
    colours: Sequence[str]
    log: bool = False
    cut: bool = False
    """Some values lie beyond the last colour."""

    def ink(self, value: float) -> str:
        """The text colour that reads better on the colour of `value`."""
        return _ink(self._colour(value))

    def _colour(self, value: float) -> list[float]:
        scale = math.log if self.log else float
        within = min(max(value, self.stops[0]), self.stops[-1])
        place = min(bisect_right(self.stops, within), len(self.stops) - 1)
        low, high = scale(self.stops[place - 1]), scale(self.stops[place])
        part = (scale(within) - low) / (high - low)
        ends = zip(_rgb(self.colours[place - 1]), _rgb(self.colours[place]), strict=True)
        return [a + part * (b - a) for a, b in ends]


def ink_on(colour: str) -> str:
    """The text colour that reads better on a colour such as '#0072B2'."""
    return _ink(_rgb(colour))


def _ink(rgb: Sequence[float]) -> str:
    fill = _luminance(rgb)
    return DARK if _contrast(fill, _luminance(_rgb(DARK))) >= _contrast(fill, 1.0) else LIGHT


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(rgb: Sequence[float]) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def shades(values: Sequence[float], centre: float | None) -> Shades:
    """The colours of these values. Ratios, which are positive about a positive centre, diverge by their factor."""
    steps = [i / (len(SEQUENTIAL) - 1) for i in range(len(SEQUENTIAL))]
    low, high = (min(max(v, -HUGE), HUGE) for v in (min(values, default=0.0), max(values, default=0.0)))
    if centre is not None and centre > 0 and low > 0:
        factor = max(high / centre, centre / low)
        end = min(max(factor, LEAST_FACTOR), MOST_FACTOR)
        stops = [centre * end ** (2 * s - 1) for s in steps]
        return Shades(stops, DIVERGING, log=True, cut=factor > end)
    if centre is not None:
        end = max(high - centre, centre - low) or 1.0
        return Shades([centre + end * (2 * s - 1) for s in steps], DIVERGING)
    if low > 1 / HUGE and high / low >= LOGARITHMIC_FROM:
        return Shades([low * (high / low) ** s for s in steps], SEQUENTIAL, log=True)
    if low == high == 0:
        high = 1.0
    span = max(high - low, LEAST_SPAN * max(abs(low), abs(high)))
    return Shades([high - span * (1 - s) for s in steps], SEQUENTIAL)


@dataclass(frozen=True)
class Layout:
    """Pixels of one cell, in how many lines its text is, how x labels stand, and how many panels go side by side."""

    width: int
    height: int
    lines: bool
    tilted: bool
    columns: int


def layout(texts: Sequence[str], x: Sequence[str], y: Sequence[str]) -> Layout:
    """Room for every text: cells grow with it, break it at its space where the page ends, and tilt long x labels."""
    beside = min(200, round(6.2 * max(map(len, y)))) + 65
    lines = False
    width = _cell_width(texts, len(x))
    if width * len(x) + beside > PAGE and any(" " in t for t in texts):
        lines, width = True, _cell_width([part for t in texts for part in t.split(" ")], len(x))
    height = (2 if lines else 1) * LINE + 13 + (8 if len(y) <= 6 else 0)
    tilted = 6.2 * max(map(len, x)) > width - 4
    columns = max(1, (PAGE + 20) // (width * len(x) + beside + 20))
    return Layout(width, height, lines, tilted, columns)


def _cell_width(texts: Sequence[str], columns: int) -> int:
    least = 68 if columns <= 4 else 48 if columns <= 10 else 32
    return max(least, round(CHARACTER * max(map(len, texts), default=0)) + 9)
