"""What one of pytest-xdist's processes makes and all of them use."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """make_once(name, fill): a folder that `fill` was called with, once in this test run, whichever process came first.

    The others wait for it. A `fill` that raised is called again by the next that asks.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        path, complete = base / name, base / f"{name}.complete"
        with open(base / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                fill(path)
                complete.touch()
        return path

    return folder
