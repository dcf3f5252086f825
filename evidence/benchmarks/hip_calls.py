"""What the trace of HIP costs a program for each call, in processor time, over a runtime that does nothing.

    python evidence/benchmarks/hip_calls.py [BATCHES]

The last column is the landmark. Needs g++, and no device.
"""

from __future__ import annotations

import sys
from pathlib import Path

from opencl_calls import measured_calls

BATCHES = 20
LANDMARKS = {"launch with 4 arguments": 250, "copy of 4 KiB": 1200}
"""Nanoseconds that a call should take at most."""


def main() -> None:
    batches = sys.argv[1] if len(sys.argv) > 1 else str(BATCHES)
    native = Path(__file__).parents[2] / "native"
    measured_calls("reference_hip.cpp", ["-std=c++20", f"-I{native}"], batches, LANDMARKS)


if __name__ == "__main__":
    main()
