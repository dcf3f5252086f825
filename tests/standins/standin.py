"""Builds the stand-ins for AMD's libraries, with nothing but g++.

    python tests/standins/standin.py hip_on_cuda
    export FIRSTTOUCH_LIB_HIP=... FIRSTTOUCH_LIB_HIPRTC=...        # the lines that it prints
    python -m firsttouch.cli.main run --device hip:0

hip_on_cuda runs the HIP device on an NVIDIA GPU and needs the CUDA driver and NVRTC. hip_on_host simulates a GPU on the
processor, for tests. The comment at the top of each source and docs/hip.md say what each proves and what it does not.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from firsttouch.machine.libraries import find_libraries

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "src/firsttouch/base/kernels"
SOURCES = {
    "hip_on_host": (),
    "mpi_in_front": (),
    "rccl_on_host": (),
    "hip_on_cuda": ("native/device/cuda/api.cpp", "native/device/compiler.cpp", "native/device/library.cpp"),
}
KERNEL_OPTIONS = (
    ["-O2"],
    ["-O1", "-g", "-fsanitize=address,bounds,integer-divide-by-zero,shift", "-fno-sanitize-recover=all"],
)
KEPT = ROOT / "build/standins"
VARIABLES = ("FIRSTTOUCH_LIB_HIP", "FIRSTTOUCH_LIB_HIPRTC")


def build(name: str, *, without: str = "") -> Path:
    """Builds the library of a stand-in, unless these sources were built before, and returns its path.

    It has a folder of its own, in which hip_on_host keeps the kernels that it compiles.

    Args:
        without: The name of a function to leave out.

    Raises:
        subprocess.CalledProcessError: If it does not compile.
        FileNotFoundError: If g++ is not installed.
    """
    folder = KEPT / (f"{name}-{without}" if without else name)
    target, stamp, wanted = folder / f"lib{name}.so", folder / "built", state()
    KEPT.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if without:
                leave_out(without, name, build(name).parent, folder)
            else:
                compile_library(name, folder)
            stamp.write_text(wanted)
    return target


@cache
def state() -> str:
    """A digest of the compiler's version and of all that a stand-in, or a kernel that it compiles, is made from."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(compiler + str(ROOT).encode())
    native = [*(ROOT / "native").rglob("*.hpp"), *(ROOT / source for more in SOURCES.values() for source in more)]
    kernels = [*KERNELS.glob("*.c"), *KERNELS.glob("*.h")]
    for path in sorted([*HERE.glob("*.?pp"), *HERE.glob("*.h"), HERE / "standin.py", *kernels, *native]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def compile_library(name: str, folder: Path) -> None:
    defines = [f'-DSTANDIN_KERNELS="{KERNELS}"', f'-DSTANDIN_FOLDER="{HERE}"']
    options = ["-std=c++20", "-O1", "-Wall", "-Wno-missing-field-initializers", "-fPIC", "-pthread"]
    sources = [HERE / f"{name}.cpp", *(ROOT / source for source in SOURCES[name])]
    command = ["g++", *options, *defines, f"-I{ROOT / 'native'}", "-c", *map(str, sources)]
    subprocess.run(command, check=True, cwd=folder)
    link(name, folder)
    if name == "hip_on_host":
        precompile("includes.standin.h", folder)


def leave_out(function: str, name: str, complete: Path, folder: Path) -> None:
    """Makes the library anew from the objects in the folder `complete`, where this function gets another name."""
    for each in complete.glob("*.o"):
        command = ["objcopy", "--redefine-sym", f"{function}=renamed_{function}", str(each), str(folder / each.name)]
        subprocess.run(command, check=True)
    link(name, folder)


def link(name: str, folder: Path) -> None:
    objects = [str(path) for path in folder.glob("*.o")]
    subprocess.run(["g++", "-shared", "-pthread", "-o", str(folder / f"lib{name}.so"), *objects, "-ldl"], check=True)


def precompile(header: str, folder: Path) -> None:
    """Precompiles a header of the kernels' programs with the options that hip_on_host.cpp compiles them with."""
    (folder / f"{header}.gch").mkdir(exist_ok=True)
    for number, more in enumerate(KERNEL_OPTIONS):
        output = folder / f"{header}.gch" / str(number)
        command = ["g++", "-std=c++20", "-w", "-fPIC", *more, "-x", "c++-header", "-o", str(output), str(HERE / header)]
        subprocess.run(command, check=True)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in SOURCES:
        sys.exit(f"usage: standin.py NAME, where NAME is one of {', '.join(SOURCES)}")
    built = build(name)
    for variable in VARIABLES:
        print(f"export {variable}={built}")
    if name == "hip_on_cuda":
        for nvrtc in (library for library in find_libraries() if library.name == "nvrtc" and library.path):
            print(f"export FIRSTTOUCH_LIB_NVRTC={nvrtc.path}")
    print(f"export FIRSTTOUCH_CACHE={built.parent / 'cache'}  # kernels of a stand-in must not enter another cache")


if __name__ == "__main__":
    main()
