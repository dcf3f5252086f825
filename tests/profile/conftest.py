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
def standin(make_once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[..., Path]:
    """Builds the stand-in for CUPTI with the given defines. Returns the path of the library."""

    @cache
    def build(*defines: str) -> Path:
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        if compiler is None:
            pytest.skip("no C++ compiler here to build the stand-in with")
        command = [compiler, "-std=c++20", "-shared", "-fPIC", f"-I{TOP / 'native'}", TOP / "tests/standins/cupti.cpp"]
        command += [f"-D{d}" for d in defines]

        def fill(folder: Path) -> None:
            subprocess.run([*command, "-o", folder / "libcupti.so"], check=True, timeout=100)

        return make_once(f"cupti{'-'.join(defines)}", fill) / "libcupti.so"

    return build
