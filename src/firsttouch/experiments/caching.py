"""caching: which memory an agent caches, and the cost of threads sharing a cache line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from firsttouch import _core
from firsttouch.analysis.caching import is_cached
from firsttouch.analysis.findings import Claim, Finding, compare, finding
from firsttouch.analysis.statistics import distinct
from firsttouch.experiments.base import Experiment, Factor, Measurement, Point, Preset
from firsttouch.experiments.common import (
    BASE_PAGE,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    line_bytes,
    memory_bytes,
    unreachable,
)
from firsttouch.experiments.presets import FULL, QUICK, Candidate, leave_out, take, take_only
from firsttouch.figures import Line, Table
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record
from firsttouch.session import Session

ENTRY = 8
PADDINGS = (0, 32, 64, 128)
"""Bytes to which an entry is padded; 0 means adjacent entries."""
PATTERNS = ("reread", "own", "even", "one")
LINE_PADDING = {"cpu": 64, "gpu": 128}
"""Padding that puts every entry on a separate line."""
MAX_THREADS = 2**20
REREAD_BYTES = {"quick": 64 * MiB, "standard": 256 * MiB, "full": 256 * MiB}
"""The largest buffer. A last cache that holds it is still far slower than the first."""


def thread_counts(device: DeviceInfo, agent: str, preset: Preset) -> list[int]:
    """Returns thread counts from 1 to all processors of the CPU, or to 2^20 for a GPU."""
    if agent == "cpu":
        most, factor = _core.usable_processors(), {"quick": 2**20, "standard": 4, "full": 2}[preset]
    else:
        most, factor = MAX_THREADS, {"quick": 2**10, "standard": 2**5, "full": 2}[preset]
    counts = [1]
    while counts[-1] * factor < most:
        counts.append(counts[-1] * factor)
    return [*counts, most] if most > 1 else counts


def _counts(candidate: Candidate) -> list[int]:
    return thread_counts(candidate.device, candidate.factors.text("agent"), candidate.preset)


class Caching(Experiment):
    """Threads that increment entries near each other. Source: ISMM 2017 Sec. 4.2.3 and 6.2.2."""

    name = "caching"
    order = 75
    question = "Which memory does each agent cache, and what does sharing a line cost?"
    metric = Metric("ns", "lower")
    counted = (
        "own, even, one: one update of an 8-byte entry (a load, an add, a store) by one thread: the time of a run "
        "over the updates of each thread. own: every thread has its entry; even: the odd threads do nothing; "
        "one: all threads race for the first entry, and lose updates. reread: one dependent load from 4 KiB that are "
        "read repeatedly; the counter cold_ns has the time of loads from the whole buffer."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.3 and 6.2.2"
    figures = (
        Line(x="threads", y="update_ns", colour="pattern", dash="padding", facet="allocator", log_x=True,
             log_y=True, x_title="threads", y_title="time per update, ns"),
        Table(where={"pattern": "reread"},
              columns=("agent", "allocator", "reread_ns", "cold_ns", "cached")),
    )  # fmt: skip
    share = 1.0

    rules = (
        leave_out("the CPU's accesses to plain host memory are measured on the device cpu", measured_on_cpu=True),
        take("whether memory is cached is measured for every allocator", pattern="reread"),
        leave_out("the thread count belongs to the other agent", own_thread_count=False),
        leave_out("what cannot be measured is recorded once", skipped=True),
        leave_out("for other allocators only pattern=reread is measured", QUICK, main_curve=False),
        take_only("for other allocators entries are measured adjacent and a line apart, by all threads",
                  of={"main_curve": False},
                  pattern="own", adjacent_or_line_apart=True, all_threads=True, loads="cached"),
        take("the full preset measures every combination", FULL),
        take_only("uncached loads are measured with adjacent entries only",
                  of={"loads": "uncached"}, pattern="own", padding=0),
        take_only("pattern=even is measured with adjacent entries and all threads",
                  QUICK, of={"pattern": "even"}, padding=0,
                  all_threads=True),
        leave_out("other paddings are measured with all threads only",
                  QUICK, adjacent_or_line_apart=False, all_threads=False),
    )  # fmt: skip
    properties: ClassVar = {
        "own_thread_count": lambda candidate: candidate.factors["threads"] in _counts(candidate),
        "all_threads": lambda candidate: candidate.factors["threads"] == _counts(candidate)[-1],
        "adjacent_or_line_apart": lambda candidate: (
            candidate.factors["padding"] in (0, LINE_PADDING[candidate.factors.text("agent")])
        ),
    }

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        most = max(MAX_THREADS if agent == "gpu" else _core.usable_processors() for agent in agents(device))
        counts = {count for agent in agents(device) for count in thread_counts(device, agent, preset)}
        loads = ("cached", "uncached") if device.capabilities.uncached_loads else ("cached",)
        return [
            Factor("agent", agents(device), choices=agents(device), doc="who loads and stores"),
            allocator_factor(device),
            Factor("pattern", PATTERNS, choices=PATTERNS, doc="an entry each, even threads alone, one entry for all"),
            Factor(
                "padding",
                PADDINGS,
                "count",
                most=BASE_PAGE,
                multiple=ENTRY,
                doc="bytes that an entry of 8 is padded to",
            ),
            Factor("threads", sorted(counts), "count", least=1, most=most, doc="threads of the agent"),
            Factor("loads", loads, choices=("cached", "uncached"), doc="whether loads may use the first-level cache"),
        ]

    def why_meaningless(self, factors: Factors, device: DeviceInfo) -> str:
        pattern, past = factors["pattern"], factors["loads"] == "uncached"
        if pattern == "reread" and (factors["threads"] != 1 or factors["padding"] != 0 or past):
            return "pattern=reread takes one thread, cached loads and no padding"
        if pattern == "one" and factors["padding"] != 0:
            return "a single entry has no neighbour, so pattern=one goes with padding=0 only"
        if past and factors["agent"] == "cpu":
            return "whether the CPU's loads are cached depends on the memory, not on the load"
        return ""

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        agent, threads = factors.text("agent"), factors.count("threads")
        most = _core.usable_processors() if agent == "cpu" else MAX_THREADS
        if not 0 < threads <= most:
            return f"the {agent.upper()} takes 1 to {most} threads here"
        if factors["loads"] == "uncached" and not device.capabilities.uncached_loads:
            return f"kernels of {device.name} have one kind of load"
        return unreachable(device, factors.text("allocator"), agent)

    def measure(self, point: Point, session: Session) -> Measurement:
        return self._reread(point, session) if point["pattern"] == "reread" else self._update(point, session)

    @staticmethod
    def _reread(point: Point, session: Session) -> Measurement:
        device, allocator = session.device, point.text("allocator")
        with device.allocate(allocator, min(REREAD_BYTES[session.preset], memory_bytes(session.info))) as buffer:
            outcome = _core.reread(device, buffer, agent=point.text("agent"), seed=session.seed, stop=session.stop())
            again, cold = outcome.counters["reread_ns"], outcome.counters["cold_ns"]
            return Measurement.of(
                outcome,
                keep=("reread_ns", "cold_ns"),
                counters={"cached": is_cached(again, cold)},
                buffers=[buffer_fact("chase", buffer)],
            )

    @staticmethod
    def _update(point: Point, session: Session) -> Measurement:
        device, pattern, threads = session.device, point.text("pattern"), point.count("threads")
        stride = 0 if pattern == "one" else max(ENTRY, point.size("padding"))
        with device.allocate(point.text("allocator"), max(BASE_PAGE, threads * stride)) as buffer:
            outcome = _core.caching(
                device,
                buffer,
                agent=point.text("agent"),
                threads=threads,
                stride=stride,
                even_only=pattern == "even",
                loads=point.text("loads"),
                seed=session.seed,
                stop=session.stop(max_samples=200),
            )
            why = "of one entry for all, which loses updates, only that it lies between one and all of them"
            return Measurement.of(
                outcome,
                verified_why=why if pattern == "one" else "",
                buffers=[buffer_fact("entries", buffer)],
                counters={"update_ns": _core.summarise(outcome.samples)[1]},
            )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        line = line_bytes(device) if device else 64
        agents_of = [[r for r in records if r.factors["agent"] == agent] for agent in ("gpu", "cpu")]
        cached = [found for rows in agents_of for found in _cached(rows)]
        return [*cached, *(found for rows in agents_of for found in _sharing(rows, line))]


CACHED = Claim("caching.cached", "the {agent} caches {allocator} memory")
NOT_CACHED = Claim("caching.cached", "the {agent} does not cache {allocator} memory")
_WHERE = "with {threads} threads of the {agent} on {allocator} memory"
SLOWER = Claim(
    "caching.sharing",
    f"{_WHERE}, an update takes {{value}} where entries share lines, {{ratio}} times as long as where they are "
    "{other_padding} apart ({other_value})",
)
FASTER = Claim(
    "caching.sharing",
    f"{_WHERE}, an update takes {{value}} where entries share lines, less than the {{other_value}} where they are "
    "{other_padding} apart",
)
ALIKE = Claim(
    "caching.sharing",
    f"{_WHERE}, an update takes {{value}}, whether entries share lines or are {{other_padding}} apart",
)


def _cached(records: Sequence[Record]) -> list[Finding]:
    """Which memory one agent caches and which it does not."""
    rows = [r for r in records if r.factors["pattern"] == "reread"]
    found = []
    for claim, cached in ((CACHED, True), (NOT_CACHED, False)):
        if of := [r for r in rows if r.counters.get("cached") is cached]:
            names = tuple(distinct(of, "allocator"))
            found.append(finding(claim, of, "cached" if cached else "not cached", allocator=names))
    return found


def _sharing(records: Sequence[Record], line: int) -> list[Finding]:
    """Compares adjacent entries with entries on separate lines, for the most threads of one agent."""
    own = [
        r for r in records if (r.factors["pattern"], r.factors["loads"]) == ("own", "cached") and r.count("threads") > 1
    ]
    pairs = [(r, apart) for r in own if r.factors["padding"] == 0 and (apart := _apart(r, own, line))]
    if not pairs:
        return []
    near, apart = max(pairs, key=lambda pair: pair[0].count("threads"))
    comparison = compare(near, apart)
    claim = ALIKE if not comparison.is_clear else SLOWER if comparison.ratio.value > 1 else FASTER
    return [finding(claim, near, comparison=comparison)]


def _apart(record: Record, others: Sequence[Record], line: int) -> Record | None:
    """Returns the record with the same conditions and one entry per line, or None."""
    same = {name: value for name, value in record.factors.items() if name != "padding"}
    fits = (r for r in others if same.items() <= r.factors.items() and r.count("padding") >= min(64, line))
    return max(fits, key=lambda r: r.count("padding"), default=None)
