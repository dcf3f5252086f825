"""accounting: which counter sees which memory, and when."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Planning, Point, WorkerRules
from firsttouch.experiments.contract.common import (
    BASE_PAGE,
    MMAP_EVERY_BLOCK,
    GiB,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.presets import leave_out
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine import usage
from firsttouch.machine.tree import Tree
from firsttouch.model.micro import touches
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Bar, Heat
from firsttouch.records.findings import Claim, Finding, finding
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import distinct, group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

TRIALS = {"quick": 3, "standard": 3, "full": 15}
SMALL_HOST = 8 * GiB
TAKEN_SHARE, SEEN_SHARE = 0.5, 0.8
"""A step takes the memory if the headline changed by at least the first fraction of the size in it. A counter sees the
memory if it changed by at least the second.
"""


class Accounting(Experiment):
    """Every counter before and after an allocation and its first touch. Source: IISWC 2025 Sec. III-B1."""

    name = "accounting"
    order = 65
    question = "Which counter sees which memory, and when?"
    metric = Metric("B", "neither")
    counted = (
        "Bytes by which free memory fell from before the allocation until after its first touch: that of the NUMA "
        "nodes with the pages in the processors' free lists, plus that of the device if its memory is separate. "
        "call_NAME and touch_NAME are the increase of each counter (the decrease, if it counts free memory) in the "
        "call and in the touch. All are medians over trials in one process after a warm-up, each in memory that no "
        "earlier trial has used. noise_headline is the largest change of the sum while nothing was allocated: counters "
        "of the machine change with everything that runs on it."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-B1"
    codebook = Codebook(
        factors={"allocator": {}, "toucher": AGENTS, "size": {}},
        counters=(
            CounterEntry(name=r"(call|touch)_\w+|noise_headline", unit="B"),
            CounterEntry(name="rollup_ms", unit="ms"),
        ),
    )
    figures = (
        Bar(x="allocator", colour="toucher", y_title="free memory fell by, bytes", title="Fall of free memory"),
        Heat(series="touch_{}", x="allocator", y="series", z="value", z_unit="B", facet="toucher",
             y_title="counter", z_title="more in use after the touch", title="Growth of each counter by the touch"),
        Heat(series="call_{}", x="allocator", y="series", z="value", z_unit="B", facet="toucher",
             y_title="counter", z_title="more in use after the call", title="Growth of each counter by the call"),
    )  # fmt: skip

    # Every trial's memory is new to the process.
    worker = WorkerRules(environment=lambda factors: MMAP_EVERY_BLOCK)
    planning = Planning(
        share=0.5,
        setup=0.25,
        rules=(
            leave_out("the CPU's first touch of plain host memory is measured on the device cpu",
                      runs_kernels=True, plain_host=True, toucher="cpu"),
            leave_out("plain host memory that the GPU cannot reach is recorded once",
                      runs_kernels=True, plain_host=True, common=False, skipped=True),
        ),
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        # A driver may take device memory for managed pages in large steps: on an H200 128 MiB at a time.
        small = _host_memory_bytes() < SMALL_HOST or (preset == "quick" and device.capabilities.on_host_processor)
        size = 64 * MiB if small else 128 * MiB if preset == "quick" else 256 * MiB
        return [
            allocator_factor(device),
            Factor("toucher", agents(device), doc="who touches the memory first"),
            Factor("size", [size], "size", least=BASE_PAGE, doc="bytes of one allocation"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return unreachable(device, factors.text("allocator"), factors.text("toucher"))

    def measure(self, point: Point, session: Session) -> Measurement:
        allocator, agent, size = point.text("allocator"), point.text("toucher"), point.size("size")
        device, counters = session.device, _Counters(session)
        with device.allocate(allocator, 2 * MiB) as warm:  # the driver and firsttouch initialise parts lazily
            warm.fill(session.seed, agent)
            warm.check(session.seed, agent)
        trials: list[Trial] = []
        wrong = 0
        with ExitStack() as alive:  # a driver would give pages of a freed block to the next trial
            for _ in range(TRIALS[session.preset]):
                trial = Trial(idle=counters.read())
                time.sleep(
                    trials[-1].seconds if trials else 0.05
                )  # as long as a trial, to measure changes without an allocation
                trial.before = counters.read()
                buffer = alive.enter_context(device.allocate(allocator, size))
                trial.called = counters.read()
                buffer.fill(session.seed, agent)
                trial.touched = counters.read()
                wrong += buffer.check(session.seed, agent)
                fact = buffer_fact("touched", buffer)
                trials.append(trial)
        return Measurement(
            samples=[trial.moved(trial.before, trial.touched)["headline"] for trial in trials],
            verified=wrong == 0,
            stopped_by="count",
            counters={**medians(trials), "rollup_ms": counters.rollup_seconds * 1e3},
            buffers=[fact],
        )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        answer = touches.accounted(
            device_of(point, platform),
            allocator=point.text("allocator"),
            toucher=point.text("toucher"),
            nbytes=point.size("size"),
        )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        groups: dict[tuple[str, tuple[str, ...], Scalar], list[Record]] = {}
        for rows in group_by(records, "allocator").values():
            moved = [step_and_counters(r.counters, r.count("size")) for r in rows]
            for (when, seen), record in zip(moved, rows, strict=True):
                toucher = None if len(set(moved)) == 1 else record.factors["toucher"]
                groups.setdefault((when, seen, toucher), []).append(record)
        return [_memory_taken_finding(when, seen, toucher, rows) for (when, seen, toucher), rows in groups.items()]


COUNTERS = {
    "RSS": ("rss", "rollup_rss"),
    "the cgroup": ("cgroup",),
    "free host memory": ("mem_free", "numa_free", "numa_free_and_lists"),
    "free device memory": ("device_free", "vendor_used"),
}
"""Names of groups of counters in findings. The counters of a group differ by noise only; the figures show each one.
"""
_TAKEN = ("accounting.taken", "blocks of {size} take physical memory:")
TAKEN_WHEN = Claim(_TAKEN[0], "{allocator} {value} (seen in {counters})", _TAKEN[1], ("toucher",))
TAKEN_BY = Claim(_TAKEN[0], "{allocator}, first touched by the {toucher}, {value} (seen in {counters})", _TAKEN[1])


def _memory_taken_finding(when: str, seen: tuple[str, ...], toucher: Scalar, rows: Sequence[Record]) -> Finding:
    counters, names = seen or ("no counter",), tuple(distinct(rows, "allocator"))
    claim = TAKEN_WHEN if toucher is None else TAKEN_BY
    return finding(claim, rows, when, allocator=names, toucher=toucher, counters=counters)


def step_and_counters(counters: Mapping[str, Scalar], size: int) -> tuple[str, tuple[str, ...]]:
    """Returns the step in which the memory was taken, and which of COUNTERS saw it, in words."""
    call, touch = _without_prefix(counters, "call_"), _without_prefix(counters, "touch_")
    saw = {name for name in call if call[name] + touch[name] >= SEEN_SHARE * size}
    seen = tuple(words for words, names in COUNTERS.items() if saw & set(names))
    if touch["headline"] >= TAKEN_SHARE * size:
        return "at the first touch", seen
    return (
        "at the call" if call["headline"] >= TAKEN_SHARE * size else "neither at the call nor at the first touch"
    ), seen


def _without_prefix(counters: Mapping[str, Scalar], prefix: str) -> dict[str, float]:
    return {k.removeprefix(prefix): float(v) for k, v in counters.items() if k.startswith(prefix) and v is not None}


@dataclass
class Trial:
    """Bytes in use by counter at four moments: idle and before the call, after it, after the touch."""

    idle: dict[str, int]
    before: dict[str, int] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def moved(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, int]:
        return {name: end[name] - start[name] for name in start if name in end and name != "time_ns"}

    @property
    def seconds(self) -> float:
        return (self.touched["time_ns"] - self.before["time_ns"]) * 1e-9


def medians(trials: Sequence[Trial]) -> dict[str, float]:
    """Returns call_NAME, touch_NAME and noise_headline (the largest change without an allocation), in bytes."""
    moved: dict[str, float] = {}
    for part, moves in (
        ("call", [trial.moved(trial.before, trial.called) for trial in trials]),
        ("touch", [trial.moved(trial.called, trial.touched) for trial in trials]),
    ):
        moved |= {f"{part}_{name}": median(move[name] for move in moves) for name in moves[0]}
    moved["noise_headline"] = max(abs(trial.moved(trial.idle, trial.before)["headline"]) for trial in trials)
    return moved


class _Counters:
    """Reads every available counter, as bytes in use."""

    def __init__(self, session: Session) -> None:
        self.device, self.info, self.tree = session.device, session.info, Tree()
        total, free = self.device.memory()
        device = session.info.capabilities
        self.reports_free_memory = device.reports_free_memory and free < total
        self.separate = self.reports_free_memory and not device.shares_host_memory
        self.rollup_seconds = 0.0

    def read(self) -> dict[str, int]:
        start = time.perf_counter()
        readings = usage.process_usage(self.tree)
        self.rollup_seconds = max(self.rollup_seconds, time.perf_counter() - start)
        host = usage.host_usage(self.tree)
        readings |= {name: value for name, value in host.items() if name != "host_free_and_lists"}
        if self.reports_free_memory:
            total, free = self.device.memory()
            readings["device_free"] = total - free
        headline = usage.machine_usage(host, readings["device_free"] if self.separate else None)
        readings |= usage.vendor_usage(self.device, self.info, self.tree)
        return readings | {"headline": headline, "time_ns": time.perf_counter_ns()}


def _host_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
