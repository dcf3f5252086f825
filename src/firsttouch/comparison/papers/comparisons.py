"""Comparisons of a run's points, as a claim asks for them, by medians and intervals.

A comparison agrees with a claim, or contradicts it, only if the interval of the ratio leaves no doubt. A counter has no
interval, unless another one states its standard deviation. If it is no exact count either, it is taken to be uncertain
by a factor, such that two of them differ clearly only if their ratio is above CLEAR_RATIO. A point that was measured
once is not compared.

Predictions have no noise (`noiseless`): whatever does not agree with a claim contradicts it, and equal values
contradict a claim that they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from firsttouch.base.outputs import Unbounded
from firsttouch.machine.switches import SWITCHES
from firsttouch.profile.events import unseen
from firsttouch.records.findings import (
    CLEAR_RATIO,
    ONE_COUNTER,
    Quantity,
    are_apart,
    counter,
    number,
    quantity,
    ratio_of,
    ratio_of_points,
)
from firsttouch.records.papers.claims import Alike, Check, Compare, Iterations, Level, Trend, Word
from firsttouch.records.papers.files import MEDIAN, FactorValues
from firsttouch.records.papers.rows import are_met
from firsttouch.records.reading import PointIdentity, identity_of
from firsttouch.records.schema import ITERATION_TIME, Record, Scalar, Struct, as_number
from firsttouch.records.statistics import group_by, series, varying
from firsttouch.records.text import condition, named

LEAST = 1.05
"""Below this ratio of two values neither is called less or more, even if their intervals are apart: other runs of one
machine differ by about as much.
"""
ALIKE = 1.1
"""The largest ratio of values that are the same."""
TIED = 1.01
"""Up to this ratio, predictions are equal."""

Agreement: TypeAlias = Literal["yes", "no", "unclear"]


class ComparedValue(Struct):
    """A measured value with its unit and the bounds of its interval, None if it has none."""

    value: Unbounded
    unit: str
    low: float | None = None
    high: float | None = None


class ClaimComparison(Struct, kw_only=True):
    """One comparison that a verdict rests on.

    agrees: whether it agrees with the claim. about: what is compared, in words. first, second: the values; second is
    None if the claim is about one value. ratio: first / second. points: those that are compared.
    """

    agrees: Agreement
    about: str
    first: ComparedValue
    points: list[PointIdentity]
    second: ComparedValue | None = None
    ratio: ComparedValue | None = None

    @property
    def is_tied(self) -> bool:
        """Whether predictions are equal that a claim says differ."""
        return self.agrees == "no" and self.ratio is not None and 1 / TIED <= self.ratio.value <= TIED


@dataclass(frozen=True)
class PointSelection:
    """The points of one side of a test: a selection of factors."""

    factors: Mapping[str, FactorValues]

    def matches(self, factors: Mapping[str, Scalar]) -> bool:
        return are_met(self.factors, factors)


def values_of(wanted: FactorValues) -> list[Scalar]:
    return wanted if isinstance(wanted, list) else [wanted]


def sides_of(test: Check) -> Iterator[PointSelection]:
    if isinstance(test, Compare):
        yield PointSelection({**test.where, **test.first})
        yield PointSelection({**test.where, **test.second})
    else:
        yield PointSelection(test.where)


# ------------------------------------------------------------------------------------------------ values


def has_repetitions(record: Record) -> bool:
    return record.has_interval


def _value(test: Check, record: Record) -> Quantity | None:
    """A point's value with its interval; None if there is none, or if it was measured once and is no exact count."""
    if test.metric == MEDIAN:
        median = quantity(record)
        return median if median.low is not None else None
    counted = [record.counters.get(name) for name in test.counters]
    if any(c is None or isinstance(c, bool | str) for c in counted) or record.counters.get("um_dropped"):
        return None
    value, unit = math.fsum(float(c) for c in counted if c is not None), _unit(test.metric)
    if test.exact:
        return Quantity(value, unit, value, value if _is_complete(test, record) else math.inf)
    if not has_repetitions(record):
        return None
    noisy = counter(record, test.metric, unit)
    if noisy is not None and noisy.low is not None:
        return noisy
    if (deviation := _deviation(record, test.metric)) is not None:
        return Quantity(value, unit, value - deviation, value + deviation)
    return Quantity(value, unit, *sorted((value / ONE_COUNTER, value * ONE_COUNTER)))


def _is_complete(test: Check, record: Record) -> bool:
    """Whether no events are known to be missing from a counter of events."""
    return unseen.is_complete(record) or not any(name.startswith("um_") for name in test.counters)


def _missing_events(test: Check, *records: Record) -> str:
    """What is missing from the counters of records, to follow what is compared."""
    missing = [(r.factors.get("strategy"), unseen.in_words(r)) for r in records if not _is_complete(test, r)]
    return "".join(f"; {strategy}: {words}" if strategy else f"; {words}" for strategy, words in missing)


def _deviation(record: Record, counter: str) -> float | None:
    """Two standard deviations of a counter over the repetitions, if they are known."""
    name, _, unit = counter.rpartition("_")
    deviation = as_number(record.counters.get(f"{name}_sd_{unit}"))
    return None if deviation is None else 2 * deviation


def _unit(counter: str) -> str:
    """The unit of a counter or of a sum, by the project's naming."""
    for ending, unit in (("_bytes", "B"), ("_ms", "ms"), ("_us", "us"), ("_ns", "ns")):
        if counter.endswith(ending):
            return unit
    return ""


def compared(test: Check, points: Sequence[Record], *, noiseless: bool = False) -> Iterator[ClaimComparison]:
    if isinstance(test, Compare):
        yield from _pair_comparisons(test, points, noiseless)
        return
    rows = [r for r in points if PointSelection(test.where).matches(r.factors)]
    names = _naming_factors(rows)
    if isinstance(test, Alike):
        yield from _extreme_comparisons(test, rows, names)
    elif isinstance(test, Trend):
        yield from _trend_comparisons(test, rows, names, noiseless)
    elif isinstance(test, Level):
        yield from (comparison for row in rows if (comparison := _level_comparison(test, row, names)))
    elif isinstance(test, Word):
        yield from (_word_comparison(test, row, names) for row in rows if row.counters.get(test.metric) is not None)
    elif isinstance(test, Iterations):
        yield from (
            comparison
            for row in rows
            if has_repetitions(row) and (comparison := _iteration_comparison(test, row, names, noiseless))
        )


def _ratio_agreement(test: Compare, ratio: Quantity, noiseless: bool) -> Agreement:
    low, high = ratio.low, ratio.high
    if low is None or high is None:
        return "unclear"
    if test.relation == "same":
        return _range_agreement(low, high, 1 / ALIKE, ALIKE)
    if test.relation == "ratio":
        return _range_agreement(low, high, test.low, test.high)
    least = TIED if noiseless else LEAST
    less, more = high < 1 and ratio.value < 1 / least, low > 1 and ratio.value > least
    if test.relation == "no more":
        return "no" if more else "yes" if high <= least else "unclear"
    wanted, opposite = (less, more) if test.relation == "less" else (more, less)
    return "yes" if wanted else "no" if opposite or noiseless else "unclear"


def _range_agreement(low: float, high: float, least: float, most: float) -> Agreement:
    """Whether an interval lies within a range, or apart from it."""
    return "yes" if least <= low and high <= most else "no" if high < least or low > most else "unclear"


def _pair_comparisons(test: Compare, points: Sequence[Record], noiseless: bool) -> Iterator[ClaimComparison]:
    firsts, seconds = ([r for r in points if side.matches(r.factors)] for side in sides_of(test))
    names = _naming_factors([*firsts, *seconds])
    varied = {*test.first, *test.second, *test.ignore, *_of_one_side(firsts, seconds)}
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in seconds:
        groups.setdefault(_shared_conditions(record, varied), []).append(record)
    pairs = [(a, b) for a in firsts for b in groups.get(_shared_conditions(a, varied), []) if a is not b]
    for name, which in test.at.items():
        best = (max if which == "largest" else min)((number(a, name) for a, _ in pairs), default=0)
        pairs = [(a, b) for a, b in pairs if number(a, name) == best]
    growths, bases = _growth_ratios(test, [*firsts, *seconds])
    for a, b in pairs:
        x, y = (growths.get(id(r)) if test.growth else _value(test, r) for r in (a, b))
        both_zero = x is not None and y is not None and not x.value and not y.value
        if x is None or y is None or (both_zero and not noiseless):
            continue
        of_medians = test.metric == MEDIAN and not test.growth
        ratio = _exact_ratio(x, y) if test.exact else ratio_of_points(a, b) if of_medians else ratio_of(x, y)
        if both_zero:
            ratio = Quantity(1.0, "", 1.0, 1.0)
        yield ClaimComparison(
            agrees=_ratio_agreement(test, ratio, noiseless),
            about=_difference_in_words(a, b, names) + bases.get(id(a), "") + _missing_events(test, a, b),
            first=_as_compared_value(x),
            second=_as_compared_value(y),
            ratio=_finite_ratio(ratio),
            points=[identity_of(a), identity_of(b)],
        )


def _growth_ratios(test: Compare, points: Sequence[Record]) -> tuple[dict[int, Quantity], dict[int, str]]:
    """How many times as large the value is at the largest number of a factor as at the smallest, and that in words, by
    the id of the record at the largest.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in points if test.growth else ():
        groups.setdefault(_shared_conditions(record, {test.growth}), []).append(record)
    growths, bases = {}, {}
    for group in groups.values():
        least, most = (choose(group, key=lambda r: number(r, test.growth)) for choose in (min, max))
        first, last, smallest = _value(test, least), _value(test, most), number(least, test.growth)
        if smallest < number(most, test.growth) and last is not None and first is not None:
            growths[id(most)], bases[id(most)] = ratio_of(last, first), f"; each against {named(test.growth, smallest)}"
    return growths, bases


def _of_one_side(*sides: Sequence[Record]) -> set[str]:
    """The switches of a runtime that no point of one side has, since it was measured without that runtime."""
    return {name for name in SWITCHES if not all(any(name in r.factors for r in side) for side in sides)}


def _exact_ratio(x: Quantity, y: Quantity) -> Quantity:
    (x_high, y_high), y_low = (max(q.value, q.high or 0.0) for q in (x, y)), y.value
    ratio = x.value / y.value if y.value else math.inf
    low = x.value / y_high if y_high else math.inf
    return Quantity(ratio, "", low, x_high / y_low if y_low else math.inf)


def _shared_conditions(record: Record, varied: set[str]) -> tuple[str, ...]:
    """What two compared points must share: the definition of their metric, and all factors but the varied ones."""
    factors = sorted(f"{name}={value!r}" for name, value in record.factors.items() if name not in varied)
    return record.unit, str(record.metric_version), *factors


def _groups(test: Alike | Trend, rows: Sequence[Record]) -> list[list[Record]]:
    """Points that differ in one factor alone."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in rows:
        if _value(test, record) is not None:
            groups.setdefault(_shared_conditions(record, {test.over}), []).append(record)
    return [group for group in groups.values() if len(group_by(group, test.over)) > 1]


def _extreme_comparisons(test: Alike, rows: Sequence[Record], names: Sequence[str]) -> Iterator[ClaimComparison]:
    groups = _groups(test, rows)
    for name, which in test.at.items():
        best = (max if which == "largest" else min)((number(g[0], name) for g in groups), default=0)
        groups = [g for g in groups if number(g[0], name) == best]
    for group in groups:
        values = sorted(((_exact_quantity(test, r), r) for r in group), key=lambda pair: pair[0].value)
        (x, a), (y, b) = values[-1], values[0]
        ratio = ratio_of(x, y)
        same = _range_agreement(ratio.low or 0, math.inf if ratio.high is None else ratio.high, 1 / ALIKE, ALIKE)
        agrees = same if test.alike else _NOT[same]
        yield ClaimComparison(
            agrees=agrees,
            about=_difference_in_words(a, b, names),
            first=_as_compared_value(x),
            second=_as_compared_value(y),
            ratio=_finite_ratio(ratio),
            points=[identity_of(r) for _, r in values],
        )


_NOT: Mapping[Agreement, Agreement] = {"yes": "no", "no": "yes", "unclear": "unclear"}


def _exact_quantity(test: Check, record: Record) -> Quantity:
    value = _value(test, record)
    assert value is not None
    return value


def _trend_comparisons(
    test: Trend, rows: Sequence[Record], names: Sequence[str], noiseless: bool
) -> Iterator[ClaimComparison]:
    for group in _groups(test, rows):
        ordered = sorted(group, key=lambda r: number(r, test.over))
        values = [_exact_quantity(test, r) for r in ordered]
        if not test.rises:
            values.reverse()
        whole, against = (
            _rise_agreement(values[0], values[-1], noiseless),
            any(_rise_agreement(a, b) == "no" for a, b in pairwise(values)),
        )
        first, last = (ordered[0], ordered[-1]) if test.rises else (ordered[-1], ordered[0])
        yield ClaimComparison(
            agrees="no" if against else whole,
            about=_difference_in_words(last, first, names),
            first=_as_compared_value(values[-1]),
            second=_as_compared_value(values[0]),
            ratio=_finite_ratio(ratio_of(values[-1], values[0])),
            points=[identity_of(r) for r in ordered],
        )


def _rise_agreement(a: Quantity, b: Quantity, noiseless: bool = False) -> Agreement:
    """Whether b is clearly more than a; "no" if it is clearly less."""
    if noiseless:
        return "yes" if b.value > TIED * a.value else "no"
    if not are_apart(a, b) or max(a.value, b.value) < LEAST * min(a.value, b.value):
        return "unclear"
    return "yes" if b.value > a.value else "no"


def _level_comparison(test: Level, record: Record, names: Sequence[str]) -> ClaimComparison | None:
    value = _value(test, record)
    divisor = number(record, test.per) if test.per else 1.0
    if value is None or value.low is None or value.high is None or divisor <= 0:
        return None
    unit = "" if test.per else value.unit
    share = Quantity(value.value / divisor, unit, value.low / divisor, value.high / divisor)
    assert share.low is not None
    assert share.high is not None
    return ClaimComparison(
        agrees=_range_agreement(share.low, share.high, test.low, test.high),
        about=f"{_measure(test)}, {_conditions_in_words(record, names)}{_missing_events(test, record)}",
        first=_as_compared_value(share),
        points=[identity_of(record)],
    )


def _measure(test: Level) -> str:
    """What a level is of: 'call_headline / size'."""
    return " / ".join(filter(None, [test.metric, test.per]))


def _word_comparison(test: Word, record: Record, names: Sequence[str]) -> ClaimComparison:
    stated = record.counters[test.metric]
    value_word = {True: "yes", False: "no"}.get(stated, stated) if isinstance(stated, bool) else stated
    return ClaimComparison(
        agrees="yes" if stated == test.word else "no",
        about=f"{_conditions_in_words(record, names)}: {value_word}",
        first=ComparedValue(value=float(stated == test.word), unit="", low=None, high=None),
        points=[identity_of(record)],
    )


def _iteration_comparison(
    test: Iterations, record: Record, names: Sequence[str], noiseless: bool
) -> ClaimComparison | None:
    """The first iteration against the slowest later one; the later ones are its interval."""
    times = {n: float(v) for n, v in series(record, ITERATION_TIME).items() if isinstance(v, int | float)}
    later = [v for n, v in times.items() if n != 0]
    if 0 not in times or not later or min(later) <= 0:
        return None
    first, slowest = times[0], max(later)
    clear = TIED if noiseless else CLEAR_RATIO
    longer, shorter = first > clear * slowest, first < slowest / clear
    agrees: Agreement = "yes" if longer else "no" if shorter or noiseless else "unclear"
    if not test.longest:
        agrees = "no" if longer else "yes" if first <= ALIKE * slowest else "unclear"
    return ClaimComparison(
        agrees=agrees,
        about=f"the first iteration against the slowest later one, {_conditions_in_words(record, names)}",
        first=ComparedValue(value=first, unit="ms"),
        second=ComparedValue(value=slowest, unit="ms"),
        ratio=ComparedValue(value=first / slowest, unit=""),
        points=[identity_of(record)],
    )


def _finite_ratio(ratio: Quantity) -> ComparedValue | None:
    """A ratio; None if the divisor was zero."""
    return _as_compared_value(ratio) if math.isfinite(ratio.value) else None


def _as_compared_value(q: Quantity) -> ComparedValue:
    bounds = (bound if bound is not None and math.isfinite(bound) else None for bound in (q.low, q.high))
    return ComparedValue(q.value, q.unit, *bounds)


def _naming_factors(records: Sequence[Record]) -> list[str]:
    """The factors that name one of these points: what tells points apart best, and all in which these differ."""
    best = ("app", "strategy", "allocator", "operation", "toucher", "type", "elements", "advice", "prefetch")
    sized = any(number(r, "size") > 0 for r in records)
    differing = (name for name in varying(records) if name != "device")
    return list(dict.fromkeys([*best, *(["size"] if sized else []), *differing]))


def _conditions_in_words(record: Record, names: Sequence[str]) -> str:
    return condition(record, [name for name in names if record.factors.get(name) is not None])


def _difference_in_words(a: Record, b: Record, names: Sequence[str]) -> str:
    """What differs between two points, and which others they share: 'allocator device against pinned; size 4 KiB'."""
    apart = [n for n in dict.fromkeys([*a.factors, *b.factors]) if a.factors.get(n) != b.factors.get(n)]
    shared = _conditions_in_words(a, [n for n in names if n not in apart])
    return f"{condition(a, apart)} against {condition(b, apart)}{'; ' + shared if shared else ''}"
