"""concurrency: CPU and GPU work on one array at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.experiments.contract import shares
from firsttouch.experiments.contract.base import (
    ONE_AT_A_TIME,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
)
from firsttouch.experiments.contract.common import KiB, MiB, allocator_factor, allocator_names, buffer_fact, unreachable
from firsttouch.experiments.contract.meanings import SHARES
from firsttouch.experiments.contract.modelled import device_of, known_prices, predicted, usual_only
from firsttouch.experiments.contract.presets import QUICK, SHORT, STANDARD, exclude, leave_out
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.ranking import not_told_apart
from firsttouch.machine.allocators.properties import allows_concurrent_parts, common_allocator, needs_mapping
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro import halves
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Bar, Line
from firsttouch.records.findings import (
    Claim,
    Finding,
    Quantity,
    are_alike,
    are_apart,
    at_largest,
    compare_medians,
    finding,
    quantity,
    ratio_of,
)
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import median_of
from firsttouch.records.text import label
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

COPYING = ("copying", "copying-pageable")
"""The strategies with a separate array for each agent. The CPU's is page-locked, or of malloc, which a copy stages."""
STRATEGIES = ("concurrent", "lockstep", *COPYING)
SAME = "same"
PAGE = 64 * KiB
"""Each agent's part consists of whole pages of this size."""
SIZE_MULTIPLE = 128 * KiB
"""The size of the array is a multiple of this, so that each half consists of whole pages."""


class Concurrency(Experiment):
    """Both agents add to a half each, then swap. Source: Dashti and Fedorova, ISMM 2017, Sec. 4.2.4."""

    name = "concurrency"
    order = 100
    question = "What do CPU and GPU gain by working at once?"
    metric = Metric("ms", "lower")
    counting = ONE_AT_A_TIME
    counted = (
        "One iteration: the CPU (all threads) adds one to every 32-bit integer of one half of an array, the GPU to "
        "every integer of the other half; then they swap halves. concurrent: both at once, in place; lockstep: the "
        "GPU, then the CPU, in place, mapped for the CPU's turn if needed; copying: both at once, each in a "
        "separate array, and both halves are copied to the other array before the iteration ends; the CPU's array is "
        "page-locked, with copying-pageable of malloc. Memory whose stores become visible at synchronisation only is "
        "flushed by the end of each kernel, for which the iteration waits. overlap is the time "
        "of both agents alone, one after the other, over the time together: 2 if two equally fast agents do not slow "
        "each other down, 1 if working at once gains nothing, less if sharing costs more than it saves. With gpu_share "
        "the GPU has that part of the array instead of half, at its beginning and at its end in turns."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.4"
    codebook = Codebook(
        called="concurrent access",
        between_memories=True,
        factors={
            "allocator": {},
            "cpu_half": {},
            "strategy": {
                "concurrent": "each agent works on its half at once",
                "lockstep": "they work in turns",
                "copying": "at once on separate arrays, and halves are copied",
                "copying-pageable": "the same; the CPU's array is of malloc",
            },
            "iterations": {},
            "size": {},
            "gpu_share": {},
            "cpu_threads": {},
        },
        counters=(
            CounterEntry(name="(copying|cpu_alone|gpu_alone|together)_ms", unit="ms"),
            CounterEntry(name="overlap", unit=""),
            *SHARES,
        ),
    )
    without_effect = {
        "iterations": "each takes as long as the first",
        "sdma": "with this switch the CPU uses the GPU's memory where it is, and nothing is copied",
    }
    figures = (
        Bar(x="allocator", colour="strategy", y_title="ms per iteration", title="Time per iteration"),
        Bar(x="allocator", y="overlap", colour="strategy", y_title="overlap"),
        Line(x="gpu_share", colour="strategy", y_title="ms per iteration", title="Time over the part on the GPU"),
        replace(shares.FIGURE, y_title="ms per iteration"),
    )

    planning = Planning(
        setup=0.5,
        switches_of=("memory", "copies"),
        rules=(
            leave_out("plain host memory is measured with one page size", SHORT, variant="pages"),
            leave_out("memory with another caching mode on the CPU is left to the full preset", SHORT,
                      variant="caching"),
            leave_out("shared memory is measured for one way of obtaining it", STANDARD, role="shared", variant="call"),
            leave_out("each kind of memory is measured for one way of obtaining it", QUICK, variant="call"),
            leave_out("shared memory that must be mapped is left to longer presets", QUICK, role="shared", mapped=True),
            exclude("copying strategies apply to memory that the CPU cannot use in place", strategy=COPYING,
                    apart=False),
            leave_out("copying strategies are measured on the main allocator only", SHORT, strategy=COPYING,
                      main=False),
            leave_out("copies from and to pageable memory are measured from preset standard on",
                      QUICK, strategy="copying-pageable"),
            leave_out("the reason is recorded with strategy=concurrent", strategy="lockstep", skipped=True),
        ),
        properties={
            "apart": lambda candidate: candidate.allocator is not None and _is_device_only(candidate.allocator),
            "mapped": lambda candidate: candidate.allocator is not None and needs_mapping(candidate.allocator),
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if not device.capabilities.runs_kernels:
            raise Unsupported(f"{device.name} has only one agent")
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
            shares.GPU_SHARE,
            shares.CPU_THREADS,
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["cpu_half"] == factors["allocator"]:
            return Meaningless("that is cpu_half=same")
        share = shares.share_of(factors)
        if factors["cpu_half"] != SAME and (share is None or not 0 < _gpu_bytes(factors, share) < factors.size("size")):
            return Meaningless(
                "where one agent has all of the array there are no two parts of it, so that is cpu_half=same"
            )
        reasons = (_why_not_used(name, factors.text("strategy"), device) for name in _allocators_of_halves(factors))
        return next((reason for reason in reasons if reason), None)

    def measure(self, point: Point, session: Session) -> Measurement:
        device, size, of_halves = session.device, point.size("size"), _allocators_of_halves(point.factors)
        share, threads = shares.share_of(point.factors), point.factors.get("cpu_threads", 0)
        with ExitStack() as buffers:
            first = _gpu_bytes(point.factors, share or 0)
            sizes = (size,) if len(of_halves) == 1 else (first, size - first)
            pairs = zip(of_halves, sizes, strict=True)
            array, *other_arrays = (buffers.enter_context(device.allocate(name, n)) for name, n in pairs)
            second = other_arrays[0] if other_arrays else None
            facts, copy = [buffer_fact("array" if second is None else "first half", array)], None
            if second is not None:
                facts.append(buffer_fact("second half", second))
            if point["strategy"] in COPYING:
                copy = buffers.enter_context(device.allocate(cpu_array_allocator(point.factors, session.info), size))
                facts.append(buffer_fact("of the CPU", copy))

            def run(share: float, stop: _core.Stop) -> _core.Outcome:
                outcomes.append(
                    _core.concurrency(
                        device,
                        array,
                        second=second,
                        copy=copy,
                        strategy="copying" if copy else point.text("strategy"),
                        iterations=point.count("iterations"),
                        threads=threads if isinstance(threads, int) else 0,
                        gpu_bytes=_gpu_bytes(point.factors, share),
                        seed=session.seed,
                        stop=stop,
                    )
                )
                return outcomes[-1]

            outcomes: list[_core.Outcome] = []
            counters: dict[str, Scalar] = {}
            if share is None:
                once = session.stop(min_samples=1, max_samples=1)
                searched = shares.search(lambda share: _core.summarise(run(share, once).samples)[1])
                alone, share = run(1.0, session.stop()), searched.best
                outcome = run(share, session.stop()) if share != 1 else alone
                counters = searched.counters(outcome.samples, alone.samples)
            else:
                outcome = run(share, session.stop())
            if "gpu_share" in point.factors:
                counters["ran_share"] = _gpu_bytes(point.factors, share) / size
            errors = sum(checked.errors for checked in outcomes)
            reason = f"{errors} integers are wrong" if errors else ""
            return Measurement.of(outcome, verified_why=reason, buffers=facts, checked=outcomes, counters=counters)

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, cpu_half=SAME)
        if (share := shares.share_of(point.factors)) is None:
            raise NotModelled(f"gpu_share={shares.BEST}")
        device, strategy, allocator = device_of(point, platform), point.text("strategy"), point.text("allocator")
        threads, of_gpu = int(point.factors.get("cpu_threads", 0) or 0), _gpu_bytes(point.factors, share)
        with known_prices():
            answer = halves.halves(
                platform,
                device,
                allocator=allocator,
                of_cpu=cpu_array_allocator(point.factors, device) if strategy in COPYING else "",
                in_turns=strategy == "lockstep",
                parts=(point.size("size") - of_gpu, of_gpu),
                threads=threads if threads < usable_processors(platform.host) else 0,
            )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        rows = at_largest(records)
        if not rows:
            return []
        best = min(rows, key=median_of)
        alone = Quantity(_sum_of_times_alone(best), "ms")
        findings = [
            finding(
                BEST,
                best,
                details={"alone": alone},
                memory=_memory(best),
                division=_division(best),
                unclear=_describe_rivals(rows, best),
            )
        ]
        findings += [f for r in rows for f in shares.best_found(r, f"{_memory(r)} memory, {r.factors['strategy']}")]
        divided = [r for r in rows if min(_times_alone(r)) > 0]
        at_once = [r for r in divided if r.factors["strategy"] != "lockstep"]
        in_turns = {_comparable_key(r): r for r in divided if r.factors["strategy"] == "lockstep"}
        in_place = [r for r in at_once if r.factors["strategy"] == "concurrent"]
        findings += [
            _speedup_finding(r, in_turns[alike]) for r in in_place if (alike := _comparable_key(r)) in in_turns
        ]
        if at_once:
            findings.append(_greatest_overlap(at_once))
        return findings


_DIVIDED = ("allocator", "cpu_half", "gpu_share", "cpu_threads")
"""The factors of the memory and of the division of the work, in words."""
BEST = Claim(
    "concurrency.best",
    "an iteration is fastest on {memory} memory, {strategy}{division}{unclear}: {value}; CPU and GPU one after the "
    "other take {alone}",
    names=_DIVIDED,
)
_SPEEDUP = ("concurrency.speedup", "speedup of concurrent over alternating work:")
_ORDER = ("strategy", *_DIVIDED)
SPEEDUP = Claim(_SPEEDUP[0], "{speedup} on {memory}{division}", _SPEEDUP[1], _ORDER)
NO_SPEEDUP = Claim(_SPEEDUP[0], "none that is clear on {memory}{division}", _SPEEDUP[1], _ORDER)
_OVERLAP = "overlap is greatest on {memory} memory, {strategy}{division}{unclear}: {value}"
OVERLAP = Claim("concurrency.overlap", _OVERLAP, names=_DIVIDED)
BELOW_LIMIT = Claim(
    "concurrency.overlap",
    f"{_OVERLAP}; a CPU and a GPU that do not slow each other down would reach {{limit}}",
    names=_DIVIDED,
)
AT_LIMIT = Claim(
    "concurrency.overlap",
    f"{_OVERLAP}, at the limit for a CPU and a GPU that do not slow each other down",
    names=_DIVIDED,
)


def _describe_rivals(records: Sequence[Record], best: Record, value_of: Callable[[Record], Quantity] = quantity) -> str:
    """Which others show no clear difference from the best, in words."""
    rivals = [r for r in records if r is not best and not are_apart(value_of(r), value_of(best))]
    return not_told_apart([f"{r.factors['strategy']} on {_memory(r)}{_division(r)}" for r in rivals])


def _speedup_finding(record: Record, in_turns: Record) -> Finding:
    comparison, speedup = compare_medians(record, in_turns), ratio_of(quantity(in_turns), quantity(record))
    claim = SPEEDUP if comparison.is_clear else NO_SPEEDUP
    memory, division, details = _memory(record), _division(record), {"speedup": speedup}
    return finding(claim, record, comparison=comparison, details=details, memory=memory, division=division)


def _greatest_overlap(records: Sequence[Record]) -> Finding:
    """The greatest overlap, with its limit if the interval shows whether the overlap is below or at it.

    An overlap above the limit means that the agents were slower alone than together, which is noise.
    """
    record = max(records, key=_overlap)
    overlap, limit = _measured_overlap(record), _overlap_limit(record)
    claim = OVERLAP
    if overlap.low is not None and overlap.high is not None:
        is_at_limit = overlap.low <= limit and are_alike([overlap, Quantity(limit, "", limit, limit)])
        claim = BELOW_LIMIT if overlap.high < limit else AT_LIMIT if is_at_limit else OVERLAP
    return finding(
        claim,
        record,
        overlap,
        details={"limit": Quantity(limit)},
        memory=_memory(record),
        division=_division(record),
        unclear=_describe_rivals(records, record, _measured_overlap),
    )


def _measured_overlap(record: Record) -> Quantity:
    """The overlap, with the interval that follows from that of the time together."""
    together, overlap = quantity(record), _overlap(record)
    if not together.low or not together.high:
        return Quantity(overlap)
    scale = overlap * together.value
    return Quantity(overlap, "", scale / together.high, scale / together.low)


def _allocators_of_halves(factors: Factors) -> tuple[str, ...]:
    """The allocator of the array, or those of its two halves if they differ."""
    whole, cpu_half = factors.text("allocator"), factors.text("cpu_half")
    return (whole,) if cpu_half == SAME else (whole, cpu_half)


def _gpu_bytes(factors: Factors, share: float) -> int:
    """The bytes that the GPU has: a share of the array in whole pages."""
    return round(share * factors.size("size") / PAGE) * PAGE


def _division(record: Record) -> str:
    """The division of the work in words, as far as the point names it."""
    named = {name: record.factors[name] for name in ("gpu_share", "cpu_threads") if name in record.factors}
    if (best := record.counters.get("best_share")) is not None:
        named["gpu_share"] = best
    return "".join(f", {name} {label(name, value)}" for name, value in named.items())


def _comparable_key(record: Record) -> tuple[Scalar, ...]:
    """What points have in common whose strategies may be compared."""
    return _memory(record), *(record.factors.get(name) for name in ("gpu_share", "cpu_threads"))


def _memory(record: Record) -> str:
    """The memory of the array, in words."""
    allocator, cpu_half = record.factors["allocator"], record.factors.get("cpu_half", SAME)
    return str(allocator) if cpu_half == SAME else f"{allocator} and {cpu_half}"


def _why_not_used(allocator: str, strategy: str, device: DeviceInfo) -> str | None:
    """Returns why the strategy cannot use memory of the allocator, or None."""
    agents = ("gpu",) if strategy in COPYING else ("gpu", "cpu")
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


def cpu_array_allocator(factors: Factors, device: DeviceInfo) -> str:
    """Returns the allocator of the CPU's array: unless the strategy says otherwise, page-locked memory if the CPU can
    access that by its address.
    """
    usual = device.allocator(common_allocator("page-locked"))
    reached = usual is not None and usual.available and usual.cpu == "direct" and factors["strategy"] == "copying"
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
