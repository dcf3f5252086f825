"""An experiment that can only be measured where it is stated when the pages of device memory come."""

from __future__ import annotations

from firsttouch.analysis.findings import Claim, finding
from firsttouch.experiments.base import Experiment, Factor, Measurement
from firsttouch.figures import Table
from firsttouch.records.schema import Metric


class Told(Experiment):
    name = "told"
    question = "Who says when pages come?"
    metric = Metric("ns", "lower")
    counted = "nothing"
    source = "none"
    figures = (Table(columns=("allocator", "median")),)

    def factors(self, device, preset):
        return [Factor("allocator", ["device", "malloc"], choices=("device", "malloc"))]

    def skip(self, factors, device):
        entry = device.allocator(factors["allocator"])
        return "nobody says when its pages come" if entry is None or entry.on_demand is None else None

    def measure(self, point, session):
        return Measurement([1.0], True)

    def findings(self, records, device):
        return [finding(Claim("told.ended", "it ended"), records, "yes")]
