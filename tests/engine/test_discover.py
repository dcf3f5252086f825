"""A vendor's library that crashes, hangs or is missing is an unavailable device with a reason."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from firsttouch.engine import discover
from firsttouch.workers import process


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGSTOP, "did not finish within")])
def test_a_library_that_crashes_or_hangs_is_an_unavailable_device(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, reason: str
) -> None:
    class Struck(process.Worker):
        """A worker that gets a signal as it starts."""

        def __init__(self, environment: Mapping[str, str] | None = None) -> None:
            super().__init__(environment)
            os.kill(self.pid, number)

    monkeypatch.setattr(discover, "Worker", Struck)
    monkeypatch.setattr(process, "START_TIMEOUT", 0.3)
    (device,) = discover.discover_devices(["opencl"], timeout=0.1)
    assert (device.name, device.kind, device.available) == ("opencl", "opencl", False)
    assert reason in device.reason


def test_this_machine_has_a_cpu() -> None:
    (cpu,) = discover.discover_devices(["cpu"])
    assert (cpu.name, cpu.available) == ("cpu", True)
    assert cpu.allocator("malloc") is not None


@pytest.mark.slow
def test_devices_are_found_without_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PoCL calls a linker for each kernel that it has not cached."""
    found = [[(d.name, d.available) for d in discover.discover_devices(["opencl"])]]
    monkeypatch.delenv("PATH")
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    found.append([(d.name, d.available) for d in discover.discover_devices(["opencl"])])
    assert found[0] == found[1]


def test_an_unknown_kind_says_why() -> None:
    (device,) = discover.discover_devices(["abacus"])
    assert not device.available
    assert "'abacus' is not a kind of device" in device.reason
