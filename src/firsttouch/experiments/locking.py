"""locking: CPU and GPU compete for one lock."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch import _core
from firsttouch.experiments.contract.base import ONE_AT_A_TIME, Experiment, Factor, Measurement, Planning, Point
from firsttouch.experiments.contract.common import BASE_PAGE, allocator_factor, buffer_fact, size_fact, unreachable
from firsttouch.experiments.contract.presets import (
    FULL,
    QUICK,
    SHORT,
    STANDARD,
    THOROUGH,
    Above,
    Contains,
    Count,
    Not,
    leave_out,
    take_only,
    varied_from,
)
from firsttouch.experiments.contract.rules import NOTHING, Preset
from firsttouch.machine.allocators.properties import allows_concurrent_parts
from firsttouch.machine.hosts import usable_processors
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Line
from firsttouch.records.findings import Claim, Finding, Quantity, compare_medians, finding, lowest
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

RIVALS = ("both", "cpu", "gpu")
COUNTS = ("cpu_threads", "gpu_groups", "gpu_group_threads", "sections", "inside", "outside")
LINE = 256
"""Bytes between two words of the region, as in the kernel."""
INSIDE, MAX_INSIDE = 16, 256
MAX_GROUP_THREADS = 1024
GROUP_THREADS = {"quick": (1,), "standard": (1, 64), "full": (1, 64, 256)}
"""Threads of a GPU group that compete. 64 are at least one warp of every GPU."""
MAX_OUTSIDE, MAX_SECTIONS = 10**9, 10**9
FLUSH = "flush"
NEVER, FENCE = "never", "fence"
"""The factor of what is relied on so that the other agent sees the stores of a section, and its values."""
SECTIONS = {"quick": 500, "standard": 20_000, "full": 1_000_000}
OUTSIDE = {"quick": [0, 1000], "standard": [0, 100, 10_000], "full": [0, *(10**k for k in range(7))]}


def _default_competitors(device: DeviceInfo) -> tuple[int, int]:
    """Returns the default numbers of CPU threads and GPU groups: four, or half of the processors if that is fewer."""
    processors = usable_processors(device)
    if not device.capabilities.runs_kernels:
        return min(4, processors), 0
    threads = min(4, max(1, processors // 2))
    return threads, threads if device.capabilities.on_host_processor else min(4, _max_resident_groups(device))


def _max_resident_groups(device: DeviceInfo) -> int:
    """Returns how many groups of one thread are certainly resident at once: one on every multiprocessor."""
    return max(1, size_fact(device, "multiprocessors"))


def _base_point(device: DeviceInfo) -> dict[str, Scalar]:
    threads, groups = _default_competitors(device)
    return {"inside": INSIDE, "cpu_threads": threads, "gpu_groups": groups, "gpu_group_threads": 1}


class Locking(Experiment):
    """Leaders of both agents compete for a Peterson lock. Source: Dashti and Fedorova, ISMM 2017, Sec. 4.2.4."""

    name = "locking"
    order = 110
    question = "What does a critical section cost that CPU and GPU compete for?"
    metric = Metric("ns", "lower")
    counting = ONE_AT_A_TIME
    counted = (
        "One critical section: the time of a run over the sections that all competitors completed in it. A "
        "competitor, a CPU thread or one of the gpu_group_threads threads of a GPU group, makes `outside` accesses to "
        "private words, takes its agent's test-and-set lock, as leader takes the Peterson lock between the agents, "
        "adds one to each of `inside` words of a shared region, each on a separate line, and releases both locks. "
        "rivals says who competes. The Peterson lock is always in memory in which each agent sees the other's stores; "
        "allocator is that of the region and of the private words. The fences of a section may write caches back: "
        "flush=fence also measures memory that the driver keeps coherent at synchronisation only; lost stores show."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.4; Peterson, Information Processing Letters 12(3), 1981"
    codebook = Codebook(
        called="locks",
        between_memories=True,
        factors={
            "allocator": {},
            "rivals": {"both": "CPU and GPU", "cpu": "threads of the CPU", "gpu": "groups of the GPU"},
            "outside": {},
            "inside": {},
            "cpu_threads": {},
            "gpu_groups": {},
            "gpu_group_threads": {},
            "sections": {},
            FLUSH: {NEVER: "the driver's coherence alone", FENCE: "fences that write caches back"},
        },
        counters=(
            CounterEntry(name="cpu_share", unit="", at_most=1),
            CounterEntry(name="(cpu|gpu)_sections_per_s", unit="1/s"),
            CounterEntry(name="gpu_threads_seen|sections_a_sample|sections_in_all", unit=""),
        ),
    )
    figures = (
        Line(x="outside", colour="allocator", dash="rivals", log_x=True, log_y=True,
             x_title="accesses outside", y_title="time per critical section"),
        Line(x="outside", y="cpu_share", colour="allocator", log_x=True, where={"rivals": "both"},
             x_title="accesses outside", y_title="share of the sections that the CPU had",
             title="The CPU's share of critical sections"),
    )  # fmt: skip

    planning = Planning(
        rules=(
            leave_out("plain host memory is measured with one page size", SHORT, variant="pages"),
            leave_out("shared memory is measured for one way of obtaining it", SHORT, role="shared", variant="call"),
            leave_out("memory with another caching mode on the CPU is left to longer presets", QUICK,
                      variant="caching"),
            leave_out("page-locked memory is measured for one way of obtaining it",
                      QUICK, role="page-locked", variant="call"),
            leave_out("an agent that does not compete has no thread count to vary",
                      FULL, rivals="cpu", varied=Contains("gpu_groups")),
            leave_out("an agent that does not compete has no thread count to vary",
                      THOROUGH, rivals="cpu", varied=Contains("gpu_group_threads")),
            take_only("contention within a group is measured on the usual page-locked memory",
                      STANDARD, of={"varied": Contains("gpu_group_threads")},
                      role="page-locked", common=True, outside=0),
            leave_out("an agent that does not compete has no thread count to vary",
                      FULL, rivals="gpu", varied=Contains("cpu_threads")),
            leave_out("counts vary one at a time", FULL, outside=0, varied=Count(Above(1))),
            leave_out("counts vary only at outside=0", FULL, outside=Not(0), varied=Not(NOTHING)),
            take_only("what cannot be measured is recorded once", of={"skipped": True}, rivals="both", outside=0),
            take_only("memory that both agents cannot share is measured for the main allocator and the GPU alone",
                      of={"runs_kernels": True, "coherent": False}, main=True, rivals="gpu"),
        ),
        properties={"varied": varied_from(_base_point)},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        alone, more = not device.capabilities.runs_kernels, preset == "full"
        processors, (threads, groups) = usable_processors(device), _default_competitors(device)
        rivals = ("cpu",) if alone else RIVALS
        return [
            allocator_factor(device, doc="memory of the region and of the private words"),
            Factor("rivals", rivals, doc="who competes"),
            Factor(
                "outside",
                OUTSIDE[preset],
                "count",
                most=MAX_OUTSIDE,
                doc="accesses to private words between sections",
            ),
            Factor(
                "inside",
                (1, INSIDE, MAX_INSIDE) if more else (INSIDE,),
                "count",
                least=1,
                most=MAX_INSIDE,
                doc="accesses in a section",
            ),
            Factor(
                "cpu_threads",
                sorted({1, threads, processors} if more else {threads}),
                "count",
                most=processors,
                doc="CPU threads that compete",
            ),
            Factor(
                "gpu_groups",
                sorted({min(1, groups), groups} if more else {groups}),
                "count",
                most=max(groups, _max_resident_groups(device)),
                doc="GPU groups that compete",
            ),
            Factor(
                "gpu_group_threads",
                GROUP_THREADS[preset] if _has_concurrent_groups(device) else (1,),
                "count",
                least=1,
                most=MAX_GROUP_THREADS,
                doc="threads of each GPU group that compete",
            ),
            Factor(
                "sections",
                [SECTIONS[preset]],
                "count",
                least=1,
                most=MAX_SECTIONS,
                doc="sections of a sample; fewer with many accesses outside",
            ),
            Factor(FLUSH, (NEVER, FENCE), doc="what makes stores visible to the other agent", optional=True),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, rivals = factors.text("allocator"), factors.text("rivals")
        agents = {"both": ("gpu", "cpu")}.get(rivals, (rivals,))
        if reason := unreachable(device, allocator, *agents):
            return reason
        entry = device.allocator(allocator)
        if rivals == "both" and entry is not None and not entry.concurrent:
            parts = allows_concurrent_parts(entry)
            if not parts or factors.get(FLUSH) != FENCE:
                other = f"; --set {FLUSH}={FENCE} relies on fences" if parts else ""
                return f"CPU and GPU do not see each other's stores to {allocator} memory while a kernel runs{other}"
        if "gpu" in agents and factors["gpu_group_threads"] != 1 and not _has_concurrent_groups(device):
            return f"the threads of a group run one after another on {device.name}"
        return _why_not_at_once(factors, agents, device)

    def measure(self, point: Point, session: Session) -> Measurement:
        rivals = point["rivals"]
        number = {name: point.count(name) for name in COUNTS}
        sections = max(16, number["sections"] // (1 + number["outside"] // 100))
        with session.device.allocate(point.text("allocator"), max(BASE_PAGE, number["inside"] * LINE)) as region:
            outcome = _core.locking(
                session.device,
                region,
                cpu_threads=number["cpu_threads"] if rivals != "gpu" else 0,
                gpu_groups=number["gpu_groups"] if rivals != "cpu" else 0,
                group_threads=number["gpu_group_threads"],
                sections=sections,
                inside=number["inside"],
                outside=number["outside"],
                flushed=point.factors.get(FLUSH) == FENCE,
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement.of(
                outcome,
                verified_why=f"{outcome.errors} words or sections do not add up" if outcome.errors else "",
                buffers=[buffer_fact("region", region)],
            )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        single = [r for r in records if _group_threads(r) == 1]
        usual = [r for r in single if r.factors["inside"] == INSIDE] or single or list(records)
        least = min((r.count("outside") for r in usual), default=0)
        rows = [r for r in usual if r.count("outside") == least]
        contended = lowest([r for r in rows if r.factors["rivals"] == "both"], "allocator")
        alone = {
            str(agent): lowest(agent_rows, "allocator") for (agent,), agent_rows in group_by(rows, "rivals").items()
        }
        alone.pop("both", None)
        if not contended:
            return [*(finding(ALONE_BEST, agent_rows[0]) for agent_rows in alone.values()), *_group_findings(records)]
        fastest, slowest = contended[0], contended[-1]
        findings = [finding(CONTENDED, fastest, details={"share": Quantity(100 * fastest.counter("cpu_share"), "%")})]
        same_memory = [
            r
            for agent_rows in alone.values()
            for r in agent_rows
            if r.factors["allocator"] == fastest.factors["allocator"]
        ]
        findings += [finding(ALONE, r, comparison=compare_medians(r, fastest)) for r in same_memory]
        if (comparison := compare_medians(slowest, fastest)).is_clear:
            findings.append(finding(SLOWEST, slowest, comparison=comparison))
        return [*findings, *_findings_with_most_outside(usual, fastest), *_group_findings(records)]


_SECTION = "with {outside} accesses between sections, a critical section"
CONTENDED = Claim(
    "locking.contended",
    f"{_SECTION} takes {{value}} on {{allocator}} memory when CPU and GPU compete; {{share}} of the sections are the "
    "CPU's",
    names=("rivals",),
)
ALONE = Claim(
    "locking.alone",
    "{value} for the {rivals}",
    "with one agent alone, on {allocator} memory, it takes",
    ("rivals", "outside", "gpu_group_threads"),
)
ALONE_BEST = Claim("locking.alone", f"{_SECTION} takes the {{rivals}} alone {{value}} on {{allocator}} memory")
SLOWEST = Claim(
    "locking.slowest",
    "it is slowest on {allocator} memory: {value}, {ratio_as_long} as on {other_allocator} memory",
    names=("rivals", "outside", "gpu_group_threads"),
)


MANY_OUTSIDE = Claim(
    "locking.outside",
    "with {outside} accesses between sections it is faster on {allocator} memory: {value}, {ratio_as_long} as on "
    "{other_allocator} memory ({other_value})",
    names=("rivals",),
)


IN_GROUPS = Claim(
    "locking.groups",
    "on {allocator} memory, with {outside} accesses between sections, a section of the GPU alone takes {value} with "
    "{gpu_group_threads} competing threads in each group, {ratio_as_long} as with one ({other_value})",
    names=("rivals", "gpu_group_threads"),
)


def _findings_with_most_outside(records: Sequence[Record], fastest: Record) -> list[Finding]:
    """The memory that is clearly faster with the most accesses between sections, where without them `fastest` is."""
    contended = [r for r in records if r.factors["rivals"] == "both"]
    most = max(r.count("outside") for r in contended)
    rows = lowest([r for r in contended if r.count("outside") == most], "allocator")
    same = [r for r in rows if r.factors["allocator"] == fastest.factors["allocator"]]
    if not same or most == fastest.count("outside"):
        return []
    comparison = compare_medians(rows[0], same[0])
    return [finding(MANY_OUTSIDE, rows[0], comparison=comparison)] if comparison.is_clear else []


def _group_threads(record: Record) -> int:
    return record.count("gpu_group_threads") if "gpu_group_threads" in record.factors else 1


def _group_findings(records: Sequence[Record]) -> list[Finding]:
    """Compares the most competing threads in a group with one, for the GPU alone."""
    alone = [r for r in records if r.factors["rivals"] == "gpu"]
    pairs = [
        (r, ungrouped)
        for r in alone
        for ungrouped in alone
        if _group_threads(r) > 1 and {**ungrouped.factors} == {**r.factors, "gpu_group_threads": 1}
    ]
    if not pairs:
        return []
    most, ungrouped = max(pairs, key=lambda pair: _group_threads(pair[0]))
    comparison = compare_medians(most, ungrouped)
    return [finding(IN_GROUPS, most, comparison=comparison)] if comparison.is_clear else []


def _has_concurrent_groups(device: DeviceInfo) -> bool:
    """Whether the threads of a group run at the same time; on a processor they are the iterations of a loop."""
    return device.role == "gpu"


def _why_not_at_once(factors: Factors, agents: tuple[str, ...], device: DeviceInfo) -> str | None:
    """Returns why these numbers of competitors cannot run at once, or None."""
    most = {"cpu": usable_processors(device), "gpu": _max_resident_groups(device)}
    for agent, name in (("cpu", "cpu_threads"), ("gpu", "gpu_groups")):
        number = factors.count(name)
        if agent in agents and not 1 <= number <= most[agent]:
            return f"{name}={number}: from 1 to {most[agent]} can run at once here"
    return None
