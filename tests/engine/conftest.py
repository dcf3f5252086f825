from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.calls import UNDRAWN

TOP = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.py")
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a call with the experiments of faults.py. It is also set in this process."""
    monkeypatch.setenv("FIRSTTOUCH_MODULES", str(FAULTS))
    return dict(os.environ)


@pytest.fixture
def call(environment: dict[str, str], tmp_path: Path) -> Call:
    """Calls `firsttouch run` in a temporary directory."""

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = [*UNDRAWN, "run", *map(str, arguments)]
        environ = environment | more
        return subprocess.run(command, cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=110)

    return run
