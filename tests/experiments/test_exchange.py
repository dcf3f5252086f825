"""exchange: the points of each preset on a GPU, and the findings."""

from __future__ import annotations

from collections import Counter
from functools import partial

import preset_helpers
import pytest
from fake_devices import BOTH, GPU, OPENCL_GPU, opencl
from fake_records import a_record, findings_of
from tests.findings import assert_finding, claims

from firsttouch.experiments.exchange import ADVICE, BASE, GAP, METHOD, SINGLE, TURNS, WAITED, case_of
from firsttouch.program.guidance import ADVICE_PAIRS, SINGLE_ADVICE
from firsttouch.records.findings import Claim, Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Record, Scalar

plan = partial(preset_helpers.plan, "exchange")


def gpu(concurrent: bool = True) -> DeviceInfo:
    """A device with separate memory whose driver moves managed pages."""
    rows = [
        AllocatorInfo(name="malloc", available=True, cpu="direct", gpu="none", gpu_reason="no way there"),
        AllocatorInfo(name="device", available=True, cpu="none", gpu="direct"),
        AllocatorInfo(name="pinned", **BOTH),
        AllocatorInfo(name="managed", **BOTH, managed=True, concurrent=concurrent),
    ]
    return DeviceInfo(name="cuda:0", kind="cuda", title="a GPU", capabilities=GPU, allocators=rows)


def cases(device: DeviceInfo, preset: str) -> Counter[str]:
    return Counter(case_of(p.point.factors, device) for p in plan(device, preset) if not p.reason)


def test_quick_measures_each_method_and_turns_with_and_without_gaps() -> None:
    assert set(cases(gpu(), "quick")) == {
        "managed", "1 turns", "10 turns", "30 turns", "100 us between turns", "1000 us between turns",
        "the CPU writes too", "pinned", "prefetched", "malloc, copied",
        "pinned, copied", "malloc, copied, the CPU writes too", "pinned, copied, the CPU writes too",
        "device, launched", "device, queued",
        "pinned, the kernel uses atomics",
        *(f"the kernel uses atomics{more}" for more in
          ("", ", 1 turns", ", 10 turns", ", 30 turns", ", 100 us between turns", ", 1000 us between turns")),
    }  # fmt: skip


def test_standard_varies_each_condition() -> None:
    measured = cases(gpu(), "standard")
    assert set(measured.values()) == {1}
    single = {"1 turns", "2 turns", "10 turns", "10 us between turns", "10000 us between turns", "65536 B"}
    assert measured.keys() >= {*SINGLE_ADVICE, *ADVICE_PAIRS, *single}
    assert {f"{advice}, the CPU writes too" for advice in SINGLE_ADVICE} <= measured.keys()
    assert {f"{turns} turns, {gap} us between turns" for turns in (1, 2, 10) for gap in (10, 10_000)} <= measured.keys()


def test_a_driver_that_takes_no_guidance_has_no_points_with_it() -> None:
    points = [p.point.factors for p in plan(opencl(OPENCL_GPU), "standard")]
    assert {f["advice"] for f in points} == {"none"}
    assert "prefetched" not in {f["method"] for f in points}


def test_managed_memory_that_only_one_agent_may_use_at_a_time_takes_no_guidance() -> None:
    skipped = [p for p in plan(gpu(concurrent=False), "standard") if p.point.factors["method"] == "prefetched"]
    assert skipped
    assert all("managed memory at once" in p.reason for p in skipped)


def row(median: float, **changed: Scalar) -> Record:
    return a_record("exchange", median, {"allocator": "managed", **BASE, **changed})


def test_a_finding_has_both_methods_and_what_they_share() -> None:
    records = [row(1500), row(20, allocator="pinned", method="copied"), row(8, allocator="device", method="launched")]
    found = findings_of("exchange", records)
    same = {"turns": 100, "gap_us": 0, "size": 8, "kernel": "store", "operation": "read"}
    slowest = {"allocator": "managed", "method": "shared", "value": Quantity(1500, "us")}
    fastest = {"other_allocator": "pinned", "other_method": "copied", "other_value": Quantity(20, "us"), "ratio": 75}
    assert_finding(found, METHOD, **same, **slowest, **fastest)
    assert_finding(found, WAITED, value=Quantity(8, "us"), size=8)


@pytest.mark.parametrize(
    "changed",
    [{"operation": "update"}, {"kernel": "atomic"}, {"turns": 1}, {"gap_us": 1000}, {"size": 4096}, {"xnack": "1"}],
)
def test_points_that_differ_in_something_else_are_not_compared(changed: dict[str, Scalar]) -> None:
    records = [row(1500, **{name: BASE.get(name, "0") for name in changed}), row(20, method="copied", **changed)]
    assert {*claims(findings_of("exchange", records))} == {SINGLE}


@pytest.mark.parametrize(
    ("claim", "condition", "usual", "changed"),
    [(ADVICE, "advice", "none", "preferred-cpu"), (GAP, "gap_us", 0, 1000), (TURNS, "turns", 1, 10)],
)
def test_the_change_by_one_condition_is_a_finding(claim: Claim, condition: str, usual: Scalar, changed: Scalar) -> None:
    found = findings_of("exchange", [row(500, **{condition: usual}), row(100, **{condition: changed})])
    values = {"value": Quantity(100, "us"), "other_value": Quantity(500, "us"), "ratio": 0.2}
    assert_finding(found, claim, **{condition: changed, f"other_{condition}": usual}, **values)
