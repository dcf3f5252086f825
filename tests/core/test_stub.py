"""The committed type stub of the core equals the one that nanobind's stubgen generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "native/bindings/stub.py"


def test_the_stub_is_up_to_date() -> None:
    pytest.importorskip("nanobind")
    process = subprocess.run([sys.executable, str(SCRIPT), "--check"], text=True, capture_output=True, timeout=60)
    assert process.returncode == 0, process.stdout + process.stderr
