"""The search for the best share of the GPU, and what is said about what it finds."""

from __future__ import annotations

import itertools

import pytest
from fake_records import a_record
from tests.findings import assert_finding

from firsttouch.engine.values import parse_value
from firsttouch.experiments.contract import shares
from firsttouch.experiments.contract.shares import (
    COARSE,
    FASTER,
    GPU_ALONE,
    GPU_SHARE,
    NO_FASTER,
    ONCE,
    ShareSearch,
    best_found,
    search,
    share_of,
)
from firsttouch.records.findings import Finding
from firsttouch.records.schema import Factors


def test_a_search_refines_around_the_best_of_a_coarse_grid() -> None:
    found = search(lambda share: 1 + abs(share - 0.69))
    assert set(COARSE) < set(found.times)
    assert found.best == 0.6875
    assert len(found.times) == 9
    assert found.complete
    assert search(lambda share: -share).best == 1
    assert search(lambda share: share).best == 0


def test_a_search_ends_when_its_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 4.0)
    monkeypatch.setattr(shares.time, "monotonic", lambda: next(clock))
    found = search(lambda share: 1 + share, limit=10)
    assert not found.complete
    assert list(found.times) == [1.0, 0.75, 0.5, 0.25]


def found(best: dict[float, float], at_best: list[float], gpu_alone: list[float]) -> list[Finding]:
    counters = ShareSearch(best, 1.0, complete=True).counters(at_best, gpu_alone)
    return best_found(a_record("concurrency", 1.0, {"strategy": "pinned"}, **counters), "pinned")


def test_a_gain_is_said_with_its_interval_and_no_gain_too() -> None:
    curve = {1.0: 3.0, 0.75: 2.0, 0.5: 4.0}
    best = {"where": "pinned", "best": "0.75"}
    gain = found(curve, [2.0, 2.1, 1.9], [3.0, 3.1, 2.8])
    assert_finding(gain, FASTER, **best, speedup=1.5, low=1.333, high=1.632)
    none = found(curve, [2.0, 2.1, 3.9], [3.0, 3.1, 2.8])
    assert_finding(none, NO_FASTER, **best, speedup=1.43, low=0.718, high=1.55)
    assert_finding(found({1.0: 1.0, 0.5: 2.0}, [1.0], [1.0]), GPU_ALONE, where="pinned")
    assert_finding(found(curve, [1.0], [3.0]), ONCE, **best, speedup=3)


def test_the_curve_is_in_the_record() -> None:
    counters = ShareSearch({1.0: 3.0, 0.75: 2.0}, 1.0, complete=False).counters([2.0], [3.0])
    assert (counters["share_1_ms"], counters["share_0.75_ms"]) == (3.0, 2.0)
    assert (counters["best_share"], counters["search_complete"], counters["best_speedup"]) == (0.75, False, 1.5)


@pytest.mark.parametrize(("text", "value"), [("0.50", 0.5), ("1", 1.0), ("0", 0.0), ("best", "best")])
def test_a_share_is_a_number_from_0_to_1_or_best(text: str, value: float | str) -> None:
    assert parse_value(GPU_SHARE, text) == value


@pytest.mark.parametrize("text", ["1.1", "-0.1", "nan", "inf", "half", ""])
def test_other_shares_are_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        parse_value(GPU_SHARE, text)


def test_half_is_the_default() -> None:
    assert share_of(Factors({})) == 0.5
    assert share_of(Factors({"gpu_share": 0.0})) == 0
    assert share_of(Factors({"gpu_share": "best"})) is None
