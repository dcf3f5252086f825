"""faultcount: page faults, page sizes and contiguity of memory that a STREAM triad uses."""

from __future__ import annotations

import itertools
import resource
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from firsttouch import _core
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Planning, Point, WorkerRules
from firsttouch.experiments.contract.common import (
    BASE_PAGE,
    MIN_STREAM_BYTES,
    MMAP_EVERY_BLOCK,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.presets import QUICK, STANDARD, leave_out, take
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.ranking import comparable, groups_apart_from, names_in, rivals, tied
from firsttouch.model.micro import touches
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource
from firsttouch.records.figures import Bar, Table
from firsttouch.records.findings import (
    CLEAR_RATIO,
    Claim,
    Comparison,
    Finding,
    Quantity,
    are_alike,
    compare_medians,
    extremes,
    finding,
    quantity,
)
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import median_of
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform


def _process_fault_count() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def _interrupts() -> dict[str, int]:
    """Returns the interrupts of memory management (x86: TLB shootdowns) by name, summed over processors."""
    interrupts = {}
    try:
        for line in Path("/proc/interrupts").read_text(errors="replace").splitlines():
            name, _, rest = line.strip().partition(":")
            if name in ("TLB", "IPI0", "IPI1"):
                interrupts[name] = sum(int(word) for word in rest.split() if word.isdecimal())
    except OSError:
        pass
    return interrupts


def _contiguous_pages(address: int, size: int) -> float | None:
    """Returns the mean run of physically contiguous base pages, or None if frame numbers can't be read."""
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(address // BASE_PAGE * 8)
            raw = pagemap.read(size // BASE_PAGE * 8)
    except OSError:
        return None
    frames = [entry & ((1 << 55) - 1) for (entry,) in struct.iter_unpack("Q", raw) if entry >> 63]
    if not frames or not any(frames):  # without the privilege, frame numbers read as zero
        return None
    breaks = sum(after != before + 1 for before, after in itertools.pairwise(frames))
    return float(len(frames) / (1 + breaks))


Arrays: TypeAlias = tuple[_core.Buffer, _core.Buffer, _core.Buffer]
AGENT_FACTORS = ("first_touch", "streamed_by")


class FaultCount(Experiment):
    """CPU page faults of allocating, first touching and streaming three arrays. Source: IISWC 2025 Sec. III-B3."""

    name = "faultcount"
    order = 60
    question = "How many page faults does it take to populate memory, and how is it mapped?"
    metric = Metric("faults/MiB", "lower")
    counted = (
        "CPU page faults (getrusage) of this process from before the allocation until after a triad over three arrays, "
        "per MiB of all three. The agent first_touch writes the arrays, and streamed_by runs the triad. The counters "
        "allocate, touch and triad split the faults; contiguous_pages is the mean run of physically contiguous base "
        "pages, if /proc/self/pagemap is readable; tlb_shootdowns, from /proc/interrupts, count the whole machine."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-B3"
    codebook = Codebook(
        called="counts of faults",
        factors={"allocator": {}, "first_touch": AGENTS, "streamed_by": AGENTS, "size": {}},
        counters=(
            CounterEntry(name="allocate|touch|triad|tlb_shootdowns", unit=""),
            CounterEntry(name="contiguous_pages", unit=""),
            CounterEntry(name="page_bytes", unit="B"),
        ),
        prices=(
            PriceSource(price="faults", by={"allocator": "allocator"}, names={"bytes": "size", "count": "allocate"}),
        ),
    )
    figures = (
        Bar(x="allocator", facet="first_touch", colour="streamed_by", y_title="CPU faults per MiB"),
        Table(titles={"median": "faults per MiB"},
              columns=("allocator", "first_touch", "streamed_by", "median", "allocate", "touch", "triad",
                       "page_bytes", "contiguous_pages", "tlb_shootdowns")),
    )  # fmt: skip

    worker = WorkerRules(environment=lambda factors: MMAP_EVERY_BLOCK)
    planning = Planning(
        share=0.7,
        rules=(
            leave_out("plain host memory that only the CPU uses is measured on the device cpu",
                      runs_kernels=True, plain_host=True, first_touch="cpu", streamed_by="cpu"),
            take("one agent touches and streams", one_agent=True),
            leave_out("the reason is recorded with one agent", skipped=True),
            leave_out("two agents are left to longer presets", QUICK),
            leave_out("kernels after a first touch by the CPU are left to the full preset", STANDARD,
                      first_touch="cpu"),
        ),
        properties={
            "one_agent": lambda candidate: candidate.factors["streamed_by"] == candidate.factors["first_touch"],
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        sizes = {"quick": [16 * MiB], "standard": [64 * MiB], "full": [64 * MiB, 1024 * MiB]}[preset]
        return [
            allocator_factor(device),
            Factor("first_touch", agents(device), doc="who touches the arrays first"),
            Factor("streamed_by", agents(device), doc="who then runs the triad over them"),
            Factor("size", sizes, "size", doc="bytes of one of three arrays", least=MIN_STREAM_BYTES),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return unreachable(device, factors.text("allocator"), *(factors.text(name) for name in AGENT_FACTORS))

    def measure(self, point: Point, session: Session) -> Measurement:
        allocator, size = point.text("allocator"), point.size("size")
        first_touch, streamed_by = (point.text(name) for name in AGENT_FACTORS)
        device, samples, wrong = session.device, [], 0
        counters: dict[str, Scalar] = {}
        facts = []

        def triad(arrays: Arrays) -> int:
            return _core.stream(
                device, *arrays, op="triad", agent=streamed_by, first_touch=first_touch, seed=session.seed,
                stop=_core.Stop(tolerance=1, seconds=0.001, min_samples=1, max_samples=1),
            ).errors  # fmt: skip

        with _three_arrays(device, allocator, BASE_PAGE) as small:  # driver and firsttouch initialise parts lazily
            for array in small:
                array.fill(session.seed, first_touch)
            triad(small)
        for _ in range(3):
            interrupts, start = _interrupts(), _process_fault_count()
            with _three_arrays(device, allocator, size) as arrays:
                allocated = _process_fault_count()
                for array in arrays:
                    array.fill(session.seed, first_touch)
                touched = _process_fault_count()
                wrong += triad(arrays)
                end = _process_fault_count()
                counters = {
                    "allocate": allocated - start,
                    "touch": touched - allocated,
                    "triad": end - touched,
                    **{
                        {"TLB": "tlb_shootdowns"}.get(name, name): count - interrupts.get(name, 0)
                        for name, count in _interrupts().items()
                    },
                }
                facts, address = [buffer_fact("a", arrays[0])], arrays[0].address
                counters["page_bytes"] = facts[0].page_bytes
                counters["contiguous_pages"] = _contiguous_pages(address, size) if address else None
                samples.append((end - start) / (3 * size / MiB))
        return Measurement(samples=samples, verified=wrong == 0, stopped_by="count", counters=counters, buffers=facts)

    def predict(self, point: Point, platform: Platform) -> Measurement:
        answer = touches.faults_per_mib(
            platform,
            device_of(point, platform),
            allocator=point.text("allocator"),
            first_touch=point.text("first_touch"),
            streamed_by=point.text("streamed_by"),
            nbytes=point.size("size"),
        )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        rows = comparable(records, ("allocator", *AGENT_FACTORS))
        if not rows:
            return []
        fewest, most = extremes(rows)
        comparison = compare_medians(most, fewest)
        if not comparison.is_clear or comparison.ratio.value < CLEAR_RATIO:
            medians = [median_of(r) for r in rows]
            claim = ALIKE if are_alike(map(quantity, rows)) else UNTOLD
            return [finding(claim, rows, Quantity(median(medians), most.unit, min(medians), max(medians)))]
        return [_extreme_finding(FEWEST, fewest, rows), _extreme_finding(MOST, most, rows, comparison)]


_RANGE = ("faultcount.range", "CPU page faults over arrays of {size}:")
_USE = "{allocator}{unclear} first touched by the {first_touch}{streamed}, {value}{pages}"
_WHOSE = ("allocator", "first_touch", "streamed_by")
FEWEST = Claim(_RANGE[0], f"fewest with {_USE}", _RANGE[1], _WHOSE)
MOST = Claim(_RANGE[0], f"most with {_USE}", _RANGE[1], _WHOSE)
ALIKE = Claim(
    "faultcount.alike",
    "CPU page faults over arrays of {size}: {value}, much the same for every allocator and first touch",
    names=_WHOSE,
)


UNTOLD = Claim(
    "faultcount.alike",
    "CPU page faults over arrays of {size}: {value}, with no clear difference between allocators or first touches",
    names=_WHOSE,
)


def _extreme_finding(
    claim: Claim, record: Record, records: Sequence[Record], comparison: Comparison | None = None
) -> Finding:
    """The record, and others of the same agents and pages that are tied with it."""
    alike = [r for group in groups_apart_from(records, "allocator") if record in group for r in group]
    named = tied([r for r in alike if r.counters.get("page_bytes") == record.counters.get("page_bytes")], record)
    page = record.counters.get("page_bytes")
    pages = f" on {format_size(page)} pages" if isinstance(page, int) else ""
    by = record.factors.get("streamed_by")
    streamed = f" and streamed by the {str(by).upper()}" if by not in (None, record.factors["first_touch"]) else ""
    return finding(
        claim,
        named,
        comparison=comparison,
        pages=pages,
        streamed=streamed,
        allocator=names_in(named, "allocator"),
        unclear=rivals(alike, record, "allocator"),
    )


@contextmanager
def _three_arrays(device: _core.Device, allocator: str, size: int) -> Iterator[Arrays]:
    with (
        device.allocate(allocator, size) as a,
        device.allocate(allocator, size) as b,
        device.allocate(allocator, size) as c,
    ):
        yield a, b, c
