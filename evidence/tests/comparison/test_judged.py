"""Advice from micro-measurements alone, against applications that were measured."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tests.kept_runs import stored_run, stored_runs

from firsttouch.comparison.validation.judged import FAR_OFF, Case, Judgement, estimator_of, in_order, judge
from firsttouch.records.reading import load_results

ROOT = Path(__file__).parents[3]
APPLICATIONS = stored_runs("h200-apps*")


results = cache(load_results)


def too_far(judged: Judgement) -> list[Case]:
    repeated = [case for _, case in judged.picked if case.repetitions > 1]
    return [case for case in repeated if case.pick is not None and case.least_ratio(case.pick) > FAR_OFF]


@pytest.fixture(scope="module")
def on_the_h200() -> list[Judgement]:
    """The judgement of each directory of applications."""
    estimator = estimator_of(load_results(stored_run("h200-standard")))
    return [judge(estimator, [results(directory)]) for directory in APPLICATIONS]


def test_the_advised_strategy_is_near_the_fastest(on_the_h200: list[Judgement]) -> None:
    for judged in on_the_h200:
        unknown = [case.application for case in judged.cases if case.pick is None]
        assert {*unknown} <= {"cfd_concurrent", "producer_consumer"}
        if not judged.picked:
            continue
        assert judged.mean_ratio <= 1.05
        assert too_far(judged) == []
        assert judged.mean_ratio <= judged.fixed[1]


def test_of_all_applications_measured_several_times_advice_is_better_than_one_strategy_for_all(
    on_the_h200: list[Judgement],
) -> None:
    judged = Judgement([case for one in on_the_h200 for case in one.cases]).repeated
    assert len(judged.picked) >= 25
    assert judged.mean_ratio < judged.fixed[1]
    assert judged.mean_ratio <= 1.05
    assert judged.median_error <= 0.2
    assert in_order(judged.pairs) >= 0.9


@pytest.mark.parametrize("prices", ["h200-standard-2", "h200-standard-3"])
def test_advice_is_as_good_with_the_prices_of_another_machine_of_this_kind(prices: str) -> None:
    repeated = [results(directory) for directory in APPLICATIONS if directory.name != "h200-apps"]
    judged = judge(estimator_of(load_results(stored_run(prices))), repeated)
    assert judged.mean_ratio < judged.fixed[1]
    assert judged.mean_ratio <= 1.05
    assert too_far(judged) == []
    assert judged.median_error <= 0.2
    assert in_order(judged.pairs) >= 0.9


@pytest.mark.parametrize("size", ["64mib", "256mib", "1gib", "4gib"])
def test_advice_on_other_cards_is_right_at_each_size(size: str) -> None:
    """particlefilter and kmeans at 64 MiB: 1.33 and 1.26, where processes differ more than repetitions."""
    measured = [results(directory) for directory in stored_runs(f"h100-apps-{size}*")]
    judged = judge(estimator_of(load_results(stored_run("h100-quick"))), measured)
    assert len(judged.picked) == len(judged.cases) >= 18
    assert judged.mean_ratio <= 1.05
    assert judged.mean_ratio < judged.fixed[1]
    assert {case.application for case in too_far(judged)} == (
        {"particlefilter", "kmeans"} if size == "64mib" else set()
    )


def test_on_a_processor_everything_in_place_is_estimated_alike() -> None:
    estimator = estimator_of(load_results(stored_run("xeon-vm-standard")))
    judged = judge(estimator, [load_results(stored_run("xeon-vm-apps"))])
    assert len(judged.picked) == len(judged.cases) >= 18
    assert judged.mean_ratio <= 1.05
    assert too_far(judged) == []
    assert judged.mean_ratio <= judged.fixed[1]
    assert judged.median_error <= 0.2
    assert in_order(judged.distinct) >= 0.9
