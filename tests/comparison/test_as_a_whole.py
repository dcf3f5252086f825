"""An experiment as a whole: a slow-down of 10 % is found in noisy runs, and only where it is."""

from __future__ import annotations

import numpy as np
import pytest

from firsttouch.comparison.differences import SAME, find
from firsttouch.comparison.runs import Definition
from firsttouch.comparison.table import AlignedPoints, Column

EXPERIMENTS, POINTS, RUNS, TRIALS = 4, 24, 3, 50
SLOW = "experiment 0"


def runs(rng: np.random.Generator, between: float, factor: float = 1.1) -> AlignedPoints:
    """Three runs on each side, with 5 % of noise a point, and noise that all points of an experiment share in a run.

    One experiment of the second side is slower by `factor`.
    """
    columns = [
        Column(Definition(f"experiment {e}", "ns", 1, "lower"), "cpu", f'{{"size":{i}}}')
        for e in range(EXPERIMENTS)
        for i in range(POINTS)
    ]
    shared = np.repeat(rng.normal(0, between, (2 * RUNS, EXPERIMENTS)), POINTS, axis=1)
    values = 100 * np.exp(rng.normal(0, 0.05, shared.shape) + shared)
    values[RUNS:, :POINTS] *= factor
    return AlignedPoints(columns, values, 0.99 * values, 1.01 * values, [[*range(RUNS)], [*range(RUNS, 2 * RUNS)]])


@pytest.mark.parametrize(("between", "least"), [(0.0, 0.98), (0.02, 0.6)])
def test_ten_percent_are_found_in_noisy_runs_and_only_where_they_are(between: float, least: float) -> None:
    rng = np.random.default_rng(3)
    found = [find(runs(rng, between)) for _ in range(TRIALS)]
    groups = [group for one in found for group in one.groups]
    slow = [group for group in groups if group.experiment == SLOW]
    assert sum(group.verdict == "slower" for group in slow) >= least * TRIALS
    assert 1.08 < np.median([group.ratio for group in slow if group.ratio]) < 1.12
    assert sum(group.differs for group in groups if group.experiment != SLOW) < 0.02 * (EXPERIMENTS - 1) * TRIALS
    elsewhere = [point for one in found for point in one.points if point.column.definition.experiment != SLOW]
    assert sum(point.verdict != SAME for point in elsewhere) < 0.02 * len(elsewhere)


def test_a_wild_run_or_a_missing_point_does_not_make_an_experiment_differ() -> None:
    table = runs(np.random.default_rng(4), 0.0, factor=1.0)
    table.value[RUNS] *= 2
    table.value[0, 5] = np.nan
    assert {group.verdict for group in find(table).groups} == {SAME}
