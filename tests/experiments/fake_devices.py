"""Descriptions of devices that this machine does not have, for tests of plans and reasons."""

from __future__ import annotations

from typing import Any

from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo

GPU = DeviceCapabilities(
    runs_kernels=True,
    gpu_hierarchy=True,
    page_migration=True,
    memory_guidance=True,
    memory_events=True,
    coherent_during_kernel=True,
    uncached_loads=True,
    device_scope_atomics=True,
    device_clock=True,
    reports_free_memory=True,
    time_class="gpu",
)
"""A GPU behind a link."""

OPENCL_GPU = DeviceCapabilities(runs_kernels=True, gpu_hierarchy=True, time_class="gpu", machine_code="opencl")
"""A GPU behind a link, whose language has no clock, one kind of load and one scope of atomics."""

PROCESSOR = DeviceCapabilities(
    runs_kernels=True, on_host_processor=True, shares_host_memory=True, time_class="host-kernels"
)
"""The host's processor as a device that runs kernels."""

BOTH: dict[str, Any] = {"available": True, "cpu": "direct", "gpu": "direct"}
MAPPED: dict[str, Any] = {"available": True, "cpu": "mapped", "gpu": "direct"}
MALLOC = AllocatorInfo(
    name="malloc", available=True, cpu="direct", gpu="none", gpu_reason="no page faults", host_memory=True
)


def opencl(capabilities: DeviceCapabilities) -> DeviceInfo:
    """An OpenCL device with the allocators of an OpenCL driver."""
    return DeviceInfo(
        name="opencl:0",
        kind="opencl",
        title="an OpenCL device",
        facts={"multiprocessors": 64, "l2_bytes": 4 * 2**20, "line_bytes": 64},
        capabilities=capabilities,
        allocators=[
            MALLOC,
            AllocatorInfo(name="device", device_memory=True, **MAPPED),
            AllocatorInfo(name="pinned", host_memory=True, **MAPPED),
            AllocatorInfo(name="registered", host_memory=True, **MAPPED),
            AllocatorInfo(name="svm-coarse", host_memory=True, **MAPPED),
            AllocatorInfo(name="svm-fine", host_memory=True, disjoint=True, **BOTH),
            AllocatorInfo(name="svm-atomic", host_memory=True, disjoint=True, concurrent=True, **BOTH),
        ],
    )


def amd() -> DeviceInfo:
    """An AMD GPU with the allocators that only HIP has and pages that move on faults."""
    return DeviceInfo(
        name="hip:0",
        kind="hip",
        title="an AMD GPU",
        facts={"multiprocessors": 304, "l2_bytes": 4 * 2**20, "line_bytes": 128},
        capabilities=GPU,
        allocators=[
            MALLOC,
            AllocatorInfo(name="device", device_memory=True, available=True, gpu="direct"),
            AllocatorInfo(name="pinned", host_memory=True, concurrent=True, **BOTH),
            AllocatorInfo(name="managed", managed=True, host_memory=True, device_memory=True, **BOTH),
            AllocatorInfo(name="fine-grained", device_memory=True, concurrent=True, **BOTH),
            AllocatorInfo(name="coarse-grained", managed=True, host_memory=True, device_memory=True, **BOTH),
        ],
    )


DISCRETE = DeviceInfo(
    name="gpu:0",
    kind="cuda",
    title="a GPU that reaches no plain memory",
    facts={"multiprocessors": 132},
    capabilities=GPU,
    allocators=[
        AllocatorInfo(name="malloc", available=True, cpu="direct", gpu_reason="no page faults", host_memory=True),
        AllocatorInfo(name="device", available=True, gpu="direct", device_memory=True),
        AllocatorInfo(
            name="pinned",
            available=True,
            cpu="direct",
            gpu="direct",
            host_memory=True,
            concurrent=True,
            shared_atomics=False,
            disjoint=True,
        ),
        AllocatorInfo(
            name="managed",
            available=True,
            cpu="direct",
            gpu="direct",
            host_memory=True,
            device_memory=True,
            managed=True,
        ),
    ],
)
"""A GPU behind a link that cannot access plain host memory."""
