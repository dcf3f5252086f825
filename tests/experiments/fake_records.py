"""Made-up records, and the findings that follow from them."""

from __future__ import annotations

from functools import cache

from firsttouch.experiments import all_experiments
from firsttouch.records.conditions import under_conditions
from firsttouch.records.findings import Finding
from firsttouch.records.schema import SCHEMA, DeviceInfo, Metric, Record, Scalar, Summary

KIB, MIB, GIB = 2**10, 2**20, 2**30
CPU = DeviceInfo(name="cpu", kind="cpu", title="", facts={"l1_bytes": 48 * KIB, "l2_bytes": MIB, "l3_bytes": 32 * MIB})


@cache
def _metric(experiment: str) -> Metric:
    return all_experiments()[experiment].metric


def a_record(
    experiment: str, median: float, factors: dict[str, Scalar], spread: float = 0.01, **counters: Scalar
) -> Record:
    low, high = median * (1 - spread), median * (1 + spread)
    metric = _metric(experiment)
    return Record(
        schema=SCHEMA,
        experiment=experiment,
        device="cpu",
        factors=factors,
        unit=metric.unit,
        metric_version=metric.version,
        status="ok",
        samples=[median] * 9,
        summary=Summary(n=9, median=median, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high),
        counters=dict(counters),
    )


def findings_of(experiment: str, records: list[Record]) -> list[Finding]:
    known = all_experiments()[experiment]
    return under_conditions(lambda rows: known.findings(rows, CPU), records, known.codebook.factors)
