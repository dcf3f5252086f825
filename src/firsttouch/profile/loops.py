"""Finds the loops of a program in the numbers of its calls, of which equal ones stand for calls that are alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from firsttouch.profile.journal import PlaceColumn

FIRST, LAST = 64, 16
"""The iterations of a loop that are looked at one by one: what a program has done before a loop changes the first ones,
and what it does after it the last ones.
"""
_WINDOW_BITS = 10
"""Loops are found by equal windows of so many calls, as a power of two: longer than what repeats within an iteration.
"""
_WINDOW = 1 << _WINDOW_BITS


class MiddleIterations(NamedTuple):
    """`times` iterations of `length` items from item `begin` on, which are as the iteration before them."""

    begin: int
    length: int
    times: int

    @property
    def end(self) -> int:
        return self.begin + self.times * self.length


def mixed(*columns: PlaceColumn) -> PlaceColumn:
    """A number of 64 bits for each row of integers, the same for equal rows and most likely for no others."""
    import numpy as np

    numbers = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        numbers ^= column.astype(np.uint64)
        numbers *= np.uint64(0x9E3779B97F4A7C15)
        numbers ^= numbers >> np.uint64(29)
    return numbers


def _distances(numbers: PlaceColumn) -> PlaceColumn:
    """How many places before each number the last equal one is; 0: there is none."""
    import numpy as np

    order = np.argsort(numbers, kind="stable")
    equal = numbers[order][1:] == numbers[order][:-1]
    found = np.zeros(len(numbers), np.int64)
    found[order[1:][equal]] = (order[1:] - order[:-1])[equal]
    return found


def middle_iterations(numbers: PlaceColumn) -> Iterator[MiddleIterations]:
    """Of each loop that has many iterations, those between the first and the last ones, in order."""
    import numpy as np

    if len(numbers) < 2 * _WINDOW:
        return
    windows = numbers
    for bit in range(_WINDOW_BITS):
        windows = mixed(windows[: -1 << bit], windows[1 << bit :])
    apart = _distances(windows)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(apart)) + 1, [len(apart)]])
    lengths = apart[edges[:-1]]
    are_long = (lengths > 0) & (np.diff(edges) + lengths + _WINDOW > (FIRST + LAST) * lengths)
    end = 0
    for place in np.flatnonzero(are_long).tolist():
        begin, stop, length = (int(number) for number in (edges[place], edges[place + 1], lengths[place]))
        begin = max(begin - length, end)
        times = (stop + _WINDOW - 1 - begin) // length - FIRST - LAST
        if times > 0:
            found = MiddleIterations(begin + FIRST * length, length, times)
            end = found.end
            yield found
