"""concurrency: CPU and GPU at work on one array at once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from firsttouch import _core
from firsttouch.analysis.statistics import median_of
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import KiB, MiB, allocator_names, buffer_fact, main_allocator, unreachable
from firsttouch.run.session import Session
from firsttouch.schema import AllocatorInfo, DeviceInfo, Factors, Record

STRATEGIES = ("concurrent", "lockstep", "copying")
WHOLE_PAGES = 128 * KiB
"""The array is a multiple of this, so that each half is whole pages of 64 KiB."""
LEFT_OUT = {
    "quick": ("mmap", "malloc-thp", "vmm", "managed-static", "pinned-wc", "registered", "svm-coarse"),
    "standard": ("mmap", "malloc-thp", "managed-static", "pinned-wc"),
    "full": (),
}
"""Allocators that a preset has no time for."""


class Concurrency(Experiment):
    """Both agents add to a half each, then swap. Source: Dashti and Fedorova, ISMM 2017, Sec. 4.2.4."""

    name = "concurrency"
    order = 100
    question = "What do CPU and GPU gain by working at once?"
    unit = "ms"
    better = "lower"
    counted = (
        "One iteration: the CPU (all threads) adds one to every 32-bit integer of one half of an array, the GPU to "
        "every integer of the other half; then they swap halves. concurrent: both at once, in place; lockstep: the "
        "GPU, then the CPU, in place, mapped for the CPU's turn where that is needed; copying: both at once, each in "
        "memory of its own, and both halves are copied over before the swap counts as done. overlap is the time of "
        "both agents alone, one after the other, over the time together: 2 where two equals lose nothing, 1 where "
        "working at once gains nothing, less where sharing costs more than it saves."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.4"
    figures = (
        Figure(kind="bar", x="allocator", colour="strategy", y_title="ms per iteration"),
        Figure(kind="bar", x="allocator", y="overlap", colour="strategy", y_title="overlap"),
    )
    share = 1.0

    def supports(self, device: DeviceInfo) -> str | None:
        return f"{device.name} has one agent only" if device.kind == "cpu" else None

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        # Half of it is more than the caches that devices have today; a quick run on a processor takes less.
        size = 64 * MiB if preset == "quick" and device.kind == "opencl" else 128 * MiB
        return [
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("strategy", STRATEGIES, choices=STRATEGIES),
            Factor("iterations", [20 if preset == "quick" else 100], "count", doc="of a sample; the halves swap"),
            Factor("size", [size], "size", doc="of the array"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, strategy = str(factors["allocator"]), factors["strategy"]
        if factors["iterations"] == 0:
            return "no iterations to time"
        if not isinstance(factors["size"], int) or factors["size"] % WHOLE_PAGES or not factors["size"]:
            return f"the halves must be whole pages: a size that {WHOLE_PAGES // KiB} KiB divides"
        for agent in ("gpu",) if strategy == "copying" else ("gpu", "cpu"):
            if reason := unreachable(device, allocator, agent):
                return reason
        entry = device.allocator(allocator)
        if strategy != "concurrent" or entry is None or entry.disjoint:
            return None
        if entry.cpu == "mapped":
            return f"no kernel may use {allocator} memory while it is mapped for the CPU"
        return f"the driver does not allow the CPU to use {allocator} memory while a kernel does"

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """Copies where memory is apart; a reason once for each allocator."""
        entry = device.allocator(str(factors["allocator"]))
        assert entry is not None
        if entry.name in LEFT_OUT[preset]:
            return True
        if factors["strategy"] == "copying":
            return not _is_apart(entry) or (preset != "full" and entry.name != main_allocator(device))
        return factors["strategy"] == "lockstep" and self.skip(factors, device) is not None

    def measure(self, point: Point, session: Session) -> Measurement:
        device, size = session.device, int(str(point["size"]))
        with ExitStack() as buffers:
            array = buffers.enter_context(device.allocate(str(point["allocator"]), size))
            facts, copy = [buffer_fact("array", array)], None
            if point["strategy"] == "copying":
                copy = buffers.enter_context(device.allocate(_hosts_side(session.info), size))
                facts.append(buffer_fact("of the CPU", copy))
            outcome = _core.concurrency(
                device,
                array,
                copy,
                strategy=str(point["strategy"]),
                iterations=int(str(point["iterations"])),
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                verified_why=f"{outcome.errors} integers are wrong" if outcome.errors else "",
                stopped_by=outcome.stopped_by,
                counters=dict(outcome.counters),
                buffers=facts,
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        rows = sorted((r for r in records if r.summary), key=median_of)
        if not rows:
            return "No iteration was timed."
        best, most = rows[0], max(rows, key=_overlap)
        words = (
            f"An iteration takes least on {best.factors['allocator']} memory, {best.factors['strategy']}: "
            f"{median_of(best):.3g} ms, against {_alone(best):.3g} ms by both agents one after the other. "
            f"They overlap best on {most.factors['allocator']}, {most.factors['strategy']}: {_overlap(most):.2f} "
            f"where {_most_overlap(most):.2f} is the most that their own speeds permit."
        )
        turns = {r.factors["allocator"]: r for r in reversed(rows) if r.factors["strategy"] == "lockstep"}
        gains = [
            f"{median_of(turns[name]) / median_of(r):.2f} on {name}"
            for r in rows
            if r.factors["strategy"] == "concurrent" and (name := r.factors["allocator"]) in turns
        ]
        return words + (f" At once is faster than in turns by a factor of {', '.join(gains)}." if gains else "")


def _is_apart(entry: AllocatorInfo) -> bool:
    """Whether it is the device's own memory, in which the CPU cannot work as it likes."""
    return entry.device_memory and not entry.managed and entry.cpu != "direct" and entry.gpu != "none"


def _hosts_side(device: DeviceInfo) -> str:
    """The allocator of the CPU's own array: pinned where the CPU reaches that by its address."""
    pinned = device.allocator("pinned")
    return "pinned" if pinned is not None and pinned.available and pinned.cpu == "direct" else "malloc"


def _overlap(record: Record) -> float:
    return float(str(record.counters["overlap"]))


def _of_each(record: Record) -> tuple[float, float]:
    return float(str(record.counters["cpu_alone_ms"])), float(str(record.counters["gpu_alone_ms"]))


def _alone(record: Record) -> float:
    return sum(_of_each(record))


def _most_overlap(record: Record) -> float:
    """The overlap of two agents that do not disturb each other: the slower one's time is left."""
    return _alone(record) / max(_of_each(record))
