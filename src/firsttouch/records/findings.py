"""Findings as data: a claim with its value, interval and conditions, and the points that support it.

Findings are derived whenever results are read, and are never stored. The only text in them is the template of the
claim; report/sentences.py fills it in for the report, the terminal and --json.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from firsttouch.base.outputs import Unbounded
from firsttouch.records.predictions import is_one_less, ratio_bounds
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record, Scalar, as_number
from firsttouch.records.statistics import group_by, median_of

Condition: TypeAlias = Scalar | tuple[Scalar, ...]
"""A factor's value, or several values for which a finding holds."""


EVERY = "*"
"""In the names of a claim: it is about all points, whatever their factors are."""
MOST_NOISE = 0.1
"""A counter whose noise is a larger part of it than this is compared with nothing."""
CLEAR_RATIO = 1.25
"""The least ratio of two values that is reported as a difference, and the greatest of two that are called alike."""
ONE_COUNTER = math.sqrt(CLEAR_RATIO)
"""How far a counter without an interval may be off."""


@dataclass(frozen=True)
class Quantity:
    """A value in a unit of the records ("ns", "GB/s", "B", "pages"), with the bounds of its interval if it has one.

    For a measured median they are the bounds of its 95 % interval. For a value that lies between two measured points
    they are those points.
    """

    value: Unbounded
    unit: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Claim:
    """A kind of finding.

    id: a stable id, "experiment.what", which scripts may rely on. text: a sentence without its full stop, with
    placeholders for {value}, {ratio}, {other_value}, any condition ({allocator}), any condition of the comparison
    ({other_allocator}) and any detail, as {name} or with its interval as {name_and_interval}. A ratio of times is
    written as {name_as_long}, '1.6 times as long' or 'as fast', or as {name_as_fast}, '1.6 times as fast' or 'as slow'.
    {measured} is "measured" or "predicted", as the points are. head: text that is printed once before adjacent findings
    of this claim with the same head, whose texts follow it as a list. names: factors that the text names otherwise than
    by a placeholder of their name; EVERY if it says that it is about all points (conditions.py).
    """

    id: str
    text: str
    head: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What a finding's value is compared with.

    ratio: the finding's value divided by this one. is_clear: the two intervals do not overlap, so that one value may be
    called faster or slower.
    """

    value: Quantity
    ratio: Quantity
    is_clear: bool
    conditions: Mapping[str, Condition]
    points: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """One claim about some points of one device.

    value: text if the result is not a number. conditions: the device, the factors that all the points share, and what
    else the claim names. points: keys of the records. details: further quantities that the claim names. stated: the
    conditions that the sentence gives besides those that the claim names (conditions.py).
    """

    claim: Claim
    value: Quantity | str
    conditions: Mapping[str, Condition]
    points: tuple[str, ...]
    details: Mapping[str, Quantity] = field(default_factory=dict)
    comparison: Comparison | None = None
    stated: Mapping[str, Scalar] = field(default_factory=dict)


def literal(text: str) -> str:
    """Text from elsewhere for the template of a claim, in which it is no placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def keys(records: Iterable[Record]) -> tuple[str, ...]:
    """The keys of points, as --resume uses them."""
    return tuple(map(key_of, records))


def shared(records: Sequence[Record]) -> dict[str, Condition]:
    """The device or devices of the records, and the factors that have the same value in all of them."""
    first, *rest = records
    devices = tuple(dict.fromkeys(r.device for r in records))
    common = {name: v for name, v in first.factors.items() if all(r.factors.get(name) == v for r in rest)}
    return {"device": devices[0] if len(devices) == 1 else devices, **common}


def quantity(record: Record) -> Quantity:
    """The median of a record, which must have a summary. A single sample has no interval."""
    assert record.summary is not None
    s = record.summary
    return Quantity(s.median, record.unit, *((s.ci_low, s.ci_high) if record.has_interval else ()))


def counter(record: Record, name: str, unit: str) -> Quantity | None:
    """A counter as a quantity; None if it is absent or not a number. Its bounds are those of its noise, which is the
    counter NAME_noise_UNIT; without one it has no interval.
    """
    value = as_number(record.counters.get(name))
    stem, _, ending = name.rpartition("_")
    noise = as_number(record.counters.get(f"{stem}_noise_{ending}"))
    if value is None:
        return None
    return Quantity(value, unit) if noise is None else Quantity(value, unit, value - noise, value + noise)


def is_noisy(measured: Quantity) -> bool:
    """Whether a quantity's interval reaches further than MOST_NOISE of it, so that it is compared with nothing."""
    return measured.high is not None and measured.high - measured.value > MOST_NOISE * abs(measured.value)


def finding(
    claim: Claim,
    records: Record | Sequence[Record],
    value: Quantity | str | None = None,
    *,
    details: Mapping[str, Quantity] | None = None,
    comparison: Comparison | None = None,
    **conditions: Condition,
) -> Finding:
    """Returns a finding about one or several records. Its conditions are those that the records share and the given
    ones. Its value is the median of the first record if none is given.
    """
    rows = [records] if isinstance(records, Record) else list(records)
    return Finding(
        claim,
        quantity(rows[0]) if value is None else value,
        {**shared(rows), **conditions},
        keys(rows),
        details or {},
        comparison,
    )


def ratio_of(a: Quantity, b: Quantity) -> Quantity:
    """a / b, with the bounds that follow from both intervals; none if an interval is missing or reaches zero."""
    ratio = a.value / b.value if b.value else float("inf")
    bounds = (a.low, a.high, b.low, b.high)
    if any(bound is None or bound <= 0 for bound in bounds):
        return Quantity(ratio)
    low_a, high_a, low_b, high_b = (float(bound or 0) for bound in bounds)
    return Quantity(ratio, "", low_a / high_b, high_a / low_b)


def compare_medians(mine: Record | Quantity, against: Record) -> Comparison:
    """Compares one record's median, or another value, with the median of `against`."""
    value, reference = mine if isinstance(mine, Quantity) else quantity(mine), quantity(against)
    ratio, apart = ratio_of(value, reference), are_apart(value, reference)
    if isinstance(mine, Record):
        ratio, apart = ratio_of_points(mine, against), points_are_apart(mine, against)
    return Comparison(reference, ratio, apart, shared([against]), keys([against]))


def ratio_of_points(numerator: Record, denominator: Record) -> Quantity:
    """The ratio of two medians, with the bounds that follow from both intervals; of predictions for one platform, with
    those over the ranges of the values that both rest on.
    """
    ratio, bounds = ratio_of(quantity(numerator), quantity(denominator)), ratio_bounds(numerator, denominator)
    return ratio if bounds is None else Quantity(ratio.value, "", *bounds)


def points_are_apart(a: Record, b: Record) -> bool:
    """True if the intervals of two medians do not overlap; of predictions for one platform, if one of them is the lower
    whatever the values are that both rest on.
    """
    if (bounds := ratio_bounds(a, b)) is not None:
        return is_one_less(bounds)
    return are_apart(quantity(a), quantity(b))


def are_apart(a: Quantity, b: Quantity) -> bool:
    """True if both have intervals and the intervals do not overlap."""
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return False
    return a.high < b.low or b.high < a.low


def are_alike(values: Iterable[Quantity]) -> bool:
    """True if all intervals together show that no value is more than CLEAR_RATIO times another. Intervals that overlap
    do not: they may be wide. Without an interval, nothing but the same value is shown to be alike.
    """
    rows = list(values)
    if any(row.low is None or row.high is None for row in rows):
        return len({row.value for row in rows}) == 1
    lows, highs = [row.low or 0.0 for row in rows], [row.high or 0.0 for row in rows]
    return max(highs) <= CLEAR_RATIO * min(lows)


def number(record: Record, factor: str) -> float:
    """The value of a factor, or -1 if it is not a number."""
    value = as_number(record.factors.get(factor))
    return -1.0 if value is None else value


def at_largest(records: Iterable[Record], factor: str = "size") -> list[Record]:
    """The records at the largest value of a factor."""
    rows = list(records)
    largest = max((number(r, factor) for r in rows), default=0)
    return [r for r in rows if number(r, factor) == largest]


def at_shared(
    records: Iterable[Record], by: Sequence[str], factor: str = "size", pick: Callable[..., float] = max
) -> list[Record]:
    """The records at the value of a factor for which the most values of `by` can be compared.

    If there are several such values, pick chooses one: the largest (max) or the smallest (min).
    """
    groups = {size: rows for (size,), rows in group_by(records, factor).items() if not isinstance(size, str | None)}
    if not groups:
        return []
    compared = {size: len(group_by(rows, *by)) for size, rows in groups.items()}
    most = max(compared.values())
    return groups[pick(size for size, n in compared.items() if n == most)]


def extremes(records: Iterable[Record]) -> tuple[Record, Record]:
    """The records with the least and with the greatest median."""
    rows = sorted(records, key=median_of)
    return rows[0], rows[-1]


def lowest(records: Iterable[Record], by: str) -> list[Record]:
    """The record with the least median for each value of a factor, in ascending order."""
    return sorted((min(rows, key=median_of) for rows in group_by(records, by).values()), key=median_of)


def highest(records: Iterable[Record], by: str) -> list[Record]:
    """The record with the greatest median for each value of a factor, in descending order."""
    return sorted((max(rows, key=median_of) for rows in group_by(records, by).values()), key=median_of, reverse=True)
