"""The time that a traced run of a small program takes in any case, beside that of an idle client of CUPTI.

    python evidence/benchmarks/fixed_time.py [ROUNDS] [OUTPUT.json]

In each round a program with two copies and one kernel runs bare, with reference_cupti.cpp, under `profile --trace` and
under `port`, the last two with everything that they print and write. Medians of the whole commands' times, and what is
beyond the idle client. Needs nvcc, CUPTI and a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
AIM = 1.0
"""Seconds beyond the idle client."""


def toolkit() -> Path:
    """The folder of the CUDA toolkit that nvcc on the path belongs to."""
    nvcc = subprocess.run(["sh", "-c", "command -v nvcc"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(nvcc).resolve().parents[1]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds: dict[str, list[float]] = {"bare": [], "idle client": [], "profile --trace": [], "port": []}
    with tempfile.TemporaryDirectory() as name:
        folder, cuda = Path(name), toolkit()
        small, client = folder / "small", folder / "libreference_cupti.so"
        libraries = [path for path in (cuda / "lib64", cuda / "extras/CUPTI/lib64") if any(path.glob("libcupti.so*"))]
        if not libraries:
            sys.exit(f"no libcupti.so in {cuda}")
        headers = [f"-I{path}" for path in (cuda / "include", cuda / "extras/CUPTI/include")]
        subprocess.run(["nvcc", "-O2", "-arch=native", HERE / "reference_small.cu", "-o", small], check=True)
        library = next(iter(sorted(libraries[0].glob("libcupti.so*"))))
        shared = ["c++", "-O2", "-std=c++17", "-shared", "-fPIC", *headers, HERE / "reference_cupti.cpp", library]
        subprocess.run([*shared, f"-Wl,-rpath,{libraries[0]}", "-o", client], check=True)
        ours = [sys.executable, "-m", "firsttouch"]
        for number in range(rounds):
            commands = {
                "bare": [small],
                "idle client": [small],
                "profile --trace": [*ours, "profile", "--trace", "--out", folder / f"profile-{number}", "--", small],
                "port": [*ours, "port", "--out", folder / f"port-{number}", "--", small],
            }
            for mode in commands if number % 2 else reversed(commands):
                added = {"CUDA_INJECTION64_PATH": str(client)} if mode == "idle client" else {}
                start = time.monotonic()
                done = subprocess.run(commands[mode], env={**os.environ, **added}, capture_output=True, text=True)
                seconds[mode].append(time.monotonic() - start)
                if done.returncode:
                    sys.exit(f"{mode}: status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    idle = median(seconds["idle client"])
    for mode, each in seconds.items():
        beyond = median(each) - idle
        aim = (
            f", aim at most {AIM:g} s: {'met' if beyond <= AIM else 'missed'}"
            if mode in ("profile --trace", "port")
            else ""
        )
        print(f"{mode:16} {median(each):.2f} s ({min(each):.2f} to {max(each):.2f}), {beyond:+.2f} s{aim}")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
