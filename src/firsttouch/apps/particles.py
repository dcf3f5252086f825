"""Particles by ranges on several threads, to check particlefilter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F64

CHUNK = 1 << 16
"""Particles that a thread checks at a time."""


def largest(of: Callable[[int, int], F64], n: int) -> float:
    """The largest absolute value for any of n particles; NaN if one is NaN. of: a function of a range of particles."""
    return float(np.max(in_pieces(lambda a, b: np.abs(of(a, b)).max(), n, CHUNK)))


def count(of: Callable[[int, int], Any], n: int) -> int:
    """The number of particles for which a function of a range of them is true."""
    return sum(in_pieces(lambda a, b: int(np.count_nonzero(of(a, b))), n, CHUNK))


def resampled(at: F64, weight: F64, offset: float) -> F64:
    """For each new particle, the place of the first whose cumulative weight reaches its position."""
    n = len(weight)
    parts = [weight[first : first + CHUNK] for first in range(0, n, CHUNK)]
    before = np.cumsum([0, *map(np.sum, parts)])
    cdf = np.concatenate([start + np.cumsum(part) for start, part in zip(before, parts, strict=False)])

    def places(first: int, last: int) -> F64:
        chosen = np.searchsorted(cdf, (np.arange(first, last) + offset) / n)
        return np.asarray(at[:, chosen.clip(max=n - 1)])

    return np.concatenate(in_pieces(places, n, CHUNK), axis=1)
