"""Experiments with unified-memory events, loaded by --module. They need no GPU: a stand-in for CUPTI records events on
the device `cpu`.
"""

from __future__ import annotations

import os
import time

from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Point, WorkerRules
from firsttouch.profile.events import log as events
from firsttouch.records.figures import Table
from firsttouch.records.findings import Claim, finding
from firsttouch.records.schema import Metric
from firsttouch.workers.session import Session

events.why_not_offered = lambda device: ""


class _Recorded:
    metric = Metric("ns", "lower")
    counted = "nothing"
    source = "none"
    figures = (Table(columns=("n", "median")),)

    def findings(self, records, device):
        return [finding(Claim(f"{records[0].experiment}.ended", "it ended"), records, "yes")]

    def factors(self, device, preset):
        return [Factor("n", [0, 1, 2], kind="count")]

    def measure(self, point: Point, session: Session) -> Measurement:
        time.sleep(0.005)
        return Measurement([1.0], True, counters={"um_cpu_faults": -1})


class Moved(_Recorded, Experiment):
    """Leaves recording to the run."""

    name = "moved"
    order = 904
    question = "What did the driver move?"


class Windowed(_Recorded, Experiment):
    """Uses its own windows, in points with and without events."""

    name = "windowed"
    order = 905
    question = "What did the driver move in each half?"
    worker = WorkerRules(environment=lambda factors: {events.VARIABLE: str(int(factors["n"] > 0))})

    def measure(self, point: Point, session: Session) -> Measurement:
        device = session.device.name
        if session.events is None:
            return Measurement([1.0], not point["n"], session.events_reason, counters={"asked": events.are_requested()})
        with session.events.window() as first:
            time.sleep(0.002)
        with session.events.window() as second:
            time.sleep(0.002)
        apart = first.start < first.end <= second.start < second.end
        counters = {"first": len(first.events), "second": len(second.events), "device": device}
        return Measurement([1.0], apart and os.environ[events.VARIABLE] == "1", counters=counters)


class Own(_Recorded, Experiment):
    """Opens the device itself, in a new process per point."""

    name = "own"
    order = 906
    question = "What did the driver move in a fresh process?"
    worker = WorkerRules(fresh=True)

    def measure(self, point: Point, session: Session) -> Measurement:
        if point["n"]:
            session.device.facts()
            time.sleep(0.005)
        return Measurement([1.0], True)
