"""Times the report of many records: 100,000 in at most 60 s and 2 GiB.

    python benchmarks/report_many.py [POINTS [PAGE]]

The records are those of results/h200-standard, repeated under a further factor and varied by 1 %. PAGE: where the page
is written. Exits with status 1 if a limit is exceeded.
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


def main() -> int:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "many"
        page = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(folder) / "many.html"
        write(directory, repeated(points), 1)
        started = time.monotonic()
        command = [sys.executable, "-m", "firsttouch.cli.main", "report", str(directory), "-o", str(page)]
        done = subprocess.run(command, check=False)
        seconds = time.monotonic() - started
        size = page.stat().st_size if page.exists() else 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{points} points: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor time, largest process "
        f"{used.ru_maxrss / 2**10:.0f} MiB, page {size / 1e6:.1f} MB"
    )
    return int(done.returncode != 0 or seconds > SECONDS or used.ru_maxrss * 1024 > BYTES)


if __name__ == "__main__":
    sys.exit(main())
