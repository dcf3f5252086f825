"""The particles that outweigh all others, followed from frame to frame by particlefilter's check."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F64, I64, normal_f64

CHUNK = 1 << 17
"""Particles that a thread checks at a time."""
NEGLIGIBLE = 2.0**-90
"""Of the largest weight. 2^35 particles of this weight together change no sum that includes the largest."""


def rounded(weight: F64) -> F64:
    """To 24 bits, as in particlefilter.c."""
    return np.asarray((weight + 2.0**29 * weight) - 2.0**29 * weight)


@dataclass(frozen=True)
class Frame:
    """A frame in which n particles are moved by the noise of two keys and weighted by their pixels."""

    number: int
    n: int
    keys: tuple[int, int]
    weights: F64
    """By row and column, from `border` pixels outside of the film."""
    border: int

    def moved(self, axis: int, was: F64, i: I64) -> F64:
        step, spread = ((1, 5), (-2, 2))[axis]
        return np.asarray(was + (step + spread * normal_f64(self.keys[axis], self.number * self.n + i)))

    def pixel(self, axis: int, at: F64) -> I64:
        """Columns (axis 0) or rows of `weights`."""
        return np.asarray((np.rint(at).astype(int) + self.border).clip(0, self.weights.shape[1 - axis] - 1))


@dataclass(frozen=True)
class Particles:
    """Those of n particles that are not negligible, in order: x and y, and the share of all weight up to each."""

    at: F64
    weight: F64
    reach: F64

    @classmethod
    def of(cls, at: F64, weight: F64) -> Particles:
        total = np.cumsum(weight)
        return cls(at, weight, total / total[-1])

    def chosen(self, n: int, offset: float, first: int, last: int) -> I64:
        """Which of these the new particles first to last of n become: the first whose reach is (i + offset) / n."""
        u = (np.arange(first, last) + offset) / n
        low, high = np.searchsorted(self.reach, u[[0, -1]])
        ends = np.searchsorted(u, self.reach[low:high], side="right")
        return np.repeat(np.arange(low, high + 1), np.diff(ends, prepend=0, append=len(u)))

    def after(self, frame: Frame, offset: float) -> Particles:
        """Resampled, moved and weighted."""

        def move(first: int, last: int) -> F64:
            i, origin = np.arange(first, last), self.chosen(frame.n, offset, first, last)
            x = frame.moved(0, self.at[0, origin], i)
            near = np.flatnonzero(columns[frame.pixel(0, x)])
            x, y = x[near], frame.moved(1, self.at[1, origin[near]], i[near])
            weight = frame.weights[frame.pixel(1, y), frame.pixel(0, x)]
            return np.stack((x, y, weight))[:, weight >= least]

        most = frame.weights.max()
        for least in (2.0**-10 * NEGLIGIBLE * most, 0.0):  # all, if none of few particles has a pixel of much weight
            columns = np.asarray((frame.weights >= least).any(axis=0))
            x, y, weight = np.concatenate(in_pieces(move, frame.n, CHUNK), axis=1)
            if weight.max(initial=0) >= 2.0**-10 * most:
                break
        return self.of(np.stack((x, y)), weight)

    def errors(self, frame: Frame, offset: float, at: tuple[F64, F64], weight: F64) -> tuple[float, float, float]:
        """Of all n particles after the next frame: the largest of a place; the smallest and the largest quotient of
        weights, found by right.
        """

        def compare(first: int, last: int) -> tuple[float, float, float]:
            i, origin = np.arange(first, last), self.chosen(frame.n, offset, first, last)
            x, y = (frame.moved(axis, self.at[axis, origin], i) for axis in (0, 1))
            apart = np.maximum(np.abs(at[0][first:last] - x), np.abs(at[1][first:last] - y))
            quotient = weight[first:last] / frame.weights[frame.pixel(1, y), frame.pixel(0, x)]
            return apart.max(), quotient.min(), quotient.max()

        apart, smallest, largest = np.array(in_pieces(compare, frame.n, CHUNK)).T
        return float(apart.max()), float(smallest.min()), float(largest.max())

    def misplaced(self, n: int, offset: float, at: tuple[F64, F64]) -> int:
        """How many of n particles resampled from these are elsewhere."""

        def count(first: int, last: int) -> int:
            right = self.at[:, self.chosen(n, offset, first, last)]
            near = [np.abs(position[first:last] - axis) <= 1e-9 for position, axis in zip(at, right, strict=True)]
            return last - first - int(np.count_nonzero(near[0] & near[1]))

        return sum(in_pieces(count, n, CHUNK))
