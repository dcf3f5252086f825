"""The table of backends in Python and the one in the core are of the same kinds, and every row leads to devices."""

from __future__ import annotations

import re

import pytest

from firsttouch import _core
from firsttouch.machine.backends import BACKENDS, HOST, kind_of
from firsttouch.machine.devices import describe_devices
from firsttouch.machine.libraries import LIBRARIES
from firsttouch.machine.switches import SWITCHES


def test_the_rows_are_those_of_the_core():
    assert list(BACKENDS) == _core.device_kinds()


def test_an_unknown_device_is_refused_with_the_names_that_exist():
    with pytest.raises(_core.Unavailable) as told:
        _core.open("nonsense")
    for backend in BACKENDS.values():
        assert re.search(rf"\b{backend.device_names(1)[0].replace('0', 'N')}\b", str(told.value))


def test_libraries_and_switches_of_a_row_are_known():
    for backend in BACKENDS.values():
        assert set(backend.libraries) <= set(LIBRARIES)
        assert set(backend.switches) <= set(SWITCHES)


def test_names_of_devices():
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
