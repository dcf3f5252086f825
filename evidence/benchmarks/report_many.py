"""Times the report of many records: 100,000 in at most 60 s and 2 GiB; 200 of 1,000 processes each in 10 s and 1 GiB.

    python evidence/benchmarks/report_many.py [POINTS [PAGE [PROCESSES]]]

The records are those of results/h200-standard, repeated under a further factor and varied by 1 %. PAGE: where the page
is written. PROCESSES: how many carried out each point, on hosts of four GPUs. Exits with status 1 if a limit is
exceeded.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_many import repeated, write

SECONDS, BYTES = 60.0, 2 * 2**30
OF_PROCESSES = 10.0, 2**30


def carried_out_by(processes: int, record: dict) -> dict:
    """The record of a point that so many processes carried out."""
    clocks = {"core_mhz": 1980, "memory_mhz": 2619, "temperature_c": 41, "power_w": 120.0}
    parties = [
        {"device": f"cuda:{rank % 4}", "rank": rank, "host": f"node{rank // 4:04}", "numa_node": rank % 4,
         "processors": f"{18 * (rank % 4)}-{18 * (rank % 4) + 17}", "clocks_before": clocks, "clocks_after": clocks}
        for rank in range(processes)
    ]  # fmt: skip
    shared = {"shared": "processor, NUMA node"}
    return record | {"parties": parties, "counters": record["counters"] | shared} if processes else record


def main() -> int:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "many"
        page = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(folder) / "many.html"
        processes = int(sys.argv[3]) if len(sys.argv) > 3 else 0
        write(directory, [carried_out_by(processes, record) for record in repeated(points)], 1)
        started = time.monotonic()
        command = [sys.executable, "-m", "firsttouch.cli.main", "report", str(directory), "-o", str(page)]
        done = subprocess.run(command, check=False)
        seconds = time.monotonic() - started
        size = page.stat().st_size if page.exists() else 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    whose = f" of {processes} processes" if processes else ""
    print(
        f"{points} points{whose}: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor time, largest "
        f"process {used.ru_maxrss / 2**10:.0f} MiB, page {size / 1e6:.1f} MB"
    )
    longest, most = OF_PROCESSES if processes else (SECONDS, BYTES)
    return int(done.returncode != 0 or seconds > longest or used.ru_maxrss * 1024 > most)


if __name__ == "__main__":
    sys.exit(main())
