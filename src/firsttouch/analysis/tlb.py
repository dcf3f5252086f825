"""How far translation caches reach, found in the cost of loads over the number of pages that they go to.

A curve is taken at one page stride: a line on each of n pages, and what a load of them costs beyond the same number of
lines side by side. It is flat while one level of the TLB holds all n translations, and rises where it no longer does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from statistics import median
from typing import Literal, NamedTuple

from firsttouch.analysis.plateaus import Plateau, find_plateaus

RISE = 1.15
"""A point this much above a level has left it: the level's own noise stays below."""
SAME_COUNT = 1.6
"""Counts of pages within this are one count, where they were measured in octaves or halves of octaves."""


class Knee(NamedTuple):
    """Where one level of the TLB ends.

    pages: the most pages measured that it still held; following: the next count measured; before, after: the cost of a
    load on the level, and beyond it: the median of three counts from twice the pages on, so that one bad point does not
    hide a knee.
    """

    pages: int
    following: int
    before: float
    after: float


def rising_plateaus(pages: Sequence[int], costs: Sequence[float]) -> list[Plateau]:
    """The flat parts of a curve, without those below an earlier one: more pages cost no less translation, so there the
    lines side by side were slower than usual.
    """
    found: list[Plateau] = []
    for plateau in find_plateaus(pages, costs):
        if not found or plateau.value >= found[-1].value:
            found.append(plateau)
    return found


def find_knees(pages: Sequence[int], costs: Sequence[float]) -> list[Knee]:
    """The ends of the flat parts of one curve, by ascending pages. Points in any order; costs <= 0 are ignored."""
    points = sorted((n, cost) for n, cost in zip(pages, costs, strict=True) if cost > 0)
    levels = rising_plateaus([n for n, _ in points], [cost for _, cost in points])
    knees = []
    for level in levels:
        beyond = [(n, cost) for n, cost in points if n > level.high]
        far = [cost for n, cost in beyond if n >= 2 * level.high] or [cost for _, cost in beyond[-1:]]
        if far and (after := median(far[:3])) > RISE * level.value:
            knees.append(Knee(level.high, beyond[0][0], level.value, after))
    return knees


def knee_name(place: int) -> str:
    """What a knee is called: beyond the second, it may be page tables that leave the caches instead of a TLB's end."""
    return ("L1 TLB", "L2 TLB", "third level")[place] if place < 3 else f"level {place + 1}"


def name_levels(pages: Sequence[int], costs: Sequence[float]) -> list[tuple[str, Plateau]]:
    """The flat parts of a curve with their names: 'L1 TLB, 64 pages', 'L2 TLB, 2048 pages', ... while each ends in a
    knee; one that has no end is 'beyond the L2 TLB', or 'no knee' where there is none.
    """
    ends = [knee.pages for knee in find_knees(pages, costs)]
    last = f"beyond the {knee_name(len(ends) - 1)}" if ends else "no knee"
    levels = rising_plateaus(pages, costs)
    return [(f"{knee_name(ends.index(p.high))}, {p.high} pages" if p.high in ends else last, p) for p in levels]


class EffectivePage(NamedTuple):
    """What one entry of a TLB covers: bytes, and whether that is the size, its upper or its lower bound."""

    bytes: int
    bound: Literal["about", "at most", "at least"]


def effective_page(knees: Mapping[int, int]) -> EffectivePage | None:
    """The size that one entry covers, from the pages at the same level's knee by the stride between them.

    Below the size, several strides share an entry: halving the stride doubles the count, and count times stride stays.
    From the size on every page takes an entry of its own, and the count no longer shrinks. So it is the count times the
    stride while it shrinks, over the count where it no longer does, as a power of two. None where fewer than two
    strides have the knee.
    """
    strides = sorted(knees)
    if len(strides) < 2:
        return None
    entries = knees[strides[-1]]
    shrinking = [stride for stride in strides if knees[stride] > SAME_COUNT * entries]
    if not shrinking:
        return EffectivePage(strides[0], "at most")
    covered = 2 ** round(log2(knees[shrinking[-1]] * shrinking[-1] / entries))
    return EffectivePage(strides[-1], "at least") if covered >= strides[-1] else EffectivePage(covered, "about")
