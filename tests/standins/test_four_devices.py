"""Four devices of the HIP stand-in used alternately in one process (tests/core/several.py).

Like a driver, the stand-in refuses work on the wrong current device and charges each block to its owner. A backend that
makes its device current only once fails here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[1] / "core/several.py"
NAMES = [f"hip:{index}" for index in range(4)]
SIZE = 1 << 20


@cache
def run_program(**settings: str) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, str(PROGRAM), *NAMES],
        env=os.environ | {"STANDIN_DEVICES": "4"} | settings,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    return found


def test_four_devices_used_alternately() -> None:
    found = run_program()
    sizes = [SIZE, 2 * SIZE, 3 * SIZE, 4 * SIZE]
    assert len(set(found["uuids"])) == 4
    assert found["owners"] == NAMES
    assert found["held"] == sizes  # charged by the guard
    assert found["used"] == sizes  # used according to the driver
    assert found["fill errors"] == [0] * 4
    assert found["errors with another seed"] == [size / 8 for size in sizes]
    assert found["chase errors"] == [0] * 4
    assert found["copy errors"] == [0] * 8


def test_reach_opens_access_that_was_refused() -> None:
    found = run_program()
    reason = "cannot reach device memory of hip:1: access is not enabled; call reach first"
    assert found["copy refused"] == f"a copy by hip:0 {reason}"
    assert found["launch refused"] == f"a kernel of hip:0 {reason}"
    assert (found["errors after refusals"], found["why unreachable"], found["reach refused"]) == (0, None, "")
    assert found["reached"] == {"copies": [0] * 4, "chase": 0, "stream": 0, "virtual": [0, 0]}
    assert found["errors of the owner"] == 0
    theirs = "hip:1 cannot reach device memory of hip:0: access is not enabled; call reach first"
    assert found["both ways refused"] == [f"a copy by {theirs}", f"a kernel of {theirs}"]  # each queues its own
    assert found["both ways"] == [0, 0]


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("STANDIN_UNREACHABLE", "0>1", "hipDeviceCanAccessPeer: hip:0 has no peer access to hip:1"),
        (
            "STANDIN_FAIL",
            "hipDeviceEnablePeerAccess=2",
            "hip:0 cannot reach hip:1: hipDeviceEnablePeerAccess: out of memory (hipErrorOutOfMemory)",
        ),
    ],
)
def test_reach_reports_the_drivers_reason(setting: str, value: str, reason: str) -> None:
    found = run_program(**{setting: value})
    assert found["reach refused"] == reason
    assert found["why unreachable"] == (reason if setting == "STANDIN_UNREACHABLE" else None)


LIMITED = """
import sys
from firsttouch import _core
from firsttouch.machine.devices import open_device
devices = [open_device(name) for name in ("hip:0", "hip:1")]
buffers = []
for device in [*devices, *devices]:
    try:
        buffers.append(device.allocate(sys.argv[1], 1 << 20))
        print("allocated by", device.name)
    except _core.GuardRefused as reason:
        print(reason)
"""


@pytest.mark.parametrize(
    ("allocator", "variable"), [("device", "FIRSTTOUCH_MAX_DEVICE"), ("managed", "FIRSTTOUCH_MAX_MANAGED")]
)
def test_each_device_has_its_own_limit(allocator: str, variable: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, allocator],
        env=os.environ | {"STANDIN_DEVICES": "2", variable: "1MiB"},
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert process.returncode == 0, process.stderr
    *allocated, first, second = process.stdout.splitlines()
    assert allocated == ["allocated by hip:0", "allocated by hip:1"]
    refusal = f"needs 1 MiB of {allocator} memory with 1 MiB already held; the limit is 1 MiB ({variable})"
    assert (first, second) == (refusal, refusal)
