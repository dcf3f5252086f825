"""Three runs a side: a slow-down of 10 % is found in noisy runs, and only where it is; noise is no regression."""

from __future__ import annotations

import numpy as np
import pytest

from firsttouch.comparison.between_runs import student
from firsttouch.comparison.compare import regressions
from firsttouch.comparison.differences import CANNOT_TELL, SAME, find
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
    sides = {"before": [*range(RUNS)], "after": [*range(RUNS, 2 * RUNS)]}
    return AlignedPoints(columns, values, 0.99 * values, 1.01 * values, sides)


@pytest.mark.parametrize(("between", "least"), [(0.0, 0.98), (0.02, 0.9)])
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


@pytest.mark.parametrize(("own", "between"), [(0.01, 0.3), (0.2, 0.0), (0.2, 0.2), (0.4, 0.4)])
def test_runs_that_differ_much_hardly_ever_fail(own: float, between: float) -> None:
    """20 to 40 % from run to run, of each point by itself, of all points of an experiment, or of both."""
    rng = np.random.default_rng(6)
    failing, differing = 0, []
    for _ in range(TRIALS):
        table = runs(rng, between, factor=1.0)
        table.value *= np.exp(rng.normal(0, own, table.value.shape))
        table.low[:], table.high[:] = 0.99 * table.value, 1.01 * table.value
        found = find(table)
        failing += bool(regressions(found, table, 0.1))
        differing += [point.differs for point in found.points]
    assert failing <= 0.06 * TRIALS
    assert np.mean(differing) < 0.02


def test_disturbed_runs_are_left_out_or_cannot_tell() -> None:
    """Other programs make points twice as slow; what was measured meanwhile is marked."""
    rng = np.random.default_rng(7)
    for disturbed, wanted in (([3], {SAME}), ([0, 4, 5], {SAME}), ([3, 4, 5], {CANNOT_TELL})):
        table = runs(rng, 0.0, factor=1.0)
        table.disturbed = np.zeros(table.value.shape, dtype=bool)
        table.disturbed[disturbed] = True
        table.value[disturbed] *= 2
        table.low[:], table.high[:] = 0.99 * table.value, 1.01 * table.value
        found = find(table)
        assert {group.verdict for group in found.groups} == wanted
        assert {point.verdict for point in found.points} >= wanted
        assert not any(point.differs for point in found.points)
        assert regressions(found, table, 0.1) == []
    both = runs(rng, 0.0, factor=1.3)
    both.disturbed = np.ones(both.value.shape, dtype=bool)
    assert [group.verdict for group in find(both).groups] == ["slower", *[SAME] * (EXPERIMENTS - 1)]


def test_equal_sides_hardly_differ_where_all_runs_are_disturbed() -> None:
    """Load comes in bursts: a run is as fast as without it, or far slower."""
    rng, failing = np.random.default_rng(9), 0
    for _ in range(2 * TRIALS):
        table = runs(rng, 0.0, factor=1.0)
        bursts = rng.choice([0.0, 0.1, 0.6], (2 * RUNS, EXPERIMENTS))
        table.value *= np.exp(np.repeat(bursts, POINTS, axis=1) + rng.normal(0, 0.2, table.value.shape))
        table.low[:], table.high[:] = 0.99 * table.value, 1.01 * table.value
        table.disturbed = np.ones(table.value.shape, dtype=bool)
        failing += bool(regressions(find(table), table, 0.1))
    assert failing <= 0.05 * 2 * TRIALS


def test_a_point_of_a_disturbed_run_alone_is_left_out() -> None:
    table = runs(np.random.default_rng(8), 0.0, factor=1.0)
    table.disturbed = np.zeros(table.value.shape, dtype=bool)
    table.disturbed[:2, 5] = True
    table.value[:2, 5] = 1e6
    point = next(p for p in find(table).points if p.column == table.columns[5])
    assert (point.verdict, point.base.runs, point.base.value < 200) == (SAME, 1, True)


@pytest.mark.parametrize(
    ("freedom", "level", "value"),
    [(1, 0.95, 12.706), (2, 0.95, 4.303), (3, 0.99, 5.841), (4, 0.98, 3.747), (9, 0.95, 2.262), (120, 0.99, 2.617)],
)
def test_students_t_is_that_of_tables(freedom: int, level: float, value: float) -> None:
    assert student(freedom, level) == pytest.approx(value, abs=0.001)
