"""What `--trace` costs a program that only launches and copies, against the injected library of another version.

    python evidence/benchmarks/trace_calls.py OTHER_LIBRARY [ROUNDS] [OUTPUT.json]

OTHER_LIBRARY: a libfirsttouch_inject.so, such as that of commit a56dcdeb. Runs alternate; which is first does too. The
last line of each case is the median of the differences and ratios of pairs. Needs nvcc and a GPU.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from firsttouch.profile.inject import CUDA_VARIABLE, inject_environment

HERE = Path(__file__).parent
ROUNDS = 10


class Case(NamedTuple):
    """column: of what the program prints."""

    name: str
    launches: int
    copies: int
    bytes: int
    column: int


CASES = (
    Case("launches with 8 arguments", 200_000, 0, 8, 0),
    Case("copies of 4 KiB", 0, 100_000, 4 << 10, 2),
    Case("copies of 64 KiB", 0, 20_000, 64 << 10, 2),
)
LONG = Case("10^6 launches", 1_000_000, 0, 8, 0)


class Run(NamedTuple):
    """us: microseconds of a call; journal: bytes."""

    case: str
    library: str
    round: int
    us: float
    journal: int


def measure(program: Path, case: Case, library: str, number: int, path: str | None) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        added, _ = inject_environment(Path(folder), nvtx=False, trace=True, current={})
        environment = {**os.environ, **added, **({CUDA_VARIABLE: path} if path else {})}
        command = [program, str(case.launches), str(case.copies), str(case.bytes)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        journal = sum(file.stat().st_size for file in Path(folder).iterdir())
    return Run(case.name, library, number, float(done.stdout.split()[case.column]), journal)


def main() -> None:
    other, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    libraries = {"other": other, "this": None}
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "reference_calls"
        subprocess.run(["nvcc", "-O2", "-std=c++17", HERE / "reference_calls.cu", "-o", program], check=True)
        for case in CASES:
            for number in range(rounds):
                order = list(libraries)[:: 1 if number % 2 == 0 else -1]
                pair = {name: measure(program, case, name, number, libraries[name]) for name in order}
                runs += [pair["other"], pair["this"]]
            others, ours = ([run.us for run in runs if (run.case, run.library) == (case.name, n)] for n in libraries)
            more = statistics.median(b - a for a, b in zip(others, ours, strict=True))
            ratio = statistics.median(b / a for a, b in zip(others, ours, strict=True))
            print(f"{case.name:26} {statistics.median(others):8.3f} {statistics.median(ours):8.3f} us", end="")
            print(f"  {more:+.3f} us  {ratio:.3f} times", flush=True)
        runs += [measure(program, LONG, name, 0, path) for name, path in libraries.items()]
        print(f"{LONG.name}: {runs[-1].us:.3f} us and a journal of {runs[-1].journal / 2**20:.1f} MiB")
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(json.dumps([run._asdict() for run in runs]))


if __name__ == "__main__":
    main()
