"""Builds the stand-ins for AMD's libraries, with nothing but g++.

    python tests/standins/standin.py hip_on_cuda
    export FIRSTTOUCH_LIB_HIP=... FIRSTTOUCH_LIB_HIPRTC=...        # the lines that it prints
    python -m firsttouch.cli.main run --device hip:0

hip_on_cuda drives an NVIDIA GPU through the HIP device (it needs the CUDA driver and NVRTC); hip_on_host plays a GPU on
the processor, for tests. What each proves, and what it does not, is said at its top and in docs/hip.md.
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
    "hip_on_cuda": ("native/device/cuda/api.cpp", "native/device/library.cpp"),
}
VARIABLES = ("FIRSTTOUCH_LIB_HIP", "FIRSTTOUCH_LIB_HIPRTC")


def build(name: str, folder: Path, *, without: str = "") -> Path:
    """The library of a stand-in below `folder`. `without` is a function that it shall lack.

    Raises:
        subprocess.CalledProcessError: it does not compile.
        FileNotFoundError: there is no g++.
    """
    library = folder / f"lib{name}{'-' + without if without else ''}.so"
    renamed = [f"-D{without}=renamed_{without}"] if without else []
    sources = [str(HERE / f"{name}.cpp"), *(str(ROOT / one) for one in SOURCES[name])]
    places = [f'-DSTANDIN_KERNELS="{KERNELS}"', f'-DSTANDIN_FOLDER="{HERE}"']
    options = ["-std=c++20", "-O0", "-Wall", "-Wno-missing-field-initializers", "-shared", "-fPIC", "-pthread"]
    command = ["g++", *options, *places, *renamed, f"-I{ROOT / 'native'}", "-o", str(library), *sources, "-ldl"]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True)
    return library


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in SOURCES:
        sys.exit(f"which? one of {', '.join(SOURCES)}")
    library = build(name, ROOT / "build/standin")
    for variable in VARIABLES:
        print(f"export {variable}={library}")
    for nvrtc in (one for one in find_libraries() if one.name == "nvrtc" and one.path and name == "hip_on_cuda"):
        print(f"export FIRSTTOUCH_LIB_NVRTC={nvrtc.path}")
    print(f"export FIRSTTOUCH_CACHE={library.parent / 'cache'}  # compiled kernels of a stand-in are nobody else's")


if __name__ == "__main__":
    main()
