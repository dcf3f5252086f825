"""The presets on made-up devices: the class of device and the kind of memory decide, not names."""

from __future__ import annotations

from typing import Any

import pytest
from fake_devices import GPU, OPENCL_GPU, PROCESSOR, amd, opencl
from preset_helpers import plan
from tests.matrix import matrix

from firsttouch.engine.planned import Planned
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.pairs import PairExperiment
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.schema import DeviceInfo


def values(points: list[Planned], factor: str) -> set[Any]:
    return {point.point.factors[factor] for point in points if not point.reason}


def renamed(device: DeviceInfo, kind: str) -> DeviceInfo:
    return DeviceInfo(
        name=device.name,
        kind=kind,
        title=device.title,
        facts=device.facts,
        capabilities=device.capabilities,
        allocators=device.allocators,
    )


PLANNED_ALONE = [
    name
    for name, experiment in all_experiments().items()
    if name not in ("codegen", "context") and not isinstance(experiment, PairExperiment) and not experiment.ranks
]
"""Experiments that have points on a machine with this device only."""


@pytest.mark.parametrize("experiment", matrix(PLANNED_ALONE, 4))
@pytest.mark.parametrize("preset", matrix(["quick", "standard"], 1))
def test_the_name_of_the_backend_changes_no_plan(experiment: str, preset: Preset) -> None:
    device = opencl(OPENCL_GPU)
    planned = [(p.point.factors, p.reason) for p in plan(experiment, device, preset)]
    assert planned == [(p.point.factors, p.reason) for p in plan(experiment, renamed(device, "new"), preset)]


@pytest.mark.parametrize(
    ("experiment", "factor"),
    [("latency", "size"), ("transfer", "size"), ("tlb", "stride"), ("concurrency", "size"), ("accounting", "size"),
     ("bandwidth", "size")],
)  # fmt: skip
def test_an_opencl_gpu_is_planned_as_a_gpu(experiment: str, factor: str) -> None:
    """Its arrays and strides are as large as on a GPU, not as for kernels on the host's processor."""
    gpu = values(plan(experiment, opencl(OPENCL_GPU)), factor)
    assert max(gpu) > max(values(plan(experiment, opencl(PROCESSOR)), factor))
    assert gpu == values(plan(experiment, opencl(GPU)), factor)


def test_scopes_and_kinds_of_load_are_those_of_the_language() -> None:
    assert values(plan("atomics", opencl(OPENCL_GPU)), "scope") == {"system"}
    assert values(plan("atomics", opencl(GPU)), "scope") == {"system", "device"}
    assert values(plan("caching", opencl(OPENCL_GPU)), "loads") == {"cached"}
    assert values(plan("caching", opencl(GPU)), "loads") == {"cached", "uncached"}


def test_memory_on_the_hosts_processor_is_measured_once() -> None:
    on_processor = plan("latency", opencl(PROCESSOR))
    assert values(on_processor, "agent") == {"gpu"}
    assert values(on_processor, "allocator") == {"device", "svm-fine"}
    assert values(plan("latency", opencl(OPENCL_GPU)), "allocator") > {"device", "pinned", "svm-fine"}


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_the_direction_of_a_copy_follows_from_whose_memory_it_is(preset: Preset) -> None:
    points = plan("transfer", amd(), preset)
    for direction in ("h2d", "d2h"):
        own = [p for p in points if p.point.factors["direction"] == direction]
        assert "pinned" in {p.point.factors["allocator"] for p in own}
        assert not {p.point.factors["allocator"] for p in own} & {"device", "fine-grained"}
    within = [p for p in points if p.point.factors["direction"] == "d2d"]
    assert values(within, "allocator") == {"device", "fine-grained"}
    if preset == "full":
        assert values(points, "other") == {"device", "fine-grained"}


def test_pages_that_move_are_measured_by_migration() -> None:
    points = plan("migration", amd())
    assert {"managed", "coarse-grained"} <= values(points, "allocator")
    assert "fine-grained" not in values(points, "allocator")


@pytest.mark.exhaustive
def test_atomics_make_no_difference_where_nothing_moves() -> None:
    assert "svm-atomic" in values(plan("migration", opencl(OPENCL_GPU)), "allocator")
    assert values(plan("migration", opencl(PROCESSOR)), "allocator") >= {"svm-fine", "svm-coarse"}
    presets: tuple[Preset, ...] = ("quick", "standard", "full")
    for preset in presets:
        assert "svm-atomic" not in values(plan("migration", opencl(PROCESSOR), preset), "allocator")


def test_a_value_given_with_set_keeps_its_points() -> None:
    assert values(plan("latency", amd(), size=[12 * 1024]), "size") == {12 * 1024}
    assert values(plan("concurrency", amd(), strategy=["copying"]), "allocator") >= {"device"}
