"""Compares p2p-message between two processes on this host with the OSU micro-benchmarks, in turns.

    python evidence/benchmarks/messages.py LATENCY BANDWIDTH [ROUNDS]

LATENCY and BANDWIDTH are osu_latency and osu_bw, built with the MPI that the mpi4py of this Python uses. Prints the
median and the best of the rounds, and the ratios of ours to theirs: of the latency up to 1 KiB, of the bandwidth from
1 MiB. The best too, because on a virtual machine two processors are now one core's and now two cores'.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from firsttouch.engine.launching import Launching
from firsttouch.records.reading import load_results

LATENCIES = [1, 8, 64, 512, 1024]
BANDWIDTHS = [1 << 20, 2 << 20, 4 << 20]
COMMAND = [sys.executable, "-m", "firsttouch.cli.main"]
FACTORS = ["--device", "cpu", "--set", "peer=self", "--set", "source=malloc", "--set", "target=malloc"]


def ours() -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds and GB/s by the bytes of a message."""
    sizes = ",".join(map(str, LATENCIES + BANDWIDTHS))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        call = [*COMMAND, "run", "p2p-message", "--ranks", "2", "--preset", "standard", *FACTORS]
        subprocess.run([*call, "--set", f"size={sizes}", "--out", str(out)], check=True, capture_output=True)
        records = {r.count("size"): r for r in load_results(out).records}
    assert all(r.verified for r in records.values())
    return (
        {size: records[size].counter("latency_us") for size in LATENCIES},
        {size: r.summary.median for size in BANDWIDTHS if (r := records[size]).summary},
    )


def theirs(program: str) -> dict[int, float]:
    """What an OSU program printed, by the bytes of a message: microseconds, or MB/s."""
    launcher = Launching().launcher(2, mpi=True)
    done = subprocess.run(
        [*launcher.command, program],
        env={**os.environ, **launcher.environment},
        check=True,
        capture_output=True,
        text=True,
    )
    rows = (line.split() for line in done.stdout.splitlines() if line[:1].isdigit())
    return {int(size): float(value) for size, value in rows}


def main(latency: str, bandwidth: str, rounds: int) -> None:
    results: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        our_us, our_gbs = ours()
        their_us, their_gbs = theirs(latency), {size: mbs / 1e3 for size, mbs in theirs(bandwidth).items()}
        for size in LATENCIES:
            results["us", size].append((our_us[size], their_us[size]))
        for size in BANDWIDTHS:
            results["GB/s", size].append((our_gbs[size], their_gbs[size]))
    for (unit, size), pairs in results.items():
        best = min if unit == "us" else max
        for name, of in (("median", median), ("best", best)):
            mine, osu = (of(values) for values in zip(*pairs, strict=True))
            print(f"{size:8d} B {name:6}  ours {mine:7.3f}  OSU {osu:7.3f} {unit:4}  ratio {mine / osu:.3f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10)
