"""Switches as factors: the points that they add, and the device properties assumed in another environment."""

from __future__ import annotations

import pytest
from tests.fabricated import gpu_capabilities

from firsttouch.engine.plan import make_plan
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.common import switch_factors
from firsttouch.experiments.contract.contract import factors_of
from firsttouch.machine.switches import SWITCHES, environment, optimistic_device
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceInfo, Request

HIP = DeviceInfo(
    name="hip:0",
    kind="hip",
    title="a GPU",
    facts={"l2_bytes": 2**20},
    capabilities=gpu_capabilities(machine_code="hsaco"),
    allocators=[
        AllocatorInfo(
            name="malloc",
            available=True,
            cpu="direct",
            gpu="none",
            gpu_reason="no XNACK",
            host_memory=True,
            on_demand=True,
        ),
        AllocatorInfo(name="device", available=True, gpu="direct", device_memory=True, on_demand=False),
        AllocatorInfo(name="pinned", available=True, cpu="direct", gpu="direct", host_memory=True, on_demand=False),
        AllocatorInfo(
            name="managed", available=True, cpu="direct", gpu="direct", host_memory=True, managed=True, on_demand=False
        ),
    ],
)
CUDA = DeviceInfo(
    name="cuda:0",
    kind="cuda",
    title="another",
    capabilities=gpu_capabilities(memory_events=True, machine_code="cubin"),
    allocators=HIP.allocators,
)


@pytest.fixture(autouse=True)
def no_switch_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SWITCHES.values():
        monkeypatch.delenv(setting.variable, raising=False)


def planned(experiment: str, preset: str = "quick", **sets: str):
    request = Request(schema=SCHEMA, experiments=[experiment], devices=["hip:0"], preset=preset, seed=1)
    request.set = {name: list(values.split(",")) for name, values in sets.items()}
    return make_plan(request, [HIP], all_experiments(), {})


def test_only_devices_whose_runtime_reads_the_variable_have_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert switch_factors(CUDA, ["memory", "copies"]) == []
    (factor,) = switch_factors(HIP, ["memory"])
    assert (factor.name, list(factor.values), set(factor.choices)) == ("xnack", ["unset"], {"0", "1", "unset"})
    monkeypatch.setenv("HSA_XNACK", "1")
    assert list(switch_factors(HIP, ["memory"])[0].values) == ["1"]


def test_every_experiment_that_uses_memory_has_the_factor_xnack() -> None:
    without = {"codegen", "context"}
    copying = {"transfer", "p2p-copy", "p2p-message", "collective", "concurrency", "migration", "exchange"}
    for name, experiment in all_experiments().items():
        names = [factor.name for factor in factors_of(experiment, HIP, "quick")]
        assert ("xnack" in names) == (name not in without), name
        assert ("sdma" in names) == (name in copying), name
    assert "xnack" not in [factor.name for factor in factors_of(all_experiments()["tlb"], CUDA, "quick")]


@pytest.mark.parametrize("name", ["allocation", "atomics", "tlb", "accounting", "transfer", "caching", "concurrency"])
def test_each_value_of_xnack_has_points_and_workers_of_its_own(name: str) -> None:
    points = planned(name, xnack="0,1", allocator="pinned" if name != "transfer" else "device")
    assert {(p.point["xnack"], p.environment["HSA_XNACK"]) for p in points} == {("0", "0"), ("1", "1")}


def test_memory_that_the_gpu_may_reach_with_another_value_is_planned_for_both_agents() -> None:
    points = planned("concurrency", xnack="unset,1", allocator="malloc", strategy="concurrent")
    assert {p.point["xnack"]: bool(p.reason) for p in points} == {"unset": True, "1": False}


def test_the_environment_of_a_worker_follows_the_factors() -> None:
    assert environment({"xnack": "1", "sdma": "0", "size": 4}) == {"HSA_XNACK": "1", "HSA_ENABLE_SDMA": "0"}
    assert environment({"xnack": "unset"}) == {}
    assert {tuple(sorted(p.environment.items())) for p in planned("transfer", sdma="0,1")} == {
        (("HSA_ENABLE_SDMA", "0"),),
        (("HSA_ENABLE_SDMA", "1"),),
    }


def test_no_extra_points_in_quick_and_both_engines_in_standard() -> None:
    assert {p.point["sdma"] for p in planned("transfer")} == {"unset"}
    standard = planned("transfer", "standard")
    assert {p.point["sdma"] for p in standard} == {"0", "1"}
    assert {p.point["engine"] for p in standard if p.point["sdma"] == "0"} == {"copy-engine"}
    assert {p.point["xnack"] for p in planned("pagefault", "standard")} == {"unset"}


def test_a_variable_that_is_already_set_keeps_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSA_ENABLE_SDMA", "0")
    assert {p.point["sdma"] for p in planned("transfer")} == {"0"}


@pytest.mark.parametrize(("value", "shown"), [("0", "0"), ("1", "1"), ("2", "2"), ("", "unset")])
def test_every_engine_is_planned_whatever_the_environment_says(
    value: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records show sdma as it is for their worker. The CPU cannot access this device's memory."""
    monkeypatch.setenv("HSA_ENABLE_SDMA", value)
    quick = planned("transfer")
    assert {p.point["engine"] for p in quick if not p.reason} == {"copy-engine", "kernel"}
    assert {p.point["sdma"] for p in quick} == {shown}
    standard = [p for p in planned("transfer", "standard") if not p.reason]
    others = {"0"} if value == "0" else {"1"}
    for engine, expected in {"copy-engine": {"0", "1"}, "kernel": others}.items():
        assert {p.point["sdma"] for p in standard if p.point["engine"] == engine} == expected
    assert all(p.environment["HSA_ENABLE_SDMA"] == p.point["sdma"] for p in standard)


@pytest.mark.parametrize("here", ["", "0"])
def test_engines_that_do_not_depend_on_sdma_are_measured_with_the_values_asked_for(
    here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSA_ENABLE_SDMA", here)
    for values in ("0", "1", "0,1"):
        points = planned("transfer", sdma=values)
        assert {(p.point["engine"], p.point["sdma"]) for p in points if not p.reason} == {
            (engine, value) for engine in ("copy-engine", "kernel") for value in values.split(",")
        }


def test_points_with_another_environment_are_left_to_the_worker() -> None:
    assert optimistic_device(HIP, {"xnack": "unset"}) is HIP
    assert optimistic_device(HIP, {"sdma": "0"}) is HIP
    assert optimistic_device(HIP, {}) is HIP
    malloc = optimistic_device(HIP, {"xnack": "1"}).allocator("malloc")
    assert malloc is not None
    assert (malloc.gpu, malloc.gpu_reason, malloc.on_demand) == ("direct", "", None)
    points = planned("pagefault", xnack="unset,1", allocator="malloc,managed", scenario="gpu-major")
    reasons = {(p.point["xnack"], p.point["allocator"]): bool(p.reason) for p in points}
    assert reasons == {
        ("unset", "malloc"): True,
        ("unset", "managed"): True,
        ("1", "malloc"): False,
        ("1", "managed"): False,
    }
