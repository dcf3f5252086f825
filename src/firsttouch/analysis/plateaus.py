"""The levels of a memory hierarchy, found in latency over size.

A curve is cut into flat pieces by dynamic programming over the logarithm of its values. Each piece pays for being
there and for its points' distance from its level; a point that belongs to no piece (the rise between two levels)
pays a fixed price instead. All prices are in octaves of latency, so they hold for 1 ns and for 1 us alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log2
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from firsttouch.records.schema import Scalar

if TYPE_CHECKING:
    import numpy as np

PIECE = 0.6
"""Price of a flat piece."""
TRANSITION = 0.25
"""Price of a point between pieces: three points that agree within 4 % are a plateau, two are not."""
OUTLIER = 0.5
"""The most that a point inside a piece pays, so that one bad point does not cut a plateau in two."""
SAME = 0.26
"""Neighbouring pieces within this (a fifth) are one level with a drift."""
MOST_LEVELS = 512
"""Levels that a piece may have, which bounds the cost of a long curve: its values, or so many of them in even steps."""
OVERSHOOT = 1.5
"""How far beyond its stated capacity a cache may still seem to reach."""

CACHES = (("l1_bytes", "L1"), ("l2_bytes", "L2"), ("l3_bytes", "L3"), ("infinity_cache_bytes", "Infinity Cache"))


class Plateau(NamedTuple):
    """One level: the smallest and largest size (bytes) measured on it, and its median latency (the curve's unit)."""

    low: int
    high: int
    value: float


def find_plateaus(sizes: Sequence[int], values: Sequence[float]) -> list[Plateau]:
    """The flat pieces of one curve, by ascending size. Sizes in any order; points of value <= 0 are ignored."""
    points = sorted((s, v) for s, v in zip(sizes, values, strict=True) if v > 0)
    pieces: list[tuple[int, int]] = []
    for piece in _cut([log2(v) for _, v in points]):
        if pieces and abs(_level(points, pieces[-1]) - _level(points, piece)) < SAME:
            piece = (pieces.pop()[0], piece[1])
        pieces.append(piece)
    return [Plateau(points[a][0], points[b - 1][0], median(v for _, v in points[a:b])) for a, b in pieces]


def _level(points: Sequence[tuple[int, float]], piece: tuple[int, int]) -> float:
    return log2(median(v for _, v in points[slice(*piece)]))


def _cut(logs: Sequence[float]) -> list[tuple[int, int]]:
    """The cheapest cutting of the curve, as half-open index ranges of its flat pieces.

    Point by point it keeps, for every level that a piece may have, the least cost of all points so far with the last
    of them in a piece at that level. That is exact while no more than MOST_LEVELS values differ, and takes
    n * MOST_LEVELS steps at most.
    """
    import numpy as np

    levels = _possible_levels(logs)
    cost, begin = np.full(len(levels), np.inf), np.zeros(len(levels), int)  # of the piece at each level
    best, starts = 0.0, []  # of all points so far; where the piece begins that ends here, -1 where none does
    for i, value in enumerate(logs):
        opens = best + PIECE < cost
        cost, begin = np.where(opens, best + PIECE, cost), np.where(opens, i, begin)
        cost += np.minimum(np.abs(levels - value), OUTLIER)
        cheapest = int(cost.argmin())
        ends = float(cost[cheapest]) < best + TRANSITION
        best = float(cost[cheapest]) if ends else best + TRANSITION
        starts.append(int(begin[cheapest]) if ends else -1)
    pieces, end = [], len(logs)
    while end > 0:
        start = starts[end - 1]
        if start >= 0:
            pieces.append((start, end))
        end = start if start >= 0 else end - 1
    return pieces[::-1]


def _possible_levels(logs: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The curve's own values: the best level of a piece is the median of its points."""
    import numpy as np

    values: np.ndarray[Any, np.dtype[np.float64]] = np.unique(np.asarray(logs, float))
    if len(values) > MOST_LEVELS:
        values = values[np.linspace(0, len(values) - 1, MOST_LEVELS).round().astype(int)]
    return values


def stated_caches(facts: Mapping[str, Scalar]) -> dict[str, int]:
    """Bytes of the caches that a device states, by name, from the first level on."""
    return {name: size for fact, name in CACHES if isinstance(size := facts.get(fact), int) and size > 0}


def name_plateaus(plateaus: Sequence[Plateau], facts: Mapping[str, Scalar]) -> list[tuple[str, Plateau]]:
    """Each plateau with the name of its level, from the capacities among a device's facts.

    A plateau belongs to the smallest cache that holds its largest size. Two in one cache are its near and far part.
    Beyond the last cache is memory, and further plateaus there are memory behind TLB misses. Without facts they are
    'level 1', 'level 2', ...
    """
    caches = list(stated_caches(facts).items())
    if len(caches) < 2:  # an L1 alone does not say where memory begins
        return [(f"level {i}", p) for i, p in enumerate(plateaus, 1)]
    levels = [next((n for n, size in caches if p.high <= size * OVERSHOOT), "memory") for p in plateaus]
    total, seen = Counter(levels), Counter[str]()
    names = []
    for level in levels:
        seen[level] += 1
        if level == "memory":
            names.append("memory" if seen[level] == 1 else "memory with TLB misses")
        elif total[level] == 2:
            names.append(f"{('near', 'far')[seen[level] - 1]} {level}")
        else:
            names.append(level if total[level] == 1 else f"{level} part {seen[level]}")
    return list(zip(names, plateaus, strict=True))
