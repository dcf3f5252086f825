"""Builds the stand-ins for AMD's libraries, with nothing but g++.

    python tests/standins/standin.py hip_on_cuda
    export FIRSTTOUCH_LIB_HIP=... FIRSTTOUCH_LIB_HIPRTC=...        # the lines that it prints
    python -m firsttouch.cli.main run --device hip:0

hip_on_cuda runs the HIP device on an NVIDIA GPU and needs the CUDA driver and NVRTC. hip_on_host simulates a GPU on the
processor, for tests. The comment at the top of each source and docs/hip.md say what each proves and what it does not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from firsttouch.machine.libraries import find_libraries

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "src/firsttouch/kernels"
SOURCES = {
    "hip_on_host": (),
    "mpi_in_front": (),
    "rccl_on_host": (),
    "hip_on_cuda": ("native/device/cuda/api.cpp", "native/device/library.cpp"),
}
KERNEL_OPTIONS = (
    ["-O2"],
    ["-O1", "-g", "-fsanitize=address,bounds,integer-divide-by-zero,shift", "-fno-sanitize-recover=all"],
)
VARIABLES = ("FIRSTTOUCH_LIB_HIP", "FIRSTTOUCH_LIB_HIPRTC")


def build(name: str, folder: Path, *, without: str = "") -> Path:
    """Builds the library of a stand-in in `folder`, and returns its path. `without` names a function to leave out.

    Raises:
        subprocess.CalledProcessError: If it does not compile.
        FileNotFoundError: If g++ is not installed.
    """
    target = library(name, folder, without)
    renamed = [f"-D{without}=renamed_{without}"] if without else []
    sources = [str(HERE / f"{name}.cpp"), *(str(ROOT / source) for source in SOURCES[name])]
    defines = [f'-DSTANDIN_KERNELS="{KERNELS}"', f'-DSTANDIN_FOLDER="{HERE}"']
    options = ["-std=c++20", "-O1", "-Wall", "-Wno-missing-field-initializers", "-shared", "-fPIC", "-pthread"]
    command = ["g++", *options, *defines, *renamed, f"-I{ROOT / 'native'}", "-o", str(target), *sources, "-ldl"]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True)
    if name == "hip_on_host" and not without:
        precompile("includes.standin.h", folder)
    return target


def precompile(header: str, folder: Path) -> None:
    """Precompiles a header of the kernels' programs with the options that hip_on_host.cpp compiles them with."""
    (folder / f"{header}.gch").mkdir(exist_ok=True)
    for number, more in enumerate(KERNEL_OPTIONS):
        output = folder / f"{header}.gch" / str(number)
        command = ["g++", "-std=c++20", "-w", "-fPIC", *more, "-x", "c++-header", "-o", str(output), str(HERE / header)]
        subprocess.run(command, check=True)


def library(name: str, folder: Path, without: str = "") -> Path:
    """The path of the library that `build` makes."""
    return folder / f"lib{name}{'-' + without if without else ''}.so"


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in SOURCES:
        sys.exit(f"usage: standin.py NAME, where NAME is one of {', '.join(SOURCES)}")
    built = build(name, ROOT / "build/standin")
    for variable in VARIABLES:
        print(f"export {variable}={built}")
    if name == "hip_on_cuda":
        for nvrtc in (library for library in find_libraries() if library.name == "nvrtc" and library.path):
            print(f"export FIRSTTOUCH_LIB_NVRTC={nvrtc.path}")
    print(f"export FIRSTTOUCH_CACHE={built.parent / 'cache'}  # kernels of a stand-in must not enter another cache")


if __name__ == "__main__":
    main()
