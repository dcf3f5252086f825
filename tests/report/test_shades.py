"""Colour scales: text is readable, noise does not look like a pattern, and every number has a colour."""

from __future__ import annotations

import re

import pytest

from firsttouch.report.palette import COLOURS
from firsttouch.report.shades import DIVERGING, GREYS, LIGHT, SEQUENTIAL, ink_on, shades


def luminance(rgb):
    """Relative luminance as WCAG defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    low, high = sorted(map(luminance, (a, b)))
    return (high + 0.05) / (low + 0.05)


def rgb(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


@pytest.mark.parametrize(("centre", "low"), [(None, 0.0), (None, 1e-4), (1, 0.01), (0, -40.0)])
def test_text_is_readable_on_every_colour(centre, low):
    """WCAG 2.1, 1.4.3 requires 4.5."""
    scale = shades([low, 50.0], centre)
    for i in range(101):
        value = low + (50 - low) * (i / 100) ** 3
        assert contrast(scale.colour(value), rgb(scale.ink(value))) >= 4.5


@pytest.mark.parametrize("colour", [*SEQUENTIAL, *DIVERGING, *GREYS, *COLOURS])
def test_text_is_readable_on_every_fill(colour):
    assert contrast(rgb(colour), rgb(ink_on(colour))) >= 4.5


def test_text_on_brown_is_white():
    assert shades([0.13, 7.83], 1).ink(7.83) == shades([0.13, 7.83], 1).ink(0.13) == LIGHT


def test_colours_do_not_make_patterns_of_noise():
    ends = [shades(v, c).stops for v, c in (([100.0, 101.0], None), ([0.99, 1.01], 1))]
    assert [(stops[0], stops[-1]) for stops in ends] == [(75.75, 101.0), (0.8, 1.25)]
    assert shades([0.5, 1e6], 1).cut


@pytest.mark.parametrize("values", [[0.0], [-3.0, -3.0], [1e308, -1e308], [5e-324, 1e308], [1e308], []])
@pytest.mark.parametrize("centre", [None, 0, 1, -1e300])
def test_any_numbers_have_colours(values, centre):
    scale = shades(values, centre)
    assert scale.stops == sorted(scale.stops)
    assert scale.stops[0] < scale.stops[-1]
    assert all(re.fullmatch("#[0-9a-f]{6}", scale.ink(v)) for v in values)
