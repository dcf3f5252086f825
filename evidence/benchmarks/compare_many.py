"""Times a comparison of many results directories, and counts how often a comparison of few is right.

    python evidence/benchmarks/compare_many.py [DIRECTORIES [POINTS]]

100 directories of 5,000 points each take at most 10 s and 1 GiB. The records are those of results/h200-standard,
repeated under further factors; each directory varies them by 1 %.

    python evidence/benchmarks/compare_many.py RUN RUN RUN RUN RUN RUN...

Compares runs of one machine in pairs, and three against three drawn at random: at most 2 % of the points differ, and at
most 1 of 20 fails at 10 %. Then it makes an experiment of three of them slower by 10 %, which is found in 9 of 10. Both
exit with status 1 if a limit is exceeded.
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
from collections.abc import Sequence
from itertools import combinations, cycle, islice
from pathlib import Path

import msgspec

from firsttouch.comparison.compare import compare_sides
from firsttouch.comparison.runs import ComparedPoint, ComparedRun, read
from firsttouch.comparison.sides import Sides
from firsttouch.comparison.table import Side

SOURCE = Path(__file__).parents[2] / "results" / "h200-standard"
SECONDS, BYTES = 10.0, 2**30
TRIALS = 60


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


def slower(run: ComparedRun, experiment: str, factor: float) -> ComparedRun:
    points = []
    for p in run.points:
        definition = run.definitions[p.definition]
        if definition.experiment == experiment:
            *values, samples = p.value
            by = 1 / factor if definition.better == "higher" else factor
            p = ComparedPoint(p.definition, p.device, p.factors, (*(v * by for v in values), samples), p.disturbed)
        points.append(p)
    return msgspec.structs.replace(run, points=points)


def count(draws: Sequence[tuple[Sequence[ComparedRun], Sequence[ComparedRun]]], name: str) -> bool:
    """Compares sides that are equal. Returns whether few enough of them differ."""
    points = differing = failing = phases = of_phases = named = 0
    for before, after in draws:
        comparison = compare_sides(Sides([Side("before", [*before]), Side("after", [*after])], []), 0.1)
        points += len(comparison.differences.points)
        differing += sum(point.differs for point in comparison.differences.points)
        failing += comparison.exit_status
        if comparison.phases is not None:
            phases += len(comparison.phases.differences.points)
            of_phases += sum(point.differs for point in comparison.phases.differences.points)
            named += any(group.differs for group in comparison.phases.groups)
    print(f"{name}: {differing:,} of {points:,} points differ ({100 * differing / points:.2f} %), {failing} of "
          f"{len(draws)} fail at 10 %")  # fmt: skip
    if phases:
        print(f"{name}, phases of applications: {of_phases:,} of {phases:,} points differ; as a whole, some in "
              f"{named} of {len(draws)}")  # fmt: skip
    good = differing <= 0.02 * points and failing <= 0.05 * len(draws)
    return good and of_phases <= 0.02 * phases and named <= 0.1 * len(draws)


def rates(names: Sequence[str]) -> int:
    runs, rng = [read(name) for name in names], random.Random(1)
    pairs = list(combinations(runs, 2))
    draws = [rng.sample(runs, 6) for _ in range(TRIALS)]
    triples = [(draw[:3], draw[3:]) for draw in draws]
    good = count([([a], [b]) for a, b in rng.sample(pairs, min(len(pairs), TRIALS))], "one a side")
    good &= count(triples, "three a side")
    found = tried = 0
    for experiment in dict.fromkeys(definition.experiment for run in runs for definition in run.definitions):
        hits = 0
        for before, after in triples:
            slow = [slower(run, experiment, 1.1) for run in after]
            comparison = compare_sides(Sides([Side("before", [*before]), Side("after", slow)], []))
            hits += any(g.worse for g in comparison.groups if g.experiment.partition(" ")[0] == experiment) or any(
                p.worse for p in comparison.differences.points if p.column.definition.experiment == experiment
            )
        print(f"{experiment}: a slow-down of 10 % is found in {hits} of {TRIALS}")
        found, tried = found + hits, tried + TRIALS
    print(f"all: found in {100 * found / tried:.0f} %")
    return int(not good or found < 0.9 * tried)


def main() -> int:
    if any(Path(text).is_dir() for text in sys.argv[1:]):
        return rates(sys.argv[1:])
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
