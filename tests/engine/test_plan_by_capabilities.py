"""Plans depend on the capabilities of a device: an OpenCL GPU is planned as a GPU of any vendor."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from firsttouch.engine.choices import BUDGETS
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.work_kinds import KINDS
from firsttouch.experiments import all_experiments
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceCapabilities, DeviceInfo, Request

MiB = 2**20
ABOUT_VENDORS = ("codegen", "context")
ON_DEVICE = {"device_memory": True, "concurrent": False, "shared_atomics": False, "disjoint": False}
GPU = DeviceInfo(
    name="opencl:0",
    kind="opencl",
    title="a discrete GPU behind OpenCL",
    facts={"memory_bytes": 2**34, "cache_bytes": 4 * MiB, "line_bytes": 64, "multiprocessors": 60},
    capabilities=DeviceCapabilities(
        runs_kernels=True, gpu_hierarchy=True, time_class="gpu", machine_code="opencl", coherent_during_kernel=False
    ),
    allocators=[
        AllocatorInfo(
            name="malloc", available=True, cpu="direct", gpu_reason="no system SVM", host_memory=True, on_demand=True
        ),
        AllocatorInfo(name="device", available=True, cpu="mapped", gpu="direct", **ON_DEVICE),  # type: ignore[arg-type]
        AllocatorInfo(name="pinned", available=True, cpu="mapped", gpu="direct", host_memory=True, **ON_DEVICE),  # type: ignore[arg-type]
        AllocatorInfo(name="svm-coarse", available=True, cpu="mapped", gpu="direct", **ON_DEVICE),  # type: ignore[arg-type]
    ],
)
PROCESSOR = replace(
    GPU,
    capabilities=DeviceCapabilities(
        runs_kernels=True,
        on_host_processor=True,
        shares_host_memory=True,
        time_class="host-kernels",
        machine_code="opencl",
    ),
)


def planned(device: DeviceInfo, preset: str = "quick", *names: str) -> list[Planned]:
    known = all_experiments()
    chosen = list(names) or [name for name in known if name not in ABOUT_VENDORS]
    request = Request(schema=SCHEMA, experiments=chosen, devices=[device.name], preset=preset, seed=1)
    return make_plan(request, [device], known, {})


@pytest.mark.exhaustive
@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_plans_do_not_depend_on_the_kind(preset: str) -> None:
    def told(device: DeviceInfo) -> list[tuple[object, ...]]:
        return [(p.point.experiment, p.point.factors, p.reason, p.seconds) for p in planned(device, preset)]

    assert told(replace(GPU, kind="cuda")) == told(GPU)
    assert told(replace(GPU, kind="of tomorrow")) == told(GPU)


def largest(device: DeviceInfo, experiment: str) -> int:
    return max(p.point.size("size") for p in planned(device, "quick", experiment) if not p.reason)


@pytest.mark.parametrize("experiment", ["latency", "bandwidth", "transfer"])
def test_a_gpu_gets_buffers_of_a_gpu(experiment: str) -> None:
    assert largest(GPU, experiment) > largest(PROCESSOR, experiment)


def test_a_gpu_has_the_time_of_a_gpu() -> None:
    given = {name: sum(p.seconds for p in planned(d)) for name, d in (("gpu", GPU), ("host-kernels", PROCESSOR))}
    assert given["gpu"] > given["host-kernels"]
    assert given["gpu"] <= BUDGETS["quick"].seconds["gpu"] * 1.01


def test_two_devices_of_one_kind_and_class_share_its_time() -> None:
    other = replace(GPU, name="opencl:1")
    request = Request(schema=SCHEMA, experiments=["latency"], devices=[], preset="quick", seed=1)
    both = make_plan(request, [GPU, other], all_experiments(), {})
    alone = planned(GPU, "quick", "latency")
    assert sum(p.seconds for p in both) == pytest.approx(sum(p.seconds for p in alone))


# ----------------------------------------------------------------------------------------- devices that are not named

CPU = DeviceInfo(name="cpu", kind="cpu", title="the processor")
DISCRETE = replace(GPU, name="cuda:0", kind="cuda")


@pytest.mark.parametrize(
    ("devices", "preset", "names", "used"),
    [
        ([CPU, PROCESSOR, DISCRETE], "quick", [], ["cpu", "cuda:0"]),
        ([CPU, PROCESSOR, DISCRETE], "quick", ["latency"], ["cpu", "opencl:0", "cuda:0"]),
        ([CPU, PROCESSOR, DISCRETE], "standard", [], ["cpu", "opencl:0", "cuda:0"]),
        ([CPU, PROCESSOR], "quick", [], ["cpu", "opencl:0"]),
    ],
)
def test_a_quick_run_of_everything_needs_no_kernels_on_the_processor_where_a_gpu_is(
    devices: list[DeviceInfo], preset: str, names: list[str], used: list[str]
) -> None:
    experiments = names or list(all_experiments())
    request = Request(schema=SCHEMA, experiments=experiments, devices=[], preset=preset, seed=1)
    assert KINDS["run"].default_devices(devices, request) == used


def test_applications_run_on_the_processor_only_if_there_is_no_gpu() -> None:
    allocator = AllocatorInfo(name="malloc", available=True, gpu="direct")
    gpu, processor = replace(DISCRETE, allocators=[allocator]), replace(PROCESSOR, allocators=[allocator])
    request = Request(schema=SCHEMA, experiments=["nn"], devices=[], preset="quick", seed=1)
    assert KINDS["app"].default_devices([CPU, processor, gpu], request) == ["cuda:0"]
    assert KINDS["app"].default_devices([CPU, processor], request) == ["opencl:0"]
