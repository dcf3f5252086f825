from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.py")
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a call that knows the experiments of faults.py; set in this process too."""
    monkeypatch.setenv("FIRSTTOUCH_EXPERIMENTS", str(FAULTS))
    return dict(os.environ)


@pytest.fixture
def call(environment: dict[str, str], tmp_path: Path) -> Call:
    """`firsttouch run` in a directory of its own."""

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "firsttouch.cli.main", "run", *map(str, arguments)]
        environ = environment | more
        return subprocess.run(command, cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=110)

    return run


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds the stand-in for CUPTI, with defines; the path of the library."""
    folder = tmp_path_factory.mktemp("standin")

    @cache
    def build(*defines: str) -> Path:
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        if compiler is None:
            pytest.skip("no C++ compiler here to build the stand-in with")
        path = folder / f"libcupti{'-'.join(defines)}.so"
        command = [compiler, "-std=c++20", "-shared", "-fPIC", f"-I{TOP / 'native'}", TOP / "tests/standins/cupti.cpp"]
        subprocess.run([*command, *(f"-D{d}" for d in defines), "-o", path], check=True, timeout=100)
        return path

    return build
