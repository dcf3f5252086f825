"""Four devices of the HIP stand-in in turns in one process (tests/core/several.py).

The stand-in refuses work on the wrong current device and lets each block's owner bear it, as a driver does, so a device
that is made current once for all fails here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[1] / "core/several.py"
NAMES = [f"hip:{index}" for index in range(4)]
SIZE = 1 << 20


def several(**settings: str) -> dict[str, Any]:
    made = subprocess.run(
        [sys.executable, str(PROGRAM), *NAMES],
        env=os.environ | {"STANDIN_DEVICES": "4"} | settings,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    answer: dict[str, Any] = json.loads(made.stdout)
    return answer


def test_four_devices_in_turns() -> None:
    said = several()
    own = [SIZE, 2 * SIZE, 3 * SIZE, 4 * SIZE]
    assert len(set(said["uuids"])) == 4
    assert said["owners"] == NAMES
    assert said["held"] == own  # by the guard
    assert said["used"] == own  # by the driver
    assert said["wrong"] == [0] * 4
    assert said["other seed"] == [bytes_ / 8 for bytes_ in own]
    assert said["chase"] == [0] * 4
    assert said["copies"] == [0] * 8


def test_reach_opens_what_was_refused() -> None:
    said = several()
    reason = "cannot reach device memory of hip:1: access is not enabled; call reach first"
    assert said["copy refused"] == f"a copy by hip:0 {reason}"
    assert said["launch refused"] == f"a kernel of hip:0 {reason}"
    assert (said["untouched"], said["why"], said["reach refused"]) == (0, None, "")
    assert said["reached"] == {"copies": [0] * 4, "chase": 0, "stream": 0, "virtual": [0, 0]}
    assert said["own again"] == 0


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
def test_reach_gives_the_drivers_reason(setting: str, value: str, reason: str) -> None:
    said = several(**{setting: value})
    assert said["reach refused"] == reason
    assert said["why"] == (reason if setting == "STANDIN_UNREACHABLE" else None)


LIMITED = """
import sys
from firsttouch import _core
from firsttouch.machine.devices import open_device
devices = [open_device(name) for name in ("hip:0", "hip:1")]
held = []
for device in [*devices, *devices]:
    try:
        held.append(device.allocate(sys.argv[1], 1 << 20))
        print("taken by", device.name)
    except _core.GuardRefused as reason:
        print(reason)
"""


@pytest.mark.parametrize(
    ("allocator", "variable"), [("device", "FIRSTTOUCH_MAX_DEVICE"), ("managed", "FIRSTTOUCH_MAX_MANAGED")]
)
def test_each_device_has_its_own_limit(allocator: str, variable: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", LIMITED, allocator],
        env=os.environ | {"STANDIN_DEVICES": "2", variable: "1MiB"},
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    *taken, first, second = made.stdout.splitlines()
    assert taken == ["taken by hip:0", "taken by hip:1"]
    refusal = f"needs 1 MiB of {allocator} memory with 1 MiB already held; the limit is 1 MiB ({variable})"
    assert (first, second) == (refusal, refusal)
