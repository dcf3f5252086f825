"""How far an experiment as a whole is from that of another side, where the sides have several runs.

Each run is reduced to one number: the median of its points relative to the first side. The less a point varies between
runs, the more it weighs, up to about three times the typical weight. The interval rests on what these numbers vary by
from run to run. Three runs a side tell little about that, so it is moderated (Smyth 2004, "Linear models and empirical
Bayes methods"): by what the points, each varying by itself, would make it, and by what all points of a run share in
other experiments. It is never taken for less than was seen. The intervals of all experiments of a side hold together at
95 % (Bonferroni), so that of twenty comparisons of equal sides one names an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firsttouch.comparison.table import Floats

LEVEL = 0.95
FALSE_POINTS = 0.03
"""The part of the points that are called different which are not, in the mean."""
PRIOR_FREEDOM = 4
"""How many degrees of freedom the expected variance counts for."""
POINT_FREEDOM = 2
"""How many the experiment's typical variance counts for in that of a point."""
LEAST_FREEDOM = 2
"""What tells how far runs vary: two runs on each side, or three on one."""
_MEDIAN = math.pi / 2
"""The variance of a median of normal values over that of their mean."""
_MOST_FREEDOM = 200


class Shift(NamedTuple):
    """An experiment of one side relative to the first. Numbers are logarithms of ratios.

    variance: of runs of a side, as seen. of_points: of runs whose points vary independently. runs: 1 / n of the two
    sides, added. disturbed: other programs disturbed both sides, which varies by more than what is expected.
    """

    middle: float
    variance: float
    of_points: float
    freedom: int
    runs: float
    disturbed: bool = False


def shift(first: Floats, second: Floats) -> Shift | None:
    """The shift between the runs (rows) of two sides over points (columns). NaN is a point that a run lacks.

    A run with less than half of the points is left out. None if that leaves a side without runs, or both with few.
    """
    import numpy as np

    shared = np.isfinite(first).any(axis=0) & np.isfinite(second).any(axis=0)
    first, second = (runs[:, shared] for runs in (first, second))
    first, second = (runs[2 * np.isfinite(runs).sum(axis=1) >= max(1, runs.shape[1])] for runs in (first, second))
    if not (shared.any() and len(first) and len(second)) or len(first) + len(second) < LEAST_FREEDOM + 2:
        return None
    squares, freedom_of_points, point_variances = _squares(first, second)
    variances = _moderated_variances(
        squares, freedom_of_points, float(np.median(point_variances)) if len(point_variances) else 0.0
    )
    weights = 1 / variances
    base = np.nanmedian(first, axis=0)
    numbers = [_weighted_medians(runs - base, weights) for runs in (first, second)]
    freedom = len(first) + len(second) - 2
    return Shift(
        float(numbers[1].mean() - numbers[0].mean()),
        sum(float(((runs - runs.mean()) ** 2).sum()) for runs in numbers) / freedom,
        _MEDIAN * float((weights**2 * variances).sum() / weights.sum() ** 2),
        freedom,
        1 / len(first) + 1 / len(second),
    )


def _squares(first: Floats, second: Floats) -> tuple[Floats, Floats, Floats]:
    """For each point: the squares of what its runs differ by from those of their side, added; their freedom; and the
    variance of the points that have some.
    """
    import numpy as np

    squares = sum(np.nansum((runs - np.nanmean(runs, axis=0)) ** 2, axis=0) for runs in (first, second))
    freedom = sum(np.maximum(np.isfinite(runs).sum(axis=0) - 1, 0) for runs in (first, second))
    has_freedom = freedom > 0
    return squares, freedom, squares[has_freedom] / freedom[has_freedom]


def _moderated_variances(squares: Floats, freedom: Floats, expected: float) -> Floats:
    variances: Floats = (squares + POINT_FREEDOM * expected) / (freedom + POINT_FREEDOM)
    return variances.clip(1e-12)


def chances(first: Floats, second: Floats) -> Floats:
    """For each point of an experiment, how probable its difference is if the sides are equal; NaN where too few runs
    have it.

    The variance of a point is moderated by the mean of its experiment: points that take one of two values, such as by
    where their pages lie, may take the same in all runs of a side.
    """
    import numpy as np

    squares, freedom, point_variances = _squares(first, second)
    variances = _moderated_variances(squares, freedom, float(point_variances.mean()) if len(point_variances) else 0.0)
    counts = [np.isfinite(runs).sum(axis=0) for runs in (first, second)]
    distance = abs(np.nanmedian(first, axis=0) - np.nanmedian(second, axis=0))
    angles = np.arctan(distance / np.sqrt(variances * (1 / counts[0] + 1 / counts[1]) * (freedom + POINT_FREEDOM)))
    within = np.vectorize(lambda angle, n: _probability_within(angle, int(n)), otypes=[float])(
        angles, freedom + POINT_FREEDOM
    )
    return np.where(freedom >= LEAST_FREEDOM, np.maximum(0.0, 1 - within), np.nan)


def not_by_chance(probable: Floats) -> NDArray[np.bool_]:
    """Of all points of a side, those that may be called different such that FALSE_POINTS of them in the mean are not
    (Benjamini and Hochberg 1995). One whose chance is not known is not excluded.
    """
    import numpy as np

    with_chance = np.flatnonzero(np.isfinite(probable))
    ordered = np.sort(probable[with_chance])
    passing = np.flatnonzero(ordered <= FALSE_POINTS * np.arange(1, len(with_chance) + 1) / max(1, len(with_chance)))
    limit = ordered[passing[-1]] if len(passing) else -1.0
    kept: NDArray[np.bool_] = ~(probable > limit)
    return kept


def _weighted_medians(values: Floats, weights: Floats) -> Floats:
    """The weighted median of each row, without its NaN."""
    import numpy as np

    order = np.argsort(values, axis=1)  # NaN comes last
    sorted_values = np.take_along_axis(values, order, axis=1)
    sums = np.cumsum(np.where(np.isfinite(sorted_values), weights[order], 0.0), axis=1)
    reached = (sums >= sums[:, -1:] / 2).argmax(axis=1)
    medians: Floats = sorted_values[np.arange(len(values)), reached]
    return medians


def intervals(shifts: Sequence[Shift]) -> list[tuple[float, float, float]]:
    """The shift of each experiment of a side, with bounds that hold for all of them at LEVEL."""
    beyond = sorted(max(0.0, s.variance - s.of_points) for s in shifts)
    shared = beyond[3 * len(beyond) // 4] if len(beyond) > 1 else 0.0  # the upper quartile
    bounds = []
    for s in shifts:
        expected = s.of_points + shared
        moderated = (s.freedom * s.variance + PRIOR_FREEDOM * expected) / (s.freedom + PRIOR_FREEDOM)
        deviation = math.sqrt(max(s.variance, moderated) * s.runs)
        freedom = s.freedom + (0 if s.disturbed else PRIOR_FREEDOM)
        half = student(freedom, 1 - (1 - LEVEL) / len(shifts)) * deviation
        bounds.append((s.middle, s.middle - half, s.middle + half))
    return bounds


@cache
def student(freedom: int, level: float) -> float:
    """Student's t of a two-sided interval of this level."""
    if freedom > _MOST_FREEDOM:
        return NormalDist().inv_cdf((1 + level) / 2)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _probability_within(angle, freedom) < level else (low, angle)
    return math.tan(low) * math.sqrt(freedom)


def _probability_within(angle: float, freedom: int) -> float:
    """The probability that |t| is below tan(angle) * sqrt(freedom) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for n in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * n / (n + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
