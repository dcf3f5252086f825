"""allocation: the cost of an allocation call, and that of a free, without touching the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from firsttouch import _core
from firsttouch.experiments.contract.base import (
    Candidate,
    Experiment,
    Factor,
    Measurement,
    Planning,
    Point,
    WorkerRules,
)
from firsttouch.experiments.contract.common import KiB, MiB, agents, allocator_factor, unavailable, unreachable
from firsttouch.experiments.contract.modelled import known_prices, predicted
from firsttouch.experiments.contract.presets import SHORT, STANDARD, Below, Contains, Not, exclude, leave_out, take_only
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.ranking import comparable, compare_groups, groups_apart_from, names_in, rivals, tied
from firsttouch.machine.allocators.properties import is_common, is_plain_host
from firsttouch.model.micro import copies
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource
from firsttouch.records.figures import Bar, Line
from firsttouch.records.findings import (
    Claim,
    Finding,
    are_alike,
    are_apart,
    compare_medians,
    extremes,
    finding,
    number,
    quantity,
    ratio_of,
)
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record
from firsttouch.records.statistics import distinct, median_of
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

CALLS = ("allocate", "free")
TOUCHED: Mapping[str, Literal["cpu", "gpu"]] = {"free-cpu-touched": "cpu", "free-gpu-touched": "gpu"}
"""Frees of blocks that an agent wrote, and that agent."""
TOUCHED_SIZE = 64 * MiB
"""Above glibc's largest threshold for mmap (32 MiB), so that free gives the pages of a block back."""
WHOLE_SIZE = 256 * MiB
"""A block as large as the arrays of programs. By the byte, calls that lock pages cost another time for many small
blocks."""
CHUNKS, MAX_CHUNKS = 100, 10**6
GROWTH_FROM, GROWTH_RATIO = 256 * KiB, 3.0
"""Cost grows with size if the largest block costs at least GROWTH_RATIO times a block of GROWTH_FROM bytes."""


def _frees_pages(candidate: Candidate) -> bool:
    """True for the common allocator of plain host memory, and for memory that the driver moves."""
    entry = candidate.allocator
    return entry is not None and ((is_plain_host(entry.name) and is_common(entry.name)) or entry.managed)


def _has_pages_at_return(candidate: Candidate) -> bool:
    """True for memory whose pages are there when the call returns, other than plain host memory."""
    entry = candidate.allocator
    return entry is not None and entry.on_demand is False and not is_plain_host(entry.name)


class Allocation(Experiment):
    """Allocates 100 blocks in one loop and frees them in a second. Source: IISWC 2025 Sec. III-A5."""

    name = "allocation"
    order = 40
    question = "What does allocating memory cost?"
    metric = Metric("ns", "lower")
    counted = (
        "One call, averaged over a loop: `chunks` blocks are allocated in one loop and freed in a second, after up to "
        "10 warm-up rounds, memory not touched. call=allocate: the first loop, with the second as the counter free_ns; "
        "call=free: the second, with the first as the counter allocate_ns. call=free-cpu-touched and "
        "call=free-gpu-touched: as free, after all threads of the CPU or a kernel wrote every word of the blocks."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A5"
    codebook = Codebook(
        factors={
            "allocator": {},
            "size": {},
            "call": {
                "allocate": "the call that obtains memory",
                "free": "the call that gives it back",
                "free-cpu-touched": "the same, after all threads of the CPU wrote the block",
                "free-gpu-touched": "the same, after a kernel wrote the block",
            },
            "chunks": {},
        },
        counters=(CounterEntry(name="allocate_ns|free_ns", unit="ns"),),
        prices=(
            PriceSource(price="allocation", by={"allocator": "allocator", "call": "call"}, names={"bytes": "size"}),
            PriceSource(
                price="touched_free",
                by={"allocator": "allocator", "agent": "call"},
                words={"agent": {agent: call for call, agent in TOUCHED.items()}},
                names={"bytes": "size"},
            ),
        ),
    )
    figures = (
        Line(x="size", colour="allocator", where={"call": "allocate"}, log_x=True, log_y=True, x_title="block",
             y_title="time per allocation", title="Time per allocation"),
        Line(x="size", colour="allocator", where={"call": "free"}, log_x=True, log_y=True, x_title="block",
             y_title="time per free", title="Time per free"),
        Bar(x="allocator", colour="call", where={"call": tuple(TOUCHED)}, log_y=True, y_title="time per free",
            title="Time per free of memory that was touched"),
    )  # fmt: skip
    worker = WorkerRules(
        own=True,  # malloc keeps what others freed: 64 KiB took 23 ns after them, and 831 ns in a new process
        timeout=240.0,  # 100 blocks of 1 GiB of page-locked memory take about a minute
    )

    not_followed = {"chunks": "each call of a loop is predicted to take as long as any other"}
    planning = Planning(
        share=1.5,
        setup=0.08,
        rules=(
            leave_out("plain host memory is measured on the device cpu", runs_kernels=True, plain_host=True),
            exclude("frees of touched memory are measured at one size", call=tuple(TOUCHED), size=Not(TOUCHED_SIZE),
                    chosen=Not(Contains("size"))),
            exclude("frees of touched memory are measured with single blocks", call=tuple(TOUCHED), chunks=Not(1),
                    chosen=Not(Contains("chunks"))),
            exclude("this size is for frees of touched memory", SHORT, call=CALLS, size=TOUCHED_SIZE,
                    chosen=Not(Contains("size"))),
            exclude("single blocks are those of 256 MiB, and those that were touched", SHORT, call=CALLS, chunks=1,
                    size=Not(WHOLE_SIZE), chosen=Not(Contains("chunks"))),
            exclude("blocks of 256 MiB are measured singly", SHORT, size=WHOLE_SIZE, chunks=Not(1),
                    chosen=Not(Contains("size"))),
            exclude("blocks of 256 MiB are measured where their pages are there at once", SHORT, size=WHOLE_SIZE,
                    whole=False, chosen=Not(Contains("size"))),
            take_only("frees of touched memory are measured for plain host memory and memory that moves",
                      of={"call": tuple(TOUCHED)}, freed_pages=True),
            leave_out("single blocks are measured where 100 may take too much memory or time",
                      chunks=1, size=Below(16 * MiB)),
            take_only("frees are measured at every second size", STANDARD,
                      of={"call": "free"}, size=(64, 4 * KiB, 64 * KiB, 256 * KiB, 4 * MiB, WHOLE_SIZE)),
        ),
        properties={"freed_pages": _frees_pages, "whole": _has_pages_at_return},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        sizes = {
            "quick": [64, 4 * KiB, 64 * KiB, MiB, TOUCHED_SIZE, WHOLE_SIZE],
            "standard": [2, 64, 1 * KiB, *(4 * KiB << (2 * k) for k in range(7)), TOUCHED_SIZE, WHOLE_SIZE],
            "full": [2 << k for k in range(30)],
        }[preset]
        touched = [call for call, agent in TOUCHED.items() if agent in agents(device)]
        return [
            allocator_factor(device),
            Factor("size", sizes, "size", least=1, doc="bytes of one block"),
            Factor("call", [*CALLS, *touched], doc="the call that is timed; touched: of blocks that the agent wrote"),
            Factor(
                "chunks",
                [CHUNKS, 1],
                "count",
                least=1,
                most=MAX_CHUNKS,
                doc="blocks that one loop allocates and a second frees",
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["call"] in TOUCHED:
            return unreachable(device, factors.text("allocator"), TOUCHED[factors.text("call")])
        return unavailable(device, factors.text("allocator"))

    def measure(self, point: Point, session: Session) -> Measurement:
        outcome = _core.allocation(
            session.device,
            allocator=point.text("allocator"),
            bytes=point.size("size"),
            call="allocate" if point["call"] == "allocate" else "free",
            touched_by=TOUCHED.get(point.text("call")),
            chunks=point.count("chunks"),
            limit=session.limit,
            stop=session.stop(),
        )
        return Measurement.of(outcome)

    def predict(self, point: Point, platform: Platform) -> Measurement:
        with known_prices():
            answer = copies.calls(
                PlatformPrices(platform),
                allocator=point.text("allocator"),
                call="allocate" if point["call"] == "allocate" else "free",
                touched_by=TOUCHED.get(point.text("call")),
                nbytes=point.size("size"),
            )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        usual = _most_chunks(records)
        allocated = [r for r in usual if r.factors.get("call", "allocate") == "allocate"]
        freed = [r for r in usual if r.factors.get("call") == "free"]
        large = comparable(allocated, ("allocator",))
        small = comparable(allocated, ("allocator",), pick=min)
        return [
            *_allocation_comparisons(large),
            *(_allocation_comparisons(small) if small != large else []),
            *_growth_findings(allocated),
            *_free_comparisons(comparable(freed, ("allocator",))),
            *_slowest_free(freed, allocated),
            *(finding(FREE_TOUCHED, r, agent=a) for r in usual if (a := TOUCHED.get(str(r.factors.get("call"))))),
        ]


_CALL = ("call",)
RANGE = Claim(
    "allocation.range",
    "allocating {size} costs most with {allocator}{unclear}: {value} a call, {ratio} times as much as with "
    "{other_allocator} ({other_value})",
    names=_CALL,
)
ALIKE = Claim(
    "allocation.range", "allocating {size} costs {value} a call with any allocator", names=("call", "allocator")
)
UNTOLD = Claim(
    "allocation.range",
    "allocating {size} costs {value} a call with {allocator} and {other_value} with {other_allocator}, with no clear "
    "difference",
    names=_CALL,
)
SINGLE = Claim("allocation.cost", "allocating {size} with {allocator} costs {value} a call", names=_CALL)
FREE_RANGE = Claim(
    "allocation.free",
    "freeing {size} costs most with {allocator}{unclear}: {value} a call, {ratio} times as much as with "
    "{other_allocator} ({other_value})",
    names=_CALL,
)
FREE_RATIO = Claim(
    "allocation.free_ratio",
    "freeing {size} of {allocator} memory takes {value}, {ratio_as_long} as allocating it ({other_value})",
    names=_CALL,
)
FREE_TOUCHED = Claim(
    "allocation.free_touched",
    "freeing {size} of {allocator} memory that the {agent} has touched takes {value}",
    names=_CALL,
)
_GROWTH = ("allocation.growth", "from {least_size} to {most_size} the cost")
_BY_SIZE = ("call", "size")
GROWS = Claim(_GROWTH[0], "grows with size for {allocator}", _GROWTH[1], _BY_SIZE)
FLAT = Claim(_GROWTH[0], "changes less than threefold for {allocator}", _GROWTH[1], _BY_SIZE)
FALLS = Claim(_GROWTH[0], "falls with size for {allocator}", _GROWTH[1], _BY_SIZE)
GROWTH_UNTOLD = Claim(_GROWTH[0], "shows no clear trend for {allocator}", _GROWTH[1], _BY_SIZE)
_CHANGES = {"grows": GROWS, "falls": FALLS, "changes less than threefold": FLAT, "not told apart": GROWTH_UNTOLD}
"""By what the cost does, in the order of the findings."""


def _allocation_comparisons(rows: Sequence[Record]) -> list[Finding]:
    """The most and the least expensive allocator at one size."""
    if len(rows) < 2:
        return [finding(SINGLE, row) for row in rows]
    cheapest, most_expensive = extremes(rows)
    comparison = compare_medians(most_expensive, cheapest)
    if comparison.is_clear:
        return _extreme_findings(RANGE, rows)
    return [finding(ALIKE if are_alike(map(quantity, rows)) else UNTOLD, most_expensive, comparison=comparison)]


def _extreme_findings(claim: Claim, rows: Sequence[Record]) -> list[Finding]:
    """The most expensive allocators against the cheapest, with those that are tied with either."""
    cheapest, most_expensive = extremes(rows)
    most = tied(rows, most_expensive)
    comparison = compare_groups(most_expensive, tied(rows, cheapest), "allocator")
    unclear = rivals(rows, most_expensive, "allocator")
    return [finding(claim, most, comparison=comparison, allocator=names_in(most, "allocator"), unclear=unclear)]


def _most_chunks(records: Sequence[Record]) -> list[Record]:
    """The records with the most blocks, of each set that differs in the number of blocks alone."""
    return [max(rows, key=lambda r: number(r, "chunks")) for rows in groups_apart_from(records, "chunks")]


def _free_comparisons(rows: Sequence[Record]) -> list[Finding]:
    """The allocator whose memory is most expensive to free at one size, if that is clear."""
    if len(rows) < 2:
        return []
    cheapest, most_expensive = extremes(rows)
    return _extreme_findings(FREE_RANGE, rows) if compare_medians(most_expensive, cheapest).is_clear else []


def _slowest_free(freed: Sequence[Record], allocated: Sequence[Record]) -> list[Finding]:
    """The free that takes longest in relation to the allocation of the same block, if it clearly takes longer."""
    pairs = [
        (free, compare_medians(free, allocate))
        for free in freed
        for allocate in allocated
        if {**free.factors, "call": "allocate"} == allocate.factors
    ]
    slower = [(free, comparison) for free, comparison in pairs if comparison.is_clear and comparison.ratio.value > 1]
    if not slower:
        return []
    free, comparison = max(slower, key=lambda pair: pair[1].ratio.value)
    return [finding(FREE_RATIO, free, comparison=comparison)]


def _growth_findings(records: Sequence[Record]) -> list[Finding]:
    """Which allocators' cost grows from blocks of GROWTH_FROM bytes to the largest."""
    by_ends: dict[tuple[str, float, float], list[Record]] = {}
    for rows in groups_apart_from(records, "size"):
        curve = sorted((r for r in rows if number(r, "size") >= GROWTH_FROM), key=lambda r: number(r, "size"))
        if len(curve) > 1:
            ends = (number(curve[0], "size"), number(curve[-1], "size"))
            by_ends.setdefault((_growth_in_words(curve[0], curve[-1]), *ends), []).extend((curve[0], curve[-1]))
    return [
        finding(
            _CHANGES[change],
            rows,
            change,
            allocator=tuple(distinct(rows, "allocator")),
            least_size=least,
            most_size=most,
        )
        for (change, least, most), rows in sorted(by_ends.items(), key=lambda item: [*_CHANGES].index(item[0][0]))
    ]


def _growth_in_words(first: Record, last: Record) -> str:
    """What the cost does from one size to another, as far as both intervals show it."""
    ratio, is_apart = ratio_of(quantity(last), quantity(first)), are_apart(quantity(first), quantity(last))
    if is_apart and median_of(last) >= GROWTH_RATIO * median_of(first):
        return "grows"
    if is_apart and median_of(first) >= GROWTH_RATIO * median_of(last):
        return "falls"
    low, high = ratio.low or ratio.value, ratio.high or ratio.value
    return "changes less than threefold" if low > 1 / GROWTH_RATIO and high < GROWTH_RATIO else "not told apart"
