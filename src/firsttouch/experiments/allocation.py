"""allocation: the cost of an allocation call and of a free, without touching the memory."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch import _core
from firsttouch.analysis.findings import Claim, Finding, at_shared, compare, extremes, finding, number
from firsttouch.analysis.statistics import distinct, group_by, median_of
from firsttouch.experiments.base import Experiment, Factor, Measurement, Point, Preset
from firsttouch.experiments.common import GiB, KiB, MiB, allocator_factor, unavailable
from firsttouch.experiments.presets import leave_out
from firsttouch.figures import Line
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record
from firsttouch.session import Session

CHUNKS = 100
GROWTH_FROM, GROWTH_RATIO = 256 * KiB, 3.0
"""Cost grows with size if the largest block costs at least GROWTH_RATIO times a block of GROWTH_FROM bytes."""


class Allocation(Experiment):
    """Allocates 100 blocks in one loop and frees them in a second. Source: IISWC 2025 Sec. III-A.5."""

    name = "allocation"
    order = 40
    question = "What does the call cost that obtains memory?"
    metric = Metric("ns", "lower")
    counted = (
        "One allocation, averaged over a loop of 100 (fewer where 100 blocks exceed the preset's memory: counter "
        "chunks), after 10 warm-up loops, memory not touched. free_ns is one free of the second loop."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A.5"
    figures = (
        Line(x="size", colour="allocator", log_x=True, log_y=True, x_title="block",
             y_title="time per allocation"),
        Line(x="size", y="free_ns", colour="allocator", log_x=True, log_y=True, x_title="block",
             y_title="time per free, ns"),
    )  # fmt: skip
    share = 1.5

    rules = (leave_out("plain host memory is measured on the device cpu", runs_kernels=True, plain_host=True),)

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        sizes = {
            "quick": [64, 4 * KiB, 256 * KiB, 16 * MiB],
            "standard": [2, 64, 1 * KiB, *(4 * KiB << (2 * k) for k in range(7))],
            "full": [2 << k for k in range(30)],
        }[preset]
        return [
            allocator_factor(device),
            Factor("size", sizes, "size", least=1, doc="bytes of one block"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return unavailable(device, factors.text("allocator"))

    def measure(self, point: Point, session: Session) -> Measurement:
        size = point.size("size")
        most_bytes = {"quick": GiB // 4, "standard": GiB, "full": 4 * GiB}[session.preset]
        chunks = max(1, min(CHUNKS, most_bytes // size))
        outcome = _core.allocation(
            session.device, allocator=point.text("allocator"), bytes=size, chunks=chunks, stop=session.stop()
        )
        return Measurement.of(outcome, counters={"chunks": chunks})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        large = at_shared(records, ("allocator",))
        small = at_shared(records, ("allocator",), pick=min)
        return [*_compared(large), *(_compared(small) if small != large else []), *_growth(records)]


RANGE = Claim(
    "allocation.range",
    "allocating {size} costs most with {allocator}: {value} a call, {ratio} times as much as with {other_allocator} "
    "({other_value})",
)
ALIKE = Claim("allocation.range", "allocating {size} costs {value} a call with any allocator")
SINGLE = Claim("allocation.cost", "allocating {size} with {allocator} costs {value} a call")
_GROWTH = ("allocation.growth", "from {least_size} to {most_size} the cost")
GROWS = Claim(_GROWTH[0], "grows with size for {allocator}", _GROWTH[1])
FLAT = Claim(_GROWTH[0], "hardly changes for {allocator}", _GROWTH[1])


def _compared(rows: Sequence[Record]) -> list[Finding]:
    """The most and the least expensive allocator at one size."""
    if len(rows) < 2:
        return [finding(SINGLE, row) for row in rows]
    cheapest, most_expensive = extremes(rows)
    comparison = compare(most_expensive, cheapest)
    return [finding(RANGE if comparison.is_clear else ALIKE, most_expensive, comparison=comparison)]


def _growth(records: Sequence[Record]) -> list[Finding]:
    """Which allocators' cost grows from blocks of GROWTH_FROM bytes to the largest."""
    found: dict[tuple[bool, float, float], list[Record]] = {}
    for rows in group_by(records, "allocator").values():
        curve = sorted((r for r in rows if number(r, "size") >= GROWTH_FROM), key=lambda r: number(r, "size"))
        if len(curve) > 1:
            grows = median_of(curve[-1]) >= GROWTH_RATIO * median_of(curve[0])
            ends = (number(curve[0], "size"), number(curve[-1], "size"))
            found.setdefault((grows, *ends), []).extend((curve[0], curve[-1]))
    return [
        finding(
            GROWS if grows else FLAT,
            rows,
            "grows" if grows else "hardly changes",
            allocator=tuple(distinct(rows, "allocator")),
            least_size=least,
            most_size=most,
        )
        for (grows, least, most), rows in sorted(found.items(), key=lambda item: not item[0][0])
    ]
