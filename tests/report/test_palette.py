"""Colours: the same for an allocator or a strategy in every report, visible on light and dark pages."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from firsttouch.allocators.semantics import SEMANTICS
from firsttouch.report.palette import COLOURS, SHAPES, Palette
from firsttouch.workspace.strategies import STRATEGIES


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("factor", "table"), [("allocator", SEMANTICS), ("strategy", STRATEGIES)])
def test_a_look_does_not_depend_on_what_else_was_measured(factor, table):
    alone = [Palette().styles(factor, [name]) for name in table]
    together = Palette().styles(factor, ["from elsewhere", *table])
    looks = list(zip(*together, strict=True))[1:]
    assert looks == [(colours[0], shapes[0]) for colours, shapes in alone]
    assert len(set(looks)) == len(table) <= len(COLOURS) * len(SHAPES)


def test_every_colour_is_visible_on_light_and_dark_pages():
    papers = re.findall(r"--paper: (#\w+)", files("firsttouch.report").joinpath("page.css").read_text())
    assert len(papers) == 2
    for paper in papers:
        back = luminance(paper if len(paper) == 7 else "#" + "".join(2 * c for c in paper[1:]))
        for colour in COLOURS:
            low, high = sorted([luminance(colour), back])
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, paper)
