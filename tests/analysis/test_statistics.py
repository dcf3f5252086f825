from __future__ import annotations

import pytest

from firsttouch.analysis.statistics import crossover, distinct, group_by, measured, ratio, varying
from firsttouch.schema import Record, Summary


def summary(median, spread=0.01):
    low, high = median * (1 - spread), median * (1 + spread)
    return Summary(n=9, median=median, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high)


def record(median=1.0, status="ok", verified=True, **factors):
    return Record(
        schema="firsttouch/1", experiment="e", device="cpu", factors=factors, unit="ns", status=status,
        summary=summary(median) if status == "ok" else None, verified=verified,
    )  # fmt: skip


def test_faster_only_when_intervals_separate():
    assert ratio(summary(50), summary(100), "lower").says == "better"
    assert ratio(summary(50), summary(100), "higher").says == "worse"
    assert ratio(summary(100), summary(101, 0.05), "lower").says == "ambiguous"
    found = ratio(summary(50), summary(100), "lower")
    assert found.low < found.value == 0.5 < found.high


def test_ratio_of_an_interval_around_zero_is_refused():
    with pytest.raises(ValueError, match="positive"):
        ratio(summary(1, 2.0), summary(1), "lower")


def test_crossover_is_where_the_second_takes_the_lead_for_good():
    a = {x: summary(10 + x) for x in (1, 2, 4, 8, 16, 32)}
    b = {x: summary(14 + x / 4) for x in (1, 2, 4, 8, 16, 32)}
    assert crossover(a, b, "lower") == 8
    assert crossover(b, a, "higher") is None or crossover(b, a, "lower") is None
    assert crossover(a, a, "lower") is None
    assert crossover(a, {x: summary(1) for x in a}, "lower") is None


def test_a_point_that_failed_verification_is_not_reasoned_from():
    records = [record(), record(verified=False), record(status="skipped", verified=None), record(verified=None)]
    assert measured(records) == [records[0], records[3]]


def test_groups_and_varying_factors():
    records = [record(size=s, allocator=a, pages="base") for a in ("mmap", "malloc") for s in (64, 8)]
    assert varying(records) == ["size", "allocator"]
    assert list(group_by(records, "allocator")) == [("mmap",), ("malloc",)]
    assert distinct(records, "size") == [8, 64]
    assert distinct(records, "allocator") == ["mmap", "malloc"]
