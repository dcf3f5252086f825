"""atomics: contention and coherence, measured by a histogram that many threads increment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from firsttouch import _core
from firsttouch.base.units import format_size
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
    BASE_PAGE,
    allocator_factor,
    allocator_names,
    buffer_fact,
    size_fact,
    unreachable,
)
from firsttouch.experiments.contract.meanings import HARDWARE
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.presets import FULL, QUICK, SHORT, Above, Not, leave_out, take, take_only
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.allocators.properties import caches_on_cpu, main_allocator
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro.updates import updates
from firsttouch.model.platform import Platform
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Heat, Line
from firsttouch.records.findings import EVERY, Claim, Finding, Quantity, compare_medians, counter, finding
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import median_of
from firsttouch.records.text import count
from firsttouch.workers.session import Session

GROUP = 64
"""GPU threads per group."""
TYPES = ("u64", "f64")
MIDDLE_ELEMENTS = 2**10
"""Elements of a histogram that is contended and fits in every cache. Used where only one size is measured."""
BEYOND_CACHES = 2**26
"""Elements that no cache holds: 512 MiB."""
WINDOWS = {"quick": 0.01, "standard": 0.02, "full": 0.05}
"""Seconds between two readings of the progress; three times that if both agents take part (they may share processors).
"""
MAX_ELEMENTS = 2**31


def most_gpu_threads(device: DeviceInfo) -> int:
    """Returns the GPU threads that the device holds at once; one group per multiprocessor if it states none."""
    if not device.capabilities.runs_kernels:
        return 0
    each = size_fact(device, "threads_per_multiprocessor") or GROUP
    return max(1, size_fact(device, "multiprocessors")) * each // GROUP * GROUP


def powers(base: int, first: int, last: int) -> list[int]:
    """Returns first, base times first, and so on up to two thirds of last, and then last."""
    values, value = [], first
    while 3 * value <= 2 * last:
        values.append(value)
        value *= base
    return [*values, last] if last >= first else []


def participants(factors: Mapping[str, Scalar]) -> list[str]:
    """The agents that take part."""
    return [agent for agent in ("cpu", "gpu") if factors[f"{agent}_threads"] != 0]


def loses_updates(device: DeviceInfo, allocator: str, agents: list[str]) -> str | None:
    """Returns why these agents together would lose updates in memory of the allocator, or None."""
    if "cpu" in agents and caches_on_cpu(allocator) is False:
        return "what the CPU's atomic operations do on write-combined memory is not defined"
    entry = device.allocator(allocator)
    if len(agents) < 2 or entry is None:
        return None
    if entry.concurrent is None:
        return f"the driver does not state that the CPU may use {allocator} memory while a kernel does"
    if not entry.concurrent:
        return f"{allocator} memory may be used by the CPU or a kernel, not for both at once"
    if not entry.shared_atomics:
        return f"the driver states no atomics of CPU and GPU together on {allocator} memory: updates would be lost"
    return None


def _participants_word(factors: Mapping[str, Scalar]) -> str:
    """ "cpu", "gpu" or "both"."""
    agents = participants(factors)
    return agents[0] if len(agents) == 1 else "both"


def _has_curves(candidate: Candidate) -> bool:
    """True if the curves are measured on its allocator. For both agents it is the first on which no update is lost."""
    device, agents = candidate.device, participants(candidate.factors)
    names = [main_allocator(device)]
    if len(agents) > 1:
        able = [n for n in allocator_names(device) if not unreachable(device, n, *agents)]
        names = [n for n in able if not loses_updates(device, n, agents)] + names
    return candidate.factors["allocator"] == names[0]


def _uses_all_threads(candidate: Candidate) -> bool:
    most = {"cpu_threads": usable_processors(candidate.device), "gpu_threads": most_gpu_threads(candidate.device)}
    return all(candidate.factors[name] in (0, number) for name, number in most.items())


def _is_usual(candidate: Candidate) -> bool:
    base_point = {"type": "u64", "elements": MIDDLE_ELEMENTS, "scope": "system"}
    return _uses_all_threads(candidate) and candidate.factors.items() >= base_point.items()


class Atomics(Experiment):
    """Random elements of a histogram incremented by CPU and GPU. Source: IISWC 2025 Sec. III-A4."""

    name = "atomics"
    order = 70
    question = "What do atomic updates cost when many threads contend, on one side or on both?"
    metric = Metric("M/s", "higher")
    counted = (
        "Million atomic increments per second of random elements of one array, by all threads that take part. Every "
        "thread or group counts in a separate cache line; another thread reads the counts twice, a window of 10 ms or "
        "more apart. If CPU and GPU both take part, each is measured alone first, then both together (the sample). "
        "reading=end: the counts are read at the two ends of ten windows only; read_ratio is the rate of runs that are "
        "read in every window, relative to that. After every run the array must sum to the increments."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A4"
    codebook = Codebook(
        factors={
            "allocator": {},
            "type": {"u64": "whole numbers", "f64": "floating-point numbers"},
            "elements": {},
            "cpu_threads": {},
            "gpu_threads": {},
            "scope": {"system": "seen by CPU and GPU", "device": "seen by the GPU"},
            "reading": {"progress": "while the agents work", "end": "after they have ended"},
        },
        counters=(
            CounterEntry(name="(cpu|gpu)_rate", unit="M/s", at_most="median"),
            CounterEntry(name="(cpu|gpu)_alone", unit="M/s"),
            CounterEntry(name="(cpu|gpu)_relative", unit=""),
            CounterEntry(name="gpu_threads_seen", unit="", at_most="gpu_threads"),
            CounterEntry(name="found|increments|read_ratio", unit=""),
            HARDWARE,
        ),
    )
    figures = (
        Line(x="gpu_threads", colour="allocator", dash="type", facet="elements", log_x=True, log_y=True,
             where={"cpu_threads": 0, "reading": "progress"}, x_title="GPU threads, alone",
             y_title="million updates per second", title="Rate of the GPU alone"),
        Line(x="cpu_threads", colour="allocator", dash="type", facet="elements", log_x=True, log_y=True,
             where={"gpu_threads": 0, "reading": "progress"}, x_title="CPU threads, alone",
             y_title="million updates per second", title="Rate of the CPU alone"),
        Heat(x="gpu_threads", y="cpu_threads", z="cpu_relative", centre=1.0, facet="elements",
             x_title="GPU threads", y_title="CPU threads", z_title="CPU's rate together over its rate alone",
             title="The CPU's rate while the GPU updates too, relative to its rate alone"),
        Heat(x="gpu_threads", y="cpu_threads", z="gpu_relative", centre=1.0, facet="elements",
             x_title="GPU threads", y_title="CPU threads", z_title="GPU's rate together over its rate alone",
             title="The GPU's rate while the CPU updates too, relative to its rate alone"),
    )  # fmt: skip

    without_effect = {
        "scope": "the caches are coherent in hardware, so that adds of both scopes take one way",
        "xnack": "no page moves while threads update",
    }

    planning = Planning(
        setup=0.15,
        rules=(
            leave_out("points with both agents also measure the CPU alone", SHORT, runs_kernels=True, who="cpu"),
            leave_out("the CPU's accesses to plain host memory are measured on the device cpu",
                      runs_kernels=True, who="cpu",
                      plain_host=True),
            take_only("what cannot be measured is recorded once", of={"skipped": True}, usual=True, reading="progress"),
            take_only("other allocators are measured with the middle histogram and all threads",
                      SHORT, of={"curves": False},
                      usual=True, reading="progress"),
            leave_out("runs of both agents on memory whose pages move differ too much to show the cost of reading",
                      reading="end", who="both", migrating=True),
            leave_out("the cost of reading the counts is measured with one agent", SHORT, reading="end", who="both"),
            take_only("the cost of reading the counts is measured at one point",
                      of={"reading": "end"}, usual=True, curves=True),
            leave_out("histograms in managed memory end at 512 MiB", migrating=True, elements=Above(BEYOND_CACHES)),
            leave_out("other allocators are measured with all threads only", FULL, curves=False, all_threads=False),
            take("the full preset measures every combination", FULL),
            take_only("device scope is measured on the middle histogram with all threads", of={"scope": "device"},
                      all_threads=True, elements=MIDDLE_ELEMENTS),
            leave_out("both agents together are measured on the middle histogram only",
                      who="both", elements=Not(MIDDLE_ELEMENTS)),
            leave_out("both agents together are measured with integers only", QUICK, who="both", type="f64"),
            leave_out("both agents together are measured on f64 with all threads only",
                      who="both", type="f64", all_threads=False),
        ),
        properties={
            "who": lambda candidate: _participants_word(candidate.factors),
            "curves": _has_curves,
            "all_threads": _uses_all_threads,
            "usual": _is_usual,
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        elements = [1, MIDDLE_ELEMENTS, 2**20, *{"quick": (), "standard": (BEYOND_CACHES,), "full": (2**30,)}[preset]]
        processors, most = usable_processors(device), most_gpu_threads(device)
        cpu = [1, processors] if preset == "quick" else powers(4 if preset == "standard" else 2, 1, processors)
        gpu = powers({"quick": 64, "standard": 8, "full": 4}[preset], GROUP, most)
        alone = not device.capabilities.runs_kernels
        scopes = ("system", "device") if device.capabilities.device_scope_atomics else ("system",)
        return [
            allocator_factor(device),
            Factor("type", TYPES, doc="of an element, 8 bytes"),
            Factor("elements", elements, "count", least=1, most=MAX_ELEMENTS, doc="of the histogram"),
            Factor(
                "cpu_threads",
                cpu if alone else [0, *cpu],
                "count",
                most=processors,
                doc="CPU threads, one to a processor",
            ),
            Factor(
                "gpu_threads",
                [0] if alone else [0, *gpu],
                "count",
                most=most,
                multiple=GROUP,
                known={"1": 1},
                doc="GPU threads",
            ),
            Factor("scope", scopes, choices=("system", "device"), doc="of the GPU's atomic adds"),
            Factor("reading", ("progress", "end"), doc="when the counts are read"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        agents = participants(factors)
        if not agents:
            return Meaningless("without threads of the CPU or the GPU nothing is updated")
        if "cpu" in agents and factors["scope"] == "device":
            return Meaningless("scope=device does not include the CPU")
        agents, allocator = participants(factors), factors.text("allocator")
        if (most := size_fact(device, "largest_allocation_bytes")) and 8 * factors.count("elements") > most:
            return f"{device.name} allocates at most {format_size(most)} at once"
        return unreachable(device, allocator, *agents) or loses_updates(device, allocator, agents)

    def measure(self, point: Point, session: Session) -> Measurement:
        elements = point.count("elements")
        with session.device.allocate(point.text("allocator"), max(BASE_PAGE, 8 * elements)) as buffer:
            outcome = _core.atomics(
                session.device,
                buffer,
                type=point.text("type"),
                scope=point.text("scope"),
                elements=elements,
                cpu_threads=point.count("cpu_threads"),
                gpu_threads=point.count("gpu_threads"),
                reading=point.text("reading"),
                window=WINDOWS[session.preset] * (3 if len(participants(point.factors)) == 2 else 1),
                seed=session.seed,
                stop=session.stop(
                    min_samples=5 if point["reading"] == "end" and session.preset != "quick" else 3, max_samples=200
                ),
            )
            return Measurement.of(
                outcome, verified_why=_describe_mismatch(outcome), buffers=[buffer_fact("histogram", buffer)]
            )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, reading="progress")
        return predicted(
            updates(
                platform,
                device_of(point, platform),
                allocator=point.text("allocator"),
                type=point.text("type"),
                elements=point.count("elements"),
                cpu_threads=point.count("cpu_threads"),
                gpu_threads=point.count("gpu_threads"),
            )
        )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        alone = [f for agent in ("gpu", "cpu") for f in _single_agent_findings(records, agent)]
        together = [
            f for agent in ("cpu", "gpu") for f in _ratio_findings(TOGETHER, records, f"{agent}_relative", agent)
        ]
        return [*alone, *together, *_ratio_findings(READING, records, "read_ratio", "")]


_ALONE = (
    "the {agent} alone increments random elements of an array of {elements} ({type}, {allocator} memory) at {value} "
    "with {threads} threads"
)
_THREADS = ("cpu_threads", "gpu_threads", "reading")
ALONE = Claim("atomics.alone", _ALONE, names=_THREADS)
ALONE_AND_CONTENDED = Claim(
    "atomics.alone",
    _ALONE + ", and a single element at {other_value} with {other_threads} threads",
    names=("elements", *_THREADS),
)
TOGETHER = Claim(
    "atomics.together",
    "the {agent} {value}",
    "when CPU and GPU update together, each reaches this share of its rate alone, over {over}:",
    (EVERY,),
)
READING = Claim("atomics.reading", "rates read during a run are {value} of those read only at its ends, over {over}",
                names=(EVERY,))  # fmt: skip


def _single_agent_findings(records: Sequence[Record], agent: str) -> list[Finding]:
    """The best rate of one agent alone, and the best rate on a single element under the same conditions."""
    curve = [r for r in records if participants(r.factors) == [agent] and r.factors["reading"] == "progress"]
    if not curve:
        return []
    best = max(curve, key=median_of)
    same = {name: value for name, value in best.factors.items() if name not in ("elements", f"{agent}_threads")}
    single = [r for r in curve if r.factors["elements"] == 1 and same.items() <= r.factors.items()]
    threads = f"{agent}_threads"
    if not single or best.factors["elements"] == 1:
        return [finding(ALONE, best, agent=agent, threads=best.factors[threads])]
    comparison = compare_medians(best, max(single, key=median_of))
    conditions = {**comparison.conditions, "threads": comparison.conditions[threads]}
    comparison = replace(comparison, conditions=conditions)
    return [finding(ALONE_AND_CONTENDED, best, comparison=comparison, agent=agent, threads=best.factors[threads])]


def _ratio_findings(claim: Claim, records: Sequence[Record], name: str, agent: str) -> list[Finding]:
    """The median and the range of a ratio over all points that have it."""
    rows = [r for r in records if counter(r, name, "")]
    ratios = [100 * r.counter(name) for r in rows]
    if not ratios:
        return []
    value, over = Quantity(median(ratios), "%", min(ratios), max(ratios)), count(len(rows), "point")
    return [finding(claim, rows, value, agent=agent, over=over)]


def _describe_mismatch(outcome: _core.Outcome) -> str:
    total, increments = outcome.counters["found"], outcome.counters["increments"]
    if outcome.errors == 0:
        return ""
    return f"the histogram's sum is {total:.0f}, its increments were {increments:.0f}; {outcome.errors} are wrong"
