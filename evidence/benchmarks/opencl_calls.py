"""What the layer of OpenCL costs a program for each call, in processor time, over a runtime that does nothing.

    python evidence/benchmarks/opencl_calls.py [BATCHES]

The last column is the landmark. Needs g++ and the headers of OpenCL with cl_icd.h, and no device.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from firsttouch.profile.inject import inject_environment, injected_library

HERE = Path(__file__).parent
BATCHES = 20
LANDMARKS = {"launch with 4 arguments": 250, "copy of 4 KiB": 1200}
"""Nanoseconds that a call should take at most."""


def main() -> None:
    batches = sys.argv[1] if len(sys.argv) > 1 else str(BATCHES)
    measured_calls("reference_opencl.cpp", ["-std=c++17", "-Wno-attributes"], batches, LANDMARKS)


def measured_calls(source: str, options: Sequence[str], batches: str, landmarks: Mapping[str, int]) -> None:
    """Builds a program of this folder, which gets the library and the number of batches, and prints its rows.

    landmarks: nanoseconds that calls should take at most.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "reference"
        subprocess.run(["g++", "-O2", *options, HERE / source, "-o", program, "-ldl"], check=True)
        added, _ = inject_environment(Path(folder), nvtx=False, trace=True, current={})
        added = {name: value for name, value in added.items() if name != "LD_PRELOAD"}  # for programs, not for this one
        command = [program, injected_library(), batches]
        done = subprocess.run(command, env={**os.environ, **added}, capture_output=True, text=True, check=True)
    print(f"{'call':26} {'without':>8} {'with':>8} {'more':>8}  ns of processor time, the least of {batches} batches")
    for line in done.stdout.splitlines():
        name, plain, traced = line.split("\t")
        landmark = f"  at most {landmarks[name]}" if name in landmarks else ""
        print(f"{name:26} {float(plain):8.0f} {float(traced):8.0f} {float(traced) - float(plain):8.0f}{landmark}")


if __name__ == "__main__":
    main()
