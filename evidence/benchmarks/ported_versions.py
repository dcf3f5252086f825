"""Advice about programs that others wrote, held against versions with unified memory that they wrote too.

    python evidence/benchmarks/ported_versions.py FOLDER [--out DIR] [--rounds 5] [--seconds 420] [--preload LIBRARY]

FOLDER has the programs of um-apps (Chien, Peng, Markidis, MCHPC 2019), built with their sources unchanged and named
NAME, NAMEUM, NAMEUM_hint, NAMEUM_prefetch and NAMEUM_hint_prefetch. In this order:

1. prices of this machine, by micro-measurements;
2. the explicit version of each program is traced, and advised on: DIR/advice/NAME.json, whose digests are in
   DIR/digests.txt before any other version runs;
3. all versions run untraced, in rounds that go forwards and backwards in turn: DIR/times/NAME-VERSION-ROUND.txt;
4. the version with plain managed memory is traced too, for the bytes that move and its peak;
5. Black-Scholes at a tenth of its size with -validate, which reads its inputs again.

DIR/ported.json has what came of it: timers in seconds, advice without its grounds, and bytes.

Each step has a time limit, and says how long it took; what is left over when the seconds are spent is left out.
--preload: a library with a faster rand(), so that five rounds fit. evidence/recompute/ported.py makes tables of DIR.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAMS: Mapping[str, Sequence[str]] = {
    "BlackScholes": ("-size=200000000", "-iterations=64"),
    "FDTD3d": ("-dimx=512", "-dimy=512", "-dimz=512", "-timesteps=10"),
    "matrixMul": ("-wA=8192", "-hA=8192", "-wB=8192", "-hB=8192", "-iterations=2"),
    "simpleCUBLAS": ("-size=16384", "-iterations=1"),
    "convolutionFFT2D": ("-size=8000", "-fft0Iter=1"),
}
VERSIONS = {"explicit": "", "um": "UM", "hint": "UM_hint", "prefetch": "UM_prefetch", "both": "UM_hint_prefetch"}
VALIDATED = ("-size=20000000", "-iterations=64", "-validate")
MICRO: Mapping[str, Sequence[str]] = {
    "micro": ("transfer", "migration", "allocation", "pagefault", "exchange", "--device", "cuda:0", "--device", "cpu"),
    "migration": ("migration", "--device", "cuda:0", "--set", "size=256MiB", "--set", "events=off",
                  "--set", "allocator=managed,pinned"),
    "transfer": ("transfer", "--device", "cuda:0", "--set", "size=64MiB,1GiB", "--set", "allocator=malloc,pinned",
                 "--set", "engine=copy-engine", "--set", "direction=h2d,d2h"),
}  # fmt: skip
FIRSTTOUCH = (sys.executable, "-m", "firsttouch.cli.main")
TIMER = re.compile(r"^ *(GPU Time|[\w ]+ timer): ([\d.]+) *$", re.MULTILINE)
ANALYSED = """
import sys, pathlib
from firsttouch.advice.profiled import traced_program
from firsttouch.base.encoding import encode_json
from firsttouch.program.program import encode
traced = traced_program(pathlib.Path(sys.argv[1]))
pathlib.Path(sys.argv[2] + ".program.json").write_bytes(encode(traced.program))
pathlib.Path(sys.argv[2] + ".port.json").write_bytes(encode_json(traced.found))
"""


class Visit:
    def __init__(self, options: argparse.Namespace) -> None:
        self.folder, self.out = options.folder.resolve(), options.out.resolve()
        self.began, self.end = time.monotonic(), time.monotonic() + options.seconds
        self.preload = ("env", f"LD_PRELOAD={options.preload.resolve()}") if options.preload else ()
        self.environment = {"FIRSTTOUCH_MAX_MANAGED": "24GiB", **os.environ}
        for name in ("prices", "advice", "times", "traced", "logs"):
            (self.out / name).mkdir(parents=True, exist_ok=True)
        self.rounds = options.rounds

    def call(self, name: str, words: Sequence[object], limit: float = 60) -> str | None:
        """What a program printed; None if no time was left, which is said. Some programs end with status 1 unless they
        compared their results.
        """
        start, left = time.monotonic(), self.end - time.monotonic()
        if left < 5:
            print(f"{start - self.began:6.1f} s  {name}: no time is left", flush=True)
            return None
        try:
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=min(limit, left),
                                  env=self.environment, errors="replace", cwd=self.out)  # fmt: skip
            code, text = done.returncode, done.stdout
            (self.out / "logs" / f"{name}.log").write_text(f"{done.stdout}\n{done.stderr}")
        except subprocess.TimeoutExpired:
            code, text = 124, ""
        took = time.monotonic() - start
        print(f"{start - self.began:6.1f} s  {name}: {took:.1f} s{f', status {code}' if code else ''}", flush=True)
        return text or None

    def program(self, name: str, version: str, arguments: Sequence[str]) -> list[str]:
        return [*self.preload, str(self.folder / f"{name}{VERSIONS[version]}"), *arguments]

    def prices(self) -> list[Path]:
        for name, words in MICRO.items():
            self.call(f"prices-{name}", [*FIRSTTOUCH, "run", *words, "--out", self.out / "prices" / name], 120)
        return [self.out / "prices" / name for name in MICRO if (self.out / "prices" / name / "results.jsonl").exists()]

    def advise(self, name: str, arguments: Sequence[str], prices: Sequence[Path], label: str = "") -> None:
        """Trace the explicit version, and write what is advised of it."""
        label = label or name
        profile, made = self.out / "profiles" / label, self.out / "advice" / label
        words = self.program(name, "explicit", arguments)
        self.call(f"trace-{label}", [*FIRSTTOUCH, "port", "--out", profile, "--", *words], 90)
        self.call(f"program-{label}", [sys.executable, "-c", ANALYSED, profile, made])
        text = self.call(f"advise-{label}", [*FIRSTTOUCH, "advise", *prices, "--profile", profile, "--json"])
        if text and "sentences" in (told := json.loads(text)):
            (made.with_suffix(".json")).write_text(text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            with (self.out / "digests.txt").open("a") as file:
                file.write(f"{digest}  advice/{label}.json  {time.time():.3f}\n")
            print(f"         {digest}  {told['sentences'][0]}", flush=True)

    def traced(self, name: str, version: str, arguments: Sequence[str], label: str = "") -> None:
        label = label or f"{name}-{version}"
        profile, words = self.out / "profiles" / label, self.program(name, version, arguments)
        text = self.call(f"profile-{label}", [*FIRSTTOUCH, "profile", "--trace", "--json", "--out", profile, "--",
                                              *words], 90)  # fmt: skip
        if text and "trace" in json.loads(text):
            (self.out / "traced" / f"{label}.json").write_text(text)

    def measure(self) -> None:
        order = [(name, version) for name in PROGRAMS for version in VERSIONS]
        for number in range(self.rounds):
            for name, version in order if number % 2 == 0 else reversed(order):
                label = f"{name}-{version}-{number}"
                if text := self.call(f"run-{label}", self.program(name, version, PROGRAMS[name])):
                    (self.out / "times" / f"{label}.txt").write_text(text)

    def collect(self) -> None:
        """What came of the visit, in one file."""
        found: dict[str, Any] = {}
        for label in (*PROGRAMS, "BlackScholes-validated"):
            about = found[label] = {"arguments": [*PROGRAMS.get(label, VALIDATED)]}
            if (path := self.out / "advice" / f"{label}.json").exists():
                about["advice"] = slim(json.loads(path.read_text()))
            if (path := self.out / "advice" / f"{label}.port.json").exists():
                about["blocks"] = sum(block["bytes"] for block in json.loads(path.read_text())["blocks"])
            name, _, validated = label.partition("-")
            about["times"] = {} if validated else {version: self.timers(name, version) for version in VERSIONS}
            paths = {"explicit": self.out / "profiles" / label / "profile.json",
                     "um": self.out / "traced" / f"{name}-um{'-' * bool(validated)}{validated}.json"}  # fmt: skip
            about["traced"] = {v: moved(json.loads(p.read_text())) for v, p in paths.items() if p.exists()}
        (self.out / "ported.json").write_text(json.dumps(found, indent=1) + "\n")

    def timers(self, name: str, version: str) -> list[dict[str, float]]:
        """The timers of each round, by their names."""
        paths = [self.out / "times" / f"{name}-{version}-{number}.txt" for number in range(self.rounds)]
        return [{k.strip(): float(v) for k, v in TIMER.findall(p.read_text())} for p in paths if p.exists()]


def slim(advice: Mapping[str, Any]) -> dict[str, Any]:
    """The advice without what its numbers rest on."""
    traced = advice["traced"]
    rows = [*([traced["as_it_is"]] if traced["as_it_is"] else []), *advice["strategies"]]
    parts = ("phase", "what", "bytes", "count", "ms", "low", "high")
    return {
        "sentence": advice["sentences"][0],
        "take": advice["take"],
        "saved_bytes": traced["saved_bytes"],
        "bounds": traced["bounds"],
        "check": traced["check"],
        "kernel_ms": traced["kernel_ms"],
        "rows": {row["strategy"]: {k: row[k] for k in ("ms", "low", "high")}
                 | {"terms": [[term[part] for part in parts] for term in row["terms"]]} for row in rows},
    }  # fmt: skip


def moved(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The bytes that a profile says moved, were allocated, and were resident at the peak."""
    trace = summary["trace"] or {}
    unified, sites = trace.get("unified") or {}, trace.get("sites") or []
    return {
        "h2d": (unified.get("h2d") or {}).get("bytes"),
        "d2h": (unified.get("d2h") or {}).get("bytes"),
        "lost": [trace.get(name) for name in ("lost", "left_out", "missing")],
        "allocated": {kind: sum(s["bytes"] for s in sites if s["kind"] == kind) for kind in {s["kind"] for s in sites}},
        "host_peak": summary["host"]["peak"]["bytes"] if summary["host"].get("peak") else None,
        "gpu_rise": [gpu["rise"]["bytes"] for gpu in summary["gpus"] if gpu.get("rise")],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("ported"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--preload", type=Path)
    parser.add_argument("--collect", action="store_true", help="only make ported.json of what is in DIR")
    options = parser.parse_args()
    visit = Visit(options)
    if options.collect:
        return visit.collect()
    prices = visit.prices()
    for name, arguments in PROGRAMS.items():
        visit.advise(name, arguments, prices)
    visit.advise("BlackScholes", VALIDATED, prices, "BlackScholes-validated")
    for name, arguments in PROGRAMS.items():
        visit.traced(name, "um", arguments)
    visit.traced("BlackScholes", "um", VALIDATED, "BlackScholes-um-validated")
    visit.measure()
    visit.collect()


if __name__ == "__main__":
    main()
