from __future__ import annotations

import msgspec

from firsttouch.records.findings import Quantity, compare_medians
from firsttouch.records.schema import SCHEMA, Record, Summary
from firsttouch.records.statistics import distinct, group_by, measured, varying


def summary(median, spread=0.01):
    low, high = median * (1 - spread), median * (1 + spread)
    return Summary(n=9, median=median, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high)


def record(median=1.0, status="ok", verified=True, summary=summary, **factors):
    return Record(
        schema=SCHEMA, experiment="e", device="cpu", factors=factors, unit="ns", status=status,
        summary=(summary(median) if callable(summary) else summary) if status == "ok" else None, verified=verified,
    )  # fmt: skip


def test_clearly_different_only_when_intervals_separate():
    def compared(mine, other):
        return compare_medians(Quantity(mine.median, "ns", mine.ci_low, mine.ci_high), record(summary=other))

    found = compared(summary(50), summary(100))
    assert found.is_clear
    assert found.ratio.low < found.ratio.value == 0.5 < found.ratio.high
    assert not compared(summary(100), summary(101, 0.05)).is_clear
    assert compared(summary(1, 2.0), summary(1)).ratio.low is None, "no bounds where an interval reaches zero"
    assert not compared(summary(1), msgspec.structs.replace(summary(100), n=1)).is_clear, "one sample has no interval"


def test_a_point_that_failed_verification_is_not_used_by_findings():
    records = [record(), record(verified=False), record(status="skipped", verified=None), record(verified=None)]
    assert measured(records) == [records[0], records[3]]


def test_groups_and_varying_factors():
    records = [record(size=s, allocator=a, pages="base") for a in ("mmap", "malloc") for s in (64, 8)]
    assert varying(records) == ["size", "allocator"]
    assert list(group_by(records, "allocator")) == [("mmap",), ("malloc",)]
    assert distinct(records, "size") == [8, 64]
    assert distinct(records, "allocator") == ["mmap", "malloc"]
