"""Capabilities of devices in a machine.json of schema firsttouch/1, which does not hold them."""

from pathlib import Path

import msgspec
import pytest

from firsttouch.machine.devices import describe_devices
from firsttouch.records.capabilities import capabilities_of_schema1
from firsttouch.records.reading import load_results

CUDA = {"integrated": False, "concurrentManagedAccess": True, "hostNativeAtomicSupported": False}


@pytest.mark.parametrize("kind", ["cpu", "opencl"])
def test_reconstructed_capabilities_are_those_stated_today(kind):
    for device in describe_devices(kind):
        assert capabilities_of_schema1(kind, device.facts) == device.capabilities


def test_a_discrete_gpu():
    can = capabilities_of_schema1("cuda", CUDA)
    assert can.gpu_hierarchy
    assert can.page_migration
    assert can.memory_events
    assert can.time_class == "gpu"
    assert not can.shares_host_memory
    assert not can.host_native_atomics


def test_an_apu_has_no_page_migration():
    can = capabilities_of_schema1("hip", {**CUDA, "integrated": True, "xnack": "on"})
    assert can.shares_host_memory
    assert not can.page_migration
    assert not can.memory_events


def test_an_opencl_gpu_is_a_gpu():
    can = capabilities_of_schema1("opencl", {"shares_host_memory": False})
    assert can.gpu_hierarchy
    assert not can.on_host_processor
    assert can.time_class == "gpu"


def test_an_old_machine_is_read_with_capabilities(tmp_path: Path):
    device = {"name": "cuda:0", "kind": "cuda", "title": "a GPU", "facts": CUDA}
    machine = {"schema": "firsttouch/1", "host": "h", "created": "", "firsttouch": "0", "devices": [device]}
    (tmp_path / "machine.json").write_bytes(msgspec.json.encode(machine))
    (tmp_path / "results.jsonl").touch()
    assert load_results(tmp_path).machine.devices[0].capabilities == capabilities_of_schema1("cuda", CUDA)
