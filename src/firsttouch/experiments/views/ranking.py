"""Which records of a question may be ranked, and which of them are as good as the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from firsttouch.records.findings import (
    CLEAR_RATIO,
    Claim,
    Comparison,
    Condition,
    Finding,
    compare_medians,
    finding,
    number,
    points_are_apart,
)
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct, group_by, median_of, varying
from firsttouch.records.text import join_names

TIED = 1.05
"""The most ratio of values that are tied. Other runs of one machine differ by as much."""

MOST_RIVALS = 3
"""How many others are named beside a superlative."""


def groups_apart_from(records: Iterable[Record], *names: str) -> list[list[Record]]:
    """The records in groups that differ in these factors alone."""
    rows = list(records)
    return list(group_by(rows, *(name for name in varying(rows) if name not in names)).values())


def comparable(
    records: Iterable[Record], by: Sequence[str], best: Callable[..., float] = max, pick: Callable[..., float] = max
) -> list[Record]:
    """The records that differ in `by` alone, of the group in which the most values of it can be compared.

    Of several such groups it is the one at the largest size (the smallest, if pick is min), and of those the one with
    the best median, the highest or the lowest.
    """
    groups = groups_apart_from(records, *by)
    if not groups:
        return []
    most = max(len(group_by(rows, *by)) for rows in groups)
    fullest = [rows for rows in groups if len(group_by(rows, *by)) == most]
    size = pick(number(rows[0], "size") for rows in fullest)
    at = [rows for rows in fullest if number(rows[0], "size") == size]
    wanted = best(median_of(r) for rows in at for r in rows)
    return next(rows for rows in at if any(median_of(r) == wanted for r in rows))


def tied(records: Iterable[Record], with_record: Record) -> list[Record]:
    """The record, and the others whose medians are within TIED of its median."""
    return [with_record, *(r for r in records if r is not with_record and _is_tied(r, with_record))]


def _is_tied(a: Record, b: Record) -> bool:
    return max(median_of(a), median_of(b)) <= TIED * min(median_of(a), median_of(b))


def rivals(records: Iterable[Record], best: Record, by: str) -> str:
    """For a superlative: ' (no clear difference from x and y)', the values of a factor whose intervals overlap with
    that of the best and that are not tied with it; otherwise ''.
    """
    return not_told_apart([str(r.factors[by]) for r in overlapping(records, best) if not _is_tied(r, best)])


def overlapping(records: Iterable[Record], best: Record) -> list[Record]:
    """The other records whose intervals overlap with that of the best."""
    return [r for r in records if r is not best and not points_are_apart(r, best)]


def not_told_apart(names: Sequence[str]) -> str:
    """' (no clear difference from x and y)', the names of what a superlative may hold for too; '' if there are none."""
    return f" (no clear difference from {some(names)})" if names else ""


def some(names: Sequence[str]) -> str:
    """Names in a sentence, of many the first and how many others there are."""
    more = [f"{len(names) - MOST_RIVALS} others"] if len(names) > MOST_RIVALS + 1 else []
    return join_names([*(names[:MOST_RIVALS] if more else names), *more])


def names_in(records: Sequence[Record], factor: str) -> Condition:
    """The value of a factor, or its values if there are several."""
    values = tuple(distinct(records, factor))
    return values[0] if len(values) == 1 else values


def compare_groups(mine: Record, against: Sequence[Record], by: str) -> Comparison:
    """Compares a record with the first of others that are tied with each other, and names all of them."""
    comparison = compare_medians(mine, against[0])
    points = tuple(point for r in against for point in compare_medians(mine, r).points)
    return replace(comparison, conditions={**comparison.conditions, by: names_in(against, by)}, points=points)


def best_over_worst(claim: Claim, records: Iterable[Record], by: str, *, highest: bool = True) -> list[Finding]:
    """Compares the values of a factor with the highest and the lowest value, at the size that most of them share and
    with nothing else that differs. Those that are tied with either are named too.

    Returns nothing if the difference is not clear: if the intervals overlap, or the ratio is below CLEAR_RATIO.
    """
    rows = comparable(records, (by,), max if highest else min)
    if len(rows) < 2:
        return []
    least, most = min(rows, key=median_of), max(rows, key=median_of)
    comparison = compare_groups(most, tied(rows, least), by)
    if not comparison.is_clear or comparison.ratio.value <= CLEAR_RATIO:
        return []
    first = tied(rows, most)
    conditions: dict[str, Any] = {by: names_in(first, by)}
    return [finding(claim, first, comparison=comparison, **conditions)]
