"""A vendor's library that crashes, hangs or is missing is an unavailable device with a reason."""

from __future__ import annotations

import os
import signal

import pytest

from firsttouch.run import discover, process


def _ill(number: signal.Signals) -> type[process.Worker]:
    class Ill(process.Worker):
        def __init__(self) -> None:
            super().__init__()
            os.kill(self._process.pid, number)

    return Ill


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGSTOP, "no end after")])
def test_an_ill_library(monkeypatch, number, reason):
    monkeypatch.setattr(discover, "Worker", _ill(number))
    monkeypatch.setattr(process, "START_TIMEOUT", 0.3)
    (device,) = discover.discover_devices(["opencl"], timeout=0.1)
    assert (device.name, device.kind, device.available) == ("opencl", "opencl", False)
    assert reason in device.reason


def test_this_machine_has_a_cpu():
    (cpu,) = discover.discover_devices(["cpu"])
    assert (cpu.name, cpu.available) == ("cpu", True)
    assert cpu.allocator("malloc") is not None


def test_an_unknown_kind_says_why():
    (device,) = discover.discover_devices(["abacus"])
    assert not device.available
    assert "'abacus' is not a kind of device" in device.reason
