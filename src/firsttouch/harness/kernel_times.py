"""Kernel time of an application, from repetitions of its own in which events surround every piece of device work.

Events between short launches cost more than these (evidence/benchmarks/kernel_times.py measures it), so that the
repetitions that are samples have none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from firsttouch.experiments.contract.base import Factor
from firsttouch.harness.measure import Run
from firsttouch.records.schema import Factors, Scalar

SETTING = Factor("kernel_times", ("off", "on"), doc="after the samples, as many runs that time the kernels")


def are_wanted(factors: Factors) -> bool:
    """Whether a point has kernel times. Recording unified-memory events would slow the kernels down."""
    return factors.get(SETTING.name) == "on" and factors.get("events") != "on"


def counters(runs: Sequence[Run]) -> dict[str, Scalar]:
    """The counters of the runs that had a timer. Their phase compute has its own counter, since it contains the events,
    and since a part is compared with its own whole.
    """
    times = [run.kernels.seconds * 1e3 for run in runs if run.kernels is not None]
    if not times:
        return {}
    counters: dict[str, Scalar] = {"kernel_ms": mean(times)}
    if len(times) > 1:
        counters["kernel_sd_ms"] = stdev(times)
    counters["kernel_compute_ms"] = mean(run.phases["compute"] for run in runs) * 1e3
    counters["kernel_intervals"] = max(run.kernels.intervals for run in runs if run.kernels is not None)
    return counters
