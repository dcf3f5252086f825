"""What differs between the sides of a comparison, and by how much.

A side's value of a point is the median of its runs. Its interval holds the intervals of its runs, and what further
runs would vary by: the spread between the runs of the side, or the typical spread of the experiment on that device if
that is larger, times Student's t for the runs of all sides. Ratios and spreads are those of logarithms where all values
are positive. Two values differ if their intervals are apart, and if so many would hardly be apart by chance.

Two runs on each side, or three on one, tell what differs from run to run; fewer cannot, unless it differs threefold.
Neither can runs of which those of one side only were disturbed by other programs; where a side has undisturbed values
of a point, those alone count.

An experiment as a whole is judged by the median ratio of its points, which shows a change that is too small for any one
of them (between_runs.py). With one run a side, the order of the ratios gives its interval. From FLEET sides on, each is
compared with the median of all, and the spread over the sides is the yardstick.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from firsttouch.comparison.between_runs import LEAST_FREEDOM, chances, intervals, not_by_chance, shift, student
from firsttouch.comparison.table import AlignedPoints, Column
from firsttouch.records.text import SECONDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firsttouch.comparison.table import Floats

FLEET = 5
"""The fewest sides of which each is compared with the median of all."""
FAR = 3.5
"""A point of one of many sides is far from the others from this many standard deviations, estimated by the MAD."""
FEW = 8.0
"""An estimate from few sides is uncertain: of n sides, a point must be 1 + FEW / n times as far."""
FAR_GROUP = 5.0
"""The same for an experiment of one of many sides; there are fewer of them, and each names a machine."""
LEAST_SPREAD = 0.002
"""The least standard deviation over machines that is assumed for the median ratio of an experiment."""
MAD = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
LEAST_SHIFT = math.log(1.01)
"""An experiment as a whole is called different only beyond 1 %, because a run has conditions that no interval knows."""
LARGE = math.log(3.0)
"""Points that differ threefold, with their whole intervals, differ even between single runs, if at least half of the
points of their experiment do so in one direction.
"""
_LARGEST = 700.0
"""The largest logarithm of which the exponential is a number."""
SAME, FASTER, SLOWER, HIGHER, LOWER = "no clear difference", "faster", "slower", "higher", "lower"
CANNOT_TELL = "cannot tell"
"""The verdict on intervals that are apart where each side is one run: how far a further run would be is unknown."""


Group: TypeAlias = tuple[str, str]
"""An experiment and a device."""


@dataclass(frozen=True)
class SideValue:
    """The value of one side, with its interval if it has one. runs: how many measured it."""

    value: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class Difference:
    """One point on one side, against the base. ratio: the side's value over the base's; None if that is not positive.

    worse: whether the side is worse by the metric's direction; None if it does not differ clearly, or if neither
    direction is better.
    """

    column: Column
    side: str
    base: SideValue
    value: SideValue
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    worse: bool | None

    @property
    def differs(self) -> bool:
        return self.verdict not in (SAME, CANNOT_TELL)

    @property
    def is_apart(self) -> bool:
        """Whether the intervals are apart, which with one run a side need not be a difference."""
        return self.verdict != SAME

    @property
    def size(self) -> float:
        """How large the difference is: the logarithm of the ratio without its sign."""
        return abs(math.log(self.ratio)) if self.ratio else math.inf if self.base.value != self.value.value else 0.0


class ExperimentDifference(msgspec.Struct, frozen=True, tag_field="kind", tag="experiment"):
    """An experiment on one device as a whole, on one side, against the base. counts: points by verdict. ratio: the
    median over its points of the value over the base's: above 1 is slower for times, faster for rates. worse: by the
    metric's direction; null where it does not differ clearly.
    """

    experiment: str
    device: str
    better: str
    unit: str
    side: str
    points: int
    counts: dict[str, int]
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    worse: bool | None

    @property
    def differs(self) -> bool:
        """Whether the experiment as a whole differs clearly."""
        return self.verdict not in (SAME, CANNOT_TELL)

    @property
    def differing(self) -> int:
        """How many of its points differ clearly."""
        return self.apart - self.counts.get(CANNOT_TELL, 0)

    @property
    def apart(self) -> int:
        """How many of its points have intervals that are apart."""
        return self.points - self.counts.get(SAME, 0)


@dataclass(frozen=True)
class Differences:
    """fleet: whether the base is the median of all sides; otherwise it is the first side. points: those that differ
    clearly if there are many sides, otherwise all.
    """

    fleet: bool
    groups: list[ExperimentDifference]
    points: list[Difference]


def find(table: AlignedPoints, few: Collection[str] = (), published: Collection[str] = ()) -> Differences:
    """Compares the sides of a table.

    few: those that with the first have too few runs of a machine. published: those of a paper. Both by name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy warns about columns without a value
        return _Comparison(table, few, published).result()


class _Comparison:
    def __init__(self, table: AlignedPoints, few: Collection[str], published: Collection[str]) -> None:
        import numpy as np

        self.table = table
        self.names, self.rows = list(table.sides), list(table.sides.values())
        self.fleet = len(table.sides) >= FLEET
        self.few = set() if self.fleet else {self.names.index(name) for name in few}
        self.published = {self.names.index(name) for name in published}
        is_measured = np.isfinite(table.value)
        least = np.nanmin(np.where(np.isfinite(table.low), np.minimum(table.low, table.value), table.value), axis=0)
        self.positive = (least > 0) if is_measured.size else np.zeros(0, dtype=bool)
        self.value, self.low, self.high = (self._scaled(a) for a in (table.value, table.low, table.high))
        self.groups: dict[Group, list[int]] = {}
        for i, column in enumerate(table.columns):
            self.groups.setdefault(column.group, []).append(i)
        self.spoilt = self._leave_out_disturbed()
        most = 2 * self.spoilt.sum(axis=0) > len(table.sides)
        self.base_spoilt = most if self.fleet else self.spoilt[0]
        self.spread_unknown = np.zeros(self.value.shape[1], dtype=bool)
        """The points of the side in hand that have one run on each side, as all points of their experiment have."""
        self._middles: dict[Group, Floats] = {}
        """With many sides: the median shift of a group's points on each side."""

    def _leave_out_disturbed(self) -> NDArray[np.bool_]:
        """Leaves out disturbed values of points of which enough others remain on all sides. Returns for each side the
        other points of which most values are disturbed.
        """
        import numpy as np

        table = self.table
        if table.disturbed is None:
            return np.zeros((len(table.sides), self.value.shape[1]), dtype=bool)
        is_measured = np.isfinite(self.value)
        quiet = np.array([(is_measured & ~table.disturbed)[rows].sum(axis=0) for rows in self.rows])
        counts = np.array([is_measured[rows].sum(axis=0) for rows in self.rows])
        enough = (quiet > 0).all(axis=0) & (quiet[0] + quiet[1:].min(axis=0) >= LEAST_FREEDOM + 2)
        for values in (self.value, self.low, self.high):
            values[:] = np.where(table.disturbed & enough, np.nan, values)
        marked: NDArray[np.bool_] = (2 * quiet < counts) & ~enough
        return marked

    def _scaled(self, values: Floats) -> Floats:
        import numpy as np

        return np.where(self.positive, np.log(np.where(values > 0, values, np.nan)), values)

    def result(self) -> Differences:
        import numpy as np

        centre, low, high, runs = self._intervals()
        if self.fleet:
            base = np.nanmedian(centre, axis=0)
            enough = np.isfinite(centre).sum(axis=0) >= FLEET
            spread = np.nanmedian(abs(centre - base), axis=0) * MAD
            for places in self.groups.values():
                spread[places] = np.fmax(spread[places], np.nanmedian(spread[places]))
            far = FAR * (1 + FEW / len(centre)) * spread
            base_low, base_high = (np.where(enough, bound, np.nan) for bound in (base - far, base + far))
            base_runs = np.isfinite(centre).sum(axis=0)
            compared_sides = range(len(centre))
        else:
            base, base_low, base_high, base_runs = centre[0], low[0], high[0], runs[0]
            compared_sides = range(1, len(centre))
        points: list[Difference] = []
        groups: list[ExperimentDifference] = []
        for side in compared_sides:
            signs = np.where(low[side] > base_high, 1, np.where(high[side] < base_low, -1, 0))
            shared = np.isfinite(centre[side]) & np.isfinite(base)
            large = np.where(low[side] > base_high + LARGE, 1, np.where(high[side] < base_low - LARGE, -1, 0))
            large = self._in_whole_experiments(np.where(self.positive & shared, large, 0), shared)
            if not self.fleet and side not in self.few:
                probable = self._chance_of_points(side)
                signs = np.where(not_by_chance(probable), signs, 0)
                self.spread_unknown = np.isnan(probable) & (side not in self.published and 0 not in self.published)
            shown = shared & (signs != 0) if self.fleet else shared
            for i in np.flatnonzero(shown):
                bounds = [(base[i], base_low[i], base_high[i]), (centre[side, i], low[side, i], high[side, i])]
                points.append(
                    self._difference(
                        int(i),
                        side,
                        bounds,
                        (int(base_runs[i]), int(runs[side, i])),
                        int(signs[i]),
                        is_large=bool(large[i]),
                    )
                )
            groups += self._judge_groups(side, centre, base, signs, large, shared)
        return Differences(self.fleet, groups, points)

    def _in_whole_experiments(self, signs: NDArray[np.int64], shared: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The signs of points, in experiments of which at least half of the points have one sign and none the other."""
        import numpy as np

        kept = np.zeros_like(signs)
        for places in self.groups.values():
            those = [i for i in places if shared[i]]
            found = {int(signs[i]) for i in those} - {0}
            if len(found) == 1 and 2 * sum(signs[i] != 0 for i in those) >= len(those):
                kept[those] = signs[those]
        return kept

    def _chance_of_points(self, side: int) -> Floats:
        """For each point, how probable its difference from the first side is by chance."""
        import numpy as np

        first, second = (self.value[self.rows[s]] for s in (0, side))
        probable = np.full(self.value.shape[1], np.nan)
        for places in self.groups.values():
            for kind in (True, False):  # logarithms and other values have different scales
                alike = [i for i in places if self.positive[i] == kind]
                probable[alike] = chances(first[:, alike], second[:, alike])
        return probable

    def _intervals(self) -> tuple[Floats, Floats, Floats, Floats]:
        """For each side: the medians of its runs, the bounds of their intervals, and how many runs have the point."""
        import numpy as np

        shape = (len(self.rows), self.value.shape[1])
        centre, low, high, deviation = (np.full(shape, np.nan) for _ in range(4))
        runs = np.zeros(shape)
        for s, rows in enumerate(self.rows):
            values = self.value[rows]
            centre[s], runs[s] = np.nanmedian(values, axis=0), np.isfinite(values).sum(axis=0)
            low[s], high[s] = np.nanmin(self.low[rows], axis=0), np.nanmax(self.high[rows], axis=0)
            several = runs[s] > 1
            deviation[s, several] = np.nanstd(values[:, several], axis=0, ddof=1)
            low[s] = np.fmin(low[s], np.where(several, np.nanmin(values, axis=0), np.nan))
            high[s] = np.fmax(high[s], np.where(several, np.nanmax(values, axis=0), np.nan))
        typical = np.full(shape[1], np.nan)
        for places in self.groups.values():
            ratios = [i for i in places if self.positive[i]]
            typical[ratios] = np.nanmedian(deviation[:, ratios]) if ratios else np.nan
        spread = np.fmax(deviation, typical)
        freedom = np.maximum(np.maximum(runs - 1, 0).sum(axis=0), 2)
        quantiles = np.vectorize(lambda n: student(int(n), 0.95), otypes=[float])(freedom)
        half = spread * quantiles / np.sqrt(np.maximum(runs, 1))
        return centre, np.fmin(low, centre - half), np.fmax(high, centre + half), runs

    def _judge_groups(
        self,
        side: int,
        centre: Floats,
        base: Floats,
        signs: NDArray[np.int64],
        large_signs: NDArray[np.int64],
        shared: NDArray[np.bool_],
    ) -> Iterable[ExperimentDifference]:
        compared = {group: [i for i in places if shared[i]] for group, places in self.groups.items()}
        compared = {group: places for group, places in compared.items() if places}
        bounds = self._group_shifts(side, centre, base, compared)
        for (experiment, device), places in compared.items():
            middle, low, high = bounds[experiment, device]
            sign = (low > LEAST_SHIFT) - (high < -LEAST_SHIFT)
            definition = self.table.columns[places[0]].definition
            large = {int(large_signs[i]) for i in places} - {0}
            sign = large.pop() if large else sign
            verdict, worse = self._verdict(side, places, sign, is_large=any(large_signs[places]))
            counts: dict[str, int] = {}
            for i in places:
                word = self._verdict(side, [i], int(signs[i]), is_large=bool(large_signs[i]))[0]
                counts[word] = counts.get(word, 0) + 1
            median, least, most = (_unscaled(v, True) for v in (middle, low, high))
            yield ExperimentDifference(
                experiment=experiment,
                device=device,
                better=definition.better,
                unit=definition.unit,
                side=self.names[side],
                points=len(places),
                counts=counts,
                ratio=median,
                low=least,
                high=most,
                verdict=verdict,
                worse=worse,
            )

    def _verdict(self, side: int, places: Sequence[int], sign: int, *, is_large: bool) -> tuple[str, bool | None]:
        """The verdict on a point, or on the points of an experiment as a whole. is_large: it differs threefold."""
        unlike = (self.base_spoilt ^ self.spoilt[side] | self.spread_unknown)[places].sum()
        if sign and ((side in self.few and not is_large) or 2 * unlike > len(places)):
            return CANNOT_TELL, None
        definition = self.table.columns[places[0]].definition
        return judge(definition.unit, definition.better, sign)

    def _group_shifts(
        self, side: int, centre: Floats, base: Floats, compared: Mapping[Group, Sequence[int]]
    ) -> dict[Group, tuple[float, float, float]]:
        """The median logarithm of each experiment's ratios, and its bounds; NaN where they are not known."""
        bounds = {}
        for group, places in compared.items():
            ratios = [i for i in places if self.positive[i]]
            bounds[group] = self._group_shift(group, side, centre, base, ratios) if ratios else (math.nan,) * 3
        if not self.fleet and any(len(self.rows[s]) > 1 for s in (0, side)):
            first, second = (self.value[self.rows[s]] for s in (0, side))
            shifts = {}
            for group, places in compared.items():
                ratios = [i for i in places if self.positive[i]]
                if ratios and (found := shift(first[:, ratios], second[:, ratios])) is not None:
                    disturbed = (self.spoilt[0] & self.spoilt[side])[ratios].mean() > 0.5
                    shifts[group] = found._replace(disturbed=bool(disturbed))
                else:
                    bounds[group] = (bounds[group][0], math.nan, math.nan)
            bounds |= dict(zip(shifts, intervals(list(shifts.values())), strict=True))
        return bounds

    def _group_shift(
        self, group: Group, side: int, centre: Floats, base: Floats, places: Sequence[int]
    ) -> tuple[float, float, float]:
        """The same as `_group_shifts` for one experiment, with one run a side or with many sides."""
        import numpy as np

        shifts = centre[side, places] - base[places]
        middle = float(np.nanmedian(shifts))
        if self.fleet:
            if group not in self._middles:
                self._middles[group] = np.nanmedian(centre[:, places] - base[places], axis=1)
            known_middles = self._middles[group][np.isfinite(self._middles[group])]
            if len(known_middles) < FLEET:
                return middle, math.nan, math.nan
            spread = max(float(np.median(abs(known_middles - np.median(known_middles)))) * MAD, LEAST_SPREAD)
            far = FAR_GROUP * (1 + FEW / len(known_middles)) * spread
            return middle, middle - far, middle + far
        return middle, *_median_bounds(sorted(shifts[np.isfinite(shifts)]), 0.995)

    def _difference(
        self,
        i: int,
        side: int,
        bounds: Sequence[tuple[float, float, float]],
        runs: tuple[int, int],
        sign: int,
        *,
        is_large: bool,
    ) -> Difference:
        column, positive = self.table.columns[i], bool(self.positive[i])
        base, value = (
            SideValue(_unscaled(v, positive) or 0.0, _unscaled(low, positive), _unscaled(high, positive), n)
            for (v, low, high), n in zip(bounds, runs, strict=True)
        )
        verdict, worse = self._verdict(side, [i], sign, is_large=is_large)
        ratio = low = high = None
        if positive:
            (mine, mine_low, mine_high), (theirs, their_low, their_high) = bounds
            ratio, low, high = (
                _unscaled(v, True) for v in (theirs - mine, their_low - mine_high, their_high - mine_low)
            )
        return Difference(column, self.names[side], base, value, ratio, low, high, verdict, worse)


def times_as_fast(
    better: str, ratio: float, low: float | None = None, high: float | None = None
) -> tuple[float, float | None, float | None]:
    """How many times as fast as the base something is of which this is the ratio, side over base, with its interval: of
    times the inverse. Ratios are turned round here only.
    """
    return (ratio, low, high) if better == "higher" else (1 / ratio, high and 1 / high, low and 1 / low)


def is_speed(unit: str, better: str) -> bool:
    """Whether a value is a time or a rate, of which one side is faster."""
    return judge(unit, better, 1)[0] in (FASTER, SLOWER)


def judge(unit: str, better: str, sign: int) -> tuple[str, bool | None]:
    """The word for a value that is above (1) or below (-1) the base, and whether it is worse."""
    if not sign:
        return SAME, None
    worse = None if better == "neither" else (sign > 0) == (better == "lower")
    head = unit.partition(" ")[0]
    if worse is not None and (head in SECONDS or head.endswith("/s")):
        return (SLOWER if worse else FASTER), worse
    return (HIGHER if sign > 0 else LOWER), worse


def _median_bounds(ordered: Sequence[float], level: float) -> tuple[float, float]:
    """An interval of the median by order statistics; NaN if there are too few values for one."""
    n, below, total = len(ordered), -1, 0.0
    while below < n < 1000 and (total := total + math.comb(n, below + 1) * 0.5**n) <= (1 - level) / 2:
        below += 1
    if n >= 1000:  # the normal approximation
        below = int(n / 2 - NormalDist().inv_cdf((1 + level) / 2) / 2 * math.sqrt(n))
    return (float(ordered[below]), float(ordered[n - 1 - below])) if 0 <= below < n / 2 else (math.nan, math.nan)


def _unscaled(value: float, positive: bool) -> float | None:
    if not math.isfinite(value):
        return None
    return math.exp(min(value, _LARGEST)) if positive else float(value)
