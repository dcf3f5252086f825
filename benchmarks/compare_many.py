"""Times a comparison of many results directories: 100 of 5,000 points each in at most 10 s and 1 GiB.

    python benchmarks/compare_many.py [DIRECTORIES [POINTS]]

The records are those of results/h200-standard, repeated under further factors; each directory varies them by 1 %.
Exits with status 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "results" / "h200-standard"
SECONDS, BYTES = 10.0, 2**30


def write(target: Path, records: list[dict], seed: int) -> None:
    target.mkdir()
    for name in ("machine.json", "run.json"):
        shutil.copy(SOURCE / name, target)
    rng = random.Random(seed)
    with (target / "results.jsonl").open("w") as file:
        for record in records:
            shift = rng.gauss(1, 0.01)
            summary = {n: v if n == "n" else v * shift for n, v in record["summary"].items()}
            samples = [v * shift for v in record["samples"]]
            file.write(json.dumps(record | {"summary": summary, "samples": samples}, separators=(",", ":")) + "\n")


def repeated(points: int) -> list[dict]:
    """As many records as asked for: those of SOURCE, each time with another value of the factor `copy`."""
    lines = (SOURCE / "results.jsonl").read_text().splitlines()
    ok = [record for line in lines if (record := json.loads(line))["status"] == "ok"]
    return [
        record | {"factors": record["factors"] | {"copy": i // len(ok)}}
        for i, record in enumerate(islice(cycle(ok), points))
    ]


def main() -> int:
    given = [int(text) for text in sys.argv[1:]]
    directories, points = [*given, *(100, 5000)[len(given) :]]
    records = repeated(points)
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / f"node{i:03}" for i in range(directories)]
        for i, name in enumerate(names):
            write(name, records, i)
        size = sum((name / "results.jsonl").stat().st_size for name in names)
        started = time.monotonic()
        command = [sys.executable, "-m", "firsttouch.cli.main", "compare", *map(str, names)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout[:1500], done.stderr, sep="")
    print(
        f"{directories} directories of {points} points ({size / 2**20:.0f} MiB): {seconds:.1f} s, "
        f"{used.ru_utime + used.ru_stime:.1f} s of processor time, largest process {used.ru_maxrss / 2**10:.0f} MiB"
    )
    return int(done.returncode != 0 or seconds > SECONDS or used.ru_maxrss * 1024 > BYTES)


if __name__ == "__main__":
    sys.exit(main())
