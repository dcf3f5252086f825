"""Made-up records of experiments that move data between devices and processes."""

from __future__ import annotations

from functools import cache

import msgspec

from firsttouch.experiments import all_experiments
from firsttouch.records.schema import SCHEMA, Record, Scalar, Summary

KIB = 2**10
SIZES = [4 * KIB, 64 * KIB, 1024 * KIB, 16384 * KIB]
COPY: dict[str, Scalar] = {
    "peer": "gpu:1", "direction": "out", "source": "device", "target": "device", "first_touch": "gpu", "threads": 0
}  # fmt: skip


def summary(median: float, spread: float) -> Summary:
    low, high = median * (1 - spread), median * (1 + spread)
    return Summary(n=9, median=median, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high)


@cache
def unit_of(experiment: str) -> str:
    return all_experiments()[experiment].metric.unit


def record(
    experiment: str,
    median: float,
    factors: dict[str, Scalar],
    *,
    device: str = "gpu:0",
    spread: float = 0.01,
    counters: dict[str, Scalar] | None = None,
    **more: object,
) -> Record:
    one = Record(
        schema=SCHEMA,
        experiment=experiment,
        device=device,
        factors=factors,
        unit=unit_of(experiment),
        status="ok",
        verified=True,
        summary=summary(median, spread),
        counters=counters or {},
    )
    return msgspec.structs.replace(one, **more)


def curve(engine: str, rates: dict[int, float], **more: object) -> list[Record]:
    return [record("p2p-copy", rate, {"engine": engine, **COPY, "size": size}, **more) for size, rate in rates.items()]


def rates(*values: float) -> dict[int, float]:
    return dict(zip(SIZES, values, strict=False))


def direct(device: str, peer: str, kernel: str, rate: float) -> Record:
    return record("p2p-direct", rate, {"kernel": kernel, "peer": peer, "allocator": "device", "size": 64},
                  device=device)  # fmt: skip
