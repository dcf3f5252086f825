"""Solutions of triangular systems, checked row by row."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F32


def residual(a: F32, b: F32, x: F32) -> float:
    """The largest difference of both sides in the rows of an upper triangular system, relative to its terms."""

    def largest(first: int, last: int) -> float:
        terms = np.triu(a[first:last, first:].astype(np.float64)) * x[first:]
        apart, size = np.abs(terms.sum(axis=1) - b[first:last]), np.abs(terms).sum(axis=1) + np.abs(b[first:last])
        return float((apart / size).max())

    return float(np.max(in_pieces(largest, len(b), max(1, 2**20 // len(b)))))
