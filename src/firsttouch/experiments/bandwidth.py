"""bandwidth: STREAM by either agent, from memory and, in the cache sweep, from every cache level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.units import format_number
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
    MIN_STREAM_BYTES,
    GiB,
    KiB,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    first_toucher,
    last_level_bytes,
    memory_bytes,
    octaves,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS, SELF_OR_OTHER, STREAM
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.presets import (
    FULL,
    QUICK,
    SHORT,
    STANDARD,
    Contains,
    ContainsAll,
    Not,
    Octave,
    exclude,
    leave_out,
    take,
    take_only,
    varied_from,
)
from firsttouch.experiments.contract.rules import NOTHING, Preset
from firsttouch.experiments.views.ranking import best_over_worst, groups_apart_from, names_in, tied
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro import loads
from firsttouch.model.micro.loads import ARRAYS
from firsttouch.records.codebook import Codebook, CounterEntry, PriceSource, Traffic
from firsttouch.records.figures import Bar, Line, Table
from firsttouch.records.findings import Claim, Finding, Quantity, at_largest, finding
from firsttouch.records.schema import NONE, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by, median_of
from firsttouch.records.text import ALL
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

KERNELS = tuple(ARRAYS)
BEST = "best"
"""The value of the factor threads for which several numbers of threads are tried, and the fastest is measured."""
SHAPE = ("shape_unroll", "shape_threads", "shape_blocks")
"""Counters of the launch shape that was found to be the fastest."""
PER = ("_per_s", "_per_mib")
"""How the counters end of what the processors do."""
SEARCHED, PER_ELEMENT = "searched", "thread-per-element"
"""The values of the factor launch: the launch shape of a GPU's kernel."""
SWEEP_BYTES = 64 * MiB
"""The least that the passes of one sweep run move, in bytes, so that caching shows."""


def sweep_passes(kernel: str, size: int) -> int:
    """The passes of one run of a kernel of STREAM over arrays of `size` bytes that caches may hold."""
    return max(1, SWEEP_BYTES // (sum(ARRAYS[kernel]) * size))


def _traffic(kernel: str, reads: int, writes: int) -> tuple[Traffic, Traffic]:
    """What the GPU's streams pass through. A link carries both directions at once."""
    where: dict[str, Scalar | list[Scalar]] = {"arrays": "memory", "agent": "gpu", "kernel": kernel}
    arrays = reads + writes
    return (
        Traffic(where=where, through="link", memory="host", passing=max(reads, writes) / arrays, cacheable=1 / arrays),
        Traffic(where=where, through="memory", memory="device", cacheable=1 / arrays),
    )


def _is_beyond_caches(candidate: Candidate) -> bool:
    """True if no cache holds an array."""
    return candidate.factors.size("size") >= 4 * last_level_bytes(candidate.device)


def _is_oversized(candidate: Candidate) -> bool:
    """True if an array is larger than is needed to exceed the caches."""
    return candidate.factors.size("size") > memory_bytes(candidate.device, 256 * MiB)


def thread_counts(cores: int, processors: int) -> list[int]:
    """The numbers of threads that a search tries first: powers of two, one for each core and for each processor."""
    return sorted({*(2**k for k in range(processors.bit_length())), cores, processors})


def search_threads(rates_of: Callable[[Sequence[int]], Mapping[int, float]], first: Sequence[int]) -> dict[int, float]:
    """The rates of all numbers of threads that were tried: those in `first`, then again and again the middles between
    the fastest and its neighbours, until these are one thread less and one more.
    """
    rates = dict(rates_of(first))
    while True:
        ordered = sorted(rates)
        at = ordered.index(max(ordered, key=lambda n: rates[n]))
        near = ordered[max(0, at - 1) : at + 2]
        middles = [(few + many) // 2 for few, many in pairwise(near) if many - few > 1]
        if not middles:
            return rates
        rates |= rates_of(middles)


class Bandwidth(Experiment):
    """STREAM (McCalpin) with verified results. Sources: STREAM, BabelStream; IISWC 2025 Sec. III-A2."""

    name = "bandwidth"
    order = 20
    question = "How fast can an agent stream through memory?"
    metric = Metric("GB/s", "higher")
    counted = (
        "Bytes that the kernel reads plus bytes that it writes, per second; 10^9 bytes are one GB. Write-allocate "
        "traffic is not counted. size is one array: copy, scale 2 arrays, add, triad 3, read, write 1. threads: all is "
        "threads=0; best is the fastest of several numbers. With activity=on samples are taken until the point's time "
        "is spent; interrupts_per_s are then those of the whole machine, tlb_loads_... this process's loads through "
        "the data TLBs of the processors (perf), a second and for each MiB that the kernel streams."
    )
    source = "STREAM; BabelStream; Wahlgren et al., IISWC 2025, Sec. III-A2"
    codebook = Codebook(
        factors={
            "arrays": {"memory": "beyond every cache", "sweep": "all sizes"},
            "kernel": {
                "copy": "b = a",
                "scale": "b = s a",
                "add": "c = a + b",
                "triad": "a = b + s c",
                "read": "sums an array",
                "write": "fills an array",
            },
            "agent": AGENTS,
            "allocator": {},
            "first_touch": SELF_OR_OTHER,
            "stores": {"normal": "through the caches", "nontemporal": "past the caches"},
            "threads": {},
            "size": {},
            "launch": {SEARCHED: "the fastest of several", PER_ELEMENT: "a thread for each element of 8 bytes"},
            "activity": {"off": "not counted", "on": "TLB loads and interrupts of the processors are counted"},
        },
        only_where={"stores": {"agent": ["cpu"]}, "threads": {"agent": ["cpu"]}, "launch": {"agent": ["gpu"]}},
        counters=(
            *STREAM,
            CounterEntry(name="(interrupts|tlb_loads)_per_s", unit="1/s"),
            CounterEntry(name="tlb_loads_per_mib", unit="1/MiB"),
            CounterEntry(name="tlb_loads", unit="word"),
            CounterEntry(name="size_over_last_cache", unit=""),
            CounterEntry(name=r"threads|tried_\d+", unit=""),
        ),
        traffic=tuple(traffic for kernel, arrays in ARRAYS.items() for traffic in _traffic(kernel, *arrays)),
        prices=(
            PriceSource(
                price="stream",
                where={"arrays": "memory", "first_touch": "self", "stores": "normal"},
                by={"agent": "agent", "allocator": "allocator", "kernel": "kernel", "threads": "threads"},
                names={"bytes": "size"},
                without=["activity", "launch"],
            ),
        ),
    )
    figures = (
        Table(where={"activity": "on"},
              columns=("allocator", "kernel", "agent", "size", "median", "tlb_loads_per_mib", "tlb_loads_per_s",
                       "interrupts_per_s", "tlb_loads"),
              titles={"median": "GB/s", "tlb_loads_per_mib": "TLB loads per MiB", "tlb_loads_per_s": "TLB loads per s",
                      "interrupts_per_s": "interrupts per s, whole machine", "tlb_loads": "counted TLB loads"},
              title="What the processors did during the samples"),
        Bar(x="allocator", facet="agent", colour="kernel", y_title="bandwidth, GB/s", title="Bandwidth of the triad",
            where={"arrays": "memory", "kernel": "triad"}),
        Bar(x="kernel", colour="allocator", facet="agent", y_title="bandwidth, GB/s",
            where={"arrays": "memory"}),
        Bar(x="allocator", y="hw_tlb_misses", facet="agent", where={"arrays": "memory", "kernel": "triad"},
            y_title="translation misses of one triad", title="Translation misses of one triad, by allocator"),
        Line(x="size", colour="allocator", dash="agent", facet="kernel", log_x=True, log_y=True,
             x_title="one array", y_title="bandwidth, GB/s", where={"arrays": "sweep"},
             title="Bandwidth over array size"),
        Line(x="series", y="value", series="tried_{}", colour="allocator", dash="stores", facet="kernel", log_x=True,
             x_title="CPU threads", y_title="bandwidth, GB/s", where={"threads": BEST, "arrays": "memory"},
             title="Bandwidth over CPU threads, as tried for threads=best"),
    )  # fmt: skip
    counting = CountingRules()

    without_effect = {
        "arrays": "it names the sizes, which decide",
    }
    planning = Planning(
        share=3.0,
        setup=0.2,
        rules=(
            exclude("arrays=memory takes arrays that no cache holds, unless --set arrays=memory size=... names others",
                    arrays="memory", beyond=False, chosen=Not(ContainsAll(("arrays", "size")))),
            exclude("the sweep runs the triad, unless --set kernel=... names others",
                    QUICK, arrays="sweep", kernel=Not("triad"), chosen=Not(Contains("kernel"))),
            exclude("sweeps over other allocators run the triad, unless --set kernel=... names others",
                    arrays="sweep", kernel=Not("triad"), main_curve=False, chosen=Not(Contains("kernel"))),
            exclude("the sweep runs copy, triad, read and write, unless --set kernel=... names others",
                    arrays="sweep", kernel=("scale", "add"), chosen=Not(Contains("kernel"))),
            leave_out("the CPU's streams through plain host memory are measured on the device cpu",
                      measured_on_cpu=True),
            leave_out("the kernels run on the host's processor, where this is the same memory under another name",
                      SHORT, same_memory=True),
            take_only("memory that the agent cannot reach is recorded once", of={"reachable": False},
                      arrays="memory", beyond=True, kernel="triad", stores="normal", first_touch="self"),
            leave_out("the sweep uses normal stores to arrays that the same agent touched first", arrays="sweep",
                      varied=Not(NOTHING)),
            leave_out("the sweep uses all threads", arrays="sweep", threads=1),
            leave_out("scale and add perform like copy and triad", arrays="sweep", kernel=("scale", "add")),
            leave_out("sweeps over other allocators run the triad", arrays="sweep", kernel=Not("triad"),
                      main_curve=False),
            leave_out("the sweep ends where arrays exceed the caches", arrays="sweep", beyond=True),
            leave_out("the quick preset sweeps with the triad, unless --set arrays=sweep kernel=... names others",
                      QUICK, arrays="sweep", kernel=Not("triad"), chosen=Not(ContainsAll(("arrays", "kernel")))),
            leave_out("the standard preset sweeps with others at every second octave, unless --set names them",
                      STANDARD, arrays="sweep", kernel=Not("triad"), size=Not(Octave(2)),
                      chosen=Not(ContainsAll(("arrays", "kernel")))),
            take("the main sweep has every size", arrays="sweep", main_curve=True),
            leave_out("the quick preset has one sweep", QUICK, arrays="sweep"),
            take_only("sweeps over other allocators are measured at every second octave",
                      of={"arrays": "sweep"}, size=Octave(2)),
            leave_out("plain host memory that the GPU touched first is streamed with normal stores",
                      SHORT, agent="cpu", plain_host=True, first_touch="other", stores=Not("normal")),
            leave_out("of plain host memory that the GPU touched first, the usual kind is streamed",
                      SHORT, agent="cpu", plain_host=True, first_touch="other", common=False),
            leave_out("a single thread runs the triad only", threads=1, kernel=Not("triad")),
            leave_out("a single thread runs with normal stores to arrays that it touched first",
                      threads=1, varied=Not(NOTHING)),
            leave_out("scale and add perform like copy and triad", QUICK, kernel=("scale", "add")),
            leave_out("kernels on the host's processor run the triad in a quick run",
                      QUICK, runs_on="processor", kernel=Not("triad")),
            leave_out("nontemporal stores are measured for the triad on the main allocator only",
                      QUICK, stores="nontemporal", kernel=Not("triad")),
            leave_out("nontemporal stores are measured for the triad on the main allocator only",
                      QUICK, stores="nontemporal", main_curve=False),
            take("the full preset measures every combination", FULL),
            take("every kernel is measured on the main allocator", main_curve=True, stores="normal",
                 first_touch="self"),
            leave_out("other combinations are measured at the smallest size that exceeds the caches", oversized=True),
            leave_out("a single thread is measured on the main allocator only", threads=1, main_curve=False),
            leave_out("other combinations are measured with the triad only", kernel=Not("triad"), main_curve=False),
            leave_out("other combinations are measured with the triad only", kernel=Not("triad"), first_touch="other"),
        ),
        on_each=({"arrays": "memory", "kernel": "triad", "stores": "normal", "main_curve": True},),
        properties={
            "beyond": _is_beyond_caches,
            "oversized": _is_oversized,
            "varied": varied_from(lambda device: {"stores": "normal", "first_touch": "self"}),
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_gpu = not device.capabilities.on_host_processor
        large = memory_bytes(device, 256 * MiB if on_gpu else 0)
        memory = {"quick": [large], "standard": [large, GiB] if on_gpu else [large], "full": [large, 4 * large]}[preset]
        low = 256 * KiB if on_gpu else 8 * KiB
        sweep = octaves(low, 2 * last_level_bytes(device), 1 if preset == "quick" else 2)
        touch = ("self",) if preset == "quick" or not device.capabilities.runs_kernels else ("self", "other")
        return [
            Factor("arrays", ("memory", "sweep"), doc="beyond every cache, or all sizes"),
            Factor("kernel", KERNELS, doc="of STREAM, and reads and writes alone"),
            Factor("agent", agents(device), doc="who streams"),
            allocator_factor(device),
            Factor("first_touch", touch, choices=("self", "other"), doc="who fills the arrays"),
            Factor("stores", ("normal", "nontemporal"), doc="CPU stores"),
            Factor(
                "threads",
                (1, 0),
                "count",
                doc="CPU threads, first one on each core; 0 is all, best tries several numbers",
                most=usable_processors(device),
                known={BEST: BEST},
            ),
            Factor(
                "size", list(dict.fromkeys([*memory, *sweep])), "size", doc="bytes of one array", least=MIN_STREAM_BYTES
            ),
            Factor("launch", (SEARCHED, PER_ELEMENT), doc="shape of a GPU's launches", optional=True),
            Factor(
                "activity",
                ("off", "on"),
                doc="count the processors' TLB loads and interrupts during the samples",
                optional=True,
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["agent"] == "gpu" and (factors["stores"] != "normal" or factors["threads"] != 0):
            return Meaningless("stores and threads are choices of the CPU; the GPU's are stores=normal and threads=0")
        if factors["agent"] == "cpu" and factors.get("launch") == PER_ELEMENT:
            return Meaningless("the CPU has launch=searched only: each of its threads takes a part of the array")
        if factors["kernel"] == "read" and factors["stores"] == "nontemporal":
            return Meaningless("the kernel read makes no stores")
        agent = factors.text("agent")
        return unreachable(device, factors.text("allocator"), agent, first_toucher(agent, factors["first_touch"]))

    def measure(self, point: Point, session: Session) -> Measurement:
        agent, device, size = point.text("agent"), session.device, point.size("size")
        allocator = point.text("allocator")
        kernel = point.text("kernel")
        in_memory = point["arrays"] == "memory"
        passes = 1 if in_memory else sweep_passes(kernel, size)
        activity = point.factors.get("activity") == "on"
        with (
            device.allocate(allocator, size) as a,
            device.allocate(allocator, size) as b,
            device.allocate(allocator, size) as c,
        ):
            stream = partial(
                _core.stream, device, a, b, c,
                op=kernel,
                agent=agent,
                first_touch=first_toucher(agent, point["first_touch"]),
                nontemporal=point["stores"] == "nontemporal",
                passes=passes,
                seed=session.seed,
                shape=_timed_shape(session),
                element_per_thread=point.factors.get("launch") == PER_ELEMENT,
            )  # fmt: skip
            threads, tried = _best_thread_count(point, session, stream)
            stop = session.whole_time() if activity else session.stop()
            outcome = stream(threads=[threads], activity=activity, stop=stop)
            counters: dict[str, Scalar] = {"passes": passes, **tried}
            if activity:
                counters |= {name: value for name, value in outcome.counters.items() if name.endswith(PER)}
                counters["tlb_loads"] = _describe_tlb_loads(outcome.counters.get("tlb_loads_in_kernel"))
            if in_memory:
                counters["size_over_last_cache"] = size / last_level_bytes(session.info)
            if agent == "cpu":
                counters |= {**outcome.counters, "instructions": _core.stream_instructions()}
            else:
                counters |= {f"shape_{name}": value for name, value in outcome.counters.items() if name not in counters}
            return Measurement.of(outcome, keep=(), counters=counters, buffers=[buffer_fact("a", a)])

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, stores="normal", activity="off")
        threads, size, device = point["threads"], point.size("size"), device_of(point, platform)
        agent, in_memory = point.text("agent"), point["arrays"] == "memory"
        answer = loads.stream(
            platform,
            device,
            agent=agent,
            allocator=point.text("allocator"),
            first=first_toucher(agent, point["first_touch"]),
            kernel=point.text("kernel"),
            nbytes=size,
            in_memory=in_memory or size >= 4 * last_level_bytes(device),
            threads=threads if isinstance(threads, int) else str(threads),
            passes=1 if in_memory else sweep_passes(point.text("kernel"), size),
            each=point.factors.get("launch") == PER_ELEMENT,
        )
        return predicted(answer)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        memory = [r for r in records if r.factors["arrays"] == "memory"] or list(records)
        rows = [r for r in memory if r.factors["kernel"] == "triad"] or memory
        by_agent = group_by(rows, "agent").values()
        best = sorted(
            (max(at_largest(agent_rows), key=median_of) for agent_rows in by_agent), key=median_of, reverse=True
        )
        return [
            *(_fastest_finding(r, rows) for r in best),
            *(f for agent_rows in by_agent for f in best_over_worst(RANGE, agent_rows, "allocator")),
            *(_processor_activity(r) for r in records if "interrupts_per_s" in r.counters),
        ]


def _best_thread_count(
    point: Point, session: Session, stream: Callable[..., _core.Outcome]
) -> tuple[int, Mapping[str, float]]:
    """The number of threads, and the rates of those that were tried to find it. Where a profiler counts, it is that of
    the timed samples.
    """
    if session.counted is not None and "threads" in session.counted:
        return int(Factors(session.counted).number("threads")), {}
    if point["threads"] != BEST:
        return point.count("threads"), {}
    once = _core.Stop(tolerance=0, seconds=0, min_samples=1, max_samples=1)

    def rates_of(counts: Sequence[int]) -> dict[int, float]:
        several = list(counts) if len(counts) > 1 else [*counts, *counts]  # a single number would not be tried
        tried = stream(threads=several, stop=once).counters
        return {count: tried[f"tried_{count}"] for count in counts}

    rates = search_threads(rates_of, thread_counts(_core.usable_cores(), _core.usable_processors()))
    return max(rates, key=lambda n: rates[n]), {f"tried_{count}": rates[count] for count in sorted(rates)}


def _timed_shape(session: Session) -> tuple[int, int, int]:
    """The launch shape of the timed samples if a profiler counts this run, so that each of its passes launches the
    same; otherwise zeros, and the fastest is searched.
    """
    timed = Factors(session.counted or {})
    unroll, threads, blocks = (int(timed.number(name)) if name in timed else 0 for name in SHAPE)
    return unroll, threads, blocks


CPU = Claim(
    "bandwidth.best",
    "the CPU runs {kernel} over arrays of {size} in {allocator} memory at {value}, with {stores} stores and "
    "{cpu_threads} threads",
    names=("agent", "arrays", "threads"),
)
GPU = Claim(
    "bandwidth.best",
    "the GPU runs {kernel} over arrays of {size} in {allocator} memory at {value}",
    names=("agent", "arrays"),
)
ACTIVITY = Claim(
    "bandwidth.activity",
    "{value} of the whole machine while the {agent} runs {kernel} over arrays of {size} in {allocator} memory{loads}",
    names=("arrays", "threads"),
)
RANGE = Claim(
    "bandwidth.range",
    "in a {kernel} over arrays of {size} the {agent} is {ratio} times as fast in {allocator} memory ({value}) as in "
    "{other_allocator} memory ({other_value})",
    names=("arrays",),
)


def _describe_tlb_loads(in_kernel: float | None) -> str:
    """Which loads through data TLBs were counted, or why none were."""
    if in_kernel is None:
        return f"{NONE}{_core.why_no_tlb_loads() or 'other programs use all counters of the processor'}"
    return "of the program and the kernel" if in_kernel else "of the program; the kernel's may not be counted here"


def _processor_activity(record: Record) -> Finding:
    """What the processors did during the samples of a point."""
    counted = record.counters.get("tlb_loads_per_mib")
    loads = f"; {format_number(counted)} TLB loads of this process for each MiB" if isinstance(counted, float) else ""
    interrupts = Quantity(record.counter("interrupts_per_s"), "interrupts/s")
    return finding(ACTIVITY, record, interrupts, loads=loads)


def _fastest_finding(record: Record, records: Sequence[Record]) -> Finding:
    """The fastest of one agent, and those of other memory that are tied with it under the same conditions."""
    alike = next(rows for rows in groups_apart_from(records, "allocator") if record in rows)
    rows = tied(alike, record)
    allocator = names_in(rows, "allocator")
    if record.factors["agent"] == "gpu":
        return finding(GPU, rows, allocator=allocator)
    threads = record.counters.get("threads", record.factors["threads"])
    used = (int(threads) if isinstance(threads, float) else threads) or ALL
    return finding(CPU, rows, allocator=allocator, cpu_threads=used)
