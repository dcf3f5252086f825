"""How two predictions for one machine differ: what both rest on is at the same place of its range in both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from firsttouch.records.schema import PredictedTerm, Record

_Bounds: TypeAlias = tuple[float, float]
Share: TypeAlias = tuple[tuple[str, ...], float, float]
"""A part of a sum: the names of the values that it rests on (or its own, if it rests on none), and its bounds."""
_ROUNDING = 1e-9
"""How far the ratio of sums of the same terms, in another order, may be from 1."""
_ADDS_UP = 1e-6
"""How far the sum of terms may be from the value of its record, relative to it."""


def ratio_bounds(numerator: Record, denominator: Record) -> _Bounds | None:
    """The least and the greatest ratio of two predictions over the ranges of the values that they rest on. None unless
    both are for one platform, and both are the sum of their terms.

    A ratio of two sums is monotone in each value, so that its extremes are at bounds, and improving one value at a time
    ends at them.
    """
    if (
        numerator.modelled is None
        or denominator.modelled is None
        or numerator.modelled.digest != denominator.modelled.digest
    ):
        return None
    if not (_adds_up(numerator) and _adds_up(denominator)):
        return None
    return bounds_of_sums(map(_share, numerator.terms), map(_share, denominator.terms))


def bounds_of_sums(numerator: Iterable[Share], denominator: Iterable[Share]) -> _Bounds:
    """The least and the greatest ratio of two sums of shares, where shares of one key are at one place of their range
    in both.
    """
    upper, lower = _by_key(numerator), _by_key(denominator)
    shared = [(upper.get(key, (0.0, 0.0)), lower.get(key, (0.0, 0.0))) for key in dict.fromkeys([*upper, *lower])]
    return _extreme(shared, -1), _extreme(shared, 1)


def _adds_up(record: Record) -> bool:
    total = math.fsum(term.ms for term in record.terms)
    summary = record.summary
    return summary is not None and total > 0 and math.isclose(total, summary.median, rel_tol=_ADDS_UP)


def is_one_less(bounds: _Bounds) -> bool:
    """Whether the bounds of a ratio say that one of the two is the lower."""
    return bounds[1] < 1 - _ROUNDING or bounds[0] > 1 + _ROUNDING


def _share(term: PredictedTerm) -> Share:
    return (*term.values,) or ("", term.what), term.low, term.high


def _by_key(shares: Iterable[Share]) -> dict[tuple[str, ...], _Bounds]:
    sums: dict[tuple[str, ...], _Bounds] = {}
    for key, low, high in shares:
        before = sums.get(key, (0.0, 0.0))
        sums[key] = before[0] + low, before[1] + high
    return sums


def _extreme(shared: Sequence[tuple[_Bounds, _Bounds]], sign: int) -> float:
    """The greatest ratio of the sums of the first to those of the second if sign is 1, the least if it is -1."""
    chosen = [0] * len(shared)
    best = _ratio(shared, chosen)
    improved = True
    while improved:
        improved = False
        for i in range(len(shared)):
            chosen[i] = 1 - chosen[i]
            candidate = _ratio(shared, chosen)
            if sign * (candidate - best) > 0:
                best, improved = candidate, True
            else:
                chosen[i] = 1 - chosen[i]
    return best


def _ratio(shared: Sequence[tuple[_Bounds, _Bounds]], chosen: Sequence[int]) -> float:
    above = sum(upper[at] for (upper, _), at in zip(shared, chosen, strict=True))
    below = sum(lower[at] for (_, lower), at in zip(shared, chosen, strict=True))
    return above / below if below > 0 else math.inf
