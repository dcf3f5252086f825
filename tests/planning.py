"""Plans of calls on the machines of tests/fabricated.py, by one process for each machine that lasts for all tests."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

PLAYER = Path(__file__).with_name("fabricated.py")


@cache
def _process(machine: str) -> subprocess.Popen[str]:
    """It ends when its standard input does, which is with this process."""
    words = [sys.executable, str(PLAYER), machine]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@cache
def plan_on(machine: str, call: str) -> dict[str, Any]:
    """What a call would do on a machine: the fields of fabricated.Plan."""
    process = _process(machine)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{call}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, f"planning ended at: {call}"
    plan: dict[str, Any] = json.loads(line)
    return plan
