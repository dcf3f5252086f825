"""A whole visit to a machine with GPUs: install, verify, measure, and peers side by side, in under ten minutes.

    python evidence/benchmarks/visit.py [--kind cuda] [--site /tmp/site] [--wheels .whl] [--nccl-tests FOLDER]
                               [--nvbandwidth PROGRAM] [--skip STEP,STEP] [--out visit]

Takes the number of GPUs from the machine: a plain run, `methods --verify`, the applications that several processes
share, and with several GPUs every pair both ways and all collectives, with a process for each and with one for all;
with one, messages and collectives with itself, and two ranks staged. Peers run in turns with ours, and each round
begins with the other one: reference_xccl.cu, reference_peer.cu and, where they are named, nccl-tests and nvbandwidth
(peers.py). The last table has medians over the rounds, the ratio to the peer beside the peer's own spread, and the
limits: an operation takes at most 1.05 times as long below 64 KiB, its bandwidth is at least 0.98 times theirs from
64 MiB, and that of copies from 1 MiB. Each step has a time limit; one that fails is named, and the visit goes on.
Changes no setting of the machine. Other devices (--kind hip with a stand-in, opencl) have no peers but nccl-tests.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import peers

HERE = Path(__file__).resolve().parent
SMALL, LARGE = [8, 1 << 10, 32 << 10], [1 << 20, 16 << 20, 256 << 20]
SIZES = SMALL + LARGE
LADDER = [1 << 10, 32 << 10, 1 << 20, 32 << 20, 1 << 30]
"""Of operations: nccl-tests takes one factor from each size to the next, and starts in seconds."""
OPERATIONS = [name for name in peers.PROGRAMS if name != "messages"]
WAYS = [*peers.NVBANDWIDTH]
ITSELF = re.compile(r"(\d+) B median +alone .* windows .* \(([\d.]+)\)$", re.MULTILINE)
LIMITS = {"time": ("<= 1.05", 1.05, range(64 << 10)), "bandwidth": (">= 0.98", 0.98, range(64 << 20, 1 << 40)),
          "copy": (">= 0.98", 0.98, range(1 << 20, 1 << 40))}  # fmt: skip
"""What the ratio to a peer must be, as text and as number, and at which sizes it is judged."""
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
        self.skipped = set(options.skip.split(","))
        self.names: list[str] = []
        self.interface = "mpi-staged" if options.kind == "opencl" else "xccl"
        self.failed: list[str] = []
        self.compared: dict[tuple[str, int, str], list[tuple[float, float]]] = defaultdict(list)
        """By what was compared, bytes and kind (of LIMITS): ours and theirs, of each round."""
        path = [options.site, os.environ.get("PYTHONPATH")]
        self.environment = {"FIRSTTOUCH_MAX_MANAGED": "24GiB", "NCCL_NVLS_ENABLE": "0", **os.environ,
                            "PYTHONPATH": os.pathsep.join(filter(None, path))}  # fmt: skip

    def step(self, name: str, limit: float, work: Callable[[float], object]) -> None:
        """Does something in at most `limit` seconds. What it raises is printed, and the visit goes on."""
        if name.partition(",")[0] in self.skipped:
            return
        start, left = time.monotonic(), self.end - time.monotonic()
        try:
            if left < 5:
                raise TimeoutError("no time is left for it")
            print(f"{name}: {work(min(limit, left)) or 'done'}, {time.monotonic() - start:.0f} s", flush=True)
        except Exception as error:
            said = getattr(error, "stderr", None) or getattr(error, "output", None) or ""
            said = said.decode(errors="replace") if isinstance(said, bytes) else said
            why = " ".join(f"{type(error).__name__}: {error!s:.200} {said[-400:]}".split())
            print(f"{name}: FAILED after {time.monotonic() - start:.0f} s: {why}", flush=True)
            self.failed.append(name)

    def call(self, words: Sequence[object], limit: float, accepted: Sequence[int] = (0,)) -> str:
        """What a program printed. Raises if it ends otherwise, or not within the limit."""
        done = subprocess.run(list(map(str, words)), env=self.environment, capture_output=True, text=True,
                              timeout=limit, cwd=HERE.parents[1])  # fmt: skip
        if done.returncode not in accepted:
            raise subprocess.CalledProcessError(done.returncode, list(map(str, words))[:6], done.stdout, done.stderr)
        return done.stdout

    def firsttouch(self, *words: object, limit: float, accepted: Sequence[int] = (0,)) -> str:
        return self.call([sys.executable, "-m", "firsttouch.cli.main", *words], limit, accepted)

    def measure(self, name: str, command: str, *words: object, limit: float) -> Records:
        """Records of a run in a folder of its own, which is continued if it is there. Raises if one is wrong."""
        out = self.out / name
        resume = ["--resume"] if out.exists() else []
        try:
            self.firsttouch(command, *words, "--out", out, *resume, limit=limit, accepted=(0, 3))
        finally:  # what was measured before a limit counts
            path = out / "results.jsonl"
            records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if bad := [r for r in records if r["status"] not in ("ok", "skipped") or r["verified"] is False]:
            why = bad[0]["reason"] or bad[0]["verified_why"]
            raise AssertionError(f"{len(bad)} of {len(records)} points: {bad[0]['factors']}: {why}")
        return records

    def run(self, name: str, limit: float, *words: object, command: str = "run") -> None:
        def work(seconds: float) -> str:
            records = self.measure(name, command, *words, limit=seconds)
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
        machine = json.loads(self.firsttouch("machine", "--json", limit=limit))
        (self.out / "machine.json").write_text(json.dumps(machine))
        self.names = [d["name"] for d in machine["devices"] if d["kind"] == self.options.kind and d["available"]]
        if not self.names:
            raise AssertionError(f"there is no device of the kind {self.options.kind}")
        self.ranks = len(self.names) if self.interface == "xccl" else max(2, len(self.names))
        several = self.interface == "xccl" and self.ranks > 1
        self.both: dict[str, object] = {"processes": ["each", "one"]} if several else {}
        return f"{len(self.names)} devices: {', '.join(self.names)}"

    def verify_methods(self, limit: float) -> str:
        each = [word for name in self.names for word in ("--device", name)]
        (self.out / "methods.json").write_text(self.firsttouch("methods", "--verify", "--json", *each, limit=limit))
        return "verified"

    def pairs(self) -> list[tuple[str, str]]:
        """Acting device and peer of each pair: all of up to four devices, else those of the first; or itself alone."""
        actors = self.names if len(self.names) <= 4 else self.names[:1]
        return [(a, b) for a, b in product(actors, self.names) if a != b] or [(self.names[0], "self")]

    def of_pairs(self, name: str, experiments: str, *words: object, limit: float) -> Records:
        """Records of the pairs. The acting devices take turns, as `--set peer=` holds for all devices of a call."""
        peers_of: dict[str, list[str]] = defaultdict(list)
        for device, peer in self.pairs():
            peers_of[device].append(peer)
        until, records = time.monotonic() + limit, Records()
        for device, others in peers_of.items():
            words_of = [*experiments.split(), "--device", device, *words, *sets(peer=others)]
            folder = f"{name}-{device.replace(':', '')}"
            records += self.measure(folder, "run", *words_of, limit=until - time.monotonic())
        return records

    def run_pairs(self, name: str, experiments: str, limit: float, *words: object) -> None:
        def work(seconds: float) -> str:
            records = self.of_pairs(name, experiments, *words, limit=seconds)
            return f"{sum(bool(r['verified']) for r in records)} of {len(records)} verified"

        self.step(name, limit, work)

    def measure_all(self) -> None:
        alone, ranks = ["--device", self.names[0]], max(2, self.ranks)
        memory, both = {"source": "device", "target": "device"}, {"interface": self.interface, **self.both}
        self.run("plain", 240)
        self.step("methods", 90, self.verify_methods)
        self.run("shared", 90, "halo", "transport", *alone, "--ranks", ranks, "--strategy", "explicit", "--repeat", 1,
                 *sets(ranks=ranks, buffers="device"), command="app")  # fmt: skip
        self.run_pairs("verify", "p2p-direct p2p-copy", 60, *sets(size="1MiB", first_touch="gpu"))
        self.run("verify-ranks", 60, "collective", *alone, "--ranks", self.ranks,
                 *sets(allocator="device", size=["64KiB", "1MiB"], **both))  # fmt: skip
        self.run_pairs("pairs", "p2p-latency p2p-direct", 90, *sets(size=self.large[::2]))
        self.run_pairs("messages", "p2p-message", 90, "--ranks", min(self.ranks, 2), "--preset", "standard",
                       *sets(interface=self.interface, size=self.sizes, **memory))  # fmt: skip
        if len(self.names) == 1:
            self.run("messages-staged", 60, "p2p-message", *alone, "--ranks", 2,
                     *sets(interface="mpi-staged", peer="self", size=self.sizes, **memory))  # fmt: skip
            self.run("collective-staged", 60, "collective", *alone, "--ranks", 2,
                     *sets(interface="mpi-staged", allocator="device", ranks=2, size=self.sizes[::3]))  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- peers

    def note(self, what: str, size: int, us: float, their_us: float) -> None:
        """Compares the time of one operation: below 64 KiB as such, above as bandwidth in GB/s."""
        small = size < 64 << 10
        ours, theirs = (us, their_us) if small else (size / us / 1e3, size / their_us / 1e3)
        self.compared[what, size, "time" if small else "bandwidth"].append((ours, theirs))

    def in_turns(self, number: int, ours: Callable[[], Records], theirs: Callable[[], Mapping]) -> tuple[Records, Any]:
        """What both give. The peer begins in the first of two rounds."""
        if number % 2:
            records = ours()
            return records, theirs()
        found = theirs()
        return ours(), found

    def nccl_tests(self, operations: Iterable[str], gpus: int, until: float) -> dict[str, dict[int, float]]:
        folder = Path(self.options.nccl_tests) if self.options.nccl_tests else None
        call = partial(self.call, limit=until - time.monotonic())
        return {o: peers.nccl_tests(call, folder, o, self.ladder, gpus) if folder else {} for o in operations}

    def compare_collectives(self, number: int, limit: float) -> None:
        until = time.monotonic() + limit
        chosen = sets(interface=self.interface, allocator="device", ranks=self.ranks, size=self.ladder, **self.both)
        words = ["collective", "--device", self.names[0], "--ranks", self.ranks, "--preset", "standard", *chosen]

        def ours() -> Records:
            return self.measure(f"collective-{number}", "run", *words, limit=until - time.monotonic())

        records, theirs = self.in_turns(number, ours, lambda: self.nccl_tests(OPERATIONS, len(self.names), until))
        for r in records:
            of = r["factors"]
            if r["status"] == "ok" and (their_us := theirs[of["operation"]].get(of["size"])):
                what = f"{of['operation']}, processes={of.get('processes', 'each')}"
                self.note(what, of["size"], r["counters"]["interval_us"], their_us)

    def compare_messages(self, number: int, limit: float) -> None:
        """Messages one way in windows, and nccl-tests' send-receive, which sends both ways at once."""
        until, (a, b) = time.monotonic() + limit, self.names[:2]
        chosen = sets(interface="xccl", peer=b, source="device", target="device", size=self.ladder)
        words = ["p2p-message", "--device", a, "--ranks", 2, "--preset", "standard", *chosen]

        def ours() -> Records:
            return self.measure(f"messages-{number}", "run", *words, limit=until - time.monotonic())

        records, theirs = self.in_turns(number, ours, lambda: self.nccl_tests(["messages"], 2, until)["messages"])
        for r in records:
            size = r["factors"]["size"]
            if r["status"] == "ok" and size in theirs:
                self.note(f"messages {a} to {b}", size, size / r["summary"]["median"] / 1e3, theirs[size])

    def copies_of_peers(self, until: float) -> dict[tuple[str, str, int, int, int], float]:
        """GB/s by engine, direction, numbers of the acting GPU and the other, and bytes."""
        program = self.out / "reference_peer"
        if not program.exists():
            self.call(["nvcc", "-O2", HERE / "reference_peer.cu", "-lcuda", "-o", program], until - time.monotonic())
        call = partial(self.call, limit=until - time.monotonic())
        rates = {("peer-call", *key): value for key, value in peers.reference_peer(call, program, self.large).items()}
        for size in self.large if self.options.nvbandwidth and len(self.names) > 1 else []:
            found = peers.nvbandwidth(call, Path(self.options.nvbandwidth), size >> 20, WAYS)
            rates |= {(*key, size): value for key, value in found.items()}
        return rates

    def compare_copies(self, number: int, limit: float) -> None:
        until = time.monotonic() + limit
        chosen = sets(engine=["copy-engine", "kernel", "peer-call"], direction=["out", "in", "both"], source="device",
                      target="device", size=self.large)  # fmt: skip

        def ours() -> Records:
            return self.of_pairs(f"copies-{number}", "p2p-copy", "--preset", "standard", *chosen,
                                 limit=until - time.monotonic())  # fmt: skip

        records, theirs = self.in_turns(number, ours, lambda: self.copies_of_peers(until))
        for r in records:
            of, a = r["factors"], r["device"]
            b = a if of["peer"] == "self" else of["peer"]
            numbers = [int(name.rpartition(":")[2]) for name in (a, b)]
            rate = theirs.get((of["engine"], of["direction"], *numbers, of["size"]))
            if r["status"] == "ok" and rate is not None:
                what = f"{of['engine']} {of['direction']} {a} {b}"
                self.compared[what, of["size"], "copy"].append((r["summary"]["median"], rate))

    def compare_itself(self, limit: float) -> None:
        """Messages of a rank to itself: the ratios that messages_to_itself.py prints."""
        text = self.call([sys.executable, HERE / "messages_to_itself.py", 2], limit)
        (self.out / "messages_to_itself.txt").write_text(text)
        for size, ratio in ITSELF.findall(text):
            self.compared["messages to itself, windows", int(size), "bandwidth"].append((float(ratio), 1.0))

    def compare_all(self) -> None:
        several, cuda = len(self.names) > 1, self.options.kind == "cuda"
        for number in range(self.options.rounds):
            if self.options.nccl_tests:
                self.step(f"collective, round {number}", 120, partial(self.compare_collectives, number))
            if several and self.options.nccl_tests:
                self.step(f"messages, round {number}", 60, partial(self.compare_messages, number))
            if cuda:
                self.step(f"copies, round {number}", 90, partial(self.compare_copies, number))
        if cuda:
            self.step("itself", 90, self.compare_itself)

    def table(self) -> str:
        rows = [
            f"{'compared, median of the rounds':44} {'bytes':>10} {'ours':>9} {'theirs':>9} {'ratio':>6} spread  limit"
        ]
        for (what, size, kind), both in sorted(self.compared.items()):
            ours, theirs = zip(*both, strict=True)
            ratio, spread = median(ours) / median(theirs), (max(theirs) - min(theirs)) / median(theirs)
            text, bound, judged = LIMITS[kind]
            met = ratio <= bound if kind == "time" else ratio >= bound
            verdict = f"{text} {'met' if met else 'MISSED'}" if size in judged else ""
            rows.append(
                f"{what:44} {size:10d} {median(ours):9.3f} {median(theirs):9.3f} {ratio:6.3f} {spread:6.3f}  {verdict}"
            )
        return "\n".join([*rows, f"failed steps: {', '.join(self.failed) or 'none'}; records in {self.out}"])


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", default="cuda", help="of the devices: cuda, hip or opencl")
    parser.add_argument("--site", default="", help="folder to install into, instead of this Python's")
    parser.add_argument("--wheels", default="", help="folder of wheels that the package needs")
    parser.add_argument("--nccl-tests", default="", help="build folder of nccl-tests")
    parser.add_argument("--nvbandwidth", default="", help="the program nvbandwidth")
    parser.add_argument("--skip", default="", help="names of steps to leave out, such as plain,methods,copies")
    parser.add_argument("--out", default="visit", help="folder for results")
    parser.add_argument("--rounds", type=int, default=2, help="of each comparison with a peer")
    parser.add_argument("--seconds", type=float, default=570, help="that the visit may take")
    parser.add_argument("--largest", type=int, default=1 << 30, help="bytes, for a trial on stand-ins")
    parser.add_argument("--no-install", action="store_true", help="firsttouch is installed")
    return parser.parse_args(words)


def main() -> int:
    visit = Visit(options())
    if not visit.options.no_install:
        visit.step("install", 240, visit.install)
    visit.step("devices", 60, visit.find_devices)
    try:
        if visit.names:
            visit.measure_all()
            visit.compare_all()
    finally:
        table = visit.table()
        (visit.out / "table.txt").write_text(table + "\n")
        print("\n" + table)
    return int(bool(visit.failed))


if __name__ == "__main__":
    sys.exit(main())
