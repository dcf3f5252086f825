"""Results directories made of those in results/: copies, repeated runs, and runs with a slow-down."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

RESULTS = Path(__file__).parents[2] / "results"
CPU = RESULTS / "xeon-vm-quick"

Change = Callable[[dict[str, Any]], None]


def copy(
    target: Path, *changes: Change, source: Path = CPU, machine: Callable[[dict[str, Any]], None] | None = None
) -> str:
    """A copy of a results directory whose records have each been passed to every change. Returns its path."""
    target.mkdir(parents=True)
    for name in ("machine.json", "run.json"):
        shutil.copy(source / name, target)
    if machine is not None:
        document = json.loads((target / "machine.json").read_text())
        machine(document)
        (target / "machine.json").write_text(json.dumps(document))
    lines = []
    for line in (source / "results.jsonl").read_bytes().splitlines():
        record = msgspec.json.decode(line)
        for change in changes:
            change(record)
        lines.append(msgspec.json.encode(record))
    (target / "results.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return str(target)


def scale(record: dict[str, Any], factor: float) -> None:
    record["samples"] = [v * factor for v in record["samples"]]
    if record["summary"]:
        record["summary"] |= {n: v * factor for n, v in record["summary"].items() if n != "n"}


def slower(experiment: str, factor: float) -> Change:
    """Makes an experiment slower: its times longer, its rates lower."""

    def change(record: dict[str, Any]) -> None:
        if record["experiment"] == experiment:
            scale(record, 1 / factor if record["better"] == "higher" else factor)

    return change


def another_run(seed: int, spread: float = 0.01) -> Change:
    """What a further run of the same machine would have recorded: other samples, and a shift of its own per point."""
    rng = random.Random(seed)

    def change(record: dict[str, Any]) -> None:
        if not record["summary"] or not record["samples"]:
            return
        samples = sorted(rng.choices(record["samples"], k=len(record["samples"])))
        before, after = record["summary"], median(samples)
        low, high = before["ci_low"] - before["median"], before["ci_high"] - before["median"]
        record["samples"] = samples
        record["summary"] = before | {"median": after, "min": samples[0], "max": samples[-1]}
        record["summary"] |= {"ci_low": after + low, "ci_high": after + high}
        scale(record, rng.gauss(1, spread))

    return change


def verdicts(points: Iterable[dict[str, Any]]) -> set[str]:
    return {point["verdict"] for point in points}
