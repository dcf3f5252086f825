"""accounting on the CPU, and its interpretation of counters."""

from __future__ import annotations

import pytest
from fake_records import a_record, findings_of
from tests.findings import assert_finding

from firsttouch.experiments.accounting import TAKEN_WHEN, Accounting, Trial, medians, step_and_counters
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.machine.devices import describe_devices
from firsttouch.records.schema import Factors, Scalar
from firsttouch.workers.session import Session

SIZE = 64 * 2**20


@pytest.fixture(scope="module")
def malloc() -> Measurement:
    session = Session(describe_devices("cpu")[0], seed=7, seconds=1.0, tolerance=0.03, preset="quick")
    point = Point("accounting", "cpu", Factors({"allocator": "malloc", "toucher": "cpu", "size": SIZE}))
    return Accounting().measure(point, session)


def test_malloc_memory_is_taken_at_the_first_touch_and_shows_in_process_counters(malloc: Measurement) -> None:
    assert malloc.verified
    for name in ("rss", "rollup_rss", "pss"):
        if f"touch_{name}" in malloc.counters:
            assert malloc.counters[f"touch_{name}"] == pytest.approx(SIZE, rel=0.1)
            assert malloc.counters[f"call_{name}"] == pytest.approx(0, abs=0.1 * SIZE)


def test_there_is_a_sample_per_trial_and_the_counters_of_both_steps(malloc: Measurement) -> None:
    assert len(malloc.samples) == 3
    assert {"call_headline", "touch_headline", "noise_headline", "rollup_ms"} <= malloc.counters.keys()


def test_step_and_counters_that_changed() -> None:
    counters: dict[str, Scalar] = {
        "call_headline": 0, "touch_headline": 90, "call_rss": 0, "touch_rss": 85, "call_vendor_used": 0,
        "touch_vendor_used": 2, "call_cgroup": 45, "touch_cgroup": 45, "noise_headline": 1,
    }  # fmt: skip
    assert step_and_counters(counters, 100) == ("at the first touch", ("RSS", "the cgroup"))
    up_front = counters | {"call_headline": 90, "touch_headline": 3}
    assert step_and_counters(up_front, 100)[0] == "at the call"
    assert step_and_counters(counters | {"touch_headline": 40}, 100)[0].startswith("neither at the call")


def test_medians_split_call_and_touch() -> None:
    def trial(still: int, call: int, touch: int) -> Trial:
        readings = [{"headline": 0, "rss": 0, "time_ns": 0}]
        for moved in (still, call, touch):
            readings.append({"headline": readings[-1]["headline"] + moved, "rss": 7, "time_ns": len(readings)})
        return Trial(*readings)

    assert medians([trial(0, 1, 20), trial(-5, 2, 30), trial(3, 9, 25)]) == {
        "call_headline": 2,
        "call_rss": 0,
        "touch_headline": 25,
        "touch_rss": 0,
        "noise_headline": 5,
    }


def test_a_finding_names_each_group_of_counters_once() -> None:
    seen = {f"touch_{name}": float(SIZE) for name in ("headline", "rss", "rollup_rss", "pss", "mem_free", "cgroup")}
    idle = {name.replace("touch_", "call_"): 0.0 for name in seen}
    factors: dict[str, Scalar] = {"allocator": "malloc", "toucher": "cpu", "size": SIZE}
    (taken,) = findings_of("accounting", [a_record("accounting", SIZE, factors, **seen, **idle)])
    counters = ("RSS", "the cgroup", "free host memory")
    assert_finding([taken], TAKEN_WHEN, value="at the first touch", size=SIZE, allocator=("malloc",), counters=counters)
