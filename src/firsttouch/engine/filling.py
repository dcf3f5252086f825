"""Makes the record of a point, and fills in what measuring or predicting it gave, or why that failed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import msgspec

from firsttouch.base.errors import Unsupported
from firsttouch.engine.planned import Planned
from firsttouch.records.schema import (
    SCHEMA,
    BufferFact,
    Number,
    Record,
    Scalar,
    Status,
    Struct,
    Summary,
    check_integers,
)
from firsttouch.workers.protocol import describe, one_line

if TYPE_CHECKING:
    from firsttouch.experiments.contract.base import Measurement


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def blank_record(planned: Planned, status: Status, reason: str = "") -> Record:
    """Returns a record without samples. That of a prediction has no time at which it was made: the same call makes the
    same records.
    """
    return Record(
        schema=SCHEMA,
        experiment=planned.point.experiment,
        device=planned.point.device,
        factors=planned.point.factors,
        unit=planned.metric.unit,
        better=planned.metric.better,
        metric_version=planned.metric.version,
        modelled=planned.info.modelled,
        stands_for=[*planned.stands_for],
        status=status,
        reason=one_line(reason),
        preset=planned.preset,
        seed=planned.seed,
        started=now() if planned.info.modelled is None else "",
    )


@contextmanager
def failures_recorded(record: Record) -> Iterator[None]:
    """Turns an exception of the block into the record's status and reason."""
    from firsttouch import _core

    try:
        yield
    except (Unsupported, _core.GuardRefused, _core.Unavailable) as error:
        record.status, record.reason = "skipped", one_line(str(error)) or describe(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even if an experiment calls sys.exit(), only this point fails
        record.status, record.reason = "failed", describe(error)


def fill(record: Record, measurement: Measurement, *, follows: bool) -> None:
    """Copies a measurement into the record. Raises ValueError or TypeError if the measurement is invalid.

    follows: it is that of a further rank, which need not have samples.
    """
    from firsttouch import _core
    from firsttouch.experiments.contract import base

    if not isinstance(measurement, base.Measurement):
        raise TypeError(f"measure() returned {measurement!r:.60}, not a Measurement")
    if measurement.verified is not None and type(measurement.verified).__name__ not in (
        "bool",
        "bool_",
    ):  # numpy's type
        raise TypeError(f"verified is {measurement.verified!r:.60}, not True, False or None")
    samples = [float(sample) for sample in measurement.samples]
    if not samples and not follows:
        raise ValueError("no samples")
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not finite")
    if measurement.verified is None and not measurement.verified_why:
        raise ValueError("verified is None and verified_why does not say why: a bug in the experiment")
    stated = _check_storable(measurement, samples)
    record.samples = stated.samples
    if samples:
        record.summary = msgspec.convert(
            dict(zip(Summary.__struct_fields__, _core.summarise(samples), strict=True)), Summary
        )
        _add_range_bounds(record.summary, measurement)
    record.verified = None if measurement.verified is None else bool(measurement.verified)
    record.verified_why = one_line(measurement.verified_why)
    record.stopped_by = stated.stopped_by
    record.counters = stated.counters
    record.buffers = stated.buffers


def _add_range_bounds(summary: Summary, measurement: Measurement) -> None:
    """Gives the summary of a prediction the bounds of its range. Raises ValueError if they do not hold its value."""
    if measurement.low is None or measurement.high is None:
        return
    if not measurement.low <= summary.median <= measurement.high < math.inf:
        raise ValueError(f"the range {measurement.low:g} to {measurement.high:g} does not hold {summary.median:g}")
    summary.ci_low, summary.ci_high = float(measurement.low), float(measurement.high)


class _Stated(Struct):
    """What a measurement states, in the types of a record."""

    samples: list[Number]
    stopped_by: str
    counters: dict[str, Scalar]
    buffers: list[BufferFact]

    def __post_init__(self) -> None:
        check_integers(self.counters.values())


def _check_storable(measurement: Measurement, samples: list[float]) -> _Stated:
    """Raises ValueError if something is of a type or a size that no record holds."""
    fields = {
        "samples": samples,
        "stopped_by": measurement.stopped_by,
        "counters": dict(measurement.counters),
        "buffers": list(measurement.buffers),
    }
    try:
        return msgspec.json.decode(msgspec.json.encode(fields), type=_Stated)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the measurement can't be stored: {describe(error)}") from None
