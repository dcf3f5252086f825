"""Colours: the same for an allocator or a strategy in every report, visible on light and dark pages."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from firsttouch.harness.measure import PHASES
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.program.strategies import STRATEGIES
from firsttouch.report.palette import COLOURS, SHAPES, Palette


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("factor", "table"), [("allocator", SEMANTICS), ("strategy", STRATEGIES), ("phase", PHASES)])
def test_a_look_does_not_depend_on_what_else_was_measured(factor, table):
    alone = [Palette().styles(factor, [name]) for name in table]
    together = Palette().styles(factor, ["from elsewhere", *table])
    looks = list(zip(*together, strict=True))[1:]
    assert looks == [(colours[0], shapes[0]) for colours, shapes in alone]
    assert len(set(looks)) == len(table) <= len(COLOURS) * len(SHAPES)


def contrast(a, b):
    low, high = sorted(luminance(c if len(c) == 7 else "#" + "".join(2 * digit for digit in c[1:])) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_the_contrast_of_wcag_aa(dark):
    """Success criteria 1.4.3, and 1.4.11 for what is no text."""
    style = files("firsttouch.report").joinpath("page.css").read_text()
    light, night = (
        dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in style.split("prefers-color-scheme: dark")[:2]
    )
    colours = night if dark else light
    assert {"paper", "ink", "tint", "mark"} <= set(colours)
    texts = ("ink", "soft", "link", "red", "brown", "purple", "zero")
    pairs = [(text, back) for back in ("paper", "tint") for text in texts if (text, back) != ("zero", "tint")]
    pairs += [(text, f"{tint}-tint") for tint in ("red", "brown") for text in ("ink", "soft", tint)]
    pairs += [("ink", "mark"), ("soft", "mark"), ("link", "mark")]
    assert [p for p in pairs if contrast(*(colours[name] for name in p)) < 4.5] == []
    assert contrast(colours["axis"], colours["paper"]) >= 3


def test_every_colour_is_visible_on_light_and_dark_pages():
    papers = re.findall(r"--paper: (#\w+)", files("firsttouch.report").joinpath("page.css").read_text())
    assert len(papers) == 2
    for paper in papers:
        back = luminance(paper if len(paper) == 7 else "#" + "".join(2 * c for c in paper[1:]))
        for colour in COLOURS:
            low, high = sorted([luminance(colour), back])
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, paper)
