"""The devices of this machine, each opened once per process, and their allocators."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

from firsttouch import _core
from firsttouch.machine.devices import open_device

DEVICES = ["cpu", "opencl:0", "cuda:0", "hip:0"]
on_every_device = pytest.mark.parametrize("name", DEVICES)


@cache
def open_or_reason(name: str) -> _core.Device | str:
    try:
        return open_device(name)
    except _core.Unavailable as reason:
        return str(reason)


def device_of(name: str) -> _core.Device:
    """Returns the open device. Skips the test if there is none; in CI only GPUs may be missing."""
    found = open_or_reason(name)
    if isinstance(found, str):
        if os.environ.get("CI") and not name.startswith(("cuda", "hip")):
            pytest.fail(found)
        pytest.skip(found)
    return found


def rows_of(device: _core.Device) -> list[dict[str, Any]]:
    """Returns one row per allocator, as the device states it."""
    rows: list[Any] = device.allocators()
    return rows


def allocators_of(device: _core.Device) -> list[dict[str, Any]]:
    """Returns the rows of the available allocators."""
    return [row for row in rows_of(device) if row["available"]]


def agents_of(row: dict[str, Any]) -> list[str]:
    return [agent for agent in ("cpu", "gpu") if row[agent] != "none"]


def brief() -> _core.Stop:
    return _core.Stop(tolerance=0.1, seconds=0.05, min_samples=3, max_samples=20)


def once() -> _core.Stop:
    """For samples that take long and are alike."""
    return _core.Stop(tolerance=0.1, seconds=0.05, min_samples=1, max_samples=1)
