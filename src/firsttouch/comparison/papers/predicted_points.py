"""Predicted points as they are compared with what papers state: without noise, and with no time that they lack."""

from __future__ import annotations

from msgspec.structs import replace

from firsttouch.base.errors import NotModelled
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import APPLICATIONS
from firsttouch.records.schema import Record

GPU_TIME = "gpu_ms"
"""The counter that a predicted application has if the times of its kernels are known."""
_TIMES_OF_KERNELS = ("phase_compute", "gpu_", "without_initialise", "iteration", "process")
"""How the names of an application's times begin that contain its kernels."""
_SAMPLES = 2
"""A prediction has one sample and no noise: in comparisons it stands as a value that was measured more than once."""


def with_kernels(record: Record, metric: str) -> Record:
    """A record of an application. One without the times of its kernels has no time that contains them."""
    timed = metric == MEDIAN or any(name.startswith(_TIMES_OF_KERNELS) for name in metric.split("+"))
    has_kernel_times = record.experiment != APPLICATIONS or GPU_TIME in record.counters
    if has_kernel_times or not timed or record.status != "ok":
        return record
    return replace(record, status="skipped", reason=str(NotModelled(f"the kernels of {record.factors['app']}")))


def without_interval(record: Record) -> Record:
    """A record that is compared by its value alone."""
    s = record.summary
    if s is None:
        return record
    return replace(record, summary=replace(s, n=_SAMPLES, ci_low=s.median, ci_high=s.median))
