"""Comparisons with predictions: how far they are from what was measured, or from each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firsttouch.comparison.compare import ResultsComparison
from firsttouch.comparison.differences import Difference
from firsttouch.comparison.table import Side
from firsttouch.records.predicted import predicted_for
from firsttouch.records.text import RATIO, compact, count, first_few, percent

_MOST_GROUPS = 6


def prediction(side: Side) -> str:
    """'predicted for gh200' if nothing of a side was measured; otherwise ''."""
    devices = [device.name for run in side.runs for device in run.devices]
    predicted = predicted_for(devices)
    return predicted if predicted and side.runs else ""


def is_about_predictions(comparison: ResultsComparison) -> bool:
    return any(map(prediction, comparison.sides))


def headline(comparison: ResultsComparison, side: int, sides_in_words: str) -> str:
    """The answer for one side if it or the first is predicted: the ratios of what was predicted to what was measured,
    or of two predictions; otherwise ''. what: both sides in words.
    """
    of_base, of_side = prediction(comparison.sides[0]), prediction(comparison.sides[side])
    if not (of_base or of_side):
        return ""
    inverted = bool(of_base) and not of_side
    points = [d for g in comparison.groups if g.side == side for d in comparison.points_of(g) if d.ratio]
    if not points:
        return f"{sides_in_words}: no values in common."
    ratios = f"the {'second' if inverted else 'first'} over the {'first' if inverted else 'second'}"
    kind = "two predictions" if of_base and of_side else "predicted over measured"
    groups = [g for g in comparison.groups if g.side == side and g.ratio]
    texts = [
        f"{g.experiment} on {g.device} {_format_ratio(1 / g.ratio if inverted else g.ratio)}"
        for g in sorted(groups, key=lambda g: -abs(math.log(g.ratio or 1.0)))
        if g.ratio
    ]
    return (
        f"{sides_in_words}: {kind} ({ratios}), by the median of each experiment: "
        f"{first_few(texts, _MOST_GROUPS, '; ')}. "
        f"{_spread_in_words(points)}"
    )


def _spread_in_words(points: Sequence[Difference]) -> str:
    """How far apart the points are: half of them, and nine of ten."""
    apart = sorted(math.expm1(abs(math.log(d.ratio))) for d in points if d.ratio)
    half, most = (apart[min(len(apart) - 1, int(part * len(apart)))] for part in (0.5, 0.9))
    return f"Of {count(len(apart), 'point')}, half are within {percent(half)}, and 90 % within {percent(most)}."


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.9 < ratio < 1.1 else compact(ratio, RATIO)
