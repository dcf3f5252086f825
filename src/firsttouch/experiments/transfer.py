"""transfer: copies between host and device by copy engine, kernel or CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.experiments.contract.base import (
    Candidate,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
)
from firsttouch.experiments.contract.common import (
    GiB,
    KiB,
    MiB,
    allocator_factor,
    allocator_names,
    buffer_fact,
    last_level_bytes,
    switch,
    unavailable,
    unreachable,
)
from firsttouch.experiments.contract.modelled import device_of, known_prices, predicted, usual_only
from firsttouch.experiments.contract.presets import QUICK, SHORT, Above, Below, Contains, Not, leave_out, take_only
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.ranking import best_over_worst, groups_apart_from, names_in, rivals, tied
from firsttouch.machine.allocators.properties import is_common, is_device_side, main_allocator, role
from firsttouch.model.micro import copies
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource, Traffic
from firsttouch.records.figures import Line
from firsttouch.records.findings import (
    CLEAR_RATIO,
    Claim,
    Comparison,
    Finding,
    Quantity,
    at_largest,
    compare_medians,
    counter,
    extremes,
    finding,
    keys,
    number,
    ratio_of,
    shared,
)
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

MAX_STREAMS = 64
ENGINES = ("copy-engine", "kernel", "cpu")
_WHOLE: dict[str, Scalar] = {"streams": 1, "chunk": 0}
"""A transfer that is one copy."""
_LINK: dict[str, Scalar | list[Scalar]] = {"direction": ["h2d", "d2h"]}
_SIDE, _BYTES = {"direction": "direction", "allocator": "allocator"}, {"bytes": "size"}


def _is_page_locked(candidate: Candidate) -> bool:
    """True if the host's side is the common allocator of page-locked memory."""
    allocator = candidate.factors.text("allocator")
    return role(allocator) == "page-locked" and is_common(allocator)


def _is_on_device(device: DeviceInfo, allocator: str) -> bool:
    """True if a copy to memory of the allocator goes to the device."""
    entry = device.allocator(allocator)
    return entry is not None and is_device_side(entry)


def _why_meaningless(factors: Factors, device: DeviceInfo) -> str:
    on_device = _is_on_device(device, factors.text("allocator"))
    engine, direction = factors.text("engine"), factors.text("direction")
    if (direction != "d2d") == on_device:
        where = "the device's" if on_device else "the host's"
        return f"{factors['allocator']} is memory of {where} side, so it cannot be the allocator of {direction}"
    if (engine, direction) in (("cpu", "d2d"), ("kernel", "h2h")):
        return f"the engine {engine} cannot make {direction} copies"
    if engine != "copy-engine" and (factors["streams"] != 1 or factors["chunk"] != 0):
        return "streams and chunk apply to the copy engine only"
    if engine != "cpu" and factors.get("threads"):
        return "threads are those of the CPU's copies"
    if factors.size("chunk") > 0 and factors.size("size") < 4 * factors.size("chunk"):
        return "a pipelined transfer needs at least four chunks"
    return ""


class Transfer(Experiment):
    """Copies queued behind a gate, checked byte for byte. Source: nvbandwidth's method; IISWC 2025 Sec. III-A3."""

    name = "transfer"
    order = 30
    question = "How fast do bytes move between host and device?"
    metric = Metric("GB/s", "higher")
    counted = (
        "Every byte copied counts once (a copy within one memory reads and writes it, so its traffic is twice as "
        "high). Copies are queued back to back behind a gate and timed on the device's clock; latency_us is one copy "
        "alone from the call to its completion. new_pages_us is the same into pages that nobody has touched: plain "
        "host memory whose pages are given back to the kernel before each copy (low and high: its 95 % interval). "
        "allocator is the host's side of h2d and d2h and both sides of d2d and h2h; other is the device's side."
    )
    source = "nvbandwidth; Wahlgren et al., IISWC 2025, Sec. III-A3"
    codebook = Codebook(
        called="copies",
        between_memories=True,
        factors={
            "direction": {
                "h2d": "from the host to the device",
                "d2h": "from the device to the host",
                "d2d": "within the device",
                "h2h": "within the host",
            },
            "engine": {
                "copy-engine": "a call of the driver",
                "kernel": "a kernel of the device",
                "cpu": "threads of the processor",
            },
            "allocator": {},
            "other": {},
            "streams": {},
            "chunk": {},
            "size": {},
            "threads": {},
        },
        counters=(
            CounterEntry(name="(latency|new_pages)_us", unit="us", moves="size"),
            CounterEntry(name="(latency|new_pages)_(low|high)_us", unit="us"),
        ),
        traffic=(
            Traffic(
                where={"direction": "d2d"}, through="memory", passing=2, cacheable=1
            ),  # every byte is read and written
            Traffic(where={**_LINK, "engine": ["copy-engine", "cpu"]}, through="link"),
            Traffic(where={**_LINK, "engine": "kernel"}, through="link", memory="host", cacheable=1),
        ),
        prices=(
            PriceSource(price="copy", where={"engine": "copy-engine", **_WHOLE}, by=_SIDE, names=_BYTES),
            PriceSource(price="remote", where={"engine": "kernel", **_WHOLE}, by=_SIDE, names=_BYTES),
            PriceSource(price="host_copy", where={"direction": "h2h", "engine": "cpu", **_WHOLE}, names=_BYTES),
            PriceSource(
                price="lone_copy",
                where={"engine": "copy-engine", **_WHOLE},
                by=_SIDE,
                names={**_BYTES, "us": "latency_us", "low_us": "latency_low_us", "high_us": "latency_high_us"},
            ),
            PriceSource(
                price="copy_into_new",
                where={"direction": "d2h", "engine": "copy-engine", **_WHOLE},
                by={"allocator": "allocator"},
                names={**_BYTES, "us": "new_pages_us", "low_us": "new_pages_low_us", "high_us": "new_pages_high_us"},
            ),
        ),
    )
    figures = (
        Line(x="size", colour="allocator", dash="engine", facet="direction", log_x=True, log_y=True,
             x_title="bytes copied", y_title="bandwidth, GB/s"),
        Line(x="size", y="latency_us", colour="allocator", dash="engine", facet="direction",
             log_x=True, log_y=True, x_title="bytes copied", y_title="one copy alone, us",
             title="Time of one copy alone"),
    )  # fmt: skip

    without_effect = {"xnack": "copies are predicted alike where the GPU retries faults"}
    not_followed = {"other": "copies are predicted alike with any memory of the device"}
    planning = Planning(
        share=3.0,
        switches_of=("memory", "copies"),
        rules=(
            leave_out("copies within the host are measured on the device cpu", runs_kernels=True, direction="h2h"),
            leave_out("copies by kernels and by the CPU do not depend on sdma",
                      engine=Not("copy-engine"), sdma_as_here=False, chosen=Not(Contains("sdma"))),
            leave_out("split and pipelined transfers are measured with page-locked memory only",
                      streams=Not(1), page_locked=False),
            leave_out("split and pipelined transfers are measured with page-locked memory only",
                      chunk=Not(0), page_locked=False),
            leave_out("split and pipelined transfers are measured from 16 MiB on", streams=Not(1),
                      size=Below(16 * MiB)),
            leave_out("split and pipelined transfers are measured from 16 MiB on", chunk=Not(0), size=Below(16 * MiB)),
            leave_out("the processor's own copies are measured on the device cpu", SHORT, runs_on="processor",
                      engine="cpu"),
            leave_out("copies within the host's processor end at 64 MiB", SHORT, runs_on="processor",
                      size=Above(64 * MiB)),
            # Of plain host memory 256 MiB may be in the processor's caches. Other memory shows the same as with
            # 256 MiB.
            leave_out("copies of 1 GiB and more are measured with page-locked and plain host memory only",
                      SHORT, size=Not(Below(GiB)), page_locked=False, plain_host=False),
            leave_out("copies of 1 GiB and more are measured with the common plain host memory and the copy engine",
                      SHORT, size=Not(Below(GiB)), page_locked=False, common=False),
            leave_out("copies of 1 GiB and more are measured with the common plain host memory and the copy engine",
                      SHORT, size=Not(Below(GiB)), page_locked=False, engine=Not("copy-engine")),
            leave_out("copies of 1 GiB and more are neither split nor pipelined",
                      SHORT, size=Not(Below(GiB)), streams=Not(1)),
            leave_out("copies of 1 GiB and more are neither split nor pipelined",
                      SHORT, size=Not(Below(GiB)), chunk=Not(0)),
            take_only("what cannot be measured is recorded once", of={"skipped": True}, size=4 * MiB),
            leave_out("plain host memory is measured with one page size",
                      QUICK, runs_kernels=True, plain_host=True, common=False),
            leave_out("the kernels run on the host's processor, where this is the same memory under another name",
                      QUICK, runs_on="processor", common=False),
        ),
        on_each=(
            {"direction": ("h2d", "d2h"), "engine": "copy-engine", **_WHOLE, "page_locked": True, "largest": True},
        ),
        properties={"page_locked": _is_page_locked},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_cpu, alone = device.capabilities.on_host_processor, not device.capabilities.runs_kernels
        sizes = {
            "quick": [4 * KiB, 256 * KiB, 4 * MiB, 64 * MiB if on_cpu else 256 * MiB],
            "standard": [1, 64, *(4 * KiB << (2 * k) for k in range(9)), *([] if on_cpu else [GiB])],
            "full": [1, 8, 64, 512, *(4 * KiB << k for k in range(18 if on_cpu else 22))],
        }[preset]
        directions = ("h2h",) if alone else ("h2d", "d2h", "d2d", "h2h")
        engines = ("cpu",) if alone else ENGINES
        of_device = [name for name in allocator_names(device) if _is_on_device(device, name)]
        far_allocators = of_device if preset == "full" and not alone else [main_allocator(device)]
        streams = (1,) if preset == "quick" or alone else (1, 2, 4)
        chunks = (0,) if preset == "quick" or alone else (0, 4 * MiB)
        return [
            Factor("direction", directions, doc="between host (h) and device (d)"),
            Factor("engine", engines, doc="who copies"),
            allocator_factor(device),
            Factor("other", far_allocators, choices=allocator_names(device), doc="memory of the device's side"),
            Factor("streams", streams, "count", least=1, most=MAX_STREAMS, doc="a transfer split over so many streams"),
            Factor("chunk", chunks, "count", doc="bytes of each piece of a pipelined transfer; 0 copies it whole"),
            Factor("size", sizes, "size", least=1, doc="bytes copied"),
            *([] if preset == "quick" else switch(device, "sdma", ("0", "1"))),
            Factor(
                "threads",
                [0],
                "count",
                most=_core.usable_processors(),
                doc="of the CPU's copies; 0 is all",
                optional=True,
            ),
        ]

    @staticmethod
    def _sides(factors: Factors) -> tuple[str, str]:
        """The allocators of source and target."""
        near, far = factors.text("allocator"), factors.text("other")
        return {"h2d": (near, far), "d2h": (far, near)}.get(factors.text("direction"), (near, near))

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if meaningless := _why_meaningless(factors, device):
            return Meaningless(meaningless)
        for allocator in self._sides(factors):
            if reason := unavailable(device, allocator):
                return reason
            entry = device.allocator(allocator)
            if entry is not None and entry.managed:
                return f"{allocator} pages move to the device at the first copy, so there is no transfer to repeat"
            agent = {"kernel": "gpu", "cpu": "cpu"}.get(factors.text("engine"))
            if agent and (reason := unreachable(device, allocator, agent)):
                return reason
        return None

    def measure(self, point: Point, session: Session) -> Measurement:
        device, size = session.device, point.size("size")
        source_allocator, target_allocator = self._sides(point.factors)
        with device.allocate(source_allocator, size) as source, device.allocate(target_allocator, size) as target:
            outcome = _core.copy(
                device,
                target,
                source,
                engine=point.text("engine"),
                bytes=size,
                streams=point.count("streams"),
                chunk=point.size("chunk"),
                threads=point.count("threads") if "threads" in point.factors else 0,
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement.of(outcome, buffers=[buffer_fact("source", source), buffer_fact("target", target)])

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, threads=0, streams=1, chunk=0)
        with known_prices():
            answer = copies.copies(
                PlatformPrices(platform),
                direction=point.text("direction"),
                engine=point.text("engine"),
                allocator=point.text("allocator"),
                nbytes=point.size("size"),
                in_memory=point.size("size") >= 4 * last_level_bytes(device_of(point, platform)),
            )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        by_direction = {direction: rows for (direction,), rows in group_by(records, "direction").items()}
        measured_directions = [by_direction[direction] for direction in DIRECTIONS if direction in by_direction]
        return [
            *map(_fastest_copy_finding, measured_directions),
            *(f for rows in measured_directions for f in _allocator_findings(rows)),
            *_shortest_copy_findings(records),
            *_new_page_findings(records),
        ]


DIRECTIONS = ("h2d", "d2h", "d2d", "h2h")
_FASTEST = ("transfer.fastest", "fastest copies of the largest size:")
FASTEST = Claim(_FASTEST[0], "{direction} {value} over {size} ({allocator}, {engine}){unclear}", _FASTEST[1])
PEAK = Claim(
    _FASTEST[0],
    "{direction} {value} over {size} ({allocator}, {engine}){unclear}, and up to {other_value} over {other_size} "
    "({other_allocator}, {other_engine})",
    _FASTEST[1],
)
RANGE = Claim(
    "transfer.range",
    "over {size}, {direction} by the {engine} is {ratio} times as fast with {allocator} memory ({value}) as with "
    "{other_allocator} memory ({other_value})",
)
WHOLE_RANGE = replace(RANGE, names=("streams", "chunk"))
"""Of copies that are neither split nor pipelined, which is what a copy is."""
ALONE = Claim(
    "transfer.alone",
    "a single copy of {size} takes at least {value} from the call to its completion ({direction}, {allocator}, "
    "{engine})",
)
NEW_PAGES = Claim(
    "transfer.new_pages",
    "a single copy of {size} into {allocator} pages that nobody has touched takes {value}, {ratio_as_long} as "
    "into existing pages ({other_value}, {direction})",
)


def _allocator_findings(rows: Sequence[Record]) -> list[Finding]:
    """Compares allocators, by copies that are neither split nor pipelined if there are any."""
    whole = [r for r in rows if all(r.factors.get(name) == value for name, value in _WHOLE.items())]
    return best_over_worst(WHOLE_RANGE if whole else RANGE, whole or rows, "allocator")


def _fastest_copy_finding(rows: Sequence[Record]) -> Finding:
    """The fastest copy of the largest size, and of any size if that is clearly faster, as copies within a cache are."""
    best = extremes(at_largest(rows))[1]
    alike = next(group for group in groups_apart_from(rows, "allocator", "engine", "size") if best in group)
    peak = extremes(alike)[1]
    rows = [r for r in at_largest(alike) if r.factors["engine"] == best.factors["engine"]]
    named, comparison, unclear = tied(rows, best), compare_medians(best, peak), rivals(rows, best, "allocator")
    allocator = names_in(named, "allocator")
    if comparison.is_clear and comparison.ratio.value * CLEAR_RATIO < 1:
        return finding(PEAK, named, comparison=comparison, allocator=allocator, unclear=unclear)
    return finding(FASTEST, named, allocator=allocator, unclear=unclear)


def _shortest_copy_findings(records: Sequence[Record]) -> list[Finding]:
    """The shortest single copy of the smallest size."""
    timed = [(q.value, i, r, q) for i, r in enumerate(records) if (q := counter(r, "latency_us", "us"))]
    if not timed:
        return []
    least = min(number(r, "size") for _, _, r, _ in timed)
    _, _, record, value = min(entry for entry in timed if number(entry[2], "size") == least)
    return [finding(ALONE, record, value)]


def _new_page_findings(records: Sequence[Record]) -> list[Finding]:
    """What a copy takes whose target has no pages yet, for each allocator at the largest size."""
    findings = []
    for rows in group_by([r for r in records if counter(r, "new_pages_us", "us")], "allocator", "direction").values():
        record = at_largest(rows)[0]
        middle, low, high = (counter(record, f"new_pages{end}_us", "us") for end in ("", "_low", "_high"))
        alone = counter(record, "latency_us", "us")
        if middle and low and high and alone:
            value = Quantity(middle.value, "us", low.value, high.value)
            comparison = Comparison(alone, ratio_of(value, alone), False, shared([record]), keys([record]))
            findings.append(finding(NEW_PAGES, record, value, comparison=comparison))
    return findings
