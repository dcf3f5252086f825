"""Properties of allocators, for devices of every kind."""

import pytest

from firsttouch import _core
from firsttouch.machine.allocators import properties
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo

ON_DEVICE = {"cpu": "none", "gpu": "direct", "device_memory": True, "on_demand": False}
MANAGED = {"cpu": "direct", "gpu": "direct", "host_memory": True, "device_memory": True, "managed": True}


def info(name: str, **facts: object) -> AllocatorInfo:
    return AllocatorInfo(name=name, available=True, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["device", "vmm", "fine-grained"])
def test_device_memory_is_on_the_device_side(name):
    assert properties.memory_of(info(name, **ON_DEVICE)) == "device"
    assert properties.is_device_side(info(name, **ON_DEVICE))
    assert properties.moves_pages(info(name, **ON_DEVICE)) in (False, None)


def test_coarse_grained_memory_migrates():
    coarse = info("coarse-grained", on_demand=True, concurrent=False, **MANAGED)
    assert properties.memory_of(coarse) == "migrating"
    assert properties.moves_pages(coarse) is True
    assert properties.coherence(coarse) == "synchronisation"


def test_managed_memory_that_is_allocated_up_front_does_not_move():
    assert properties.moves_pages(info("managed", on_demand=False, **MANAGED)) is False


def test_coarse_svm_is_on_the_device_side_until_it_is_mapped():
    coarse = info("svm-coarse", cpu="mapped", gpu="direct", device_memory=True, concurrent=False)
    assert properties.is_device_side(coarse)
    assert properties.needs_mapping(coarse)
    assert properties.allows_concurrent_parts(coarse) is False
    assert not properties.is_device_side(info("svm-fine", cpu="direct", gpu="direct", device_memory=True))


def test_page_locked_memory_is_host_memory():
    pinned = info("pinned", cpu="direct", gpu="direct", host_memory=True, concurrent=True)
    assert properties.memory_of(pinned) == "host"
    assert not properties.is_device_side(pinned)
    assert properties.coherence(pinned) == "kernel"
    assert properties.caches_on_cpu("pinned") is True
    assert properties.caches_on_cpu("pinned-wc") is False


def test_an_unknown_allocator_has_the_properties_that_its_driver_states():
    assert properties.memory_of(info("new", **ON_DEVICE)) == "device"
    assert properties.memory_of(info("new", host_memory=True)) == "host"
    assert properties.role("new") is None
    assert not properties.is_common("new")


@pytest.mark.parametrize(("runs_kernels", "expected"), [(False, "malloc"), (True, "device")])
def test_main_allocator(runs_kernels, expected):
    device = DeviceInfo(name="x", kind="x", title="", capabilities=DeviceCapabilities(runs_kernels=runs_kernels))
    assert properties.main_allocator(device) == expected


def test_semantics_has_every_allocator_of_the_core():
    opened = [open_device("cpu"), open_device("opencl:0")]
    assert {str(row["name"]) for device in opened for row in device.allocators()} <= set(SEMANTICS)


def test_each_role_has_a_common_allocator():
    roles = {known.role for known in SEMANTICS.values()}
    assert roles == {known.role for name, known in SEMANTICS.items() if properties.is_common(name)}


def test_capabilities_of_the_host_and_of_pocl():
    (host,) = describe_devices("cpu")
    assert not host.capabilities.runs_kernels
    assert host.capabilities.time_class == "host"
    pocl = describe_devices("opencl")[0]
    assert pocl.capabilities.runs_kernels
    assert pocl.capabilities.on_host_processor
    assert pocl.capabilities.shares_host_memory
    assert not pocl.capabilities.gpu_hierarchy
    kind, _, _ = open_device(pocl.name).compile("pattern", _core.kernel_file("pattern.c"))
    assert pocl.capabilities.machine_code == kind
