"""Colour scales of amounts, and the colour of text on them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

# ColorBrewer's Blues, and its blue and orange ends around white: distinguishable with any common colour vision.
SEQUENTIAL = ("#f3f7fc", "#c6dbef", "#7ab6dc", "#3182bd", "#0b4f94")
DIVERGING = ("#2166ac", "#92c5de", "#f7f7f7", "#fdb863", "#b35806")
GREYS = ("#fafafa", "#ececec", "#dcdcdc", "#cccccc", "#bcbcbc")
DARK, LIGHT = "#000000", "#ffffff"
READABLE = 4.5
"""The contrast of text that WCAG 2.1, 1.4.3 requires. On any colour DARK or LIGHT has it."""

LEAST_SPAN = 0.25
"""The range of colours covers at least this fraction of the largest value, so that noise does not look like a pattern.
"""
LEAST_FACTOR, MOST_FACTOR = 1.25, 8.0
"""For ratios: the factor that the range of colours covers at least and at most."""
LOGARITHMIC_FROM = 100.0
"""The ratio of the largest to the smallest value from which a scale is logarithmic."""
HUGE = 1e150
"""Larger values are clipped, so that values of an untrusted file do not overflow the arithmetic of a scale."""


@dataclass(frozen=True)
class Shades:
    """A colour scale. stops: the values of `colours`. log: whether the scale is logarithmic between them."""

    stops: list[float]
    colours: Sequence[str]
    log: bool = False
    cut: bool = False
    """True if some values lie beyond the last colour."""

    def ink(self, value: float) -> str:
        """The colour of text on the colour of `value`."""
        return _ink(self.colour(value))

    def hex(self, value: float) -> str:
        """The colour of a value as '#0072b2'."""
        return "#" + "".join(f"{round(255 * part):02x}" for part in self.colour(value))

    def colour(self, value: float) -> list[float]:
        """Red, green and blue of a value, each from 0 to 1."""
        scale = math.log if self.log else float
        within = min(max(value, self.stops[0]), self.stops[-1])
        place = min(bisect_right(self.stops, within), len(self.stops) - 1)
        low, high = scale(self.stops[place - 1]), scale(self.stops[place])
        part = (scale(within) - low) / (high - low)
        ends = zip(_rgb(self.colours[place - 1]), _rgb(self.colours[place]), strict=True)
        return [a + part * (b - a) for a, b in ends]


def ink_on(colour: str) -> str:
    """The colour of text on a colour such as '#0072B2'."""
    return _ink(_rgb(colour))


def _ink(rgb: Sequence[float]) -> str:
    """White where it has enough contrast: black of the same contrast is harder to read on brown or blue."""
    return LIGHT if _contrast(_luminance(rgb), 1.0) >= READABLE else DARK


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(rgb: Sequence[float]) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def shades(values: Sequence[float], centre: float | None) -> Shades:
    """The colour scale of these values. If values and centre are positive, it is logarithmic around the centre."""
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
