"""exchange: the points of each preset on a GPU, and the findings."""

from __future__ import annotations

from collections import Counter
from functools import partial

import preset_helpers
import pytest
from fake_devices import BOTH, GPU, OPENCL_GPU, opencl
from fake_records import a_record, sentences_of

from firsttouch.experiments.exchange import BASE, case_of
from firsttouch.program.guidance import ADVICE_PAIRS, SINGLE_ADVICE
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
    assert all("may not use managed memory at once" in p.reason for p in skipped)


def row(median: float, **changed: Scalar) -> Record:
    return a_record("exchange", median, {"allocator": "managed", **BASE, **changed})


def test_a_sentence_names_both_methods_and_what_they_share() -> None:
    records = [row(1500), row(20, allocator="pinned", method="copied"), row(8, allocator="device", method="launched")]
    said = sentences_of("exchange", records)
    assert (
        "With 100 turns, 0 us apart, a turn of kernel and CPU over 8 B of shared managed memory (kernel: store, "
        "CPU: read) takes longest: 1.5 ms, 75 times as long as of copied pinned memory (20 us)." in said
    )
    assert "A launch for which the CPU waits takes 8 us" in said


@pytest.mark.parametrize(
    "changed",
    [{"operation": "update"}, {"kernel": "atomic"}, {"turns": 1}, {"gap_us": 1000}, {"size": 4096}, {"xnack": "1"}],
)
def test_points_that_differ_in_something_else_are_not_compared(changed: dict[str, Scalar]) -> None:
    records = [row(1500, **{name: BASE.get(name, "0") for name in changed}), row(20, method="copied", **changed)]
    assert "times as long" not in sentences_of("exchange", records)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"advice": "preferred-cpu"}, "with advice preferred-cpu, 0.2 times as long as with none"),
        ({"gap_us": 1000}, "100 turns 1,000 us apart, takes 100 us"),
        ({"turns": 10}, "averaged over 10 turns 0 us apart"),
    ],
)
def test_the_change_by_one_condition_is_a_sentence(changed: dict[str, Scalar], sentence: str) -> None:
    usual = {"turns": 1} if "turns" in changed else {}
    assert sentence in sentences_of("exchange", [row(500, **usual), row(100, **changed)])
