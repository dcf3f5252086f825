"""Predictions of experiments: the device of a point on a modelled machine, and the result of an answer of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.model.costs import Unmeasured
from firsttouch.records.schema import DeviceInfo

if TYPE_CHECKING:
    from firsttouch.model.micro.answers import Answer
    from firsttouch.model.platform import Platform


def device_of(point: Point, platform: Platform) -> DeviceInfo:
    return next(device for device in platform.devices if device.name == point.device)


@contextmanager
def known_prices() -> Iterator[None]:
    """Turns a price that is not known, and for which nothing stands, into the reason why a point is not predicted."""
    try:
        yield
    except Unmeasured as missing:
        raise NotModelled(str(missing)) from None


def predicted(answer: Answer) -> Measurement:
    return Measurement.predicted(answer.value, answer.low, answer.high, terms=answer.terms, counters=answer.counters)


def usual_only(point: Point, **usual: object) -> None:
    """Raises NotModelled if an optional factor of the point has another than its usual value."""
    for name, value in usual.items():
        if point.factors.get(name, value) != value:
            raise NotModelled(f"{name}={point.factors[name]}")
