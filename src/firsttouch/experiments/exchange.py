"""exchange: a kernel and the CPU use a small buffer alternately, as an iterative program does with a scalar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.experiments.contract.base import Experiment, Factor, Meaningless, Measurement, Planning, Point
from firsttouch.experiments.contract.common import BASE_PAGE, KiB, MiB, allocator_names, unreachable
from firsttouch.experiments.contract.modelled import known_prices, predicted, usual_only
from firsttouch.experiments.contract.presets import FULL, QUICK, THOROUGH, Count, leave_out, take, varied_from
from firsttouch.experiments.contract.rules import NOTHING, Preset
from firsttouch.experiments.migration import measured_allocators
from firsttouch.machine.allocators.properties import (
    is_common,
    main_allocator,
    memory_of,
    role,
    shared_or_main_allocator,
)
from firsttouch.model.micro.turns import turns
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.program.guidance import ADVICE_PAIRS, SINGLE_ADVICE
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource
from firsttouch.records.figures import Bar, Line
from firsttouch.records.findings import Claim, Finding, are_alike, compare_medians, extremes, finding, quantity
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

METHODS = {
    "shared": "the CPU uses the memory of the kernel",
    "prefetched": "as shared, with a prefetch to the device before the kernel and one to the CPU after it",
    "copied": "the device copies between its memory and host memory",
    "launched": "the CPU uses no memory and waits for each kernel",
    "queued": "the CPU uses no memory and waits for the last kernel",
}
ALONE = ("launched", "queued")
"""Methods in which nothing is exchanged: what the kernels alone take."""
BASE: dict[str, Scalar] = {"method": "shared", "kernel": "store", "advice": "none", "operation": "read",
                           "turns": 100, "gap_us": 0, "size": 8}  # fmt: skip
"""The base point but for its allocator."""
WITH_METHOD = {"method", "allocator"}
UPDATES = 2048
"""Atomic additions to each number by a kernel with atomics: one for each thread group, as in a sum over all groups."""
MAX_TURNS, MAX_GAP, MAX_SIZE = 10**5, 10**6, MiB
_TIMES = {name: name for name in ("turn_us", "turn_low_us", "turn_high_us", "first_turn_us", "advise_us")}
_NAMES = {"bytes": "size", "updates": "updates", **_TIMES}
_BY = {name: name for name in ("allocator", "kernel", "operation", "turns", "gap_us")}


def _price_of_method(price: str, method: str, **by: str) -> PriceSource:
    """Points of a method. A parameter that is not given may have any value."""
    return PriceSource(
        price=price, where={"method": method}, by={**_BY, **by}, names={"bytes": "size", "updates": "updates", **_TIMES}
    )


def case_of(factors: Factors, device: DeviceInfo) -> str:
    """Describes a point: its memory at the base point, otherwise what differs from it."""
    base = {"allocator": shared_or_main_allocator(device), **BASE}
    words = {
        "turns": "{} turns",
        "gap_us": "{} us between turns",
        "size": "{} B",
        "operation": "the CPU writes too",
        "kernel": "the kernel uses {}s",
    }
    differences = [
        words.get(name, "{}").format(factors[name]) for name, value in base.items() if factors[name] != value
    ]
    return ", ".join(differences) or factors.text("allocator")


def _why_meaningless(factors: Factors, device: DeviceInfo) -> str:
    allocator, method = factors.text("allocator"), factors.text("method")
    entry = device.allocator(allocator)
    memory = None if entry is None else memory_of(entry)
    guided = factors["advice"] != "none" or method == "prefetched"
    if guided and not (device.capabilities.memory_guidance and memory == "migrating"):
        return "advice and prefetches are about memory that the driver moves, and need a driver that takes them"
    if factors["advice"] != "none" and method != "shared":
        return "advice is measured with method=shared"
    if method == "copied" and memory != "host":
        return "copies are to host memory"
    if method in ALONE and allocator != main_allocator(device):
        return f"method={method} uses {main_allocator(device)} memory"
    if method in ALONE and factors["operation"] != "read":
        return f"the CPU uses no memory with method={method}"
    if method == "queued" and factors["gap_us"] != 0:
        return "queued kernels have no gaps"
    if factors["kernel"] != "store" and method != "shared":
        return "kernels with atomics are measured with method=shared"
    return "" if method != "shared" or memory != "device" else "the CPU does not use device memory in place"


class Turns(Experiment):
    """Round trips between a kernel and one CPU thread through a small buffer. Source: scalars of iterative solvers."""

    name = "exchange"
    order = 57
    question = "How long does a round trip between a kernel and the CPU through a small buffer take?"
    metric = Metric("us", "lower")
    counted = (
        "One round trip (turn), averaged over `turns` of them through a new buffer that the CPU wrote: a kernel adds "
        "one to every word and the CPU waits for it; then one thread reads every word, and with operation=update adds "
        "one. kernel=atomic: 2048 thread groups add one to every word by atomics. method=copied: a copy to host memory "
        "after the kernel, and with update one back. Gaps between turns, in which the CPU is busy, are not included. "
        "turn_us is the median of the turns after the first, turn_N_us that of turn N; kernel_us is the part of a turn "
        "until the CPU has waited, cpu_us the rest. Every word is checked in every turn."
    )
    source = "Chien et al., MCHPC 2019 (conjugate gradients: two scalars per step)"
    codebook = Codebook(
        factors={
            "method": METHODS,
            "allocator": {},
            "advice": dict.fromkeys(("none", *SINGLE_ADVICE, *ADVICE_PAIRS), ""),
            "kernel": {"store": "the kernel loads and stores", "atomic": "thread groups add to them by atomics"},
            "operation": {"read": "the CPU reads the words", "update": "the CPU reads them and adds one to each"},
            "turns": {},
            "gap_us": {},
            "size": {},
        },
        counters=(
            CounterEntry(name=r"turn_low_us|turn_high_us|turn(_\d+)?_us", unit="us"),
            CounterEntry(name="(first_turn|slowest_turn|kernel|cpu|advise)_us", unit="us"),
            CounterEntry(name="updates", unit=""),
            CounterEntry(name="case", unit="word"),
        ),
        base=BASE,
        prices=(
            _price_of_method("exchange", "shared", advice="advice"),
            _price_of_method("prefetched_exchange", "prefetched"),
            _price_of_method("copied_exchange", "copied"),
            _price_of_method("launch", "launched"),
            PriceSource(price="queued_launch", where={"method": "queued"}, by={"turns": "turns"}),
        ),
    )
    figures = (
        Bar(x="case", colour="method", log_y=True, y_title="time per round trip, us",
            title="Time of a round trip by method"),
        Line(series="turn_{}_us", x="series", y="value", colour="allocator", dash="method", log_x=True, log_y=True,
             where={**{name: value for name, value in BASE.items() if name != "method"}},
             x_title="round trip", y_title="time, us", title="Time of each round trip"),
        Line(x="gap_us", colour="turns", dash="advice", log_y=True, x_title="gap between round trips, us",
             y_title="time per round trip, us", where={"method": "shared", "operation": "read", "advice": "none"},
             title="Time of a round trip over the gap between round trips"),
    )  # fmt: skip

    planning = Planning(
        share=0.5,
        setup=0.1,
        switches_of=("memory", "copies"),
        rules=(
            take("the base point is always measured", varied=NOTHING),
            take("kernels alone are measured at the base point", varied=WITH_METHOD, method=ALONE),
            take("each method is measured", QUICK, varied=({"method"}, WITH_METHOD), common=True),
            take("copies both ways are measured", varied={*WITH_METHOD, "operation"}, method="copied", common=True),
            take("conditions are varied one at a time", QUICK, varied={"allocator"}, common=True),
            take("conditions are varied one at a time", QUICK, varied=({"operation"}, {"turns"}, {"gap_us"})),
            take("each memory is measured with atomics", varied={"kernel", "allocator"}, kernel="atomic", common=True),
            take("kernels with atomics are measured with gaps", QUICK,
                 varied=({"kernel"}, {"kernel", "gap_us"}, {"kernel", "turns"}), kernel="atomic"),
            take("each method is measured", THOROUGH, varied=({"method"}, WITH_METHOD)),
            take("conditions are varied one at a time", THOROUGH, varied=Count(1)),
            take("each advice is measured with updates", THOROUGH, varied={"advice", "operation"}),
            take("few round trips are measured with gaps", THOROUGH,
                 varied=({"turns", "gap_us"}, {"kernel", "turns", "gap_us"})),
            take("atomics are measured with each gap", THOROUGH, varied=({"kernel", "gap_us"}, {"kernel", "turns"})),
            take("the full preset varies two conditions at a time", FULL, varied=Count(2)),
            leave_out("the preset varies one condition at a time, and two where they belong together"),
        ),
        properties={"varied": varied_from(lambda device: {"allocator": shared_or_main_allocator(device), **BASE})},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if not device.capabilities.runs_kernels:
            raise Unsupported("a round trip needs a device that runs kernels")
        brief = preset == "quick"
        of_host = [name for name in allocator_names(device) if role(name) == "host" and is_common(name)]
        names = dict.fromkeys([*measured_allocators(device), *of_host])
        return [
            Factor("method", tuple(METHODS), doc="how the CPU accesses the words"),
            Factor("allocator", list(names), choices=allocator_names(device),
                   doc="of the memory that the CPU uses; device memory where it uses none"),
            Factor("kernel", ("store", "atomic"), doc="how the kernel changes the words"),
            Factor("advice", ("none", *SINGLE_ADVICE, *ADVICE_PAIRS), doc="advice to the driver about the buffer"),
            Factor("operation", ("read", "update"), doc="what the CPU does with the words"),
            Factor("turns", (1, 10, 30, 100) if brief else (1, 2, 10, 30, 100), "count", least=1, most=MAX_TURNS,
                   doc="round trips through one buffer"),
            Factor("gap_us", (0, 100, 1000) if brief else (0, 10, 100, 1000, 10_000), "count", most=MAX_GAP,
                   doc="microseconds from one round trip to the next, in which the CPU is busy"),
            Factor("size", (8,) if brief else (8, 4 * KiB, 64 * KiB), "size", least=8, most=MAX_SIZE, multiple=8,
                   doc="bytes of the buffer"),
        ]  # fmt: skip

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if meaningless := _why_meaningless(factors, device):
            return Meaningless(meaningless)
        allocator, method = factors.text("allocator"), factors.text("method")
        users = {"copied": ("cpu",), **dict.fromkeys(ALONE, ("gpu",))}.get(method, ("gpu", "cpu"))
        if reason := unreachable(device, allocator, *users):
            return reason
        entry = device.allocator(allocator)
        guided = factors["advice"] != "none" or method == "prefetched"
        if guided and entry is not None and entry.managed and entry.concurrent is False:
            return "the driver takes no advice or prefetch where CPU and GPU may not use managed memory at once"
        return None

    def measure(self, point: Point, session: Session) -> Measurement:
        updates = UPDATES if point["kernel"] == "atomic" else 0
        outcome = _core.take_turns(
            session.device,
            allocator=point.text("allocator"),
            bytes=point.size("size"),
            method=point.text("method"),
            update=point["operation"] == "update",
            updates=updates,
            advice=[] if point["advice"] == "none" else point.text("advice").split("+"),
            turns=point.count("turns"),
            gap=point.count("gap_us") * 1e-6,
            seed=session.seed,
            stop=session.stop(),
        )
        return Measurement.of(outcome, counters={"case": case_of(point.factors, session.info), "updates": updates})

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, advice="none")
        if point.size("size") > BASE_PAGE:
            raise NotModelled("turns over several pages")
        with known_prices():
            return predicted(
                turns(
                    PlatformPrices(platform),
                    method=point.text("method"),
                    allocator=point.text("allocator"),
                    by_groups=point["kernel"] == "atomic",
                    count=point.count("turns"),
                    gap=point.count("gap_us") * 1e3,
                    nbytes=point.size("size"),
                    both_ways=point["operation"] == "update",
                )
            )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        usual = [r for r in records if all(r.factors.get(name) == BASE[name] for name in ("advice", "gap_us"))]
        return [
            *_method_findings(usual),
            *(finding(WAITED, r) for r in usual if r.factors.get("method") == "launched"),
            *(finding(QUEUED, r) for r in usual if r.factors.get("method") == "queued"),
            *_factor_finding(ADVICE, records, "advice", "none"),
            *_factor_finding(GAP, records, "gap_us", 0),
            *_factor_finding(TURNS, records, "turns", 1),
        ]


_TURN = (
    "a round trip between a kernel ({kernel}) and the CPU ({operation}) through {size} of {method} {allocator} memory"
)
_WITH = "with {turns} round trips, {gap_us} us apart, " + _TURN
METHOD = Claim(
    "exchange.method",
    _WITH + " takes the longest: {value}, {ratio_as_long} as through {other_method} {other_allocator} memory "
    "({other_value})",
)
METHODS_ALIKE = Claim("exchange.method", _WITH + " takes {value}, and about as long by all {measured} methods")
SINGLE = Claim("exchange.method", _WITH + " takes {value}")
WAITED = Claim(
    "exchange.launch",
    "a kernel launch that the CPU waits for takes {value} ({turns} launches, {size} of memory)",
    names=("method", "kernel"),
)
QUEUED = Claim(
    "exchange.queued",
    "each of {turns} queued kernel launches takes {value} ({size} of memory)",
    names=("method", "kernel"),
)
ADVICE = Claim(
    "exchange.advice",
    _WITH + " takes {value} with advice {advice}, {ratio_as_long} as with {other_advice} ({other_value})",
)
GAP = Claim(
    "exchange.gap",
    _TURN + " takes {value} with {gap_us} us between {turns} round trips, {ratio_as_long} as with {other_gap_us} us "
    "({other_value})",
)
TURNS = Claim(
    "exchange.turns",
    _TURN + " takes {value}, averaged over {turns} round trips {gap_us} us apart, {ratio_as_long} as over "
    "{other_turns} ({other_value})",
)


def _groups_alike(records: Sequence[Record], *free: str) -> list[list[Record]]:
    """The records in groups that agree in all factors but the free ones."""
    names = dict.fromkeys(name for record in records for name in record.factors if name not in free)
    return list(group_by(records, *names).values())


def _method_findings(records: Sequence[Record]) -> list[Finding]:
    """The longest and the shortest turn over the same number of bytes, by method and memory."""
    rows = [r for r in records if r.factors.get("method") not in ALONE]
    compared = [same for same in _groups_alike(rows, "method", "allocator") if len(same) > 1]
    if not compared:
        return [finding(SINGLE, r) for r in rows[:1]]
    findings = []
    for same in compared:
        fastest, slowest = extremes(same)
        comparison = compare_medians(slowest, fastest)
        if comparison.is_clear:
            findings.append(finding(METHOD, slowest, comparison=comparison))
        else:
            findings.append(finding(METHODS_ALIKE if are_alike(map(quantity, same)) else SINGLE, slowest))
    return findings


def _factor_finding(claim: Claim, records: Sequence[Record], name: str, usual: Scalar) -> list[Finding]:
    """The value of a factor that clearly changes a turn most, beside the usual value, for points alike in all else."""
    changes = []
    for same in _groups_alike([r for r in records if r.factors.get("method") == "shared"], name):
        beside = next((r for r in same if r.factors.get(name) == usual), None)
        compared = [(r, compare_medians(r, beside)) for r in same if beside is not None and r is not beside]
        changes += [(r, c) for r, c in compared if c.is_clear]
    if not changes:
        return []
    record, comparison = max(changes, key=lambda pair: max(pair[1].ratio.value, 1 / (pair[1].ratio.value or 1)))
    return [finding(claim, record, comparison=comparison)]
