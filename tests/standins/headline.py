"""An experiment of which one point asks about each GPU: those that SLOW_GPU names are at half the speed of others."""

from __future__ import annotations

import os
from collections.abc import Sequence

from firsttouch.api import Experiment, Factor, Measurement, Metric, Planning, Point, Session, Unsupported
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.findings import Finding
from firsttouch.records.schema import DeviceInfo, Record


class OfEach(Experiment):
    name = "headline"
    question = "How fast is each GPU?"
    metric = Metric("GB/s", "higher")
    counted = "A made-up rate."
    source = "none"
    figures = ()
    planning = Planning(on_each=({"n": 1},))

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if device.role != "gpu":
            raise Unsupported("it is no GPU")
        return [Factor("n", [1, 2], "count")]

    def measure(self, point: Point, session: Session) -> Measurement:
        with session.device.allocate("device", 4096) as buffer:
            buffer.fill(seed=session.seed, agent="gpu")
            errors = buffer.check(session.seed, "gpu")
        rate = 5.0 if point.device in os.environ.get("SLOW_GPU", "").split(",") else 10.0
        return Measurement(samples=[rate] * 9, verified=errors == 0)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return []
