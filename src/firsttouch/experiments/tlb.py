"""tlb: how much memory the translation caches cover, and how much one entry covers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from firsttouch import _core
from firsttouch.experiments.analysis.tlb import EffectivePage, Knee, effective_page, find_knees, knee_name
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
    HUGE_PAGE,
    GiB,
    KiB,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    last_level_bytes,
    line_bytes,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS, CHASE
from firsttouch.experiments.contract.presets import FULL, QUICK, Not, Octave, leave_out, take, take_only
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.allocators.properties import main_allocator, requested_pages
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Bar, Line
from firsttouch.records.findings import Claim, Finding, Quantity, counter, finding
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record
from firsttouch.workers.session import Session

GPU_PAGE = 2 * MiB
"""The largest page of a GPU's own page tables."""
PAGES = tuple(sorted({4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, GPU_PAGE, BASE_PAGE, HUGE_PAGE}))
"""Page sizes of GPUs and of the host."""
STRIDES = tuple(page for page in PAGES if page >= BASE_PAGE)
"""Distances of the visited lines. Lines closer than the host's base page would share translations on the CPU."""
QUICK_OCTAVES, OCTAVES = (3, 15), (2, 17)
"""Exponents of the page counts: the first, and one past the last. Three points that agree are a level."""
FLOOR_LINES = 8
"""A number of lines that fits in the first cache and the first TLB of any processor."""
MAX_PAGES = 2**28
ARRAY = 16 * MiB
"""Bytes of each array of the counted triad."""

Curves = dict[tuple[str, str], dict[int, dict[int, Record]]]
"""By agent and allocator, by stride, by pages."""


def node_stride(stride: int, line: int) -> int:
    """Returns the bytes from one visited line to the next, for a page stride.

    A line is added to the stride so that the lines spread over the sets of the caches, and all smaller page sizes so
    that pages of each of those sizes spread over the sets of the TLBs.
    """
    return line if stride <= line else stride + sum(page for page in PAGES if page < stride) + line


LARGEST_BYTES = {
    "processor": {"quick": 64 * MiB, "standard": 256 * MiB, "full": GiB},
    "host": {"quick": 256 * MiB, "standard": GiB, "full": 4 * GiB},
    "host's": {"quick": 256 * MiB, "standard": 256 * MiB, "full": 2 * GiB},
    "gpu": {"quick": 8 * GiB, "standard": 32 * GiB, "full": 64 * GiB},
}
"""The largest buffer by class of device; on a GPU it is smaller in memory that may be on the host."""


def largest_bytes(device: DeviceInfo, allocator: str, preset: Preset) -> int:
    where: str = device.role
    if where == "gpu" and (entry := device.allocator(allocator)) and (entry.host_memory or entry.managed):
        where = "host's"
    return LARGEST_BYTES[where][preset]


def loads_per_sample(device: DeviceInfo) -> int:
    """Returns loads per sample: few if a kernel reads a clock and its loads take long, many if launches are timed."""
    if not device.capabilities.runs_kernels:
        return 50_000
    return 20_000 if device.capabilities.device_clock else 100_000


def _is_too_large(candidate: Candidate) -> bool:
    factors = candidate.factors
    most = largest_bytes(candidate.device, factors.text("allocator"), candidate.preset)
    return factors.size("stride") * factors.count("pages") > most


def _is_main_or_huge(candidate: Candidate) -> bool:
    allocator = candidate.factors.text("allocator")
    return allocator == main_allocator(candidate.device) or requested_pages(allocator) == "huge"


class Tlb(Experiment):
    """Loads one line on each of n pages in random order, for growing n.

    Source: multichase (pointer chase); Saavedra and Smith, IEEE Trans. Computers 44(10), 1995 (knees by stride).
    """

    name = "tlb"
    order = 15
    question = "How much memory do the translation caches reach, and how much of it does one entry cover?"
    metric = Metric("ns", "lower")
    counted = (
        "method chase: one dependent load, averaged over 20,000 or more along a random cycle through one line on each "
        "of `pages` pages, `stride` bytes apart, after a warm traversal. dense_ns is the same over as many "
        "adjacent lines, over_dense_ns the difference: the cost of translation. translated_ns is that added to a load "
        "from the first cache; a GPU's loads bypass its first-level cache, which needs no translation. method counter: "
        "the time of a triad by one CPU thread per 64 bytes of its arrays; misses_per_mib are its dTLB load misses by "
        "the processor's counter."
    )
    source = "pointer chase as in multichase; Wahlgren et al., IISWC 2025, Sec. III-B (misses by allocator)"
    codebook = Codebook(
        called="loads",
        factors={
            "method": {"chase": "timed loads", "counter": "the processor's count of misses"},
            "agent": AGENTS,
            "allocator": {},
            "stride": {},
            "pages": {},
        },
        counters=(
            *CHASE,
            CounterEntry(name="over_dense_ns", unit="ns", at_most="median", signed=True),
            CounterEntry(name="dense_ns|translated_ns", unit="ns"),
            CounterEntry(name="node_stride|array_bytes", unit="B"),
            CounterEntry(name="misses_per_mib", unit="1/MiB"),
        ),
    )
    figures = (
        Line(x="pages", colour="stride", dash="agent", facet="allocator", log_x=True, log_y=True,
             x_title="pages", y_title="time per load", where={"method": "chase"}),
        Line(x="pages", y="translated_ns", colour="stride", dash="agent", facet="allocator", log_x=True,
             log_y=True, x_title="pages", y_title="load with translation, ns", levels="tlb",
             where={"method": "chase"}, title="Time per load from the first cache, with its translation"),
        Bar(x="allocator", y="misses_per_mib", y_title="dTLB load misses per MiB of triad",
            where={"method": "counter"}),
    )  # fmt: skip

    counting = CountingRules(
        why_not=lambda factors: (
            "method=counter reads the processor's counter itself" if factors["method"] == "counter" else ""
        )
    )

    planning = Planning(
        rules=(
            leave_out("the CPU's accesses to plain host memory are measured on the device cpu", measured_on_cpu=True),
            leave_out("the CPU's counter is read on the device cpu", QUICK, method="counter", runs_kernels=True),
            take("the triad with the counter is always measured", method="counter"),
            take_only("memory that the agent cannot reach is recorded once",
                      of={"reachable": False}, stride=GPU_PAGE, pages=64),
            leave_out("the buffer would be larger than the preset allows", too_large=True),
            # Quick: the curves that find the first level's reach and page.
            leave_out("the quick preset measures one agent", QUICK, first_agent=False),
            take("base and huge pages are measured with the shortest and the longest stride",
                 QUICK, runs_on="host", pages_asked=("policy", "huge"),
                 stride=(BASE_PAGE, HUGE_PAGE)),
            take("kernels on the host's processor get one curve", QUICK, runs_on="processor", main=True,
                 stride=BASE_PAGE),
            take("the device's own memory is measured with two strides",
                 QUICK, runs_on="gpu", main=True, stride=(64 * KiB, GPU_PAGE)),
            take("memory that both agents share gets one curve",
                 QUICK, runs_on="gpu", role=("shared", "page-locked"), common=True,
                 stride=GPU_PAGE),
            leave_out("the quick preset measures the main curves only", QUICK),
            take("the full preset measures every curve", FULL),
            # Standard: three strides in half octaves, two in octaves for other memory, one for the other agent.
            leave_out("the standard preset measures three strides",
                      first_agent=True, main_or_huge=True, stride=(16 * KiB, 256 * KiB)),
            leave_out("adjacent lines are measured at whole octaves",
                      first_agent=True, main_or_huge=True, side_by_side=True,
                      pages=Not(Octave())),
            take("the main curves have every point", first_agent=True, main_or_huge=True),
            leave_out("both agents are the same processor", runs_on="processor", first_agent=False),
            leave_out("page-locked memory is measured for one way of obtaining it",
                      role="page-locked", variant=("call", "caching")),
            leave_out("the other agent is measured with one stride", first_agent=False, stride=Not(BASE_PAGE)),
            leave_out("other allocators are measured with two strides", stride=Not((BASE_PAGE, GPU_PAGE))),
            leave_out("kernels on the host's processor are measured at every second octave",
                      runs_on="processor", pages=Not(Octave(2))),
            leave_out("other allocators are measured at whole octaves", pages=Not(Octave())),
        ),
        properties={
            "too_large": _is_too_large,
            "pages_asked": lambda candidate: requested_pages(candidate.factors.text("allocator")),
            "main_or_huge": _is_main_or_huge,
            "side_by_side": lambda candidate: candidate.factors["stride"] == line_bytes(candidate.device),
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        whole = [1 << k for k in range(*(QUICK_OCTAVES if preset == "quick" else OCTAVES))]
        counts = whole if preset == "quick" else sorted({*whole, *(n * 3 // 2 for n in whole[:-1])})
        return [
            Factor(
                "method",
                ("chase", "counter"),
                doc="timed loads, or the processor's count of misses",
            ),
            Factor("agent", agents(device), doc="who loads"),
            allocator_factor(device),
            Factor(
                "stride",
                (None, line_bytes(device), *STRIDES),
                "size",
                least=8,
                most=GiB,
                multiple=8,
                doc="bytes from one visited line to the next",
            ),
            Factor(
                "pages",
                (None, *counts),
                "count",
                least=1,
                most=MAX_PAGES,
                doc="lines visited, each on a separate page",
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        lacks = (factors["stride"] is None, factors["pages"] is None)
        if factors["method"] == "counter" and (factors["agent"] != "cpu" or not all(lacks)):
            return Meaningless("method=counter is for the CPU alone, and takes neither stride nor pages")
        if factors["method"] == "chase" and any(lacks):
            return Meaningless("method=chase needs a stride and pages")
        return unreachable(device, factors.text("allocator"), factors.text("agent"))

    def measure(self, point: Point, session: Session) -> Measurement:
        if point["method"] == "counter":
            return self._count_misses(point.text("allocator"), session)
        stride, pages = point.size("stride"), point.count("pages")
        line = line_bytes(session.info)
        apart = node_stride(stride, line)
        agent, allocator = point.text("agent"), point.text("allocator")

        def chase(buffer: _core.Buffer, apart: int, share: float, counted: bool = False) -> _core.Outcome:
            return _core.chase(
                session.device,
                buffer,
                agent=agent,
                first_touch=agent,
                stride=apart,
                hops=loads_per_sample(session.info),
                last_level_bytes=last_level_bytes(session.info),
                bypass_l1=True,  # a GPU's first cache is addressed before translation: its sets would add knees
                seed=session.seed,
                stop=session.stop(share=share, counted=counted),
            )

        def dense(lines: int) -> _core.Outcome:
            with session.device.allocate(allocator, lines * line) as buffer:
                return chase(buffer, line, 0.2)

        floor, beside = dense(FLOOR_LINES), dense(pages)
        with session.device.allocate(allocator, pages * apart) as buffer:
            outcome = chase(buffer, apart, 0.6, counted=True)
            fact = buffer_fact("chase", buffer)
        median, floor_ns, dense_ns = (_core.summarise(o.samples)[1] for o in (outcome, floor, beside))
        floor_ns = min(floor_ns, dense_ns, median)  # if launches are timed, one may be slow
        over = median - dense_ns
        return Measurement.of(
            outcome,
            checked=(floor, beside),
            buffers=[fact],
            counters={
                "dense_ns": dense_ns,
                "over_dense_ns": over,
                "translated_ns": floor_ns + max(0.0, over),
                "node_stride": apart,
            },
        )

    @staticmethod
    def _count_misses(allocator: str, session: Session) -> Measurement:
        outcome = _core.counted_triad(
            session.device,
            allocator=allocator,
            bytes=ARRAY,
            seed=session.seed,
            stop=session.stop(max_samples=100),
        )
        return Measurement.of(
            outcome, keep=(), counters={"misses_per_mib": outcome.counters["per_mib"], "array_bytes": ARRAY}
        )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        curves = _curves(records)
        knees = {curve: _knees(by_stride) for curve, by_stride in curves.items()}
        with_knees = {curve: curve_knees for curve, curve_knees in knees.items() if curve_knees}
        shown = []
        for agent in dict.fromkeys(agent for agent, _ in curves):
            of_agent = {curve: by_stride for curve, by_stride in curves.items() if curve[0] == agent}
            main = max(
                (curve for curve in of_agent if curve in with_knees),
                key=lambda curve: _point_count(curves[curve]),
                default=None,
            )
            shown += _reach_findings(curves[main], knees[main]) if main else _no_level_findings(of_agent)
        return [*shown, *_entry_findings(curves, with_knees), *_miss_findings(records)]


_CHASE = ("method", "pages")
_REACH = ("tlb.reach", "TLB reach for loads by the {agent} from {allocator} memory, one every {stride}:")
REACH = Claim(_REACH[0], "{level} {value} ({bytes}), beyond which a load takes {extra} more", _REACH[1], _CHASE)
ENTRY = Claim(
    "tlb.entry",
    "{bound} {value} of {allocator} memory",
    "one entry of the first-level TLB covers, for the {agent}:",
    (*_CHASE, "stride"),
)
NO_KNEE = Claim(
    "tlb.none",
    "no TLB level of the {agent} ends within {value} of {allocator} memory, one every {stride} ({bytes})",
    names=_CHASE,
)
MISSES = Claim("tlb.misses", "{value} with {allocator} memory", "dTLB misses of a triad's loads:", ("method", "agent"))


def _curves(records: Iterable[Record]) -> Curves:
    """Returns the records of chases whose stride is at least a page."""
    curves: Curves = defaultdict(lambda: defaultdict(dict))
    for record in records:
        cost, stride, pages = (record.counters.get("translated_ns"), *map(record.factors.get, ("stride", "pages")))
        if isinstance(cost, float) and isinstance(stride, int) and isinstance(pages, int) and stride >= BASE_PAGE:
            curves[record.text("agent"), record.text("allocator")][stride][pages] = record
    return curves


def _knees(by_stride: Mapping[int, Mapping[int, Record]]) -> dict[int, list[Knee]]:
    """Returns the knees of the curves that have any, by ascending stride."""
    costs = {stride: {n: r.counter("translated_ns") for n, r in curve.items()} for stride, curve in by_stride.items()}
    knees_of = {stride: find_knees(list(curve), list(curve.values())) for stride, curve in sorted(costs.items())}
    return {stride: knees for stride, knees in knees_of.items() if knees}


def _reach_findings(by_stride: Mapping[int, Mapping[int, Record]], knees: Mapping[int, list[Knee]]) -> list[Finding]:
    """Where each level ends, on the curve with the smallest stride that has a knee."""
    stride, levels = next(iter(knees.items()))
    curve = by_stride[stride]
    return [
        finding(
            REACH,
            [curve[knee.pages], curve[knee.following]],
            Quantity(knee.pages, "pages", knee.pages, knee.following),
            details={"bytes": Quantity(knee.pages * stride, "B"), "extra": Quantity(knee.after - knee.before, "ns")},
            level=knee_name(i),
        )
        for i, knee in enumerate(levels)
    ]


def _entry_findings(curves: Curves, knees: Mapping[tuple[str, str], Mapping[int, list[Knee]]]) -> list[Finding]:
    """How much memory one entry of the first level covers, by agent and allocator."""
    covered: dict[tuple[str, EffectivePage], list[str]] = defaultdict(list)
    for (agent, allocator), by_stride in knees.items():
        if page := effective_page({stride: levels[0].pages for stride, levels in by_stride.items()}):
            covered[agent, page].append(allocator)
    return [
        finding(
            ENTRY,
            [r for name in names for curve in curves[agent, name].values() for r in curve.values()],
            Quantity(page.bytes, "B"),
            agent=agent,
            allocator=tuple(names),
            bound=page.bound,
        )
        for (agent, page), names in sorted(covered.items(), key=lambda item: item[0][0], reverse=True)
    ]


def _point_count(by_stride: Mapping[int, Mapping[int, Record]]) -> int:
    return sum(map(len, by_stride.values()))


def _no_level_findings(curves: Curves) -> list[Finding]:
    """The largest buffer without a knee, in the memory with the most points."""
    strides = max(curves.values(), key=_point_count)
    stride = max(strides, key=lambda stride: stride * max(strides[stride]))
    pages = max(strides[stride])
    details = {"bytes": Quantity(pages * stride, "B")}
    return [finding(NO_KNEE, strides[stride][pages], Quantity(pages, "pages"), details=details)]


def _miss_findings(records: Iterable[Record]) -> list[Finding]:
    return [finding(MISSES, r, value) for r in records if (value := counter(r, "misses_per_mib", "per MiB"))]
