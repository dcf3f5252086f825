"""latency: the time of one dependent load, over the size of the buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.units import format_size
from firsttouch.experiments.analysis.levels import levels
from firsttouch.experiments.contract.base import (
    Candidate,
    CountingRules,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
)
from firsttouch.experiments.contract.common import (
    BASE_PAGE,
    GiB,
    KiB,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    first_toucher,
    last_level_bytes,
    line_bytes,
    octaves,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS, CHASE, SELF_OR_OTHER
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.presets import (
    FULL,
    QUICK,
    SHORT,
    STANDARD,
    Above,
    Not,
    Octave,
    leave_out,
    take,
    take_only,
)
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.latencies import may_be_cached
from firsttouch.experiments.views.ranking import comparable, names_in, rivals, tied
from firsttouch.machine.allocators.properties import is_common, is_plain_host
from firsttouch.model.micro import loads
from firsttouch.records.codebook import Codebook, CounterEntry, LoadTime, PriceSource
from firsttouch.records.figures import Line
from firsttouch.records.findings import CLEAR_RATIO, Claim, Finding, at_largest, compare_medians, extremes, finding
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

PAGE_GROUP = 64 * BASE_PAGE
"""Bytes visited together in the order `by-page`: 64 base pages, multichase's default TLB locality."""


def _is_rarely_used(candidate: Candidate) -> bool:
    """True if a device's programs rarely use the memory: plain host memory, and variants of an allocator."""
    allocator = candidate.factors.text("allocator")
    return candidate.device.capabilities.runs_kernels and (is_plain_host(allocator) or not is_common(allocator))


class Latency(Experiment):
    """Dependent loads through one random cycle over every line. Source: multichase; IISWC 2025 Sec. III-A1."""

    name = "latency"
    order = 10
    question = "How long does one load take?"
    metric = Metric("ns", "lower")
    counted = (
        "One dependent load, averaged over at least 100,000 along one random cycle through every cache line of the "
        "buffer, after a warm traversal. With order random every load is from another page; by-page reads 64 base "
        "pages at a time, so that the difference is the cost of TLB misses."
    )
    source = "multichase (pointer chase); Wahlgren et al., IISWC 2025, Sec. III-A1"
    codebook = Codebook(
        called="loads",
        factors={
            "agent": AGENTS,
            "allocator": {},
            "first_touch": SELF_OR_OTHER,
            "order": {"random": "every load from another page", "by-page": "64 pages at a time"},
            "size": {},
        },
        counters=(*CHASE, CounterEntry(name="stride", unit="B")),
        load=LoadTime(agent="agent", size="size"),
        prices=(
            PriceSource(
                price="load",
                where={"order": "random", "first_touch": "self"},
                by={"agent": "agent", "allocator": "allocator"},
                names={"bytes": "size"},
            ),
        ),
    )
    figures = (
        Line(x="size", colour="allocator", dash="agent", log_x=True, log_y=True, where={"order": "random"},
             x_title="buffer", y_title="time per load", levels="caches", title="Time of a random load"),
        Line(x="size", colour="allocator", dash="agent", facet="order", log_x=True, log_y=True,
             x_title="buffer", y_title="time per load", levels="caches"),
    )  # fmt: skip
    counting = CountingRules()

    without_effect = {
        "xnack": "a load takes as long where the GPU retries faults",
    }
    planning = Planning(
        share=3.0,
        rules=(
            leave_out("the CPU's loads from plain host memory are measured on the device cpu", measured_on_cpu=True),
            leave_out("the kernels run on the host's processor, where this is the same memory under another name",
                      SHORT, same_memory=True),
            take("the full preset measures every size", FULL),
            take("the main curve has every size", main_curve=True, order="random"),
            take_only("memory that the agent cannot reach is recorded once",
                      of={"runs_kernels": True, "reachable": False}, size=MiB),
            leave_out("the cost of TLB misses is measured on the main curve only",
                      order="by-page", runs_kernels=True, main_curve=False),
            leave_out("plain host memory and variants of an allocator are measured at every sixth octave",
                      QUICK, rarely_used=True, size=Not(Octave(6))),
            leave_out("the quick preset measures other curves at every third octave", QUICK, size=Not(Octave(3))),
            leave_out("plain host memory and variants of an allocator are measured at every second octave",
                      STANDARD, rarely_used=True, size=Not(Octave(2))),
            leave_out("the standard preset measures other curves at whole octaves", STANDARD, size=Not(Octave())),
            leave_out("other allocators are measured up to 128 MiB", QUICK, main=False, size=Above(128 * MiB)),
            leave_out("curves other than the main one end at 1 GiB", size=Above(GiB)),
        ),
        on_each=({"order": "random", "main_curve": True, "largest": True},),
        properties={"rarely_used": _is_rarely_used},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_cpu = device.capabilities.on_host_processor
        beyond = 1 << (2 * last_level_bytes(device) - 1).bit_length()
        largest = {
            "quick": max(256 * MiB, beyond) if on_cpu else GiB,
            "standard": max(GiB, beyond) if on_cpu else 4 * GiB,
            "full": 4 * GiB,
        }
        density = {"quick": 1, "standard": 2 if on_cpu else 4, "full": 4}
        touch = ("self", "other") if preset == "full" and device.capabilities.runs_kernels else ("self",)
        return [
            Factor("agent", agents(device), doc="who loads"),
            allocator_factor(device),
            Factor("first_touch", touch, choices=("self", "other"), doc="who writes the cycle: the agent or the other"),
            Factor("order", ("random", "by-page"), doc="anywhere, or page by page"),
            Factor(
                "size",
                octaves(4 * KiB if preset == "quick" else KiB, largest[preset], density[preset]),
                "size",
                least=line_bytes(device),
                doc="bytes of the buffer",
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["order"] == "by-page" and factors.size("size") < 2 * PAGE_GROUP:
            return Meaningless(f"order=by-page needs two groups of pages, {format_size(2 * PAGE_GROUP)} or more")
        agent = factors.text("agent")
        return unreachable(device, factors.text("allocator"), agent, first_toucher(agent, factors["first_touch"]))

    def measure(self, point: Point, session: Session) -> Measurement:
        agent, device = point.text("agent"), session.device
        with device.allocate(point.text("allocator"), point.size("size")) as buffer:
            outcome = _core.chase(
                device,
                buffer,
                agent=agent,
                first_touch=first_toucher(agent, point["first_touch"]),
                stride=line_bytes(session.info),
                group_bytes=PAGE_GROUP if point["order"] == "by-page" else 0,
                last_level_bytes=last_level_bytes(session.info),
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement.of(
                outcome, buffers=[buffer_fact("chase", buffer)], counters={"stride": line_bytes(session.info)}
            )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, order="random")
        agent = point.text("agent")
        answer = loads.load(
            platform,
            device_of(point, platform),
            agent=agent,
            allocator=point.text("allocator"),
            first=first_toucher(agent, point["first_touch"]),
            nbytes=point.size("size"),
        )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        rows = [r for r in records if (r.factors["order"], r.factors["first_touch"]) == ("random", "self")]
        curves = group_by(rows, "agent", "allocator")
        if not curves:
            return []
        main = max(curves.values(), key=len)
        return [finding(LARGEST, at_largest(main)), *levels(main, device), *_slowest_findings(curves, main, device)]


_USUAL = ("order", "first_touch")
LARGEST = Claim(
    "latency.largest", "a random load by the {agent} from {size} of {allocator} memory takes {value}", names=_USUAL
)
SLOWEST = Claim(
    "latency.slowest",
    "over {size}, random loads by the {agent} from {allocator} memory are the slowest{unclear}: {value}, {ratio} times "
    "as long as by the {other_agent} from {other_allocator} memory ({other_value})",
    names=_USUAL,
)


def _slowest_findings(
    curves: Mapping[tuple[Scalar, ...], list[Record]], main: Sequence[Record], device: DeviceInfo | None
) -> list[Finding]:
    """Compares the slowest loads with those of the main curve, at the largest size that most curves have: beyond the
    device's caches, if several have such a size.
    """
    rows = [r for curve in curves.values() for r in curve]
    beyond = [r for r in rows if device is not None and not may_be_cached(r, {device.name: device})]
    by = ("agent", "allocator")
    at = comparable(beyond, by)
    at = at if len(at) > 1 else comparable(rows, by)
    mine = [r for r in at if r in main]
    _, slowest = extremes(at)
    if not mine or slowest in mine:
        return []
    alike = [r for r in at if r.factors["agent"] == slowest.factors["agent"]]
    named, comparison = tied((r for r in alike if r not in mine), slowest), compare_medians(slowest, mine[0])
    if not comparison.is_clear or comparison.ratio.value <= CLEAR_RATIO:
        return []
    unclear = rivals(alike, slowest, "allocator")
    return [finding(SLOWEST, named, comparison=comparison, allocator=names_in(named, "allocator"), unclear=unclear)]
