"""concurrency: CPU and GPU work on one array at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from firsttouch import _core
from firsttouch.allocators.properties import allows_concurrent_parts, common_allocator, needs_mapping
from firsttouch.analysis.findings import Claim, Finding, Quantity, at_largest, compare, finding, quantity, ratio_of
from firsttouch.analysis.statistics import median_of
from firsttouch.experiments.base import ONE_AT_A_TIME, Experiment, Factor, Measurement, Point, Preset
from firsttouch.experiments.common import KiB, MiB, allocator_factor, allocator_names, buffer_fact, unreachable
from firsttouch.experiments.presets import QUICK, SHORT, STANDARD, leave_out
from firsttouch.figures import Bar
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors, Metric, Record
from firsttouch.session import Session

STRATEGIES = ("concurrent", "lockstep", "copying")
SAME = "same"
SIZE_MULTIPLE = 128 * KiB
"""The size of the array is a multiple of this, so that each half consists of whole pages of 64 KiB."""


class Concurrency(Experiment):
    """Both agents add to a half each, then swap. Source: Dashti and Fedorova, ISMM 2017, Sec. 4.2.4."""

    name = "concurrency"
    order = 100
    question = "What do CPU and GPU gain by working at once?"
    metric = Metric("ms", "lower")
    counted = (
        "One iteration: the CPU (all threads) adds one to every 32-bit integer of one half of an array, the GPU to "
        "every integer of the other half; then they swap halves. concurrent: both at once, in place; lockstep: the "
        "GPU, then the CPU, in place, mapped for the CPU's turn if needed; copying: both at once, each in a "
        "separate array, and both halves are copied to the other array before the iteration ends. overlap is the time "
        "of both agents alone, one after the other, over the time together: 2 if two equally fast agents do not slow "
        "each other down, 1 if working at once gains nothing, less if sharing costs more than it saves."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.4"
    figures = (
        Bar(x="allocator", colour="strategy", y_title="ms per iteration", title="Time per iteration"),
        Bar(x="allocator", y="overlap", colour="strategy", y_title="overlap"),
    )
    share = 1.0
    switches_of = ("memory", "copies")

    rules = (
        leave_out("plain host memory is measured with one page size", SHORT, variant="pages"),
        leave_out("memory with another caching mode on the CPU is left to the full preset", SHORT, variant="caching"),
        leave_out("shared memory is measured for one way of obtaining it", STANDARD, role="shared", variant="call"),
        leave_out("each kind of memory is measured for one way of obtaining it", QUICK, variant="call"),
        leave_out("shared memory that must be mapped is left to longer presets", QUICK, role="shared", mapped=True),
        leave_out("strategy=copying applies to memory that the CPU cannot use in place",
                  strategy="copying", apart=False),
        leave_out("strategy=copying is measured on the main allocator only", SHORT, strategy="copying", main=False),
        leave_out("the reason is recorded with strategy=concurrent", strategy="lockstep", skipped=True),
    )  # fmt: skip
    properties: ClassVar = {
        "apart": lambda candidate: candidate.allocator is not None and _is_device_only(candidate.allocator),
        "mapped": lambda candidate: candidate.allocator is not None and needs_mapping(candidate.allocator),
    }

    def supports(self, device: DeviceInfo) -> str | None:
        return f"{device.name} has only one agent" if not device.capabilities.runs_kernels else None

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        # Half of it exceeds the caches of current devices. A quick run on a processor uses less.
        size = 64 * MiB if preset == "quick" and device.capabilities.on_host_processor else 128 * MiB
        return [
            allocator_factor(device, doc="memory of the array, or of the half with which the GPU starts"),
            Factor(
                "cpu_half",
                [SAME],
                choices=(SAME, *allocator_names(device)),
                doc="memory of the half with which the CPU starts, if it is another",
            ),
            Factor("strategy", STRATEGIES, doc="how the agents share the array"),
            Factor(
                "iterations",
                [{"quick": 20, "standard": 30, "full": 100}[preset]],
                "count",
                least=1,
                doc="iterations of a sample; the halves are swapped after each",
            ),
            Factor("size", [size], "size", least=SIZE_MULTIPLE, multiple=SIZE_MULTIPLE, doc="bytes of the array"),
        ]

    def why_meaningless(self, factors: Factors, device: DeviceInfo) -> str:
        return "that is cpu_half=same" if factors["cpu_half"] == factors["allocator"] else ""

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        reasons = (_why_not_used(name, factors.text("strategy"), device) for name in _allocators_of_halves(factors))
        return next((reason for reason in reasons if reason), None)

    def why_not_counted(self, factors: Factors) -> str:
        return ONE_AT_A_TIME

    def measure(self, point: Point, session: Session) -> Measurement:
        device, size, of_halves = session.device, point.size("size"), _allocators_of_halves(point.factors)
        with ExitStack() as buffers:
            array, *other = (buffers.enter_context(device.allocate(name, size // len(of_halves))) for name in of_halves)
            second = other[0] if other else None
            facts, copy = [buffer_fact("array" if second is None else "first half", array)], None
            if second is not None:
                facts.append(buffer_fact("second half", second))
            if point["strategy"] == "copying":
                copy = buffers.enter_context(device.allocate(_cpu_array_allocator(session.info), size))
                facts.append(buffer_fact("of the CPU", copy))
            outcome = _core.concurrency(
                device,
                array,
                second=second,
                copy=copy,
                strategy=point.text("strategy"),
                iterations=point.count("iterations"),
                seed=session.seed,
                stop=session.stop(),
            )
            why = f"{outcome.errors} integers are wrong" if outcome.errors else ""
            return Measurement.of(outcome, verified_why=why, buffers=facts)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        rows = at_largest(records)
        if not rows:
            return []
        best = min(rows, key=median_of)
        alone = Quantity(_sum_of_times_alone(best), "ms")
        found = [finding(BEST, best, details={"alone": alone}, memory=_memory(best))]
        at_once = [r for r in rows if r.factors["strategy"] != "lockstep"]
        in_turns = {_memory(r): r for r in rows if r.factors["strategy"] == "lockstep"}
        in_place = [r for r in at_once if r.factors["strategy"] == "concurrent"]
        found += [_speedup(r, in_turns[name]) for r in in_place if (name := _memory(r)) in in_turns]
        if at_once:
            most = max(at_once, key=_overlap)
            found.append(_greatest_overlap(most))
        return found


BEST = Claim(
    "concurrency.best",
    "an iteration is fastest on {memory} memory, {strategy}: {value}; both agents alone, one after the other, take "
    "{alone}",
)
_SPEEDUP = ("concurrency.speedup", "speedup of working at once over taking turns:")
SPEEDUP = Claim(_SPEEDUP[0], "{speedup} on {memory}", _SPEEDUP[1])
NO_SPEEDUP = Claim(_SPEEDUP[0], "no clear one on {memory}", _SPEEDUP[1])
_OVERLAP = "overlap is greatest on {memory} memory, {strategy}: {value}"
OVERLAP = Claim("concurrency.overlap", _OVERLAP)
BELOW_LIMIT = Claim(
    "concurrency.overlap", f"{_OVERLAP}; two agents that do not slow each other down would reach {{limit}}"
)
AT_LIMIT = Claim("concurrency.overlap", f"{_OVERLAP}, at the limit for agents that do not slow each other down")


def _speedup(record: Record, in_turns: Record) -> Finding:
    comparison, speedup = compare(record, in_turns), ratio_of(quantity(in_turns), quantity(record))
    claim = SPEEDUP if comparison.is_clear else NO_SPEEDUP
    return finding(claim, record, comparison=comparison, details={"speedup": speedup}, memory=_memory(record))


def _greatest_overlap(record: Record) -> Finding:
    """The greatest overlap, with its limit if the interval shows whether the overlap is below or at it.

    An overlap above the limit means that the agents were slower alone than together, which is noise.
    """
    together, limit = quantity(record), _overlap_limit(record)
    scale = _overlap(record) * together.value
    if not together.low or not together.high:
        return finding(OVERLAP, record, Quantity(_overlap(record)), memory=_memory(record))
    low, high = scale / together.high, scale / together.low
    claim = BELOW_LIMIT if high < limit else AT_LIMIT if low <= limit else OVERLAP
    overlap = Quantity(_overlap(record), "", low, high)
    return finding(claim, record, overlap, details={"limit": Quantity(limit)}, memory=_memory(record))


def _allocators_of_halves(factors: Factors) -> tuple[str, ...]:
    """The allocator of the array, or those of its two halves if they differ."""
    whole, cpu_half = factors.text("allocator"), factors.text("cpu_half")
    return (whole,) if cpu_half == SAME else (whole, cpu_half)


def _memory(record: Record) -> str:
    """The memory of the array, in words."""
    allocator, cpu_half = record.factors["allocator"], record.factors.get("cpu_half", SAME)
    return str(allocator) if cpu_half == SAME else f"{allocator} and {cpu_half}"


def _why_not_used(allocator: str, strategy: str, device: DeviceInfo) -> str | None:
    """Returns why the strategy cannot use memory of the allocator, or None."""
    agents = ("gpu",) if strategy == "copying" else ("gpu", "cpu")
    if reason := unreachable(device, allocator, *agents):
        return reason
    entry = device.allocator(allocator)
    if strategy != "concurrent" or entry is None:
        return None
    allowed = allows_concurrent_parts(entry)
    if allowed:
        return None
    if entry.cpu == "mapped":
        return f"no kernel may use {allocator} memory while it is mapped for the CPU"
    verb = "state that the CPU may" if allowed is None else "allow the CPU to"
    return f"the driver does not {verb} use {allocator} memory while a kernel does"


def _is_device_only(entry: AllocatorInfo) -> bool:
    """True if it is device memory that the CPU cannot use in place."""
    return entry.device_memory and not entry.managed and entry.cpu != "direct" and entry.gpu != "none"


def _cpu_array_allocator(device: DeviceInfo) -> str:
    """Returns the allocator of the CPU's array: page-locked memory if the CPU can access that by its address."""
    usual = device.allocator(common_allocator("page-locked"))
    reached = usual is not None and usual.available and usual.cpu == "direct"
    return common_allocator("page-locked" if reached else "host")


def _overlap(record: Record) -> float:
    return record.counter("overlap")


def _times_alone(record: Record) -> tuple[float, float]:
    return record.counter("cpu_alone_ms"), record.counter("gpu_alone_ms")


def _sum_of_times_alone(record: Record) -> float:
    return sum(_times_alone(record))


def _overlap_limit(record: Record) -> float:
    """The overlap of two agents that do not slow each other down: only the slower one's time remains."""
    return _sum_of_times_alone(record) / max(_times_alone(record))
