"""Finds the levels of a memory hierarchy in latency over size.

A curve is divided into flat segments by dynamic programming over the logarithm of its values. A segment has a fixed
cost plus the distances of its points from its level. A point outside all segments (on the rise between two levels) has
a fixed cost instead. All costs are in octaves of latency, so that they are the same for 1 ns and for 1 us.
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

SEGMENT = 0.6
"""The cost of a flat segment."""
TRANSITION = 0.25
"""The cost of a point between segments. Three points that agree within 4 % are a plateau, two are not."""
OUTLIER = 0.5
"""The largest cost of a point inside a segment, so that one bad point does not split a plateau."""
SAME = 0.26
"""Neighbouring segments whose levels differ by less than this (a fifth) are one level with a drift."""
MOST_LEVELS = 512
"""The most levels that are tried for a segment, which bounds the run time for long curves. The levels are the curve's
values, or this many of them at even steps."""
OVERSHOOT = 1.5
"""A cache may seem to hold up to this many times its stated capacity."""

CACHES = (("l1_bytes", "L1"), ("l2_bytes", "L2"), ("l3_bytes", "L3"), ("infinity_cache_bytes", "Infinity Cache"))


class Plateau(NamedTuple):
    """One level: the smallest and largest size (bytes) measured on it, and its median latency (the curve's unit)."""

    low: int
    high: int
    value: float


def find_plateaus(sizes: Sequence[int], values: Sequence[float]) -> list[Plateau]:
    """The flat segments of one curve, by ascending size. The order of the points is free; values <= 0 are ignored."""
    points = sorted((s, v) for s, v in zip(sizes, values, strict=True) if v > 0)
    segments: list[tuple[int, int]] = []
    for segment in _divide([log2(v) for _, v in points]):
        if segments and abs(_level(points, segments[-1]) - _level(points, segment)) < SAME:
            segment = (segments.pop()[0], segment[1])
        segments.append(segment)
    return [Plateau(points[a][0], points[b - 1][0], median(v for _, v in points[a:b])) for a, b in segments]


def _level(points: Sequence[tuple[int, float]], segment: tuple[int, int]) -> float:
    return log2(median(v for _, v in points[slice(*segment)]))


def _divide(logs: Sequence[float]) -> list[tuple[int, int]]:
    """The division of the curve with the least cost, as half-open index ranges of its flat segments.

    For each point and each possible level, the algorithm keeps the least cost of all points so far, with the last of
    them in a segment at that level. The result is exact if there are no more than MOST_LEVELS different values. At most
    n * MOST_LEVELS steps are needed.
    """
    import numpy as np

    levels = _possible_levels(logs)
    # For each level: the cost with an open segment at that level, and the index at which that segment begins.
    cost, begin = np.full(len(levels), np.inf), np.zeros(len(levels), int)
    # The least cost of all points so far; for each point, the begin of the segment that ends there, or -1.
    best, starts = 0.0, []
    for i, value in enumerate(logs):
        opens = best + SEGMENT < cost
        cost, begin = np.where(opens, best + SEGMENT, cost), np.where(opens, i, begin)
        cost += np.minimum(np.abs(levels - value), OUTLIER)
        cheapest = int(cost.argmin())
        ends = float(cost[cheapest]) < best + TRANSITION
        best = float(cost[cheapest]) if ends else best + TRANSITION
        starts.append(int(begin[cheapest]) if ends else -1)
    segments, end = [], len(logs)
    while end > 0:
        start = starts[end - 1]
        if start >= 0:
            segments.append((start, end))
        end = start if start >= 0 else end - 1
    return segments[::-1]


def _possible_levels(logs: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values of the curve, because the best level of a segment is the median of its points."""
    import numpy as np

    values: np.ndarray[Any, np.dtype[np.float64]] = np.unique(np.asarray(logs, float))
    if len(values) > MOST_LEVELS:
        values = values[np.linspace(0, len(values) - 1, MOST_LEVELS).round().astype(int)]
    return values


def stated_caches(facts: Mapping[str, Scalar]) -> dict[str, int]:
    """The sizes in bytes of the caches that a device states, by name, from the first level on."""
    return {name: size for fact, name in CACHES if isinstance(size := facts.get(fact), int) and size > 0}


def name_plateaus(plateaus: Sequence[Plateau], facts: Mapping[str, Scalar]) -> list[tuple[str, Plateau]]:
    """Each plateau with the name of its level, derived from the cache sizes in a device's facts.

    A plateau belongs to the smallest cache that holds its largest size. Two plateaus in one cache are its near and far
    part. Plateaus beyond the last cache are memory; from the second on, memory with TLB misses. Without facts, the
    names are 'level 1', 'level 2', ...
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
