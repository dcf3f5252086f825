"""Triangular factors and solutions: how far elements may be off, and a check row by row."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F32


def largest_error(n: int, updates: int, pivot: float) -> float:
    """How far any of n x n elements may be off, relative to its closed form, after so many updates in f32.

    The matrix has 10 on its diagonal and decays from there, and so do the errors. An update is rounded at up to 2^-21,
    half the spacing of f32 at 10. A pivot is far smaller than the elements that it was subtracted from, so that the
    errors of three remain: e[i][i] - 2 e[i][j] + e[j][j], of which the variances add up to six times one, each
    (2^-21)^2 / 3 per update. The largest of n^2 such errors is about sqrt(2 ln n^2) standard deviations, 4.8 at n = 320
    and 6.4 at 32768; one is added.
    """
    return (1 + 2 * math.sqrt(math.log(n))) * math.sqrt(6 / 3 * updates) * 2.0**-21 / pivot


def residual(a: F32, b: F32, x: F32) -> float:
    """The largest difference of both sides in the rows of an upper triangular system, relative to its terms."""

    def largest(first: int, last: int) -> float:
        terms = np.triu(a[first:last, first:].astype(np.float64)) * x[first:]
        apart, size = np.abs(terms.sum(axis=1) - b[first:last]), np.abs(terms).sum(axis=1) + np.abs(b[first:last])
        return float((apart / size).max())

    return float(np.max(in_pieces(largest, len(b), max(1, 2**20 // len(b)))))
