"""Experiments predicted for a machine that was fitted, beside runs on two others like it that no fit has read."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from firsttouch.base.errors import Unsupported
from firsttouch.experiments import find_experiment
from firsttouch.model.platform import load_platform
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Point

RUNS = ("h200-quick", "h200-x2-quick")
ROOT = Path(__file__).parents[2]


@cache
def ratios(run: str) -> dict[str, list[float]]:
    """By experiment, predicted to measured values of the points that are predicted."""
    platform = load_platform("h200-pcie")
    names = {"cuda:0": platform.device.name, "cpu": platform.host.name}
    found: dict[str, list[float]] = defaultdict(list)
    for record in load_results(ROOT / "results" / run).records:
        experiment = find_experiment(record.experiment)
        if experiment is None or record.summary is None or record.status != "ok" or record.device not in names:
            continue
        factors = Factors(record.factors)
        try:
            measurement = experiment.predict(
                Point(record.experiment, names[record.device], factors), platform.under(factors)
            )
        except Unsupported:
            continue
        if record.summary.median > 0 < measurement.samples[0]:
            found[record.experiment].append(measurement.samples[0] / record.summary.median)
    return found


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("experiment", "points", "within"),
    [
        ("latency", 90, 1.05),
        ("bandwidth", 19, 1.05),
        ("transfer", 68, 1.05),
        ("accounting", 15, 1.02),
        ("faultcount", 9, 1.05),
        ("migration", 19, 1.25),
        ("allocation", 80, 1.35),
        ("pagefault", 14, 1.5),
    ],
)
def test_half_of_the_points_are_as_near_as_the_docs_say(run: str, experiment: str, points: int, within: float) -> None:
    known = ratios(run)[experiment]
    assert len(known) >= points
    assert math.exp(median(abs(math.log(ratio)) for ratio in known)) <= within
