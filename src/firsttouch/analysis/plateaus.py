"""The levels of a memory hierarchy, found in latency over size.

A curve is cut into flat pieces by dynamic programming over the logarithm of its values. Each piece pays for being
there and for its points' distance from its median; a point that belongs to no piece (the rise between two levels)
pays a fixed price instead. All prices are in octaves of latency, so they hold for 1 ns and for 1 us alike.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log2
from statistics import median
from typing import NamedTuple

from firsttouch.schema import Scalar
from firsttouch.units import format_seconds, format_size

PIECE = 0.6
"""Price of a flat piece."""
TRANSITION = 0.25
"""Price of a point between pieces: three points that agree within 4 % are a plateau, two are not."""
OUTLIER = 0.5
"""The most that a point inside a piece pays, so that one bad point does not cut a plateau in two."""
SAME = 0.26
"""Neighbouring pieces within this (a fifth) are one level with a drift."""
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
    """The cheapest cutting of the curve, as half-open index ranges of its flat pieces."""
    cost, start = [0.0], [-1]  # of the first i points; start of the piece that ends there, -1 where i-1 is between
    for end in range(1, len(logs) + 1):
        best, choice = cost[end - 1] + TRANSITION, -1
        inside: list[float] = []
        for begin in range(end - 1, -1, -1):
            insort(inside, logs[begin])
            middle = inside[len(inside) // 2]
            price = cost[begin] + PIECE + sum(min(abs(v - middle), OUTLIER) for v in inside)
            if price < best:
                best, choice = price, begin
        cost.append(best)
        start.append(choice)
    pieces, end = [], len(logs)
    while end > 0:
        if start[end] >= 0:
            pieces.append((start[end], end))
        end = start[end] if start[end] >= 0 else end - 1
    return pieces[::-1]


def name_plateaus(plateaus: Sequence[Plateau], facts: Mapping[str, Scalar]) -> list[tuple[str, Plateau]]:
    """Each plateau with the name of its level, from the capacities among a device's facts.

    A plateau belongs to the smallest cache that holds its largest size. Two in one cache are its near and far part.
    Beyond the last cache is memory, and further plateaus there are memory behind TLB misses. Without facts they are
    'level 1', 'level 2', ...
    """
    caches = [(name, size) for fact, name in CACHES if isinstance(size := facts.get(fact), int) and size > 0]
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


def describe_plateaus(named: Sequence[tuple[str, Plateau]]) -> str:
    """'L1 17.3 ns up to 192 KiB, near L2 140 ns up to 24 MiB, memory 340 ns' of a curve in nanoseconds."""
    parts = [f"{name} {format_seconds(p.value * 1e-9)} up to {format_size(p.high)}" for name, p in named[:-1]]
    return ", ".join([*parts, *(f"{name} {format_seconds(p.value * 1e-9)}" for name, p in named[-1:])])
