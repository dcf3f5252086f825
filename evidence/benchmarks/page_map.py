"""How fast the page map counts, and how long a prediction takes: page touches and block faults a second, one core.

    python evidence/benchmarks/page_map.py

Prints one line of JSON. Accepted are at least 10^8 touches of pages and 10^7 faults of blocks a second, 1 s for any
application at 64 GiB beyond its dry run, and 3 s and 256 MiB for a whole call: of CALLED, of which one has usual costs,
and the others have the longest dry runs and the most memory. A call's time is that of all its processes' CPU.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported
from firsttouch.harness.app import solve
from firsttouch.harness.predicting import predict_application
from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.pages import PARALLEL, Kind
from firsttouch.model.platform import load_platform
from firsttouch.records.schema import Factors

GIB = 1 << 30
SIZE = 64 * GIB
SWEEPS = 100
KIND = Kind(4096, (580, 142))
CALLED = ("hotspot", "streamcluster", "fft_conv_r2c", "graph500_bfs")
STRATEGIES = ("explicit", "managed", "managed+both", "pinned")


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def sweeps(capacity: int | None) -> PageMoves:
    """Sweeps of a kernel over 64 GiB, which the CPU touched first. capacity: blocks of the GPU's memory."""
    memory, moves, evicted = ManagedMemory(KIND, capacity), PageMoves(KIND.page), PageMoves(KIND.page)
    memory.allocate(0, SIZE)
    memory.touch(0, "cpu", [(0, SIZE)], PageMoves(KIND.page), evicted, writes=True)
    for _ in range(SWEEPS):
        memory.touch(0, "gpu", [(0, SIZE)], moves, evicted, writes=True, order=PARALLEL)
    return moves


def slowest_application() -> tuple[float, str]:
    """The longest prediction at 64 GiB once the program is known, and of what."""
    platform = load_platform("h200-pcie")
    slowest = (0.0, "")
    for name, app in all_apps().items():
        try:
            params = solve(app, SIZE)
        except ValueError:
            continue
        for strategy in STRATEGIES:
            factors = Factors({"app": name, "strategy": strategy, "size": SIZE, "events": "off"})
            try:
                predict_application(app, params, factors, platform)  # makes the dry run
            except Unsupported:
                continue
            started = time.perf_counter()
            predict_application(app, params, factors, platform)
            slowest = max(slowest, (time.perf_counter() - started, f"{name}, {strategy}"))
    return slowest


def call_s(name: str) -> float:
    """CPU seconds of a call that predicts an application at 64 GiB under one strategy."""
    command = [sys.executable, "-m", "firsttouch.cli.main", "app", name, "--device", "model:h200-pcie"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        words = [*command, "--size", "64GiB", "--strategy", "managed", "--out", f"{folder}/run"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    calls = {name: call_s(name) for name in CALLED}
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10  # first: of a child it includes this process
    in_memory, crowded = seconds(lambda: sweeps(None)), seconds(lambda: sweeps(int(0.8 * SIZE) >> 21))
    took, slowest = slowest_application()
    measured = {
        "page_touches_per_s": SWEEPS * SIZE / KIND.page / in_memory,
        "block_faults_per_s": SWEEPS * (SIZE >> 21) / crowded,
        "slowest_application_s": took,
        "slowest_application": slowest,
        "call_s": calls,
        "call_peak_bytes": peak,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
