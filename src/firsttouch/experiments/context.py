"""context: the time that a program needs before its first kernel has run. Each sample is from a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache

from firsttouch.base.errors import Unsupported
from firsttouch.base.processes import python_module
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Planning, Point, WorkerRules
from firsttouch.experiments.contract.presets import QUICK, leave_out
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Bar
from firsttouch.records.findings import Claim, Finding, Quantity, finding, quantity
from firsttouch.records.schema import DeviceInfo, Metric, Record
from firsttouch.records.statistics import median_of
from firsttouch.workers.session import Session

PHASES = {
    "library": "opening the vendor's library and counting its devices",
    "context": "creating the context and querying the device's properties",
    "compile-cold": "the first kernel, compiled from source",
    "compile-cached": "another process's kernel of the same source, from this project's or the driver's cache",
    "launch-first": "the first launch and its completion",
    "launch-next": "a second launch and its completion",
}
PROCESSES = {"quick": 3, "standard": 5, "full": 15}


def timeline(name: str) -> dict[str, float]:
    """Returns the milliseconds of each phase in this new process; compile is cold if the cache folders are empty."""
    from firsttouch import _core
    from firsttouch.machine.backends import kind_of
    from firsttouch.machine.devices import open_device, show_libraries

    show_libraries()
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    _core.count_devices(kind_of(name))
    mark()
    device = open_device(name)
    device.facts()
    mark()
    text = _core.kernel_file("pattern.c")
    with device.allocate("device", 4096) as buffer:
        prepared = time.perf_counter()
        run = device.prepare("pattern", text, "fill_seeded")
        compiled = time.perf_counter()
        run(buffer, 512)
        first = time.perf_counter()
        run(buffer, 512)
        second = time.perf_counter()
        if buffer.check(0, "gpu") != 0:
            raise RuntimeError("the first kernel left wrong data")
    spans = [marks[1] - marks[0], marks[2] - marks[1], compiled - prepared, first - compiled, second - first]
    return dict(
        zip(("library", "context", "compile", "launch-first", "launch-next"), (1e3 * s for s in spans), strict=True)
    )


def _empty_folders(count: int) -> Iterator[str]:
    """Yields new folders, one at a time; each is removed before the next."""
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="firsttouch-context-") as folder:
            yield folder


def _timeline_of_new_process(device: str, caches: str | None = None) -> dict[str, float]:
    """Returns the timeline of a new process. caches: a folder for the kernel caches instead of the user's."""
    folders = {"FIRSTTOUCH_CACHE": "own", "POCL_CACHE_DIR": "pocl", "CUDA_CACHE_PATH": "cuda"}
    environment = os.environ | {name: f"{caches}/{folder}" for name, folder in folders.items() if caches}
    command = python_module("firsttouch.experiments.context", device)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"a fresh process on {device} failed: {done.stderr.strip()[-400:]}")
    timeline: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return timeline


@cache
def _timelines_with_user_caches(device: str, count: int) -> list[dict[str, float]]:
    """Returns timelines with the user's kernel caches. The same processes measure all phases but compile."""
    return [_timeline_of_new_process(device) for _ in range(count)]


class StartUp(Experiment):
    """Library load, context creation, compile, first launch. Source: product of every unified-memory port."""

    name = "context"
    order = 70
    question = "How long does a program take until its first kernel has run?"
    metric = Metric("ms", "lower")
    counted = (
        "Wall time of each phase, every sample in a new process, with empty kernel caches for compile-cold and caches "
        "filled by an earlier process for compile-cached. A program spends this time in its first step that uses the "
        "device."
    )
    source = "Schieffer et al., Grace Hopper study: the context phase"
    codebook = Codebook(
        called="start-up", factors={"phase": PHASES}, counters=(CounterEntry(name="processes", unit=""),)
    )
    figures = (Bar(x="phase", colour="phase", y_title="time"),)
    worker = WorkerRules(
        opens_device=False,  # a worker that holds the device open would change the times
        environment=lambda factors: {"FIRSTTOUCH_WORKER": "context"},  # so that no other experiment shares the worker
    )

    planning = Planning(
        setup=1.0,
        switches_of=(),
        rules=(
            leave_out("compiling for the host's processor is left to longer presets",
                      QUICK, runs_on="processor", phase="compile-cold"),
        ),
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if not device.capabilities.runs_kernels:
            raise Unsupported("the host alone needs no context")
        return [Factor("phase", tuple(PHASES), doc="part of the start-up")]

    def measure(self, point: Point, session: Session) -> Measurement:
        phase, device, count = point.text("phase"), session.info.name, PROCESSES[session.preset]
        if phase == "compile-cold":
            timelines = [_timeline_of_new_process(device, folder) for folder in _empty_folders(count)]
        elif phase == "compile-cached":
            timelines = [
                _timeline_of_new_process(device, folder) for folder in _empty_folders(1) for _ in range(count + 1)
            ][1:]
        else:
            timelines = _timelines_with_user_caches(device, count)
        name = "compile" if phase.startswith("compile") else phase
        samples = [timeline[name] for timeline in timelines]
        return Measurement(samples=samples, verified=True, stopped_by="count", counters={"processes": len(samples)})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        by_phase = {str(r.factors["phase"]): r for r in records}
        total = [by_phase[phase] for phase in BEFORE_FIRST_KERNEL if phase in by_phase]
        if len(total) < len(BEFORE_FIRST_KERNEL):
            return [finding(PHASE, r, what=PHASES.get(phase, phase)) for phase, r in by_phase.items()]
        longest = max(total, key=median_of)
        phase = str(longest.factors["phase"])
        details = {"longest": quantity(longest)}
        findings = [finding(TOTAL, total, _sum_of_medians(total), details=details, phase=phase, what=PHASES[phase])]
        if cached := by_phase.get("compile-cached"):
            rest = [cached, *(r for r in total if r.factors["phase"] != "compile-cold")]
            findings.append(finding(CACHED, rest, _sum_of_medians(rest)))
        return findings


BEFORE_FIRST_KERNEL = ("library", "context", "compile-cold", "launch-first")
TOTAL = Claim(
    "context.total",
    "a new program spends {value} before its first kernel has run; the longest phase is {phase}, {longest} ({what})",
    names=("phase",),
)
CACHED = Claim("context.cached", "with the compiled kernel in the cache it spends {value}", names=("phase",))
PHASE = Claim("context.phase", "phase {phase} takes {value} ({what})")


def _sum_of_medians(records: Sequence[Record]) -> Quantity:
    """The sum of the medians of phases, with the sums of their interval bounds."""
    parts = [quantity(r) for r in records]
    low, high = [q.low for q in parts if q.low is not None], [q.high for q in parts if q.high is not None]
    bounds = (sum(low), sum(high)) if len(low) == len(high) == len(parts) else (None, None)
    return Quantity(sum(q.value for q in parts), parts[0].unit, *bounds)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(timeline(sys.argv[1])) + "\n")
