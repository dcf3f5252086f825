"""A whole visit to a machine with GPUs: install, verify, measure, and peers side by side, in under ten minutes.

    python benchmarks/visit.py [--kind cuda] [--site /tmp/site] [--wheels .whl] [--nccl-tests FOLDER] [--out visit]

Takes the number of GPUs from the machine: with several, every pair both ways and all collectives, with a process for
each and with one for all; with one, messages and collectives with itself, and two ranks staged. Peers run in turns with
ours: reference_xccl.cu, reference_peer.cu and, if --nccl-tests names their build folder, nccl-tests. The last table has
the ratios to them and the limits: an operation takes at most 1.05 times as long below 64 KiB, bandwidth is at least
0.98 times theirs from 1 MiB, that of copies 1.00. Each step has a time limit; one that fails is named, and the visit
goes on. Changes no setting of the machine. Other devices (--kind hip with a stand-in, opencl) have no peers but those
that --nccl-tests names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
SMALL, LARGE = [8, 1 << 10, 32 << 10], [1 << 20, 16 << 20, 256 << 20]
SIZES = SMALL + LARGE
LADDER = [1 << 10, 32 << 10, 1 << 20, 32 << 20, 1 << 30]
"""Of operations: nccl-tests takes one factor from each size to the next, and starts in seconds."""
PROGRAMS = {"all-reduce": "all_reduce", "reduce-scatter": "reduce_scatter", "all-gather": "all_gather",
            "broadcast": "broadcast", "reduce": "reduce", "all-to-all": "alltoall"}  # fmt: skip
ITSELF = re.compile(r"(\d+) B median +alone .* windows .* \(([\d.]+)\)$", re.MULTILINE)
Records = list[dict[str, Any]]


def sets(**factors: object) -> list[str]:
    """Options of the command. A list is joined by commas."""
    texts = {name: ",".join(map(str, v)) if isinstance(v, list) else v for name, v in factors.items()}
    return [word for name, text in texts.items() for word in ("--set", f"{name}={text}")]


class Visit:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + options.seconds
        self.ladder = [size for size in LADDER if size <= options.largest]
        self.sizes = [size for size in SIZES if size <= options.largest]
        self.large = [size for size in LARGE if size <= options.largest] or LARGE[:1]
        self.names: list[str] = []
        self.interface = "mpi-staged" if options.kind == "opencl" else "xccl"
        self.failed: list[str] = []
        self.pairs: dict[tuple[str, int, str], list[tuple[float, float]]] = defaultdict(list)
        """By what was compared, bytes and kind ("time", "bandwidth" or "copy"): ours and theirs, of each round."""
        path = [options.site, os.environ.get("PYTHONPATH")]
        self.environment = {"FIRSTTOUCH_MAX_MANAGED": "24GiB", "NCCL_NVLS_ENABLE": "0", **os.environ,
                            "PYTHONPATH": os.pathsep.join(filter(None, path))}  # fmt: skip

    def step(self, name: str, limit: float, work: Callable[[float], object]) -> None:
        """Does something in at most `limit` seconds. What it raises is printed, and the visit goes on."""
        start, left = time.monotonic(), self.end - time.monotonic()
        try:
            if left < 5:
                raise TimeoutError("no time is left for it")
            print(f"{name}: {work(min(limit, left)) or 'done'}, {time.monotonic() - start:.0f} s", flush=True)
        except Exception as error:
            said = getattr(error, "stderr", None) or getattr(error, "output", None) or ""
            said = said.decode(errors="replace") if isinstance(said, bytes) else said
            why = " ".join(f"{error!s:.200} {said[-400:]}".split())
            print(f"{name}: FAILED after {time.monotonic() - start:.0f} s: {why}", flush=True)
            self.failed.append(name)

    def call(self, words: Sequence[object], limit: float, accepted: Sequence[int] = (0,)) -> str:
        """What a program printed. Raises if it ends otherwise, or not within the limit."""
        done = subprocess.run(list(map(str, words)), env=self.environment, capture_output=True, text=True,
                              timeout=limit, cwd=HERE.parent)  # fmt: skip
        if done.returncode not in accepted:
            raise subprocess.CalledProcessError(done.returncode, list(map(str, words))[:6], done.stdout, done.stderr)
        return done.stdout

    def measure(self, name: str, *words: object, limit: float) -> Records:
        """Records of a run in a folder of its own, which is continued if it is there. Raises if one is wrong."""
        out = self.out / name
        command = [sys.executable, "-m", "firsttouch.cli.main", "run", *words, "--out", out]
        try:
            self.call([*command, *(["--resume"] if out.exists() else [])], limit, accepted=(0, 3))
        finally:  # what was measured before a limit counts
            path = out / "results.jsonl"
            records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if bad := [r for r in records if r["status"] not in ("ok", "skipped") or r["verified"] is False]:
            why = bad[0]["reason"] or bad[0]["verified_why"]
            raise AssertionError(f"{len(bad)} of {len(records)} points: {bad[0]['factors']}: {why}")
        return records

    def run(self, name: str, limit: float, *words: object) -> None:
        def work(seconds: float) -> str:
            records = self.measure(name, *words, limit=seconds)
            counts = Counter("verified" if r["verified"] else r["status"] for r in records)
            for reason in dict.fromkeys(r["reason"] for r in records if r["reason"]):
                print(f"    skipped: {reason}")
            return ", ".join(f"{count} {what}" for what, count in counts.items())

        self.step(name, limit, work)

    # ------------------------------------------------------------------------------------------------------- steps

    def install(self, limit: float) -> str:
        site, python = self.options.site, [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        to = ["--target", site, "--upgrade"] if site else []
        if self.options.wheels:
            self.call([*python, *to, *sorted(Path(self.options.wheels).resolve().glob("*.whl"))], limit)
        self.call([*python, *to, "--no-build-isolation", "."], limit)
        return f"installed into {site or sys.prefix}"

    def find_devices(self, limit: float) -> str:
        machine = json.loads(self.call([sys.executable, "-m", "firsttouch.cli.main", "machine", "--json"], limit))
        (self.out / "machine.json").write_text(json.dumps(machine))
        self.names = [d["name"] for d in machine["devices"] if d["kind"] == self.options.kind and d["available"]]
        if not self.names:
            raise AssertionError(f"there is no device of the kind {self.options.kind}")
        self.ranks = len(self.names) if self.interface == "xccl" else max(2, len(self.names))
        several = self.interface == "xccl" and self.ranks > 1
        self.both: dict[str, object] = {"processes": ["each", "one"]} if several else {}
        return f"{len(self.names)} devices: {', '.join(self.names)}"

    def find_parties(self) -> tuple[list[str], list[str], dict[str, object]]:
        """Options that choose the pairs, all of them up to four devices, else those of the first; those that choose the
        first device; and what goes with the first.
        """
        alone = ["--device", self.names[0]]
        if len(self.names) in (2, 3, 4):
            return [word for name in self.names for word in ("--device", name)], alone, {}
        return alone, alone, {"peer": self.names[1:] or "self"}

    def measure_all(self) -> None:
        (chosen, alone, peers), count = self.find_parties(), len(self.names)
        memory, both = {"source": "device", "target": "device"}, {"interface": self.interface, **self.both}
        self.run("verify", 90, "p2p-direct", "p2p-copy", *chosen, *sets(size="1MiB", first_touch="gpu", **peers))
        self.run("verify-ranks", 60, "collective", *alone, "--ranks", self.ranks,
                 *sets(allocator="device", size=["64KiB", "1MiB"], **both))  # fmt: skip
        self.run("pairs", 90, "p2p-latency", "p2p-direct", *chosen, *sets(size=self.large[::2], **peers))
        self.run("copies", 90, "p2p-copy", *chosen, *sets(size=self.large, direction=["out", "in", "both"], **memory,
                                                          **peers))  # fmt: skip
        self.run("messages", 120, "p2p-message", *chosen, "--ranks", min(self.ranks, 2), "--preset", "standard",
                 *sets(interface=self.interface, size=self.sizes, **memory, **peers))  # fmt: skip
        if count == 1:
            self.run("messages-staged", 60, "p2p-message", *alone, "--ranks", 2,
                     *sets(interface="mpi-staged", peer="self", size=self.sizes, **memory))  # fmt: skip
            self.run("collective-staged", 60, "collective", *alone, "--ranks", 2,
                     *sets(interface="mpi-staged", allocator="device", ranks=2, size=self.sizes[::3]))  # fmt: skip

    def nccl_tests(self, program: str, gpus: int, until: float) -> dict[int, float]:
        """Microseconds out of place by the bytes that were asked for; empty if no nccl-tests were named."""
        if not self.options.nccl_tests:
            return {}
        path = Path(self.options.nccl_tests).resolve() / f"{program}_perf"
        words = [path, "-b", self.ladder[0], "-e", self.ladder[-1], "-f", 32, "-g", gpus, "-w", 5, "-n", 50, "-c", 0]
        text = self.call(words, until - time.monotonic())
        rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
        return {size: float(row[5]) for size, row in zip(self.ladder, rows, strict=True)}  # after size to root

    def note(self, what: str, size: int, us: float, their_us: float) -> None:
        if size < 64 << 10:
            self.pairs[what, size, "time"].append((us, their_us))
        else:
            self.pairs[what, size, "bandwidth"].append((size / us / 1e3, size / their_us / 1e3))

    def compare_collectives(self, number: int, limit: float) -> None:
        until = time.monotonic() + limit
        theirs = {
            operation: self.nccl_tests(program, len(self.names), until) for operation, program in PROGRAMS.items()
        }
        chosen = sets(interface=self.interface, allocator="device", ranks=self.ranks, size=self.ladder, **self.both)
        words = ["--device", self.names[0], "--ranks", self.ranks, "--preset", "standard", *chosen]
        for r in self.measure(f"collective-{number}", "collective", *words, limit=until - time.monotonic()):
            of = r["factors"]
            if r["status"] == "ok" and (their_us := theirs[of["operation"]].get(of["size"])):
                what = f"{of['operation']}, processes={of.get('processes', 'each')}"
                self.note(what, of["size"], r["counters"]["interval_us"], their_us)

    def compare_messages(self, number: int, limit: float) -> None:
        """Messages one way in windows, and nccl-tests' send-receive, which sends both ways at once."""
        until, pair = time.monotonic() + limit, self.names[:2]
        theirs = self.nccl_tests("sendrecv", 2, until)
        chosen = sets(interface="xccl", peer=pair[1], source="device", target="device", size=self.ladder)
        words = ["--device", pair[0], "--ranks", 2, "--preset", "standard", *chosen]
        for r in self.measure(f"messages-{number}", "p2p-message", *words, limit=until - time.monotonic()):
            size = r["factors"]["size"]
            if r["status"] == "ok" and size in theirs:
                self.note(f"messages {pair[0]} to {pair[1]}", size, size / r["summary"]["median"] / 1e3, theirs[size])

    def compare_copies(self, number: int, limit: float) -> None:
        until, program = time.monotonic() + limit, self.out / "reference_peer"
        if not program.exists():
            self.call(["nvcc", "-O2", HERE / "reference_peer.cu", "-lcuda", "-o", program], limit)
        rows = (line.split() for line in self.call([program, *self.large], limit).splitlines())
        theirs = {(f"cuda:{a}", f"cuda:{b}", int(size)): float(value) for a, b, size, value in rows}
        devices, _, peers = self.find_parties()
        chosen = sets(engine=["copy-engine", "peer-call"], direction="out", source="device", target="device",
                      size=self.large, **peers)  # fmt: skip
        words = [*devices, "--preset", "standard", *chosen]
        for r in self.measure(f"copies-{number}", "p2p-copy", *words, limit=until - time.monotonic()):
            of, a = r["factors"], r["device"]
            b = a if of["peer"] == "self" else of["peer"]
            if r["status"] == "ok":
                what = f"{of['engine']} {a} to {b}"
                self.pairs[what, of["size"], "copy"].append((r["summary"]["median"], theirs[a, b, of["size"]]))

    def compare_itself(self, limit: float) -> None:
        """Messages of a rank to itself: the ratios that messages_to_itself.py prints."""
        text = self.call([sys.executable, HERE / "messages_to_itself.py", 2], limit)
        (self.out / "messages_to_itself.txt").write_text(text)
        for size, ratio in ITSELF.findall(text):
            self.pairs["messages to itself, windows", int(size), "bandwidth"].append((float(ratio), 1.0))

    def table(self) -> None:
        limits = {"time": "<= 1.05", "bandwidth": ">= 0.98", "copy": ">= 1.00"}
        print(f"\n{'compared, median of the rounds':44} {'bytes':>10} {'ours':>10} {'theirs':>10} {'ratio':>6}  limit")
        for (what, size, kind), pairs in sorted(self.pairs.items()):
            ours, theirs = (median(side) for side in zip(*pairs, strict=True))
            ratio, judged = ours / theirs, size < 64 << 10 if kind == "time" else size >= 1 << 20
            met = ratio <= 1.05 if kind == "time" else ratio >= (1.0 if kind == "copy" else 0.98)
            verdict = f"{limits[kind]} {'met' if met else 'MISSED'}" if judged else ""
            print(f"{what:44} {size:10d} {ours:10.3f} {theirs:10.3f} {ratio:6.3f}  {verdict}")
        print(f"failed steps: {', '.join(self.failed) or 'none'}; records in {self.out}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", default="cuda", help="of the devices: cuda, hip or opencl")
    parser.add_argument("--site", default="", help="folder to install into, instead of this Python's")
    parser.add_argument("--wheels", default="", help="folder of wheels that the package needs")
    parser.add_argument("--nccl-tests", default="", help="build folder of nccl-tests")
    parser.add_argument("--out", default="visit", help="folder for results")
    parser.add_argument("--rounds", type=int, default=2, help="of each comparison with a peer")
    parser.add_argument("--seconds", type=float, default=570, help="that the visit may take")
    parser.add_argument("--largest", type=int, default=1 << 30, help="bytes, for a trial on stand-ins")
    parser.add_argument("--no-install", action="store_true", help="firsttouch is installed")
    visit = Visit(parser.parse_args())
    if not visit.options.no_install:
        visit.step("install", 240, visit.install)
    visit.step("devices", 60, visit.find_devices)
    if visit.names:
        visit.measure_all()
        for number in range(visit.options.rounds):
            visit.step(f"collective, round {number}", 120, partial(visit.compare_collectives, number))
            if len(visit.names) > 1 and visit.options.nccl_tests:
                visit.step(f"messages, round {number}", 60, partial(visit.compare_messages, number))
            if visit.options.kind == "cuda":
                visit.step(f"copies, round {number}", 60, partial(visit.compare_copies, number))
        if visit.options.kind == "cuda":
            visit.step("messages to itself", 90, visit.compare_itself)
    visit.table()
    return int(bool(visit.failed))


if __name__ == "__main__":
    sys.exit(main())
