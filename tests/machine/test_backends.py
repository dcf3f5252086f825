"""The tables of backends in Python and in the core have the same kinds, and each kind's devices are described."""

from __future__ import annotations

import re

import pytest

from firsttouch import _core
from firsttouch.machine.backends import BACKENDS, HOST, kind_of
from firsttouch.machine.devices import describe_devices
from firsttouch.machine.libraries import LIBRARIES
from firsttouch.machine.switches import SWITCHES


def test_the_table_matches_that_of_the_core():
    assert list(BACKENDS) == _core.device_kinds()


def test_the_error_for_an_unknown_device_lists_the_accepted_names():
    with pytest.raises(_core.Unavailable) as error:
        _core.open("unknown")
    for backend in BACKENDS.values():
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
