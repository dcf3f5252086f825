"""What `firsttouch try` measures of a program, beside versions with unified memory that others wrote.

    python evidence/benchmarks/tried_versions.py PROGRAMS.json [--out DIR] [--rounds 3] [--seconds 540]

PROGRAMS.json: a list of objects with name, command (with explicit copies) and, if others wrote any, versions: the
command of each strategy. Prices of this machine are measured first. Then, of each program, `firsttouch try` runs as
DIR/NAME/tried, with these strategies or those that the object names, and the program, the program under the library of
try that changes nothing (`none`), and its versions run alone, in rounds that go forwards and backwards in turn.
DIR/tried.json has what came of all: what `try --json` printed, and the
seconds of each version. What is left over when the seconds are spent is left out, which is said. Needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firsttouch.advice.tried.findings import BASELINE
from firsttouch.advice.tried.running import Runner

PRICES = ("transfer", "migration", "allocation", "pagefault", "--device", "cuda:0", "--device", "cpu")
FIRSTTOUCH = (sys.executable, "-m", "firsttouch.cli.main")
USUAL = ("managed", "managed+prefetch")
LEAST_SECONDS = 10


class Visit:
    def __init__(self, out: Path, seconds: float) -> None:
        self.out, self.began = out, time.monotonic()
        self.end = self.began + seconds
        self.environment = {"FIRSTTOUCH_MAX_MANAGED": "24GiB", **os.environ}
        out.mkdir(parents=True, exist_ok=True)

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def call(
        self, name: str, words: Sequence[object], limit: float, environment: Mapping[str, str] | None = None
    ) -> tuple[str, float] | None:
        """What a program printed, and its seconds; None if it failed or no time was left."""
        if self.left < LEAST_SECONDS:
            print(f"{time.monotonic() - self.began:6.1f} s  {name}: no time is left", flush=True)
            return None
        start = time.monotonic()
        try:
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=min(limit, self.left),
                                  env=environment or self.environment, errors="replace", cwd=self.out)  # fmt: skip
            code, text = done.returncode, done.stdout
            (self.out / f"{name}.log").write_text(f"{done.stdout}\n{done.stderr}")
        except subprocess.TimeoutExpired:
            code, text = 124, ""
        took = time.monotonic() - start
        if code or name.startswith(("prices", "try")):
            print(f"{start - self.began:6.1f} s  {name}: {took:.1f} s{f', status {code}' if code else ''}", flush=True)
        return (text, took) if text or not code else None

    def program(self, about: dict[str, Any], rounds: int, prices: Path) -> dict[str, Any]:
        name, command = about["name"], about["command"]
        versions = {"explicit": command, BASELINE: command, **about.get("versions", {})}
        under_library = Runner(command, self.out, self.environment).environment(self.out, BASELINE)
        strategies = about.get("strategies") or [*dict.fromkeys((*USUAL, *about.get("versions", {})))]
        words = ["--strategy", ",".join(strategies), "--rounds", about.get("rounds", rounds), "--json"]
        if prices.exists():
            words += ["--prices", prices]
        told = self.call(f"try-{name}", [*FIRSTTOUCH, "try", *words, "--out", self.out / name, "--",
                                         *about["command"]], 150)  # fmt: skip
        seconds: dict[str, list[float]] = {version: [] for version in versions}
        for number in range(about.get("rounds", rounds)):
            for version in list(versions)[:: 1 if number % 2 == 0 else -1]:
                environment = under_library if version == BASELINE else None
                if run := self.call(f"run-{name}-{version}-{number}", versions[version], 60, environment):
                    seconds[version].append(run[1])
        return {"tried": json.loads(told[0]) if told and told[0].startswith("{") else None, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("programs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tried"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=540)
    options = parser.parse_args()
    visit = Visit(options.out.resolve(), options.seconds)
    prices = visit.out / "prices"
    visit.call("prices", [*FIRSTTOUCH, "run", *PRICES, "--out", prices], 90)
    found: dict[str, Any] = {}
    for about in json.loads(options.programs.read_text()):
        if visit.left > LEAST_SECONDS:
            found[about["name"]] = visit.program(about, options.rounds, prices)
            (visit.out / "tried.json").write_text(json.dumps(found, indent=1))
        else:
            print(f"{about['name']}: no time is left", flush=True)


if __name__ == "__main__":
    main()
