"""A tridiagonal system A x = 1 in f64, to check conjugate_gradient: elements of A are functions of the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firsttouch.harness.random import F64, Values

COUPLING_DISTANCE = 24
"""Rows this far apart do not affect each other, if each row passes on less than a tenth."""


@dataclass(frozen=True)
class Tridiagonal:
    """A symmetric matrix of n rows. diagonal: its elements at some rows. coupling: those that couple rows and the rows
    below them, 0 outside of the matrix.
    """

    n: int
    diagonal: Callable[[Values], F64]
    coupling: Callable[[Values], F64]

    def residual(self, x: Values, first: int, last: int) -> tuple[float, float]:
        """The deviation of rows of A x from 1: sum of squares, and maximum."""
        links = self.coupling(np.arange(first - 1, last))
        edges = int(first == 0), int(last == self.n)
        near = np.pad(x[max(0, first - 1) : last + 1], edges).astype(np.float64)
        own = self.diagonal(np.arange(first, last)) * near[1:-1]
        off = links[:-1] * near[:-2] + own + links[1:] * near[2:] - 1
        return float(off @ off), float(np.abs(off).max())

    def solution(self, rows: Values) -> F64:
        """x at the given rows, by Thomas' elimination from both sides. Values outside the matrix are zero."""
        (left, from_left), (right, from_right) = self._swept(rows, -1), self._swept(rows, 1)
        return np.asarray((1 - from_left - from_right) / (self.diagonal(rows) - left - right))

    def _swept(self, rows: Values, sign: int) -> tuple[F64, F64]:
        """The terms that the rows on one side subtract from a row's diagonal and right-hand side."""
        taken, known = np.zeros(len(rows)), np.zeros(len(rows))
        for distance in range(COUPLING_DISTANCE, 0, -1):
            at = rows + sign * distance
            inside = (at >= 0) & (at < self.n)
            pivot = self.diagonal(at) - taken
            link = self.coupling(at if sign < 0 else at - 1)
            known = link / pivot * np.where(inside, 1 - known, 0)
            taken = link * link / pivot
        return taken, known
