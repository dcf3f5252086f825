"""Programs that tests trace without a GPU: on the stand-ins for the CUDA runtime, its driver and CUPTI.

In tests: `cuda.trace(FIXTURES / "vector_add.c", tmp_path)` compiles the program, runs it with the injected library and
returns the directory with its journal. `cuda.environment` is what `firsttouch profile --trace` needs for the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.profile import injected

TOP = Path(__file__).parents[2]
STANDINS = TOP / "tests/standins"
FIXTURES = Path(__file__).parent / "fixtures"
MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@dataclass(frozen=True)
class PlayedCuda:
    """The folder of the stand-ins' libraries, and one for the programs that are built on them."""

    libraries: Path
    make_once: MakeOnce

    @property
    def environment(self) -> dict[str, str]:
        """What makes a program use the stand-ins, and `firsttouch profile --trace` find them."""
        cupti = str(self.libraries / "libcupti.so.13")
        named = {name: value for name, value in os.environ.items() if not name.startswith("STANDIN")}
        more = {"STANDIN": cupti, "FIRSTTOUCH_LIB_CUPTI": cupti, "FIRSTTOUCH_PROFILE_CUPTI": cupti}
        return named | more | {"LD_LIBRARY_PATH": str(self.libraries), "STANDIN_CUPTI_REPEAT": "0"}

    def built(self, source: Path, *options: str) -> Path:
        """Compiles a C or C++ program with tests/port/fixtures/cudart.h, once in a run of the tests."""
        language = "c" if source.suffix == ".c" else "c++"
        name = "-".join([source.stem, *options]).replace("/", "_")

        def build(folder: Path) -> None:
            runtime = str(self.libraries / "libcudart.so.13")
            injected.compiled(
                str(source), folder / source.stem, f"-I{FIXTURES}", *options, runtime, "-lm", language=language
            )

        return self.make_once(f"port-{name}", build) / source.stem

    def trace(
        self, source: Path, directory: Path, *arguments: str, status: int = 0, more: Mapping[str, str] | None = None
    ) -> Path:
        """Runs a C program with the injected library. Returns `directory`, which its journal is in."""
        variables = injected.environment(directory, nvtx=False, trace=True) | self.environment | dict(more or {})
        injected.run([self.built(source), *arguments], variables, status)
        return directory


def build_libraries(folder: Path) -> None:
    """Compiles the stand-ins for CUPTI, the CUDA driver and its runtime.

    Raises:
        subprocess.CalledProcessError: If they do not compile.
    """
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-shared", "-fPIC", "-pthread", f"-I{TOP / 'native'}"]
    names = ["-Wl,-soname,libcudart.so.13", f"-Wl,--version-script={STANDINS / 'cudart.map'}"]
    runtime = [STANDINS / name for name in ("cuda_driver.cpp", "cuda_graphs.cpp", "cuda_symbols.cpp", "cudart.cpp")]
    for target, sources in (("libcupti.so.13", [STANDINS / "cupti.cpp"]), ("libcudart.so.13", [*runtime, *names])):
        subprocess.run([*command, "-o", folder / target, *sources, "-ldl"], check=True, timeout=100)
    (folder / "libcuda.so.1").symlink_to("libcudart.so.13")


def played_cuda(make_once: MakeOnce) -> PlayedCuda:
    """Builds the stand-ins, or skips the test where there is no compiler."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("no C++ compiler here to build the stand-ins with")
    return PlayedCuda(make_once("played-cuda", build_libraries), make_once)
