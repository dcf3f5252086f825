"""Two devices of one OpenCL driver in one process (several.py): each works in its own memory, and in the other's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("several.py")
SIZE = 1 << 20


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    made = subprocess.run(
        [sys.executable, str(PROGRAM), "opencl:0", "opencl:1"],
        env=os.environ | {"POCL_DEVICES": "pthread pthread"},
        text=True,
        capture_output=True,
        timeout=100,
    )
    if "_core.Unavailable" in made.stderr and not os.environ.get("CI"):
        pytest.skip(made.stderr.splitlines()[-1])
    assert made.returncode == 0, made.stderr
    answer: dict[str, Any] = json.loads(made.stdout)
    return answer


def test_each_device_is_charged_for_its_own_memory(said: dict[str, Any]) -> None:
    assert said["owners"] == ["opencl:0", "opencl:1"]
    assert said["held"] == [SIZE, 2 * SIZE]


def test_fills_chases_and_copies_land_in_the_devices_own_memory(said: dict[str, Any]) -> None:
    assert said["wrong"] == [0, 0]
    assert said["other seed"] == [SIZE / 8, 2 * SIZE / 8]  # a check finds wrong words where there are some
    assert said["chase"] == [0, 0]
    assert said["copies"] == [0] * 4


def test_memory_out_of_reach_is_refused_with_a_sentence(said: dict[str, Any]) -> None:
    reason = "cannot reach device memory of opencl:1: access is not enabled; call reach first"
    assert said["copy refused"] == f"a copy by opencl:0 {reason}"
    assert said["launch refused"] == f"a kernel of opencl:0 {reason}"
    assert said["untouched"] == 0
    assert said["kernel refused"] == "the kernel was compiled for opencl:0, not for opencl:1"


def test_reach_opens_the_other_devices_memory(said: dict[str, Any]) -> None:
    assert said["why"] is None
    assert said["reach refused"] == ""
    assert said["reached"] == {"copies": [0] * 4, "chase": 0, "stream": 0}
    assert said["own again"] == 0
