"""Two devices of one OpenCL driver in one process (several.py): each uses its own memory, and the other's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.texts import assert_states

PROGRAM = Path(__file__).with_name("several.py")
SIZE = 1 << 20


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, str(PROGRAM), "opencl:0", "opencl:1"],
        env=os.environ | {"POCL_DEVICES": "pthread pthread"},
        text=True,
        capture_output=True,
        timeout=100,
    )
    if "_core.Unavailable" in process.stderr and not os.environ.get("CI"):
        pytest.skip(process.stderr.splitlines()[-1])
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    return found


def test_each_device_is_charged_for_its_own_memory(results: dict[str, Any]) -> None:
    assert results["owners"] == ["opencl:0", "opencl:1"]
    assert results["held"] == [SIZE, 2 * SIZE]


def test_fills_chases_and_copies_use_the_devices_own_memory(results: dict[str, Any]) -> None:
    assert results["fill errors"] == [0, 0]
    assert results["errors with another seed"] == [SIZE / 8, 2 * SIZE / 8]  # shows that a check finds wrong words
    assert results["chase errors"] == [0, 0]
    assert results["copy errors"] == [0] * 4


def test_memory_without_access_is_refused_with_a_reason(results: dict[str, Any]) -> None:
    for what in ("copy", "kernel"):
        facts = (f"a {what} ", "opencl:0", "device memory of opencl:1", "call reach")
        assert_states(results[{"copy": "copy refused", "kernel": "launch refused"}[what]], *facts)
    assert results["errors after refusals"] == 0
    assert_states(results["kernel refused"], "compiled for opencl:0", "not for opencl:1")


def test_reach_opens_access_to_the_other_devices_memory(results: dict[str, Any]) -> None:
    assert results["why unreachable"] is None
    assert results["reach refused"] == ""
    assert results["reached"] == {"copies": [0] * 4, "chase": 0, "stream": 0}
    assert results["errors of the owner"] == 0
