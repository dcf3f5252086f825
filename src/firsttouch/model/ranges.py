"""The range of an estimated difference: how far measured differences of two strategies lay from their estimates.

What both strategies have in common cancels. An estimate is then off by a share of all that differs and of the lesser of
the two times, and by a few ms: what a process, a machine and the model itself contribute. The shares are chosen so that
the ranges hold as often as they say for applications of visits, programs and cards that had no part in them: conformal
prediction, whose residuals are relative to these times (docs/model.md has the rates, by size). The prices' own
intervals, and the ranges of a platform's values, count where they are wider.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.model.costs import PlatformValue
from firsttouch.model.terms import Term
from firsttouch.records.text import percent

LEAST_MS = 20.0
"""For a range, times count as so many ms more than they are, but no more than double."""
ORDER, ORDER_MS = 0.15, 3.0
"""The order of two strategies is told if they differ by more than this share of what differs, which counts as so many
ms more: 19 of 20 pairs of applications' strategies that are told apart by it have that order.
"""


@dataclass(frozen=True)
class Accuracy:
    """How right estimates by one kind of prices are. share: of what differs and of the lesser time. level: how often a
    range holds, in words. rate: the same as a part of one.
    """

    share: float
    level: str
    rate: float


OF_RUNS = Accuracy(0.15, "8 of 10", 0.8)
"""Prices of a run, for applications of other visits."""
OF_PLATFORMS = Accuracy(0.20, "9 of 10", 0.9)
"""Prices of a platform file."""
OF_ANOTHER_RUN = Accuracy(0.15, "8 of 10", 0.8)
"""Times of an application in another run on a machine of the kind: a share of the time and of 20 ms."""
OF_TRACES = Accuracy(0.55, "8 of 10", 0.8)
"""Of what memory adds to a traced program: of all of it, which has no other strategy's terms to cancel with."""


@dataclass(frozen=True)
class EstimatedDifference:
    """By how many ms one strategy adds more than another, and the range. is_told: whether the order of the two is."""

    ms: float
    low: float
    high: float
    is_told: bool


def accuracy_of(terms: Iterable[Term]) -> Accuracy:
    """What is known of estimates with these terms' prices."""
    of_platform = any(isinstance(ground, PlatformValue) for term in terms for ground in term.grounds)
    return OF_PLATFORMS if of_platform else OF_RUNS


def difference(terms: Sequence[Term], others: Sequence[Term], *, share: float | None = None) -> EstimatedDifference:
    """By how much the sum of terms exceeds that of others. share: another than that of the prices; 0 for the prices'
    intervals alone.
    """
    more, less = _without_common(terms, others)
    ms = sum(t.ms for t in more) - sum(t.ms for t in less)
    differing = sum(t.ms for t in (*more, *less))
    if not differing:
        return EstimatedDifference(0.0, 0.0, 0.0, False)
    share = accuracy_of((*more, *less)).share if share is None else share
    off = share * _scale(differing, terms, others)
    low, high = _price_bounds(more, less)
    is_told = abs(ms) > ORDER * (differing + min(ORDER_MS, differing)) and (low > 0 or high < 0)
    return EstimatedDifference(ms, min(low, ms - off), max(high, ms + off), is_told)


def another_run() -> str:
    """How far the times of an application in another run are from those of this one, in a phrase."""
    share, level = OF_ANOTHER_RUN.share, OF_ANOTHER_RUN.level
    within = f"{percent(share)} and {share * LEAST_MS:g} ms"
    return f"in another run on such a machine, {level} times are within {within} of these"


def range_of_traced(ms: float, low: float, high: float) -> tuple[float, float]:
    """The range of what memory adds to a traced program. low, high: by the prices and by what kernels may use."""
    off = OF_TRACES.share * with_least(ms)
    return min(low, max(0.0, ms - off)), max(high, ms + off)


def scale_ms(terms: Sequence[Term], others: Sequence[Term]) -> float:
    """The ms of which a range reaches as far as a share; 0 if nothing differs."""
    differing = differing_ms(terms, others)
    return _scale(differing, terms, others) if differing else 0.0


def differing_ms(terms: Sequence[Term], others: Sequence[Term]) -> float:
    """The ms of all terms that the two do not share."""
    return sum(term.ms for side in _without_common(terms, others) for term in side)


def _scale(differing: float, terms: Sequence[Term], others: Sequence[Term]) -> float:
    return with_least(differing + min(sum(t.ms for t in terms), sum(t.ms for t in others)))


def with_least(ms: float) -> float:
    """The ms of which a range is a share: some more, and no more than double."""
    return ms + min(LEAST_MS, ms)


def _without_common(terms: Sequence[Term], others: Sequence[Term]) -> tuple[list[Term], list[Term]]:
    """The terms without those that the others have too, and the other way round."""
    mine, theirs = Counter(map(_amount, terms)), Counter(map(_amount, others))
    return _left(terms, mine - theirs), _left(others, theirs - mine)


def _amount(term: Term) -> tuple[str, float, float, float]:
    return term.what, term.ms, term.low, term.high


def _left(terms: Sequence[Term], amounts: Counter[tuple[str, float, float, float]]) -> list[Term]:
    left = Counter(amounts)
    kept = []
    for term in terms:
        if left[_amount(term)] > 0:
            left[_amount(term)] -= 1
            kept.append(term)
    return kept


def _price_bounds(more: Sequence[Term], less: Sequence[Term]) -> tuple[float, float]:
    """The bounds of the difference over the intervals of prices. A value of a platform has one place in its range."""
    ends: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for sign, terms in ((1, more), (-1, less)):
        for term in terms:
            values = tuple(dict.fromkeys(g.name for g in term.grounds if isinstance(g, PlatformValue)))
            first, last = (term.low, term.high) if sign > 0 or values else (term.high, term.low)
            end = ends[values or ("", str(sign), term.phase, term.what)]
            end[0] += sign * first
            end[1] += sign * last
    return sum(map(min, ends.values())), sum(map(max, ends.values()))
