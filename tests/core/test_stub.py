"""The committed type stub of the core is what nanobind's stubgen makes of the built one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "native/bindings/stub.py"


def test_the_stub_is_the_cores_own() -> None:
    pytest.importorskip("nanobind")
    made = subprocess.run([sys.executable, str(SCRIPT), "--check"], text=True, capture_output=True, timeout=60)
    assert made.returncode == 0, made.stdout + made.stderr
