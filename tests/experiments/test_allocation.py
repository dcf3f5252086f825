"""allocation on this machine, and the comparison of allocators' costs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_devices import amd
from fake_records import KIB, MIB, a_record, findings_of
from preset_helpers import plan
from tests.findings import assert_finding, claims

from firsttouch import _core
from firsttouch.engine.plan import make_plan
from firsttouch.experiments import all_experiments
from firsttouch.experiments.allocation import (
    ALIKE,
    FALLS,
    FLAT,
    FREE_RANGE,
    FREE_RATIO,
    FREE_TOUCHED,
    GROWS,
    GROWTH_UNTOLD,
    RANGE,
    SINGLE,
    UNTOLD,
    Allocation,
)
from firsttouch.experiments.contract.base import Point
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.findings import Claim, Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, DeviceInfo, Factors, Record, Request
from firsttouch.workers.session import Session

RESULTS = Path(__file__).parents[2] / "results"
H200 = next(d for d in load_results(RESULTS / "h200-quick").machine.devices if d.name == "cuda:0")


def allocations(curves: dict[str, dict[int, float]], spread: float = 0.01, call: str = "allocate") -> list[Record]:
    return [
        a_record("allocation", ns, {"allocator": name, "size": size, "call": call, "chunks": 100}, spread)
        for name, curve in curves.items()
        for size, ns in curve.items()
    ]


def test_allocators_are_compared_at_one_size() -> None:
    """vmm's least is above pinned's least, but at 64 MiB pinned costs a thousand times as much."""
    curves = {"vmm": {64: 47_700.0, 64 * MIB: 51_000.0}, "pinned": {64: 1_500.0, 64 * MIB: 36.6e6}}
    first, second, *_ = findings_of("allocation", allocations(curves))
    pinned = {"allocator": "pinned", "value": Quantity(36.6e6, "ns"), "size": 64 * MIB}
    assert_finding([first], RANGE, **pinned, ratio=718, other_allocator="vmm", other_value=Quantity(51_000, "ns"))
    assert_finding([second], RANGE, allocator="vmm", value=Quantity(47_700, "ns"), size=64)


def test_a_size_measured_for_only_one_allocator_is_not_compared() -> None:
    curves = {"vmm": {64: 47_700.0}, "pinned": {64: 1_500.0, 64 * MIB: 36.6e6}}
    first, *more = findings_of("allocation", allocations(curves))
    assert_finding([first], RANGE, allocator="vmm", size=64)
    assert RANGE not in claims(more)


def test_costs_with_overlapping_intervals_are_not_ranked() -> None:
    curves = {"malloc": {64: 20.0}, "mmap": {64: 21.0}}
    assert claims(findings_of("allocation", allocations(curves, spread=0.05))) == [ALIKE]
    (untold,) = findings_of("allocation", allocations(curves, spread=0.3))
    mmap, malloc = Quantity(21, "ns", 14.7, 27.3), Quantity(20, "ns")
    assert_finding(
        [untold], UNTOLD, size=64, allocator="mmap", value=mmap, other_allocator="malloc", other_value=malloc
    )


@pytest.mark.parametrize(
    ("least", "largest", "spread", "claim"),
    [
        (20.0, 70.0, 0.01, GROWS),
        (20.0, 22.0, 0.05, FLAT),
        (20.0, 22.0, 0.6, GROWTH_UNTOLD),
        (22.0, 20.0, 0.6, GROWTH_UNTOLD),
        (70.0, 20.0, 0.01, FALLS),
    ],
)
def test_that_a_cost_hardly_changes_is_shown_by_intervals(
    least: float, largest: float, spread: float, claim: Claim
) -> None:
    found = findings_of("allocation", allocations({"mmap": {MIB: least, 4 * MIB: largest}}, spread))
    assert_finding(found, claim, allocator=("mmap",), least_size=MIB, most_size=4 * MIB)


def test_values_of_findings_are_quantities_or_text() -> None:
    values = {type(f.value) for f in findings_of("allocation", allocations({"mmap": {MIB: 1.0, 4 * MIB: 1.0}}))}
    assert values == {Quantity, str}


@pytest.mark.parametrize("call", ["allocate", "free"])
def test_each_call_has_its_own_samples(call: str) -> None:
    session = Session(DeviceInfo(name="cpu", kind="cpu", title=""), 1, 0.01, 0.5, "quick")
    factors = Factors({"allocator": "mmap", "size": 64 * KIB, "call": call, "chunks": 10})
    found = Allocation().measure(Point("allocation", "cpu", factors), session)
    assert found.verified is True
    assert set(found.counters) == {"free_ns" if call == "allocate" else "allocate_ns"}
    assert min(found.samples) > 0


def test_all_blocks_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOUCH_MAX_HOST", "64MiB")
    session = Session(DeviceInfo(name="cpu", kind="cpu", title=""), 1, 0.01, 0.5, "quick")
    factors = Factors({"allocator": "malloc", "size": MIB, "call": "allocate", "chunks": 100})
    with pytest.raises(_core.GuardRefused):
        Allocation().measure(Point("allocation", "cpu", factors), session)
    assert Allocation().measure(Point("allocation", "cpu", factors | {"chunks": 10}), session).samples


@pytest.mark.parametrize(("timeout", "limit"), [(None, 240.0), (60.0, 60.0), (900.0, 900.0)])
def test_slow_allocations_have_more_time_than_other_points(timeout: float | None, limit: float) -> None:
    request = Request(SCHEMA, experiments=["allocation"], devices=["cpu"], preset="full", seed=1, timeout=timeout)
    planned = make_plan(request, [msgspec.structs.replace(amd(), name="cpu")], all_experiments(), {})
    assert {p.limit for p in planned if not p.reason} == {limit}


def test_a_point_that_would_take_too_long_says_what_to_type() -> None:
    session = Session(DeviceInfo(name="cpu", kind="cpu", title=""), 1, 0.01, 0.5, "quick", limit=1e-6)
    factors = Factors({"allocator": "mmap", "size": 64, "call": "allocate", "chunks": 10_000})
    with pytest.raises(_core.Unavailable, match=r"10000 blocks .* --timeout \d+ "):
        Allocation().measure(Point("allocation", "cpu", factors), session)


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_every_size_is_measured_with_the_same_number_of_blocks(preset: Preset) -> None:
    points = [p.point for p in plan("allocation", amd(), preset) if not p.reason]
    sizes = {f.name: f.values for f in Allocation().factors(amd(), preset)}["size"]
    for allocator in ("device", "pinned"):
        own = [p for p in points if p["allocator"] == allocator]
        single = set() if preset == "full" else {64 * MIB, 256 * MIB}
        assert {p["size"] for p in own if p["chunks"] == 100 and p["call"] == "allocate"} == set(sizes) - single
        assert len({p["size"] for p in own if p["chunks"] == 100 and p["call"] == "free"}) > 3
    assert {p["size"] for p in points if p["chunks"] == 1 and p["call"] in ("allocate", "free")} == (
        {MIB << k for k in range(4, 11)} if preset == "full" else set()
    )


def test_findings_name_the_free_that_takes_longest() -> None:
    frees = allocations({"malloc": {64: 10.0, MIB: 20.0}, "device": {64: 5.0, MIB: 9000.0}}, call="free")
    calls = allocations({"malloc": {64: 10.0, MIB: 15.0}, "device": {64: 10.0, MIB: 1000.0}})
    found, most = findings_of("allocation", [*calls, *frees]), {"allocator": "device", "value": Quantity(9000, "ns")}
    assert_finding(
        found, FREE_RANGE, **most, size=MIB, ratio=450, other_allocator="malloc", other_value=Quantity(20, "ns")
    )
    assert_finding(found, FREE_RATIO, **most, size=MIB, ratio=9, other_value=Quantity(1000, "ns"))
    assert FREE_RATIO not in claims(findings_of("allocation", allocations({"mmap": {64: 5.0}})))


def test_findings_use_the_curve_with_the_most_blocks() -> None:
    single = [a_record("allocation", 1.0, {"allocator": "mmap", "size": MIB, "call": "allocate", "chunks": 1})]
    found = findings_of("allocation", [*single, *allocations({"mmap": {MIB: 2.0}})])
    assert_finding(found, SINGLE, value=Quantity(2, "ns"), chunks=100)


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_frees_of_touched_memory_are_few(preset: Preset) -> None:
    """One block of plain host memory, and of each kind of memory that moves for each agent that touches it."""
    found = [
        (p.point.device, p.point["allocator"], p.point["call"], p.point["size"], p.point["chunks"])
        for device in (amd(), DeviceInfo(name="cpu", kind="cpu", title="", allocators=amd().allocators))
        for p in plan("allocation", device, preset)
        if "touched" in p.point.text("call")
    ]
    assert {(size, chunks) for *_, size, chunks in found} == {(64 * MIB, 1)}
    moving = {a.name for a in amd().allocators if a.managed}
    assert moving
    calls = ("free-cpu-touched", "free-gpu-touched")
    assert {one[1:3] for one in found if one[0] != "cpu"} == {(name, call) for name in moving for call in calls}


@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_one_block_of_256_mib_is_measured_of_memory_that_is_there_at_once(preset: Preset) -> None:
    points = [p.point for p in plan("allocation", H200, preset)]
    found = {(p["allocator"], p["call"], p["chunks"]) for p in points if p["size"] == 256 * MIB}
    there = ("device", "vmm", "pinned", "pinned-wc", "registered")
    assert found == {(name, call, 1) for name in there for call in ("allocate", "free")}


def test_a_free_of_touched_memory_is_timed_and_verified() -> None:
    session = Session(DeviceInfo(name="cpu", kind="cpu", title=""), 1, 0.01, 0.5, "quick")
    factors = Factors({"allocator": "malloc", "size": 16 * MIB, "call": "free-cpu-touched", "chunks": 1})
    found = Allocation().measure(Point("allocation", "cpu", factors), session)
    assert found.verified is True
    assert min(found.samples) > 0
    assert set(found.counters) == {"allocate_ns"}


def test_what_a_free_of_touched_memory_takes_is_a_finding() -> None:
    frees = [
        a_record(
            "allocation", ns, {"allocator": "managed", "size": 64 * MIB, "call": f"free-{agent}-touched", "chunks": 1}
        )
        for agent, ns in (("cpu", 5e6), ("gpu", 3e6))
    ]
    found = findings_of("allocation", [*allocations({"managed": {MIB: 10.0}}), *frees])
    for agent, ns in (("cpu", 5e6), ("gpu", 3e6)):
        assert_finding(found, FREE_TOUCHED, agent=agent, value=Quantity(ns, "ns"), size=64 * MIB, allocator="managed")
    assert claims(found) == [SINGLE, FREE_TOUCHED, FREE_TOUCHED]
