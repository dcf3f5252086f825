"""An experiment that skips allocators for which `on_demand` is unknown."""

from __future__ import annotations

from firsttouch.experiments.contract.base import Experiment, Factor, Measurement
from firsttouch.records.figures import Table
from firsttouch.records.findings import Claim, finding
from firsttouch.records.schema import Metric


class NeedsOnDemand(Experiment):
    name = "needs-on-demand"
    question = "Is it known when pages are allocated?"
    metric = Metric("ns", "lower")
    counted = "nothing"
    source = "none"
    figures = (Table(columns=("allocator", "median")),)

    def factors(self, device, preset):
        return [Factor("allocator", ["device", "malloc"], choices=("device", "malloc"))]

    def skip(self, factors, device):
        entry = device.allocator(factors["allocator"])
        return "it is unknown when its pages are allocated" if entry is None or entry.on_demand is None else None

    def measure(self, point, session):
        return Measurement([1.0], True)

    def findings(self, records, device):
        return [finding(Claim("needs-on-demand.ended", "it ended"), records, "yes")]
