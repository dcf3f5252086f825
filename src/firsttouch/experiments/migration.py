"""migration: passes of a kernel over data that began on the other side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.base import (
    Candidate,
    CountingRules,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
    ReportSection,
    WorkerRules,
)
from firsttouch.experiments.contract.common import GiB, KiB, MiB, allocator_names, unreachable
from firsttouch.experiments.contract.meanings import AGENTS, EVENTS, HARDWARE
from firsttouch.experiments.contract.modelled import device_of, known_prices, predicted, usual_only
from firsttouch.experiments.contract.presets import (
    FULL,
    QUICK,
    SHORT,
    THOROUGH,
    Count,
    Not,
    leave_out,
    take,
    take_only,
    varied_from,
)
from firsttouch.experiments.contract.rules import NOTHING, Preset
from firsttouch.experiments.views.migration import RATIO, migration_findings, ratio_findings
from firsttouch.machine.allocators.properties import (
    is_charged_to_device,
    may_oversubscribe,
    memory_of,
    role,
    shared_or_main_allocator,
    variant,
)
from firsttouch.model.micro.passes import MigrationPasses, managed_settings, passes, recorded_moves
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.touches import LINE, TOUCHES
from firsttouch.profile.counters.tool import COUNTED_ELSEWHERE
from firsttouch.profile.events import unseen
from firsttouch.profile.events.log import VARIABLE
from firsttouch.profile.events.steps import event_counters
from firsttouch.program.execution.ballast import Ballast, why_not_beside_ballast
from firsttouch.program.guidance import ADVICE_PAIRS, SINGLE_ADVICE
from firsttouch.program.least_moves import IN_PLACE, must_move
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource, Traffic, Words
from firsttouch.records.figures import Bar, Figure, Line, Table
from firsttouch.records.findings import Finding
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors, Metric, Record, Scalar, as_number
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform


SPARSE = ("per-4KiB", "per-64KiB", "per-2MiB")
PREFETCHES = {"none": ("none", 1), "whole": ("whole", 1), "iteration": ("iteration", 1), "back": ("back", 1),
              "streams-2": ("whole", 2), "streams-4": ("whole", 4)}  # fmt: skip
_PREFETCHED = ("whole", "back", "streams-2", "streams-4")
"""Prefetches of the whole buffer, which cross the link once."""
DUPLICATING = tuple(advice for advice in (*SINGLE_ADVICE, *ADVICE_PAIRS) if "read-mostly" in advice)
"""Advice after which each agent may have a copy of a page."""
IN_ORDER = {"touch", "order"}
VARIANTS: Mapping[str, Sequence[str]] = {"host": ("",), "page-locked": ("", "call"), "device": ("",)}
"""The measured variants of memory that does not migrate, by role."""
BASE: dict[str, Scalar] = {"touch": "dense", "order": "parallel", "advice": "none", "prefetch": "none",
                           "starts_on": "cpu", "operation": "update"}  # fmt: skip
"""The base point but for its allocator."""
ITERATIONS, MAX_ITERATIONS = 12, 10**4


def _price_by(price: str, by: Words | None = None, names: Words | None = None, **varied: Scalar) -> PriceSource:
    """Points without ballast and events that differ from the base point in what is varied; None: in any value."""
    by = {"allocator": "allocator", **(by or {})}
    usual: dict[str, Scalar] = BASE | {"events": "off"} | varied
    where = {name: value for name, value in usual.items() if value is not None and name not in by.values()}
    return PriceSource(price=price, where={**where}, by=by, names={"bytes": "size", **(names or {})}, without=[RATIO])


_PASSES = {"first_ms": "iteration_0_ms", "later_ms": "iteration_{}_ms", "passes": "iterations"}
_COUNTED = _PASSES | {"count": "touched"}
_PRICES = (
    _price_by("moving_touch", names={"ms": "initialise_ms"}, operation=None),
    _price_by("gpu_fault", {"advice": "advice", "operation": "operation", "touch": "touch"}, _PASSES),
    _price_by("gpu_touch", names=_PASSES | {"first_ms": "initialise_ms"}, starts_on="gpu", operation=None),
    _price_by("cpu_fault", names={"ms": "cpu_read_ms"}),
    _price_by("prefetch", names={"ms": "prefetch_ms"}, prefetch="whole", operation=None),
    _price_by("prefetch_back", names={"ms": "prefetch_back_ms"}, prefetch="back", operation=None),
    _price_by("advise", {"advice": "advice"}, {"ms": "advise_ms"}, operation=None),
    _price_by("isolated_fault", names=_COUNTED, touch="per-2MiB", order="sequential", operation=None),
    _price_by("in_order_touch", {"touch": "touch"}, _COUNTED, order="sequential", operation=None),
    _price_by("placements", names={"advice": "advice"}, advice=None),
    _price_by("pages_there", names={"moving_touch": "initialise_ms", "cpu_fault": "cpu_read_ms"}, operation=None),
)


def base_point(device: DeviceInfo) -> dict[str, Scalar]:
    """Returns the point around which conditions are varied one at a time."""
    return {"allocator": shared_or_main_allocator(device), **BASE}


def measured_allocators(device: DeviceInfo) -> list[str]:
    """Returns all allocators whose pages may move, then those in VARIANTS."""
    moving = [entry.name for entry in device.allocators if memory_of(entry) == "migrating"]
    not_moving = [name for name in allocator_names(device) if name not in moving]
    staying = [
        name
        for wanted_role, variants in VARIANTS.items()
        for name in not_moving
        if role(name) == wanted_role and variant(name) in variants
    ]
    return moving + staying


def _is_copied(device: DeviceInfo, allocator: str) -> bool:
    """True for device memory, to which the whole buffer is copied instead of migrated: the reference."""
    entry = device.allocator(allocator)
    return entry is not None and memory_of(entry) == "device"


def _is_smallest_size(candidate: Candidate) -> bool:
    return candidate.factors["size"] == sizes(candidate.device, candidate.preset)[0]


def sizes(device: DeviceInfo, preset: Preset) -> list[int]:
    if device.capabilities.shares_host_memory:  # nothing moves there
        return [16 * MiB if preset == "quick" else 64 * MiB]
    return {"quick": [64 * MiB], "standard": [256 * MiB, GiB], "full": [256 * MiB, GiB]}[preset]


def varied(factors: Factors, device: DeviceInfo) -> list[str]:
    """The factors in which a point differs from the base point."""
    return [name for name, value in base_point(device).items() if factors[name] != value]


def case_of(factors: Factors, device: DeviceInfo) -> str:
    """Describes a point: the allocator at the base point, otherwise what differs from it."""
    words = {"prefetch": "prefetch {}", "starts_on": "starts on {}", "operation": "{} only"}
    differences = [words.get(name, "{}").format(factors[name]) for name in varied(factors, device)]
    if RATIO in factors:
        differences = [*(differences or [factors.text("allocator")]), f"ratio {factors.number(RATIO):g}"]
    return ", ".join(differences) or factors.text("allocator")


def _point_counters(factors: Factors, device: DeviceInfo) -> dict[str, Scalar]:
    """The counters that say which point it is."""
    names = varied(factors, device) + [RATIO] * (RATIO in factors)
    return {
        "case": case_of(factors, device),
        "family": ", ".join(names) or "base",
        "base": "allocator" not in names,
        "touched": TOUCHES[factors.text("touch")].places(factors.size("size")),
    }


def _base_point_except(*free: str) -> dict[str, Scalar]:
    """Returns the conditions of a figure: those of the base point except the named ones."""
    kept = {name: value for name, value in BASE.items() if name not in free}
    return {**kept, "events": "off", **({} if "allocator" in free else {"base": True})}


_EVENTS: Sequence[Figure] = (
    Bar(x="case", y="compute_h2d_bytes", colour="case", where={"events": "on"},
        y_title="bytes moved to the device by all passes", title="Bytes moved to the device by all passes"),
    Bar(x="case", y="compute_gpu_fault_groups", colour="case", where={"events": "on"},
        y_title="fault groups of the device in all passes", title="Fault groups of the device in all passes"),
    Table(where={"events": "on"},
          columns=("case", "median", "touched", "compute_h2d_bytes", "compute_gpu_fault_groups",
                   "bytes_per_touch", "smallest_record", "largest_record", "record_multiple", "cpu_read_d2h_bytes",
                   "cpu_read_cpu_faults")),
)  # fmt: skip


class Migration(Experiment):
    """Passes of a kernel over data of the other side. Source: Schieffer et al., ICPP 2024; Chien et al. 2019."""

    name = "migration"
    order = 55
    question = "What do repeated passes over data that starts on the other side cost, and what moves?"
    metric = Metric("ms", "lower")
    counted = (
        "All passes of one repetition on a new buffer, each by the device's clock, plus by the host's clock the "
        "advice, the prefetch and, for allocator device, the copy to it that precede them. Not included: the "
        "initialisation, and the CPU's read of all words at the end, which includes the move back (counter "
        "cpu_read_ms), nor a prefetch back to the CPU before it (prefetch_back_ms). iteration_N_ms are medians over "
        "repetitions. A pass adds one to every word it touches (update) or sums them (read). Every word is checked "
        "after every repetition."
    )
    source = "Schieffer et al., ICPP 2024, Sec. 6 (12 iterations); Chien et al., MCHPC 2019 (advice and prefetch)"
    codebook = Codebook(
        between_memories=True,
        factors={
            "allocator": {},
            "touch": {
                "dense": "every byte",
                "eighth": "one line in eight",
                "random": "every line, in random order",
                "per-4KiB": "8 bytes in every 4 KiB",
                "per-64KiB": "8 bytes in every 64 KiB",
                "per-2MiB": "8 bytes in every 2 MiB",
            },
            "order": {"parallel": "by all threads", "sequential": "in order by one thread"},
            "advice": dict.fromkeys(("none", *SINGLE_ADVICE, *ADVICE_PAIRS), ""),
            "prefetch": {
                "none": "no prefetch",
                "whole": "of the whole buffer before the passes",
                "iteration": "before each pass",
                "back": "to the CPU after the passes",
                "streams-2": "of the whole buffer in two streams",
                "streams-4": "of the whole buffer in four streams",
            },
            "starts_on": AGENTS,
            "operation": {"update": "adds one to every word", "read": "sums the words"},
            "events": {"off": "no events are recorded", "on": "unified-memory events are recorded"},
            "size": {},
            "iterations": {},
            RATIO: {},
        },
        counters=(
            CounterEntry(name="prefetch_ms", unit="ms", at_most="median", moves="size"),
            CounterEntry(name="prefetch_back_ms", unit="ms", moves="size"),
            CounterEntry(name=r"iteration_\d+_ms|(copy_in|advise)_ms", unit="ms", at_most="median"),
            CounterEntry(name="(initialise|cpu_read)_ms", unit="ms"),
            *EVENTS,
            CounterEntry(
                name=r"touched|record_multiple|bytes_per_touch|ratio_reached|iteration_\d+_gpu_fault_groups", unit=""
            ),
            CounterEntry(name="smallest_record|largest_record|ballast_bytes|free_beside_ballast_bytes", unit="B"),
            CounterEntry(name="case|family|base|same_every_time", unit="word"),
            HARDWARE,
        ),
        base=BASE,
        traffic=(Traffic(where={"starts_on": "cpu", "advice": "none", "prefetch": list(_PREFETCHED)}, through="link"),),
        prices=_PRICES,
    )
    figures = (
        Bar(x="allocator", colour="allocator", log_y=True, where=_base_point_except("allocator"),
            y_title="all passes with what prepares them, ms", title="Time of all passes by memory"),
        Line(series="iteration_{}_ms", x="series", y="value", colour="allocator", log_y=True,
             where=_base_point_except("allocator"), x_title="iteration", y_title="time per pass, ms"),
        Line(series="iteration_{}_ms", x="series", y="value", colour="advice", dash="operation",
             log_y=True, where=_base_point_except("advice", "operation", "starts_on"), facet="starts_on",
             x_title="iteration", y_title="time per pass, ms"),
        Line(series="iteration_{}_ms", x="series", y="value", colour="prefetch", log_y=True,
             where=_base_point_except("prefetch"), x_title="iteration", y_title="time per pass, ms"),
        Line(series="iteration_{}_ms", x="series", y="value", colour="touch", dash="order", log_y=True,
             where=_base_point_except("touch", "order"), x_title="iteration", y_title="time per pass, ms"),
        Bar(x="case", colour="case", log_y=True, where={"events": "off"},
            y_title="all passes with what prepares them, ms", title="Time of all passes, preparation included"),
        *_EVENTS,
    )  # fmt: skip
    ratio_question = "What does it cost that a buffer exceeds the device memory that is free?"
    ratio_figures = (
        Line(x=RATIO, colour="allocator", log_y=True, x_title="bytes of the buffer for each byte left free",
             y_title="all passes with what prepares them, ms",
             title="Time of all passes over the ratio of the buffer to the device memory left free"),
        Line(series="iteration_{}_ms", x="series", y="value", colour=RATIO, facet="allocator", log_y=True,
             x_title="iteration", y_title="time per pass, ms"),
        *_EVENTS,
    )  # fmt: skip
    """The question and the figures of points with ballast."""

    counting = CountingRules(why_not=lambda factors: COUNTED_ELSEWHERE if factors["events"] == "on" else "")

    worker = WorkerRules(environment=lambda factors: {VARIABLE: "1" if factors["events"] == "on" else "0"})
    without_effect = {
        "sdma": "the driver moves pages by engines of its own",
        "xnack": "where the GPU cannot use memory there are no points; elsewhere passes are predicted alike",
    }
    planning = Planning(
        switches_of=("memory", "copies"),
        rules=(
            leave_out("on the host's processor no page moves, so atomics make no difference",
                      runs_on="processor", role="shared", variant="coherence", coherent=True),
            take_only("what cannot be measured is recorded once", of={"skipped": True},
                      varied={"allocator"}, events="off", least=True),
            # A store to a duplicated page ends the copy: a pass over 64 MiB takes half a second on an H200.
            leave_out("updates of duplicated pages take too long for this preset",
                      SHORT, advice=DUPLICATING, operation="update"),
            leave_out("events are recorded at the smallest size only", least=False, events="on"),
            leave_out("larger sizes are measured at the base point only",
                      SHORT, least=False, varied=Not(NOTHING), copied=False),
            # If the driver moves nothing, its refusal is recorded, once for each kind of request.
            take_only("the driver moves no pages here, so its refusal is recorded once for each kind of request",
                      of={"pages_move": False, "events": "on"}, varied=NOTHING),
            take_only("the driver moves no pages here, so its refusal is recorded once for each kind of request",
                      of={"pages_move": False, "advice": Not("none")},
                      varied={"advice"}, advice=SINGLE_ADVICE[0]),
            take_only("the driver moves no pages here, so its refusal is recorded once for each kind of request",
                      of={"pages_move": False, "prefetch": Not("none")},
                      varied={"prefetch"}, prefetch="whole"),
            take("events are recorded after a prefetch", QUICK, events="on", varied={"prefetch"}, prefetch="whole"),
            take_only("events are recorded at the base point and for touches in order",
                      QUICK, of={"events": "on"}, varied=(NOTHING, IN_ORDER)),
            take_only("events are recorded in managed memory with one condition varied", THOROUGH, of={"events": "on"},
                      varied=(NOTHING, IN_ORDER, *({name} for name in BASE))),
            take("the base point is always measured", varied=NOTHING),
            take("sparse touches in order are always measured", varied=IN_ORDER),
            take("each kind of memory is measured at the base point", QUICK, varied={"allocator"}, role="shared"),
            take("each kind of memory is measured at the base point", QUICK, varied={"allocator"}, common=True),
            take("conditions are varied one at a time", QUICK, varied={"touch"}, touch=("eighth", "random")),
            take("conditions are varied one at a time", QUICK, varied={"advice"}, advice=SINGLE_ADVICE),
            take("conditions are varied one at a time", QUICK, varied={"prefetch"},
                 prefetch=("whole", "iteration", "back")),
            take("conditions are varied one at a time", QUICK, varied=({"order"}, {"starts_on"}, {"operation"})),
            take("conditions are varied one at a time", THOROUGH, varied=Count(1)),
            take("duplicated pages are measured with reads", QUICK, varied={"advice", "operation"},
                 advice="read-mostly"),
            take("each advice is measured with reads", THOROUGH, varied={"advice", "operation"}),
            take("each advice is measured with data that start on the GPU",
                 THOROUGH, varied={"advice", "starts_on"}, advice=SINGLE_ADVICE),
            take("the full preset varies two conditions at a time", FULL, least=True,
                 varied=Count(2, uncounted={"order"})),
            leave_out("the preset varies one condition at a time, and two where they belong together"),
        ),
        properties={
            "least": _is_smallest_size,
            "copied": lambda candidate: _is_copied(candidate.device, candidate.factors.text("allocator")),
            "pages_move": lambda candidate: _has_migrating_memory(candidate.device),
            "varied": varied_from(base_point),
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if not device.capabilities.runs_kernels:
            raise Unsupported("migration needs a device that runs kernels")
        advices = ("none", *SINGLE_ADVICE, *ADVICE_PAIRS)
        return [
            Factor("allocator", measured_allocators(device), choices=allocator_names(device),
                   doc="how the memory is obtained"),
            Factor("touch", tuple(TOUCHES), doc="which bytes a pass touches"),
            Factor("order", ("parallel", "sequential"), doc="by all threads, or in order by one"),
            Factor("advice", advices, doc="advice to the driver after the initialisation"),
            Factor("prefetch", tuple(PREFETCHES),
                   doc="none; of the whole buffer before the passes, in one or more streams, or before each pass; or "
                       "back to the CPU after them"),
            Factor("starts_on", ("cpu", "gpu"), doc="who initialises"),
            Factor("operation", ("update", "read"), doc="what a pass does"),
            Factor("events", ("off", "on"), doc="whether unified-memory events are recorded"),
            Factor("size", sizes(device, preset), "size", least=LINE, multiple=8, doc="bytes of the buffer"),
            Factor("iterations", (ITERATIONS,), "count", least=1, most=MAX_ITERATIONS, doc="passes"),
            Factor(RATIO, (), "ratio", optional=True,
                   doc="bytes of the buffer for each byte that a ballast allocation leaves free on the device"),
        ]  # fmt: skip

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["order"] == "sequential" and factors["touch"] not in SPARSE:
            return Meaningless(f"order=sequential needs a sparse touch: {', '.join(SPARSE)}")
        allocator, size = factors.text("allocator"), factors.size("size")
        stride = TOUCHES[factors.text("touch")].stride
        if size < stride:
            return f"a pass touches one place in every {format_size(stride)}, so size must be at least that"
        agents = ("gpu",) if _is_copied(device, allocator) else ("gpu", "cpu")
        if reason := unreachable(device, allocator, *agents):
            return reason
        entry = device.allocator(allocator)
        guided = factors["advice"] != "none" or factors["prefetch"] != "none"
        if guided and entry is not None and entry.managed and entry.concurrent is False:
            return "the driver takes no advice or prefetch where CPU and GPU may not use managed memory at once"
        return None if entry is None else _why_too_large(factors, device, entry)

    def measure(self, point: Point, session: Session) -> Measurement:
        device, with_events = session.device, point["events"] == "on"
        touch, size = TOUCHES[point.text("touch")], point.size("size")
        prefetch, streams = PREFETCHES[point.text("prefetch")]
        ballast = Ballast(device, _bytes_left_by_ballast(point.factors))
        with ballast, session.recorded_events().window() if with_events else nullcontext() as window:
            outcome = _core.migration(
                device,
                allocator=point.text("allocator"),
                bytes=size,
                copied=_is_copied(session.info, point.text("allocator")),
                run_bytes=touch.run,
                stride_bytes=touch.stride,
                shuffled=touch.shuffled,
                sequential=point["order"] == "sequential",
                update=point["operation"] == "update",
                advice=[] if point["advice"] == "none" else point.text("advice").split("+"),
                prefetch=prefetch,
                streams=streams,
                starts_on=point.text("starts_on"),
                iterations=point.count("iterations"),
                seed=session.seed,
                stop=session.stop(max_samples=5 if with_events else 50),  # every fault is recorded
            )
        counters: dict[str, Scalar] = {**_point_counters(point.factors, session.info), **ballast.counters}
        if free := as_number(ballast.counters.get("free_beside_ballast_bytes")):
            counters["ratio_reached"] = size / free
        if window is not None:
            counters |= event_counters(window, outcome.repetitions, touch.places(size))
            counters["events_dropped"] = window.dropped + window.unlisted
            least = least_moves(point.factors, session.info)
            counters |= {f"um_least_{way}_bytes": n * len(outcome.repetitions) for way, n in least.items()}
        return Measurement.of(outcome, counters=counters)

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, **{RATIO: None})
        device, advice = device_of(point, platform), point.text("advice")
        asked = MigrationPasses(
            allocator=point.text("allocator"),
            nbytes=point.size("size"),
            touch=point.text("touch"),
            in_order=point["order"] == "sequential",
            advice=() if advice == "none" else tuple(advice.split("+")),
            prefetch=PREFETCHES[point.text("prefetch")][0],
            starts_on=point.text("starts_on"),
            updates=point["operation"] == "update",
            iterations=point.count("iterations"),
        )
        with known_prices():
            measurement = predicted(passes(PlatformPrices(platform), asked, managed_settings(platform), platform))
        measurement.counters |= _point_counters(point.factors, device)
        if point["events"] == "on":
            measurement.counters |= recorded_moves(platform, asked)
        return measurement

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        shares_memory = device is not None and device.capabilities.shares_host_memory
        return [*migration_findings(records, shares_memory=shares_memory), *ratio_findings(records)]

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        """A section on the points without ballast, and one on those with it."""
        usual, with_ballast = ([r for r in records if (RATIO in r.factors) == wanted] for wanted in (False, True))
        of_ratios = {"question": self.ratio_question, "figures": self.ratio_figures, "title": RATIO}
        sections = [
            *([self.section(usual)] if usual else []),
            *([self.section(with_ballast, **of_ratios)] if with_ballast else []),
        ]
        return [
            dataclasses.replace(each, figures=list(map(_note_missing_events(each.records), each.figures)))
            for each in sections
        ]


def _note_missing_events(records: Sequence[Record]) -> Callable[[Figure], Figure]:
    """Adds to figures of events what is known to be missing."""
    note = unseen.note(records, "case")
    return lambda figure: dataclasses.replace(figure, note=note) if figure in _EVENTS else figure


def least_moves(factors: Factors, device: DeviceInfo) -> dict[str, int]:
    """The bytes that the driver must move at least each way in a repetition; empty if nothing has to move."""
    if not must_move(device.allocator(factors.text("allocator")), device):
        return {}
    touch, size, advice = TOUCHES[factors.text("touch")], factors.size("size"), factors.text("advice")
    whole = factors["prefetch"] in _PREFETCHED[:1] + _PREFETCHED[2:] + ("iteration",)
    moved = size if whole else touch.places(size) * min(touch.stride, 4 * KiB)  # pages have 4 KiB or more
    from_cpu = factors["starts_on"] == "cpu"
    to_gpu = 0 if not from_cpu or (IN_PLACE & {*advice.split("+")} and not whole) else moved
    return {"h2d": to_gpu, "d2h": (moved if from_cpu else size) if advice == "none" else 0}


def _bytes_left_by_ballast(factors: Factors) -> int | None:
    """Returns the bytes of device memory that a ballast leaves free, or None if there is no ballast."""
    return int(factors.size("size") / factors.number(RATIO)) if RATIO in factors else None


def _why_too_large(factors: Factors, device: DeviceInfo, entry: AllocatorInfo) -> str | None:
    """Returns why no ballast can leave what the ratio says, or why the buffer exceeds it and may not, or None."""
    if (left := _bytes_left_by_ballast(factors)) is None:
        return None
    needed = factors.size("size") if is_charged_to_device(entry) else 0
    fixed = 0 if may_oversubscribe(entry) else needed
    return why_not_beside_ballast("the buffer needs", device, entry, left, needed=needed, fixed=fixed)


def _has_migrating_memory(device: DeviceInfo) -> bool:
    """True if the device has memory that its driver moves."""
    return any(a.available and a.managed for a in device.allocators)
