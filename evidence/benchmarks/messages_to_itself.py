"""Compares messages of one rank to itself by NCCL with a hand-written loop, in turns, on an NVIDIA GPU.

    python evidence/benchmarks/messages_to_itself.py [ROUNDS]

Prints the best and the median of the rounds, and the ratios of ours to the loop's: of the best, and the median of each
round's. Both run on the same four processors, and every second round begins with the loop: below a megabyte the
processor that queues the messages decides, and a virtual machine's may take 1.4 times as long in one minute as in the
next. Needs nvcc and NCCL's header.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from firsttouch.records.reading import load_results

HERE = Path(__file__).parent
SIZES = [8, 1 << 10, 8 << 10, 32 << 10, 1 << 20, 16 << 20, 256 << 20]


def ours(folder: Path) -> dict[int, tuple[float, float]]:
    """Microseconds of a message alone and GB/s, by its bytes."""
    call = [sys.executable, "-m", "firsttouch.cli.main", "run", "p2p-message", "--ranks", "1", "--device", "cuda:0"]
    sets = ["interface=xccl", "peer=self", "source=device", "target=device", f"size={','.join(map(str, SIZES))}"]
    words = [word for setting in sets for word in ("--set", setting)]
    subprocess.run([*call, *words, "--preset", "standard", "--out", str(folder)], check=True, capture_output=True)
    records = load_results(folder).records
    assert all(r.status == "ok" and r.verified for r in records), [r.reason for r in records]
    return {r.count("size"): (r.counter("latency_us"), r.summary.median) for r in records if r.summary}


def theirs(program: Path) -> dict[int, tuple[float, float]]:
    done = subprocess.run([str(program), *map(str, SIZES)], check=True, capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines() if line[:1].isdigit())
    return {int(size): (float(us), float(gbs)) for size, us, gbs in rows}


def main(rounds: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
    results: dict[int, list[tuple[float, float, float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "reference_xccl"
        source = str(HERE / "reference_xccl.cu")
        subprocess.run(["nvcc", "-O2", "-std=c++17", source, "-lnccl", "-o", str(program)], check=True)
        for n in range(rounds):
            their_rows = theirs(program) if n % 2 else {}
            mine = ours(Path(name) / str(n))
            their_rows = their_rows or theirs(program)
            for size in SIZES:
                results[size].append((*mine[size], *their_rows[size]))
    for size, rows in results.items():
        columns = list(zip(*rows, strict=True))
        of_rounds = [median(row[i] / row[i + 2] for row in rows) for i in (0, 1)]
        for name, lowest, highest in (("best", min, max), ("median", median, median)):
            us, gbs, their_us, their_gbs = (of(c) for of, c in zip((lowest, highest) * 2, columns, strict=True))
            ratios = of_rounds if name == "median" else [us / their_us, gbs / their_gbs]
            print(f"{size:10d} B {name:6}  alone {us:8.2f} us, loop {their_us:8.2f} ({ratios[0]:.3f})"
                  f"  windows {gbs:10.5f} GB/s, loop {their_gbs:10.5f} ({ratios[1]:.3f})")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
