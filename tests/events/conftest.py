from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds the stand-in for CUPTI with the given defines. Returns the path of the library."""
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
