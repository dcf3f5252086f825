"""concurrency: the strategies for each kind of memory, and the findings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_devices import DISCRETE
from fake_records import MIB, a_record, findings_of
from preset_helpers import factors_of, left_out_of, plan
from tests.calls import call
from tests.findings import assert_finding, claims

from firsttouch.experiments import concurrency
from firsttouch.experiments.concurrency import (
    AT_LIMIT,
    BELOW_LIMIT,
    BEST,
    NO_SPEEDUP,
    OVERLAP,
    SPEEDUP,
    Concurrency,
)
from firsttouch.experiments.contract.base import Meaningless
from firsttouch.records.findings import Finding, Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import AllocatorInfo, Scalar


@pytest.mark.parametrize(
    ("allocator", "strategy", "reason"),
    [
        ("malloc", "concurrent", "no page faults"),
        ("device", "concurrent", "cannot reach device memory"),
        ("device", "lockstep", "cannot reach device memory"),
        ("device", "copying", None),
        ("pinned", "concurrent", None),
        ("pinned", "lockstep", None),
        ("managed", "concurrent", "may use managed memory"),
        ("managed", "lockstep", None),
    ],
)
def test_a_strategy_is_measured_where_the_memory_allows_it(allocator, strategy, reason):
    experiment = Concurrency()
    found = experiment.skip(factors_of(experiment, allocator=allocator, strategy=strategy), DISCRETE)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


@pytest.mark.parametrize(("concurrent", "reason"), [(None, "does not state"), (True, None), (False, "does not allow")])
def test_memory_of_which_the_driver_states_nothing_is_used_at_once_where_that_was_verified(concurrent, reason):
    memory = AllocatorInfo(name="device", available=True, cpu="direct", gpu="direct", concurrent=concurrent)
    apu = msgspec.structs.replace(DISCRETE, allocators=[memory])
    experiment = Concurrency()
    found = experiment.skip(factors_of(experiment, allocator="device", strategy="concurrent"), apu)
    assert (reason in found) if reason else (found is None)


@pytest.mark.parametrize(
    ("allocator", "cpu_half", "reason"),
    [
        ("pinned", "same", None),
        ("pinned", "managed", "managed memory while a kernel"),
        ("managed", "pinned", "managed memory while a kernel"),
        ("pinned", "device", "cannot reach device memory"),
    ],
)
def test_both_halves_must_allow_the_strategy(allocator, cpu_half, reason):
    experiment = Concurrency()
    factors = factors_of(experiment, allocator=allocator, cpu_half=cpu_half, strategy="concurrent")
    found = experiment.skip(factors, DISCRETE)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found
    assert not isinstance(found, Meaningless)
    assert isinstance(experiment.skip(factors | {"cpu_half": allocator}, DISCRETE), Meaningless)


def test_findings_name_the_memory_of_both_halves():
    factors: dict[str, Scalar] = {"allocator": "device", "cpu_half": "pinned", "strategy": "lockstep"}
    alone = {"overlap": 0.5, "cpu_alone_ms": 1.0, "gpu_alone_ms": 1.0}
    found = findings_of("concurrency", [a_record("concurrency", 4.0, factors, **alone)])
    assert_finding(found, BEST, memory="device and pinned", strategy="lockstep", value=Quantity(4, "ms"))


def test_copying_is_measured_where_the_cpu_cannot_reach_the_memory():
    experiment = Concurrency()
    copied = {
        entry.name
        for entry in DISCRETE.allocators
        if not left_out_of(
            experiment, factors_of(experiment, allocator=entry.name, strategy="copying"), DISCRETE, "full"
        )
    }
    assert copied == {"device"}


@pytest.mark.parametrize(("strategy", "array"), [("copying", "pinned"), ("copying-pageable", "malloc")])
def test_the_cpu_s_array_of_a_copying_point_is_of_the_memory_that_the_strategy_says(strategy, array):
    experiment = Concurrency()
    factors = factors_of(experiment, allocator="device", strategy=strategy)
    assert experiment.skip(factors, DISCRETE) is None
    assert concurrency.cpu_array_allocator(factors, DISCRETE) == array
    assert left_out_of(experiment, factors | {"allocator": "pinned"}, DISCRETE, "full")
    asked = plan("concurrency", DISCRETE, "quick", strategy=["concurrent", strategy], allocator=["device", "pinned"])
    assert {p.point["allocator"] for p in asked if p.point["strategy"] == strategy} == {"device"}


def test_findings_name_the_fastest_strategy_and_its_speedup():
    rows = [
        a_record(
            "concurrency",
            together,
            {"allocator": allocator, "strategy": strategy},
            overlap=6 / together,
            cpu_alone_ms=2.0,
            gpu_alone_ms=4.0,
        )
        for allocator, strategy, together in [
            ("managed", "lockstep", 12.0),
            ("pinned", "concurrent", 4.0),
            ("pinned", "lockstep", 6.0),
        ]
    ]
    found, best = Concurrency().findings(rows, DISCRETE), {"memory": "pinned", "strategy": "concurrent"}
    assert_finding(found, BEST, **best, value=Quantity(4, "ms"), alone=Quantity(6, "ms"))
    assert_finding(found, SPEEDUP, **best, speedup=1.5, other_strategy="lockstep")
    assert_finding(found, AT_LIMIT, **best, value=1.5)


def overlap(together: float, spread: float = 0.01) -> list[Finding]:
    """Findings for agents that take 2 and 4 ms alone, so that the highest possible overlap is 1.5."""
    factors: dict[str, Scalar] = {"allocator": "pinned", "strategy": "concurrent", "size": 64 * MIB}
    alone = {"overlap": 6 / together, "cpu_alone_ms": 2.0, "gpu_alone_ms": 4.0}
    return findings_of("concurrency", [a_record("concurrency", together, factors, spread, **alone)])


def test_an_overlap_is_compared_with_its_limit_where_the_interval_allows() -> None:
    greatest = {"memory": "pinned", "strategy": "concurrent"}
    assert_finding(overlap(5.0), BELOW_LIMIT, **greatest, value=1.2, limit=1.5)
    assert_finding(overlap(3.95, spread=0.03), AT_LIMIT, **greatest, value=1.52)
    assert_finding(overlap(3.0), OVERLAP, **greatest, value=2)


def test_findings_name_the_division_and_do_not_compare_different_ones() -> None:
    alone = {"overlap": 1.2, "cpu_alone_ms": 2.0, "gpu_alone_ms": 4.0}
    base: dict[str, Scalar] = {"allocator": "pinned", "cpu_half": "same", "size": 64 * MIB}
    rows = [
        a_record("concurrency", 4.0, base | {"strategy": "concurrent", "gpu_share": 0.25}, **alone),
        a_record("concurrency", 6.0, base | {"strategy": "lockstep", "gpu_share": 0.75}, **alone),
        a_record(
            "concurrency", 9.0, base | {"strategy": "lockstep", "gpu_share": 1.0}, **alone | {"cpu_alone_ms": 0.0}
        ),
    ]
    found = findings_of("concurrency", rows)
    best = {"memory": "pinned", "strategy": "concurrent", "gpu_share": 0.25, "division": ", gpu_share 0.25"}
    assert_finding(found, BEST, **best, value=Quantity(4, "ms"))
    assert not {SPEEDUP, NO_SPEEDUP} & {*claims(found)}


@pytest.mark.parametrize(
    ("cpu_half", "share", "allowed"),
    [
        ("same", 0.0, True),
        ("same", "best", True),
        ("managed", 0.3, True),
        ("managed", 1.0, False),
        ("managed", 0.0001, False),
        ("managed", "best", False),
    ],
)
def test_two_allocations_need_two_parts(cpu_half: str, share: Scalar, allowed: bool) -> None:
    experiment = Concurrency()
    factors = factors_of(experiment, allocator="pinned", cpu_half=cpu_half, strategy="lockstep")
    assert isinstance(experiment.skip(factors | {"gpu_share": share}, DISCRETE), Meaningless) != allowed


@pytest.mark.exhaustive
def test_every_share_is_verified_and_the_best_one_found(tmp_path: Path) -> None:
    settings = ["allocator=svm-fine,device", "size=1MiB", "iterations=3", "gpu_share=0,0.3,1,best", "cpu_threads=1,0"]
    options = [word for setting in settings for word in ("--set", setting)]
    done = call("run", "concurrency", "--device", "opencl:0", *options, "--out", tmp_path / "out", drawn=True)
    assert done.returncode == 0, done.stderr
    records = [r for r in load_results(tmp_path / "out").records if r.status != "skipped"]
    assert len(records) == 4 * 2 * 4
    for record in records:
        assert (record.status, record.verified) == ("ok", True), record.factors
        share = record.factors["gpu_share"]
        assert record.counters["ran_share"] == {0.3: 0.3125, "best": record.counters.get("best_share")}.get(
            share, share
        )
        assert ("share_0.75_ms" in record.counters) == (share == "best")
        assert (record.counter("gpu_alone_ms") > 0) == (record.counter("ran_share") > 0)
