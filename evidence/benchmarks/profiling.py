"""What a program loses under `firsttouch profile`: pairs of runs with and without, alternately.

    cd evidence/benchmarks
    python profiling.py sampling [PAIRS]    4 GiB of base pages, sampled every 10 ms; landmark 1.01
    python profiling.py faults [PAIRS]      1 GiB of first touches, five times, --faults=64; landmark 1.05
    python profiling.py trace [PAIRS]       100,000 copies of 64 KiB to a GPU, --trace; landmark 1.10

The programs time their own work. Prints the median of the ratios with its 95 % interval, and what profiling cost. Needs
a C++ compiler, or nvcc.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from firsttouch import _core

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    source: str
    compiler: tuple[str, ...]
    argument: tuple[str, ...]
    options: tuple[str, ...]
    landmark: float


CASES = {
    "sampling": Case("reference_profiled.cpp", ("c++", "-O2", "-std=c++17"), ("hold",), (), 1.01),
    "faults": Case("reference_profiled.cpp", ("c++", "-O2", "-std=c++17"), ("touch",), ("--faults=64",), 1.05),
    "trace": Case("reference_copies.cu", ("nvcc", "-O2", "-std=c++17"), (), ("--trace",), 1.10),
}


def seconds(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in CASES:
        sys.exit(__doc__)
    case, pairs = CASES[name], (int(sys.argv[2]) if len(sys.argv) > 2 else 10)
    ratios, costs = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        subprocess.run([*case.compiler, str(HERE / case.source), "-o", str(program)], check=True)
        plain = [str(program), *case.argument]
        for pair in range(pairs):
            out = Path(folder) / f"profile-{pair}"
            profiler = [sys.executable, "-m", "firsttouch.cli.main", "profile", "--out", str(out), *case.options, "--"]
            runs = [plain, [*profiler, *plain]]
            order = runs if pair % 2 else runs[::-1]
            times = {len(command): seconds(command) for command in order}
            without, profiled = times[len(plain)], times[len(plain) + len(profiler)]
            ratios.append(profiled / without)
            summary = json.loads((out / "profile.json").read_text())
            costs.append((summary["cost"]["busy"], summary["cost"]["locked"]))
            print(f"{without:.3f} s, profiled {profiled:.3f} s: {ratios[-1]:.4f}", flush=True)
    _, median, *_, low, high = _core.summarise(ratios)
    busy, locked = (sorted(column)[len(column) // 2] for column in zip(*costs, strict=True))
    print(f"{name}: {median:.4f} ({low:.4f} to {high:.4f}) times as long; landmark {case.landmark}")
    print(f"profiling took {100 * busy:.2f} % of a processor, {100 * locked:.2f} % under the program's memory lock")


if __name__ == "__main__":
    main()
