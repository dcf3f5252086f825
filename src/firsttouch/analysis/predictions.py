"""How two predictions for one machine differ: what both rest on is at the same place of its range in both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from firsttouch.records.schema import PredictedTerm, Record

_Bounds: TypeAlias = tuple[float, float]
_ADDS_UP = 1e-6
"""How far the sum of terms may be from the value of its record, relative to it."""


def ratio_bounds(of: Record, to: Record) -> _Bounds | None:
    """The least and the greatest ratio of two predictions over the ranges of the values that they rest on. None unless
    both are for one platform, and both are the sum of their terms.

    A ratio of two sums is monotone in each value, so that its extremes are at bounds, and improving one value at a time
    ends at them.
    """
    if of.modelled is None or to.modelled is None or of.modelled.digest != to.modelled.digest:
        return None
    if not (_adds_up(of) and _adds_up(to)):
        return None
    upper, lower = _by_value(of.terms), _by_value(to.terms)
    shared = [(upper.get(key, (0.0, 0.0)), lower.get(key, (0.0, 0.0))) for key in dict.fromkeys([*upper, *lower])]
    return _extreme(shared, -1), _extreme(shared, 1)


def _adds_up(record: Record) -> bool:
    total = math.fsum(term.ms for term in record.terms)
    summary = record.summary
    return summary is not None and total > 0 and math.isclose(total, summary.median, rel_tol=_ADDS_UP)


def _by_value(terms: Iterable[PredictedTerm]) -> dict[tuple[str, ...], _Bounds]:
    """The sums of the bounds of terms with one price; of those that rest on no value, by what they are."""
    sums: dict[tuple[str, ...], _Bounds] = {}
    for term in terms:
        key = (*term.values,) or ("", term.what)
        low, high = sums.get(key, (0.0, 0.0))
        sums[key] = low + term.low, high + term.high
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
            other = _ratio(shared, chosen)
            if sign * (other - best) > 0:
                best, improved = other, True
            else:
                chosen[i] = 1 - chosen[i]
    return best


def _ratio(shared: Sequence[tuple[_Bounds, _Bounds]], chosen: Sequence[int]) -> float:
    above = sum(upper[at] for (upper, _), at in zip(shared, chosen, strict=True))
    below = sum(lower[at] for (_, lower), at in zip(shared, chosen, strict=True))
    return above / below if below > 0 else math.inf
