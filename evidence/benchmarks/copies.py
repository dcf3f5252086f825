"""Compares copies by one CPU thread within a NUMA node: p2p-copy, transfer and a bare memcpy loop, run in turns.

    python evidence/benchmarks/copies.py [ROUNDS]

Prints the best median of each over the rounds, and p2p-copy relative to the others; exits 1 where that is not within
5 %. The best, because each process has other pages, which share caches differently. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SIZES = [64 << 10, 1 << 20, 16 << 20, 256 << 20]
WITHIN = 0.05


def measured(experiment: str, out: Path, *options: str) -> dict[int, float]:
    """GB/s by size, of base pages and one thread, as the command measures it."""
    sizes = ",".join(map(str, SIZES))
    command = [
        sys.executable,
        "-m",
        "firsttouch.cli.main",
        "run",
        experiment,
        "--device",
        "cpu",
        "--set",
        f"size={sizes}",
    ]
    options = (*options, "--set", "threads=1", "--out", str(out))
    subprocess.run([*command, *options], check=True, capture_output=True)
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert all(r["status"] == "ok" and r["verified"] for r in records)
    return {r["factors"]["size"]: r["summary"]["median"] for r in records}


def reference(program: Path) -> dict[int, float]:
    lines = subprocess.run([str(program), *map(str, SIZES)], check=True, capture_output=True, text=True).stdout
    return {int(name.removeprefix("copy_")): float(value) for name, value, _ in map(str.split, lines.splitlines())}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    runs: dict[str, list[dict[int, float]]] = {"p2p-copy": [], "transfer": [], "memcpy": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "reference_copy"
        subprocess.run(["c++", "-O2", "-std=c++17", str(HERE / "reference_copy.cpp"), "-o", str(program)], check=True)
        pair = [word for factor in ("peer=self", "source=mmap", "target=mmap", "direction=out")
                for word in ("--set", factor)]  # fmt: skip
        for n in range(rounds):
            runs["p2p-copy"].append(measured("p2p-copy", folder / f"p2p-copy-{n}", *pair))
            runs["transfer"].append(measured("transfer", folder / f"transfer-{n}", "--set", "allocator=mmap"))
            runs["memcpy"].append(reference(program))
    worst = 0.0
    print(f"{'bytes':>12}", *(f"{title:>11}" for title in (*runs, "/ transfer", "/ memcpy")))
    for size in SIZES:
        rates = {side: max(of[size] for of in values) for side, values in runs.items()}
        ratios = [rates["p2p-copy"] / rates[reference_side] for reference_side in ("transfer", "memcpy")]
        worst = max(worst, *(abs(ratio - 1) for ratio in ratios))
        print(f"{size:>12}", *(f"{rate:>11.2f}" for rate in rates.values()), *(f"{ratio:>11.3f}" for ratio in ratios))
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
