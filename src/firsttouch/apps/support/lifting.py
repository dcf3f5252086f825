"""One inverse step of the wavelet transforms 5/3 and 9/7 in numpy, to check dwt2d."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.random import Values

LIFTS, GAIN = (-1.586134342, -0.05298011854, 0.8829110762, 0.4435068522), 1.230174104914


def join(low: Values, high: Values, axis: int = 0) -> Values:
    """The values of two bands along an axis, with mirrored ends. Floating-point bands are those of 9/7."""
    even, odd = np.moveaxis(low, axis, 0).copy(), np.moveaxis(high, axis, 0).copy()
    if len(odd) == 0:
        return low

    def even_neighbours() -> Values:
        after = np.concatenate((even[1:], even[-1:]))
        return np.asarray(even[: len(odd)] + after[: len(odd)])

    def odd_neighbours() -> Values:
        before, after = np.concatenate((odd[:1], odd)), np.concatenate((odd, odd[-1:]))
        return np.asarray(before[: len(even)] + after[: len(even)])

    if even.dtype.kind == "f":
        even *= GAIN
        odd /= GAIN
        for k in (3, 1):
            even -= LIFTS[k] * odd_neighbours()
            odd -= LIFTS[k - 1] * even_neighbours()
    else:
        even -= (odd_neighbours() + 2) >> 2
        odd += even_neighbours() >> 1
    joined = np.empty((len(even) + len(odd), *even.shape[1:]), even.dtype)
    joined[::2], joined[1::2] = even, odd
    return np.moveaxis(joined, 0, axis)
