"""accounting: which counter sees which memory, and when."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    HOST_ALLOCATORS,
    MAP_ANEW,
    GiB,
    MiB,
    agents,
    allocator_names,
    buffer_fact,
    unreachable,
)
from firsttouch.machine import usage
from firsttouch.machine.tree import Tree
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_size

TRIALS = {"quick": 3, "standard": 3, "full": 15}
SMALL_HOST = 8 * GiB
TAKEN, SEEN = 0.5, 0.8
"""Memory is taken by the step in which the headline moved by this part of its size, and seen by a counter that did."""


class Accounting(Experiment):
    """Every counter before and after an allocation and its first touch. Source: IISWC 2025 Sec. III-B.1."""

    name = "accounting"
    order = 65
    question = "Which counter sees which memory, and when?"
    unit = "B"
    better = "neither"
    counted = (
        "Bytes by which free memory fell from before the allocation until its first touch was done: that of the NUMA "
        "nodes with the pages in the processors' free lists, plus the device's own where that is a separate pool. "
        "call_NAME and touch_NAME are what each counter rose by (or, where it counts free memory, fell by) in the call "
        "and in the touch. All are medians over trials in one process after a warm-up, each in memory that no "
        "earlier one has had. noise_headline is the most that "
        "the sum moved while nothing was allocated: counters of the machine move with whatever else runs on it."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-B.1"
    figures = (
        Figure(kind="bar", x="allocator", colour="toucher", y_title="free memory fell by, bytes"),
        Figure(kind="heat", series="touch_{}", x="allocator", y="series", z="value", z_unit="B", facet="toucher",
               y_title="counter", z_title="more in use after the touch"),
        Figure(kind="heat", series="call_{}", x="allocator", y="series", z="value", z_unit="B", facet="toucher",
               y_title="counter", z_title="more in use after the call"),
    )  # fmt: skip
    share = 0.5

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        # A driver may take device memory for managed pages in large steps: on an H200 128 MiB at a time.
        small = _host_bytes() < SMALL_HOST or (preset == "quick" and device.kind in ("cpu", "opencl"))
        size = 64 * MiB if small else 128 * MiB if preset == "quick" else 256 * MiB
        return [
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("toucher", agents(device), choices=agents(device), doc="who touches the memory first"),
            Factor("size", [size], "size"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return unreachable(device, str(factors["allocator"]), str(factors["toucher"]))

    def environment(self, factors: Factors) -> dict[str, str]:
        return MAP_ANEW  # so that every trial's memory is new to the process

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        if device.kind == "cpu" or factors["allocator"] not in HOST_ALLOCATORS:
            return False
        unreached = self.skip(factors, device) is not None and factors["allocator"] != "malloc"  # once is enough
        return factors["toucher"] == "cpu" or unreached

    def measure(self, point: Point, session: Session) -> Measurement:
        allocator, agent, size = str(point["allocator"]), str(point["toucher"]), int(str(point["size"]))
        device, counters = session.device, _Counters(session)
        with device.allocate(allocator, 2 * MiB) as warm:  # lazily built parts of the driver and of our own
            warm.fill(session.seed, agent)
            warm.check(session.seed, agent)
        trials: list[Trial] = []
        wrong = 0
        with ExitStack() as alive:  # a driver would give pages of a freed block to the next trial
            for _ in range(TRIALS[session.preset]):
                trial = Trial(idle=counters.read())
                time.sleep(trials[-1].seconds if trials else 0.05)  # as long as a trial, to see what moves by itself
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

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        rows = [r for r in records if r.summary]
        if not rows:
            return "No allocation was watched."
        touchers = {str(r.factors["toucher"]) for r in rows}
        groups: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}
        for record in rows:
            names = groups.setdefault(what_moved(record.counters, int(str(record.factors["size"]))), {})
            names.setdefault(str(record.factors["allocator"]), []).append(str(record.factors["toucher"]))
        parts = []
        for (when, seen), names in groups.items():
            who = [n if len(by) == len(touchers) else f"{n} (touched by the {by[0]})" for n, by in names.items()]
            parts.append(f"{', '.join(who)} come {when}, seen by {', '.join(seen) or 'none of the counters'}")
        return f"Blocks of {format_size(int(str(rows[0].factors['size'])))}: {'; '.join(parts)}."


def what_moved(counters: Mapping[str, object], size: int) -> tuple[str, tuple[str, ...]]:
    """When the memory was taken ('up-front', 'on-demand', or 'in neither step'), and the counters that saw it."""
    call = {k.removeprefix("call_"): float(str(v)) for k, v in counters.items() if k.startswith("call_")}
    touch = {k.removeprefix("touch_"): float(str(v)) for k, v in counters.items() if k.startswith("touch_")}
    seen = tuple(k for k in call if k != "headline" and call[k] + touch[k] >= SEEN * size)
    if touch["headline"] >= TAKEN * size:
        return "on-demand", seen
    return ("up-front" if call["headline"] >= TAKEN * size else "in neither step"), seen


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
    """call_NAME and touch_NAME in bytes, and noise_headline, the most that the sum moved with nothing allocated."""
    found: dict[str, float] = {}
    for part, moves in (
        ("call", [trial.moved(trial.before, trial.called) for trial in trials]),
        ("touch", [trial.moved(trial.called, trial.touched) for trial in trials]),
    ):
        found |= {f"{part}_{name}": median(move[name] for move in moves) for name in moves[0]}
    found["noise_headline"] = max(abs(trial.moved(trial.idle, trial.before)["headline"]) for trial in trials)
    return found


class _Counters:
    """Reads every counter that there is, as bytes in use."""

    def __init__(self, session: Session) -> None:
        self.device, self.tree = session.device, Tree()
        total, free = self.device.memory()
        own_memory = session.info.kind != "cpu" and not session.info.facts.get("shares_host_memory")
        self.tells_free = own_memory and free < total  # OpenCL states a total alone
        self.separate = own_memory and not session.info.facts.get("integrated")
        self.rollup_seconds = 0.0

    def read(self) -> dict[str, int]:
        start = time.perf_counter()
        found = usage.of_process(self.tree)
        self.rollup_seconds = max(self.rollup_seconds, time.perf_counter() - start)
        host = usage.of_host(self.tree)
        # A node without processors may be the device's own memory, which the device counts too.
        of_host, of_nodes = host.pop("host_free_and_lists"), host["numa_free_and_lists"]
        headline = of_host if self.separate else of_nodes
        found |= host
        if self.tells_free:
            total, free = self.device.memory()
            found["device_free"] = total - free
            headline += found["device_free"] if self.separate else 0
        vendor = self.device.usage()
        if "used_bytes" in vendor:
            found["vendor_used"] = vendor["used_bytes"]
            found["vendor_free"] = vendor["total_bytes"] - vendor["free_bytes"]
        return found | {"headline": headline, "time_ns": time.perf_counter_ns()}


def _host_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
