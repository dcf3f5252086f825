"""Finds the reach of translation caches in the cost of loads over the number of pages that are accessed.

A curve is measured at one page stride: a load from one line on each of n pages, less the cost of a load from the same
number of adjacent lines. The curve is flat while one level of the TLB holds all n translations, and rises when it no
longer does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from statistics import median
from typing import Literal, NamedTuple

from firsttouch.experiments.analysis.plateaus import Plateau, find_plateaus

RISE = 1.15
"""A point this many times above a level is beyond it. The noise of a level is smaller."""
SAME_COUNT = 1.6
"""Counts of pages within this ratio are taken as equal, because they were measured in octaves or half octaves."""


class Knee(NamedTuple):
    """Where one level of the TLB ends.

    pages: the largest measured number of pages that it still held. following: the next measured number. before: the
    cost of a load on the level. after: the cost beyond it, the median of the first three counts from twice the pages
    on, so that one bad point does not hide a knee.
    """

    pages: int
    following: int
    before: float
    after: float


def rising_plateaus(pages: Sequence[int], costs: Sequence[float]) -> list[Plateau]:
    """The flat parts of a curve, without those below an earlier one. Translation does not get cheaper with more pages,
    so the adjacent lines must have been slower than usual there.
    """
    rising: list[Plateau] = []
    for plateau in find_plateaus(pages, costs):
        if not rising or plateau.value >= rising[-1].value:
            rising.append(plateau)
    return rising


def find_knees(pages: Sequence[int], costs: Sequence[float]) -> list[Knee]:
    """The ends of a curve's flat parts, by ascending pages. The order of points is free. Costs <= 0 are ignored."""
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
    """The name of a knee. From the third on, the cause may be page tables that no longer fit the caches, not a TLB."""
    return ("L1 TLB", "L2 TLB", "third level")[place] if place < 3 else f"level {place + 1}"


def name_levels(pages: Sequence[int], costs: Sequence[float]) -> list[tuple[str, Plateau]]:
    """The flat parts of a curve with their names. Parts that end in a knee are 'L1 TLB, 64 pages', 'L2 TLB, 2048
    pages', and so on. Other parts are 'beyond the L2 TLB', or 'no knee' if the curve has none.
    """
    ends = [knee.pages for knee in find_knees(pages, costs)]
    last = f"beyond the {knee_name(len(ends) - 1)}" if ends else "no knee"
    levels = rising_plateaus(pages, costs)
    return [(f"{knee_name(ends.index(p.high))}, {p.high} pages" if p.high in ends else last, p) for p in levels]


class EffectivePage(NamedTuple):
    """The bytes that one entry of a TLB covers. bound: whether that is the size, its upper or its lower bound."""

    bytes: int
    bound: Literal["about", "at most", "at least"]


def effective_page(knees: Mapping[int, int]) -> EffectivePage | None:
    """The bytes that one TLB entry covers, or None if fewer than two strides have the knee.

    knees: the number of pages at the knee of one level, by the stride between pages. Strides below the size of an entry
    share entries: halving the stride doubles the count, and the product of count and stride is constant. From the size
    of an entry on, every page needs a separate entry, and the count no longer shrinks. The size is that product,
    divided by the count that no longer shrinks, rounded to a power of two.
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
