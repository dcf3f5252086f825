"""Experiments that misbehave on purpose, loaded by --module."""

from __future__ import annotations

import ctypes
import inspect
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Experiment, Factor, Meaningless, Measurement, Point, WorkerRules
from firsttouch.records.figures import Table
from firsttouch.records.findings import Claim, Finding, finding
from firsttouch.records.schema import DeviceInfo, Metric, Record
from firsttouch.workers.protocol import Pipe
from firsttouch.workers.session import Session

GOOD = [1.0, 2.0, 3.0]


class _Plain:
    metric = Metric("ns", "lower")
    counted = "nothing"
    source = "none"
    figures = (Table(columns=("n", "median")),)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return [finding(Claim(f"{records[0].experiment}.ended", "it ended"), records, "yes")]


def _fine(session: Session) -> Measurement:
    return Measurement(GOOD, True, stopped_by="samples", counters={"pages": 7})


def _segv(session: Session) -> Measurement:
    print("last words before the fault", file=sys.stderr, flush=True)
    ctypes.string_at(0)
    raise AssertionError


def _kill(session: Session) -> Measurement:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _sleep(session: Session) -> Measurement:
    ctypes.CDLL(None).sleep(10**6)
    raise AssertionError


def _loop(session: Session) -> Measurement:
    while True:
        pass


def _beyond_guard(session: Session) -> Measurement:
    session.device.allocate("malloc", 2**50)
    raise AssertionError


def _exhaust(session: Session) -> Measurement:
    taken = []
    for _ in range(48):  # 3 GiB, in case nobody watches
        taken.append(bytearray(2**26))
        taken[-1][::4096] = b"\1" * 2**14
    time.sleep(60)
    raise AssertionError(len(taken))


def _flip(session: Session) -> Measurement:
    data = bytearray(range(1, 251)) * 400
    data[77_777] ^= 1
    wrong = sum(a != b for a, b in zip(data, bytearray(range(1, 251)) * 400, strict=True))
    return Measurement(GOOD, wrong == 0, f"{wrong} of {len(data)} bytes differ")


def _raise(session: Session) -> Measurement:
    raise RuntimeError("the driver\nsaid no")


def _exit(session: Session) -> Measurement:
    os._exit(7)


def _chatter(session: Session) -> Measurement:
    for descriptor in (1, 2):
        os.write(descriptor, b'{"event": "done"}\nvendor library: hello\n' * 20_000)
    print("and python's own", flush=True)
    return Measurement(GOOD, True)


def _answer(line: bytes) -> Callable[[Session], Measurement]:
    """A fault that writes a line where the worker writes its replies."""

    def fault(session: Session) -> Measurement:
        frame = inspect.currentframe()
        while not any(isinstance(one, Pipe) for one in frame.f_locals.values()):
            frame = frame.f_back
        pipe = next(one for one in frame.f_locals.values() if isinstance(one, Pipe))
        os.write(pipe.descriptor, line + b"\n")
        time.sleep(60)
        raise AssertionError

    return fault


def _unsupported(session: Session) -> Measurement:
    raise Unsupported("this driver has no such call")


def _no_memory(session: Session) -> Measurement:
    raise MemoryError("no memory")


def _spin(session: Session) -> Measurement:
    text = "KERNEL spin(GLOBAL ulong* p, ulong n) { while (((volatile GLOBAL ulong*)p)[0] != n) {} }"
    with session.device.allocate("device", 4096) as memory:
        memory.write(0, bytes(8))
        session.device.prepare("spin", text, "spin")(memory, 1)
    raise AssertionError


FAULTS: dict[str, Callable[[Session], Measurement]] = {
    "fine": _fine,
    "segv": _segv,
    "kill": _kill,
    "sleep": _sleep,
    "loop": _loop,
    "beyond-guard": _beyond_guard,
    "exhaust": _exhaust,
    "flip": _flip,
    "raise": _raise,
    "exit": _exit,
    "sys-exit": lambda _: sys.exit(5),
    "chatter": _chatter,
    "junk": _answer(b"\xff\x00{]"),
    "hollow": _answer(b'{"state": "done"}'),
    "unsupported": _unsupported,
    "no-memory": _no_memory,
    "nan": lambda _: Measurement([1.0, math.nan], True),
    "empty": lambda _: Measurement([], True),
    "no-why": lambda _: Measurement(GOOD, None),
    "negative": lambda _: Measurement([-3.0, -2.0, -1.0], True),
    "why": lambda _: Measurement(GOOD, None, "nothing to check"),
    "odd-counter": lambda _: Measurement(GOOD, True, counters={"x": object()}),  # type: ignore[dict-item]
    "spin": _spin,
}


class Fault(_Plain, Experiment):
    name = "fault"
    order = 900
    question = "What becomes of a point that goes wrong?"

    def factors(self, device, preset):
        return [Factor("what", ["fine"], choices=list(FAULTS)), Factor("again", [0], kind="count")]

    def measure(self, point: Point, session: Session) -> Measurement:
        return FAULTS[str(point["what"])](session)


class Steady(_Plain, Experiment):
    """Many short points, each of which writes to a log outside the results when it begins."""

    name = "steady"
    order = 901
    question = "Is every point measured once?"

    def factors(self, device, preset):
        return [Factor("n", list(range(60)), kind="count")]

    def measure(self, point: Point, session: Session) -> Measurement:
        if log := os.environ.get("STEADY_LOG"):
            with Path(log).open("a") as file:
                file.write(f"{point['n']}\n")
        time.sleep(0.004)
        return Measurement([float(os.getpid())], True)


class Fresh(_Plain, Experiment):
    name = "fresh"
    order = 902
    question = "Is the process new?"
    worker = WorkerRules(fresh=True)

    def factors(self, device, preset):
        return [Factor("n", [0, 1, 2], kind="count")]

    def measure(self, point: Point, session: Session) -> Measurement:
        return Measurement([float(os.getpid())], True)


class Alone(Fresh):
    name = "alone"
    order = 899
    question = "Did no other experiment run in this process?"
    worker = WorkerRules(own=True)


class Shaped(_Plain, Experiment):
    """Factors of every kind, points that are meaningless or skipped, and an environment."""

    name = "shaped"
    order = 903
    question = "What is planned?"
    worker = WorkerRules(environment=lambda factors: {"SHAPED_MODE": str(factors["mode"])})

    def factors(self, device, preset):
        if device.kind != "cpu":
            raise Unsupported("it needs the CPU")
        return [
            Factor("allocator", ["malloc"], choices=[a.name for a in device.allocators]),
            Factor("size", [4096, 2**20], kind="size"),
            Factor("mode", ["0", "1"]),
        ]

    def skip(self, factors, device):
        if factors["size"] == 54321:
            return Meaningless("no such size")
        return "too odd" if factors["size"] == 12345 else None

    def measure(self, point: Point, session: Session) -> Measurement:
        return Measurement([1.0], os.environ["SHAPED_MODE"] == point["mode"], "the environment is another")
