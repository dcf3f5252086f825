from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import calls

FAULTS = Path(__file__).with_name("faults.py")
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def with_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments of faults.py are among those of this process and of its workers."""
    monkeypatch.setenv("FIRSTTOUCH_MODULES", str(FAULTS))


@pytest.fixture
def call(with_faults: None, tmp_path: Path) -> Call:
    """Calls `firsttouch run` in a temporary directory."""

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return calls.call("run", *words, cwd=tmp_path, **environment)

    return run
