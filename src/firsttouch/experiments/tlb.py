"""tlb: how far the translation caches reach, and how much memory one of their entries covers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from firsttouch import _core
from firsttouch.analysis.tlb import Knee, effective_page, find_knees, knee_name
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    BASE_PAGE,
    GiB,
    KiB,
    MiB,
    agents,
    allocator_names,
    buffer_fact,
    last_level_bytes,
    line_bytes,
    main_allocator,
    measured_on_cpu,
    unreachable,
    whole_octave,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_size

PAGES = (4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 2 * MiB)
QUICK_OCTAVES, OCTAVES = (3, 15), (2, 17)
"""Pages visited, as the first power of two and the first beyond the last. Three points that agree are a level."""
FLOOR_LINES = 8
"""Lines whose repeated reading the first cache and the first TLB hold on any processor."""
HOPS = {"cpu": 50_000, "opencl": 100_000}
FEW_HOPS = 20_000
"""Loads a sample, by kind of device; few where a device has a clock and its loads take long."""
ARRAY = 16 * MiB
"""Bytes of each array of the counted triad."""

Curves = dict[tuple[str, str], dict[int, dict[int, float]]]
"""By agent and allocator, by stride, by pages: the time of a load from the first cache with its translation."""


def distance(stride: int, line: int) -> int:
    """Bytes from one visited line to the next, for a page stride.

    A line more than the stride, so that the lines spread over the sets of the caches; and all smaller page sizes
    more, so that pages of each of those sizes spread over the sets of the TLBs.
    """
    return line if stride <= line else stride + sum(page for page in PAGES if page < stride) + line


def largest_bytes(device: DeviceInfo, allocator: str, preset: Preset) -> int:
    """The most that a buffer of strides may span; managed memory and memory of the host less than the device's own."""
    if device.kind == "opencl":
        return {"quick": 64 * MiB, "standard": 256 * MiB, "full": GiB}[preset]
    if device.kind == "cpu":
        return {"quick": 256 * MiB, "standard": GiB, "full": 4 * GiB}[preset]
    entry = device.allocator(allocator)
    if entry is not None and (entry.host_memory or entry.managed):
        return {"quick": 256 * MiB, "standard": 256 * MiB, "full": 2 * GiB}[preset]
    return {"quick": 8 * GiB, "standard": 32 * GiB, "full": 64 * GiB}[preset]


class Tlb(Experiment):
    """One line on each of ever more pages, in random order.

    Source: multichase (pointer chase); Saavedra and Smith, IEEE Trans. Computers 44(10), 1995 (knees by stride).
    """

    name = "tlb"
    order = 15
    question = "How much memory do the translation caches reach, and how much of it does one entry cover?"
    unit = "ns"
    better = "lower"
    counted = (
        "method chase: one dependent load, averaged over 20,000 or more along a random cycle through one line on each "
        "of `pages` pages, `stride` bytes apart, after a warm traversal. dense_ns is the same over as many lines side "
        "by side, over_dense_ns the difference: what the translation costs. translated_ns is that added to a load "
        "from the first cache: a GPU's loads pass its first-level one, which needs no translation. method counter: "
        "the time of a triad by one CPU thread per 64 bytes of its arrays; misses_per_mib are its dTLB load misses by "
        "the processor's own counter."
    )
    source = "pointer chase as in multichase; Wahlgren et al., IISWC 2025, Sec. III-B (misses by allocator)"
    figures = (
        Figure(kind="line", x="pages", colour="stride", dash="agent", facet="allocator", log_x=True, log_y=True,
               x_title="pages", y_title="time per load", where={"method": "chase"}),
        Figure(kind="line", x="pages", y="translated_ns", colour="stride", dash="agent", facet="allocator", log_x=True,
               log_y=True, x_title="pages", y_title="first-cache load with its translation (ns)", levels=True,
               level_names="tlb", where={"method": "chase"}),
        Figure(kind="bar", x="allocator", y="misses_per_mib", y_title="dTLB load misses per MiB of triad",
               where={"method": "counter"}),
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        whole = [1 << k for k in range(*(QUICK_OCTAVES if preset == "quick" else OCTAVES))]
        counts = whole if preset == "quick" else sorted({*whole, *(n * 3 // 2 for n in whole[:-1])})
        return [
            Factor("method", ("chase", "counter"), choices=("chase", "counter")),
            Factor("agent", agents(device), choices=agents(device), doc="who loads"),
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("stride", (None, line_bytes(device), *PAGES), "size", doc="one line in every so many bytes"),
            Factor("pages", (None, *counts), "count", doc="lines visited, each on a page of its own"),
        ]

    def drop(self, factors: Factors) -> bool:
        """The counted triad is of the CPU alone, and has neither stride nor pages."""
        lacks = (factors["stride"] is None, factors["pages"] is None)
        if factors["method"] == "counter":
            return factors["agent"] != "cpu" or not all(lacks)
        return any(lacks)

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["pages"] == 0:
            return "no pages to visit"
        if isinstance(stride := factors["stride"], int) and stride % 8 != 0:
            return f"a stride is whole words of 8 bytes, which {stride} is not"
        return unreachable(device, str(factors["allocator"]), str(factors["agent"]))

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """Quick: the curves that find the first level's reach and page. Standard: three strides in half octaves for the
        main allocator and huge pages, two strides in octaves for the others, one for the other agent. Nothing larger
        than the preset's buffers.
        """
        agent, allocator = str(factors["agent"]), str(factors["allocator"])
        if measured_on_cpu(device, allocator, agent):
            return True
        first = agent == agents(device)[0]
        if factors["method"] == "counter":
            return preset == "quick" and device.kind != "cpu"
        stride, pages = int(str(factors["stride"])), int(str(factors["pages"]))
        if unreachable(device, allocator, agent):
            return (stride, pages) != (PAGES[-1], 64)  # the reason once is enough
        if stride * pages > largest_bytes(device, allocator, preset):
            return True
        if preset == "quick":
            return not first or stride not in self._quick_strides(device, allocator)
        if preset == "full":
            return False
        if first and allocator in (main_allocator(device), "malloc-thp"):
            return stride in (16 * KiB, 256 * KiB) or (stride == line_bytes(device) and not whole_octave(pages))
        if device.kind == "opencl" and not first:
            return True  # of the same processor
        if allocator in ("pinned-wc", "registered"):
            return True  # as pinned
        return stride not in PAGES[:: len(PAGES) - 1][: 1 + first] or not whole_octave(pages, self._every(device))

    @staticmethod
    def _every(device: DeviceInfo) -> int:
        """Of how many octaves one is taken of curves that are not the main one."""
        return 2 if device.kind == "opencl" else 1

    @staticmethod
    def _quick_strides(device: DeviceInfo, allocator: str) -> tuple[int, ...]:
        if device.kind == "cpu":
            return {"malloc": (PAGES[0], PAGES[-1]), "malloc-thp": (PAGES[0], PAGES[-1])}.get(allocator, ())
        if device.kind == "opencl":
            return (PAGES[0],) if allocator == main_allocator(device) else ()
        return {"device": (64 * KiB, PAGES[-1]), "managed": PAGES[-1:], "pinned": PAGES[-1:]}.get(allocator, ())

    def measure(self, point: Point, session: Session) -> Measurement:
        if point["method"] == "counter":
            return self._count(str(point["allocator"]), session)
        stride, pages = int(str(point["stride"])), int(str(point["pages"]))
        line = line_bytes(session.info)
        apart = distance(stride, line)
        agent, allocator = str(point["agent"]), str(point["allocator"])

        def chase(buffer: _core.Buffer, apart: int, share: float) -> _core.Outcome:
            return _core.chase(
                session.device,
                buffer,
                agent=agent,
                first_touch=agent,
                stride=apart,
                hops=HOPS.get(session.info.kind, FEW_HOPS),
                last_level=last_level_bytes(session.info),
                past_l1=True,  # a GPU's first cache is addressed before translation, and its sets would show
                seed=session.seed,
                stop=session.stop(share=share),
            )

        def dense(lines: int) -> _core.Outcome:
            with session.device.allocate(allocator, lines * line) as buffer:
                return chase(buffer, line, 0.2)

        floor, beside = dense(FLOOR_LINES), dense(pages)
        with session.device.allocate(allocator, pages * apart) as buffer:
            outcome = chase(buffer, apart, 0.6)
            fact = buffer_fact("chase", buffer)
        median, floor_ns, dense_ns = (_core.summarise(o.samples)[1] for o in (outcome, floor, beside))
        floor_ns = min(floor_ns, dense_ns, median)  # where loads are timed by launches, one may be slow
        over = median - dense_ns
        return Measurement(
            samples=outcome.samples,
            verified=outcome.errors + floor.errors + beside.errors == 0,
            stopped_by=outcome.stopped_by,
            counters={
                **outcome.counters,
                "dense_ns": dense_ns,
                "over_dense_ns": over,
                "translated_ns": floor_ns + max(0.0, over),
                "node_stride": apart,
            },
            buffers=[fact],
        )

    @staticmethod
    def _count(allocator: str, session: Session) -> Measurement:
        outcome = _core.counted_triad(
            session.device,
            allocator=allocator,
            bytes=ARRAY,
            seed=session.seed,
            stop=session.stop(max_samples=100),
        )
        return Measurement(
            samples=outcome.samples,
            verified=outcome.errors == 0,
            stopped_by=outcome.stopped_by,
            counters={"misses_per_mib": outcome.counters["per_mib"], "array_bytes": ARRAY},
        )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        records = list(records)
        curves = _curves(records)
        knees = {
            who: {stride: find_knees(list(curve), list(curve.values())) for stride, curve in sorted(by_stride.items())}
            for who, by_stride in curves.items()
        }
        found = [who for who in knees if any(knees[who].values())]
        sentences = []
        if found:
            main = max(found, key=lambda who: sum(map(len, curves[who].values())))
            sentences.append(_reach_in_words(*main, knees[main]))
        covered: dict[str, list[str]] = defaultdict(list)
        for agent, allocator in found:
            if page := effective_page({stride: k[0].pages for stride, k in knees[agent, allocator].items() if k}):
                covered[str(page)].append(allocator if agent == main[0] else f"{allocator} ({agent})")
        if covered:
            words = "; ".join(f"{page} of {', '.join(names)}" for page, names in covered.items())
            sentences.append(f"One entry of the first covers {words}")
        misses = {str(r.factors["allocator"]): r.counters.get("misses_per_mib") for r in records}
        counted = [f"{name} {n:.4g}" for name, n in misses.items() if isinstance(n, float)]
        if counted:
            sentences.append(f"dTLB load misses per MiB of triad: {', '.join(counted)}")
        if not sentences:
            return "Within the pages that were visited no translation cache ended."
        return ". ".join(sentences) + "."


def _curves(records: Iterable[Record]) -> Curves:
    curves: Curves = defaultdict(lambda: defaultdict(dict))
    for record in records:
        cost, stride, pages = (record.counters.get("translated_ns"), *map(record.factors.get, ("stride", "pages")))
        if isinstance(cost, float) and isinstance(stride, int) and isinstance(pages, int) and stride >= BASE_PAGE:
            curves[str(record.factors["agent"]), str(record.factors["allocator"])][stride][pages] = cost
    return curves


def _reach_in_words(agent: str, allocator: str, by_stride: Mapping[int, list[Knee]]) -> str:
    """'The cpu on malloc: L1 TLB up to 64 pages 4 KiB apart (256 KiB), then 1.7 ns more; ...' of the least stride."""
    stride, knees = next((stride, knees) for stride, knees in by_stride.items() if knees)
    levels = [
        f"{knee_name(i)} up to {knee.pages} pages {format_size(stride)} apart ({format_size(knee.pages * stride)}), "
        f"then {knee.after - knee.before:.3g} ns more"
        for i, knee in enumerate(knees)
    ]
    return f"The {agent} on {allocator}: {'; '.join(levels)}"
