"""The tables of backends in Python and in the core have the same kinds, and each kind's devices are described."""

from __future__ import annotations

import re

import pytest

from firsttouch import _core
from firsttouch.machine import devices as machine_devices
from firsttouch.machine.backends import BACKENDS, HOST, NATIVE, kind_of
from firsttouch.machine.devices import describe_devices
from firsttouch.machine.libraries import LIBRARIES
from firsttouch.machine.switches import SWITCHES
from firsttouch.records.schema import DeviceInfo


def test_the_table_matches_that_of_the_core():
    assert list(NATIVE) == _core.device_kinds()


def test_the_error_for_an_unknown_device_lists_the_accepted_names():
    with pytest.raises(_core.Unavailable) as error:
        _core.open("unknown")
    for backend in (BACKENDS[kind] for kind in NATIVE):
        assert re.search(rf"\b{backend.device_names(1)[0].replace('0', 'N')}\b", str(error.value))


def test_libraries_and_switches_of_each_backend_exist():
    for backend in BACKENDS.values():
        assert set(backend.libraries) <= set(LIBRARIES)
        assert set(backend.switches) <= set(SWITCHES)


def test_device_names():
    assert BACKENDS[HOST].device_names(1) == ["cpu"]
    assert BACKENDS["cuda"].device_names(2) == ["cuda:0", "cuda:1"]
    assert kind_of("cuda:1") == "cuda"
    assert kind_of("cpu") == "cpu"


@pytest.mark.parametrize("kind", [HOST, "opencl"])
def test_devices_are_described(kind):
    for index, device in enumerate(describe_devices(kind)):
        assert device.name == BACKENDS[kind].device_names(index + 1)[index]
        assert device.available, device.reason
        assert device.title


@pytest.mark.parametrize(
    ("kind", "devices", "said"),
    [
        ("cuda", 2, "Between NVIDIA GPUs, .* have run on two H100s"),
        ("cuda", 1, ""),
        ("hip", 4, "Between AMD GPUs, .* have run on stand-ins only"),
        ("opencl", 2, ""),
    ],
)
def test_where_points_between_devices_have_run_is_said_of_that_vendor(
    monkeypatch: pytest.MonkeyPatch, kind: str, devices: int, said: str
) -> None:
    monkeypatch.setattr(machine_devices, "_count", lambda kind: devices)
    monkeypatch.setattr(
        machine_devices, "_describe", lambda name, kind: (object(), DeviceInfo(name=name, kind=kind, title=name))
    )
    monkeypatch.setattr(machine_devices, "add_peers", lambda opened, **how: None)
    first, *others = describe_devices(kind)
    assert re.fullmatch(f"({said}.*)?" if said else "", " ".join(first.notes))
    assert len(first.notes) == bool(said)
    assert not any(device.notes for device in others)
