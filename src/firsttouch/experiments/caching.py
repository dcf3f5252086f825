"""caching: which memory an agent caches, and the cost of threads sharing a cache line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from firsttouch import _core
from firsttouch.base.errors import NotModelled
from firsttouch.base.units import format_size
from firsttouch.experiments.analysis.caching import is_cached
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
    KiB,
    MiB,
    agents,
    allocator_factor,
    buffer_fact,
    last_level_bytes,
    line_bytes,
    memory_bytes,
    unreachable,
)
from firsttouch.experiments.contract.meanings import AGENTS, HARDWARE
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.presets import FULL, QUICK, STANDARD, Not, leave_out, take, take_only
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.allocators.properties import is_main_of_device
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro import lines
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Line, Table
from firsttouch.records.findings import Claim, Finding, are_alike, compare_medians, finding, quantity
from firsttouch.records.reading import key_of
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import distinct, group_by, measured, median_of
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

ENTRY = 8
PADDINGS = (0, 32, 64, 128)
"""Bytes to which an entry is padded; 0 means adjacent entries."""
SINGLE_PASS = ("single-pass", "single-pass-even")
PATTERNS = ("reread", "own", "even", "one", *SINGLE_PASS)
LOADS = ("cached", "uncached", "bypass-l1", "staged")
AUTO = "auto"
"""The size of the patterns other than a single pass, which follows from their entries or from the caches."""
LINE_PADDING = {"cpu": 64, "gpu": 128}
"""Padding that puts every entry on a separate line."""
MAX_THREADS = 2**30
GPU_THREADS = {"quick": 2**20, "standard": 2**20, "full": 2**23}
SINGLE_PASS_BYTES = 64 * MiB
REREAD_BYTES = {"quick": 64 * MiB, "standard": 256 * MiB, "full": 256 * MiB}
"""The largest buffer. A last cache that holds it is still far slower than the first."""


def thread_counts(device: DeviceInfo, agent: str, preset: Preset) -> list[int]:
    """Returns thread counts from 1 to all processors of the CPU, or to GPU_THREADS for a GPU."""
    if agent == "cpu":
        most, factor = usable_processors(device), {"quick": 2**20, "standard": 4, "full": 2}[preset]
    else:
        most, factor = GPU_THREADS[preset], {"quick": 2**10, "standard": 2**5, "full": 2}[preset]
    counts = [1]
    while counts[-1] * factor < most:
        counts.append(counts[-1] * factor)
    return [*counts, most] if most > 1 else counts


def _counts(candidate: Candidate) -> list[int]:
    return thread_counts(candidate.device, candidate.factors.text("agent"), candidate.preset)


def _why_meaningless(factors: Factors) -> str:
    pattern, other_loads = factors["pattern"], factors["loads"] != "cached"
    if (pattern in SINGLE_PASS) == (factors["size"] == AUTO):
        return "a single pass takes a size, and other patterns do not"
    if factors["threads"] == 0 and pattern not in SINGLE_PASS:
        return "only a single pass has as many threads as entries"
    if pattern == "reread" and (factors["threads"] != 1 or factors["padding"] != 0 or other_loads):
        return "pattern=reread takes one thread, cached loads and no padding"
    if pattern == "one" and factors["padding"] != 0:
        return "a single entry has no neighbour, so pattern=one goes with padding=0 only"
    if other_loads and factors["agent"] == "cpu":
        return "whether the CPU's loads are cached depends on the memory, not on the load"
    return ""


class Caching(Experiment):
    """Threads that increment entries near each other. Source: ISMM 2017 Sec. 4.2.3 and 6.2.2."""

    name = "caching"
    order = 75
    question = "Which memory does each agent cache, and what does sharing a line cost?"
    metric = Metric("ns", "lower")
    counted = (
        "own, even, one: one update of an 8-byte entry (a load, an add, a store) by one thread: the time of a run "
        "over the updates of each thread. own: every thread has its entry; even: the odd threads do nothing; "
        "one: all threads race for the first entry, and lose updates. single-pass: a run updates every entry of an "
        "array of `size` once, single-pass-even every second one: the time of the run over the updated entries. "
        "reread: one dependent load from 4 KiB that are read repeatedly; the counter cold_ns has the time of loads "
        "from the whole buffer. slowdown is the time over that without padding; over_device the time over that in the "
        "device's own memory under the same conditions."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.3 and 6.2.2"
    codebook = Codebook(
        between_memories=True,
        factors={
            "agent": AGENTS,
            "allocator": {},
            "pattern": {
                "reread": "one thread reads a buffer twice",
                "own": "each thread updates an entry of its own",
                "even": "even threads alone update theirs",
                "one": "all threads update one entry",
                "single-pass": "each thread updates its entries once",
                "single-pass-even": "even threads alone do",
            },
            "padding": {},
            "threads": {},
            "loads": {
                "cached": "through all caches",
                "uncached": "from memory",
                "bypass-l1": "past the first cache",
                "staged": "through local memory",
            },
            "size": {},
        },
        counters=(
            CounterEntry(name="kept", unit="", at_most=1),
            CounterEntry(name="(cold|entry|reread|update)_ns", unit="ns"),
            CounterEntry(name="updates", unit=""),
            CounterEntry(name="cached", unit="word"),
            HARDWARE,
        ),
    )
    figures = (
        Line(x="threads", y="update_ns", colour="pattern", dash="padding", facet="allocator", log_x=True,
             log_y=True, x_title="threads", y_title="time per update, ns"),
        Line(x="padding", y="entry_ns", colour="allocator", dash="loads", facet="pattern", log_y=True,
             x_title="padding", y_title="time per entry, ns", title="A single pass over an array, by padding"),
        Line(x="padding", y="slowdown", colour="allocator", dash="loads", facet="pattern", where={"most_threads": True},
             x_title="padding", y_title="time over that without padding",
             title="Slowdown by padding, with the most threads"),
        Line(x="threads", y="over_device", colour="allocator", dash="loads", where={"pattern": "one"}, log_x=True,
             x_title="threads", y_title="time relative to device memory",
             title="All threads on one entry: time relative to device memory"),
        Line(x="padding", y="over_device", colour="allocator", dash="loads", facet="pattern",
             where={"pattern": SINGLE_PASS}, x_title="padding", y_title="time relative to device memory",
             title="A single pass: time relative to device memory, by padding"),
        Table(where={"pattern": "reread"},
              columns=("agent", "allocator", "reread_ns", "cold_ns", "cached")),
    )  # fmt: skip

    planning = Planning(
        rules=(
            leave_out("the CPU's accesses to plain host memory are measured on the device cpu", measured_on_cpu=True),
            take("whether memory is cached is measured for every allocator", pattern="reread"),
            leave_out("a single pass is made by a thread for each entry, or by all processors",
                      pattern=SINGLE_PASS, threads=Not(0)),
            leave_out("the thread count belongs to the other agent", own_thread_count=False),
            leave_out("what cannot be measured is recorded once", skipped=True),
            leave_out("for other allocators only pattern=reread is measured", QUICK, main_curve=False),
            take("curves over threads are measured also for page-locked and shared memory",
                 FULL, main_curve=False, first_agent=True, role=("page-locked", "shared"), common=True,
                 pattern=("own", "one"), loads="cached"),
            take("curves over threads past the first-level cache are measured too",
                 FULL, first_agent=True, role=("device", "page-locked", "shared"), common=True,
                 pattern=("own", "one"), padding=(0, 32), loads="bypass-l1"),
            take("curves over threads are measured also for page-locked and shared memory",
                 STANDARD, main_curve=False, first_agent=True, role=("page-locked", "shared"), common=True,
                 pattern=("own", "one"), adjacent_or_line_apart=True, loads="cached"),
            take("a single pass is measured for every allocator",
                 FULL, main_curve=False, first_agent=True, pattern=SINGLE_PASS, loads="cached"),
            take("a single pass is measured for every allocator",
                 STANDARD, main_curve=False, first_agent=True, pattern="single-pass", adjacent_or_line_apart=True,
                 loads="cached"),
            take_only("for other allocators entries are measured adjacent and a line apart, by all threads",
                      of={"main_curve": False},
                      pattern="own", adjacent_or_line_apart=True, all_threads=True, loads="cached"),
            take_only("loads past the first-level cache of the GPU, or staged, are measured adjacent and a line apart",
                      FULL, of={"loads": ("bypass-l1", "staged")}, pattern=("own", "single-pass"),
                      adjacent_or_line_apart=True),
            take("the full preset measures every other combination", FULL),
            leave_out("loads past the first-level cache of the GPU, or staged, are left to longer presets",
                      QUICK, loads=("bypass-l1", "staged")),
            take_only("other kinds of loads are measured with adjacent entries only",
                      of={"loads": Not("cached")}, pattern="own", padding=0),
            take_only("a single pass is measured with adjacent entries and a line apart",
                      QUICK, of={"pattern": SINGLE_PASS}, pattern="single-pass", adjacent_or_line_apart=True),
            take_only("pattern=even is measured with adjacent entries and all threads",
                      QUICK, of={"pattern": "even"}, padding=0,
                      all_threads=True),
            leave_out("other paddings are measured with all threads only",
                      QUICK, adjacent_or_line_apart=False, all_threads=False),
        ),
        properties={
            "own_thread_count": lambda candidate: candidate.factors["threads"] in (0, *_counts(candidate)),
            "all_threads": lambda candidate: candidate.factors["threads"] in (0, _counts(candidate)[-1]),
            "adjacent_or_line_apart": lambda candidate: (
                candidate.factors["padding"] in (0, LINE_PADDING[candidate.factors.text("agent")])
            ),
        },
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        most = max(MAX_THREADS if agent == "gpu" else usable_processors(device) for agent in agents(device))
        counts = {count for agent in agents(device) for count in thread_counts(device, agent, preset)}
        loads = [kind for kind in LOADS if _why_no_loads(kind, device) is None]
        return [
            Factor("agent", agents(device), doc="who loads and stores"),
            allocator_factor(device),
            Factor("pattern", PATTERNS, doc="an entry each, even threads alone, one for all, or one pass"),
            Factor(
                "padding",
                PADDINGS,
                "count",
                most=BASE_PAGE,
                multiple=ENTRY,
                doc="bytes that an entry of 8 is padded to; 0: adjacent entries",
            ),
            Factor(
                "threads",
                [0, *sorted(counts)],
                "count",
                most=most,
                doc="threads of the agent; 0, for a single pass: one for each entry, or all processors",
            ),
            Factor("loads", loads, choices=LOADS, doc="which caches may serve a GPU's load, or through local memory"),
            Factor(
                "size",
                (AUTO, SINGLE_PASS_BYTES),
                "extent",
                known={AUTO: AUTO},
                doc="bytes of the array of a single pass; auto for other patterns",
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if meaningless := _why_meaningless(factors):
            return Meaningless(meaningless)
        agent, threads = factors.text("agent"), factors.count("threads")
        most = usable_processors(device) if agent == "cpu" else MAX_THREADS
        if threads > most:
            return f"the {agent.upper()} takes 1 to {most} threads here"
        if factors["size"] == 0:
            return "a single pass needs a size of at least one entry"
        return _why_no_loads(factors.text("loads"), device) or unreachable(device, factors.text("allocator"), agent)

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
        device, agent, pattern = session.device, point.text("agent"), point.text("pattern")
        stride = 0 if pattern == "one" else max(ENTRY, point.size("padding"))
        threads, entries, single_pass = point.count("threads"), 0, pattern in SINGLE_PASS
        if single_pass:
            entries = max(1, point.size("size") // stride)
            threads = threads or (_core.usable_processors() if agent == "cpu" else min(entries, MAX_THREADS))
        with device.allocate(point.text("allocator"), max(BASE_PAGE, (entries or threads) * stride)) as buffer:
            outcome = _core.caching(
                device,
                buffer,
                agent=agent,
                threads=threads,
                stride=stride,
                entries=entries,
                even_only=pattern in ("even", "single-pass-even"),
                loads=point.text("loads"),
                seed=session.seed,
                stop=session.stop(max_samples=200),
            )
            reason = "of one entry for all, which loses updates, only that it lies between one and all of them"
            return Measurement.of(
                outcome,
                verified_why=reason if pattern == "one" else "",
                buffers=[buffer_fact("entries", buffer)],
                counters={"entry_ns" if single_pass else "update_ns": _core.summarise(outcome.samples)[1]},
            )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        device, agent, pattern = device_of(point, platform), point.text("agent"), point.text("pattern")
        allocator, loads = point.text("allocator"), point.text("loads")
        if pattern == "reread":
            few, nbytes = 4 * KiB, min(REREAD_BYTES["quick"], memory_bytes(device))
            again, cold = lines.reread(platform, device, agent=agent, allocator=allocator, few=few, nbytes=nbytes)
            counters: dict[str, Scalar] = {"reread_ns": again.value, "cold_ns": cold.value}
            counters["cached"] = is_cached(again.value, cold.value)
            return predicted(replace(again, counters=counters, grounds=(*again.grounds, *cold.grounds)))
        single_pass, step = pattern in SINGLE_PASS, 2 if pattern in ("even", "single-pass-even") else 1
        apart = 0 if pattern == "one" else step * max(ENTRY, point.size("padding"))
        threads = point.count("threads")
        if single_pass:
            if point.size("size") <= last_level_bytes(device):
                raise NotModelled("a single pass over an array that caches may hold")
            usual_only(point, loads="cached", **({"threads": 0} if agent == "gpu" else {}))
            few = threads if threads < usable_processors(device) else 0
            answer = lines.single_pass(
                platform, device, agent=agent, allocator=allocator, nbytes=point.size("size"), apart=apart, threads=few
            )
        else:
            if loads not in ("cached", "bypass-l1"):
                raise NotModelled(f"loads={loads}")
            if agent == "cpu":
                raise NotModelled("lines that threads of the CPU share")
            answer = lines.updates(
                platform, device, allocator=allocator, threads=threads, apart=apart, step=step,
                without="l1" if loads == "bypass-l1" else "",
            )  # fmt: skip
        name = "entry_ns" if single_pass else "update_ns"
        return predicted(replace(answer, counters={name: answer.value}))

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Adds the counter `slowdown` to points that differ from others in their padding alone, `most_threads` to
        those of them with the most threads of their curve, and `over_device` to those in other memory than the
        device's.
        """
        names = dict.fromkeys(name for record in records for name in record.factors)
        curve = ["device", *(name for name in names if name not in ("threads", "padding"))]
        of_padding = {id(r): rows for rows in group_by(records, *curve, "threads").values() for r in rows}
        most = {
            id(r): max(o.count("threads") for o in rows) for rows in group_by(records, *curve).values() for r in rows
        }
        in_device = {key_of(r, "allocator"): r for r in measured(records) if is_main_of_device(_memory(r))}
        derived = []
        for record in records:
            rows = measured(of_padding[id(record)])
            adjacent = [r for r in rows if r.factors["padding"] == 0]
            if len(rows) > 1 and adjacent and record in rows:
                counters = {
                    "slowdown": median_of(record) / median_of(adjacent[0]),
                    "most_threads": record.count("threads") == most[id(record)],
                }
                record = msgspec.structs.replace(record, counters={**record.counters, **counters})
            derived.append(record)
        return [_over_device(record, in_device.get(key_of(record, "allocator"))) for record in derived]

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        line = line_bytes(device) if device else 64
        agents_of = [[r for r in records if r.factors["agent"] == agent] for agent in ("gpu", "cpu")]
        cached = [f for rows in agents_of for f in _cached_memory_findings(rows)]
        return [
            *cached,
            *(f for rows in agents_of for f in _line_sharing_findings(rows, line)),
            *_other_memory_findings(records),
        ]


def _memory(record: Record) -> str:
    return str(record.factors["allocator"])


def _over_device(record: Record, base: Record | None) -> Record:
    """The record with its time over that in the device's own memory, if it updates entries in other memory."""
    updates = record.factors["pattern"] != "reread" and record in measured([record])
    if base is None or not updates or record.factors == base.factors:
        return record
    counters = {**record.counters, "over_device": median_of(record) / median_of(base)}
    return msgspec.structs.replace(record, counters=counters)


def _why_no_loads(loads: str, device: DeviceInfo) -> str | None:
    """Returns why kernels of the device cannot load in this way, or None."""
    if loads == "cached":
        return None
    if not device.capabilities.runs_kernels:
        return f"{device.name} runs no kernels"
    if loads == "staged" or device.capabilities.uncached_loads:
        return None
    return f"kernels of {device.name} have one kind of load"


_REREAD = ("pattern", "padding", "threads", "loads", "size")
CACHED = Claim("caching.cached", "the {agent} caches {allocator} memory", names=_REREAD)
NOT_CACHED = Claim("caching.cached", "the {agent} does not cache {allocator} memory", names=_REREAD)
_SLOWER = (
    "takes {value} where entries share lines, {ratio_as_long} as where they are {other_padding} apart ({other_value})"
)
_FASTER = "takes {value} where entries share lines, less than the {other_value} where they are {other_padding} apart"
_ALIKE = "takes {value}, whether entries share lines or are {other_padding} apart"
_UNTOLD = (
    "takes {value} where entries share lines, with no clear difference from the {other_value} where they are "
    "{other_padding} apart"
)
_TEXTS = (_SLOWER, _FASTER, _ALIKE, _UNTOLD)
_WHERE = "with {threads} threads of the {agent} on {allocator} memory, an update"
_LINES = ("pattern", "padding", "loads")
SHARING = tuple(Claim("caching.sharing", f"{_WHERE} {text}", names=_LINES) for text in _TEXTS)
_PASS = "in a single pass of the {agent} over {size} of {allocator} memory, an entry"
SINGLE_PASSES = tuple(Claim("caching.single_pass", f"{_PASS} {text}", names=_LINES) for text in _TEXTS)


_OVER = "takes {value} in {allocator} memory, {ratio_as_long} as in {other_allocator} memory ({other_value})"
ONE_ENTRY = Claim(
    "caching.over_device",
    f"with {{threads}} threads on one entry, an update {_OVER}",
    names=("pattern", "padding"),
)
PASSES = Claim("caching.over_device", f"a single pass over {{entries}} {_OVER}", names=("pattern", "padding"))


def _other_memory_findings(records: Sequence[Record]) -> list[Finding]:
    """Where updates of one entry, and single passes, take most in other memory against the device's own."""
    base = {key_of(r, "allocator"): r for r in records if "over_device" not in r.counters}
    compared = [r for r in records if "over_device" in r.counters and r.factors["pattern"] in ("one", *SINGLE_PASS)]
    findings = []
    for rows in group_by(compared, "allocator", "pattern").values():
        most = max(rows, key=lambda r: r.counter("over_device"))
        if (comparison := compare_medians(most, base[key_of(most, "allocator")])).is_clear:
            claim = ONE_ENTRY if most.factors["pattern"] == "one" else PASSES
            entries = "every second entry" if most.factors["pattern"] == "single-pass-even" else "all entries"
            if apart := most.count("padding"):
                entries += f", {format_size(apart)} apart,"
            findings.append(finding(claim, most, comparison=comparison, entries=entries))
    return findings


def _cached_memory_findings(records: Sequence[Record]) -> list[Finding]:
    """Which memory one agent caches and which it does not."""
    rows = [r for r in records if r.factors["pattern"] == "reread"]
    findings = []
    for claim, cached in ((CACHED, True), (NOT_CACHED, False)):
        if matching := [r for r in rows if r.counters.get("cached") is cached]:
            names = tuple(distinct(matching, "allocator"))
            findings.append(finding(claim, matching, "cached" if cached else "not cached", allocator=names))
    return findings


def _line_sharing_findings(records: Sequence[Record], line: int) -> list[Finding]:
    """Compares adjacent entries with entries on separate lines, for the most threads and in a single pass of one
    agent, on the memory that was measured first.
    """
    cached = [r for r in records if r.factors["loads"] == "cached"]
    own_entries = [r for r in cached if r.factors["pattern"] == "own" and r.count("threads") > 1]
    single_pass = [r for r in cached if r.factors["pattern"] == "single-pass"]
    in_own_lines = _compare_line_sharing(own_entries, line, "threads", SHARING)
    return [*in_own_lines, *_compare_line_sharing(single_pass, line, "size", SINGLE_PASSES)]


def _compare_line_sharing(records: Sequence[Record], line: int, largest: str, claims: Sequence[Claim]) -> list[Finding]:
    """Compares them at the largest value of a factor. claims: sharing is slower, faster, alike, or not told apart."""
    pairs = [
        (r, apart) for r in records if r.factors["padding"] == 0 and (apart := _one_entry_per_line(r, records, line))
    ]
    if not pairs:
        return []
    near, apart = max(pairs, key=lambda pair: pair[0].count(largest))
    comparison = compare_medians(near, apart)
    slower, faster, alike, untold = claims
    if comparison.is_clear:
        claim = slower if comparison.ratio.value > 1 else faster
    else:
        claim = alike if are_alike(map(quantity, (near, apart))) else untold
    return [finding(claim, near, comparison=comparison)]


def _one_entry_per_line(record: Record, candidates: Sequence[Record], line: int) -> Record | None:
    """Returns the record with the same conditions and one entry per line, or None."""
    unpadded_factors = {name: value for name, value in record.factors.items() if name != "padding"}
    fits = (
        r for r in candidates if unpadded_factors.items() <= r.factors.items() and r.count("padding") >= min(64, line)
    )
    return max(fits, key=lambda r: r.count("padding"), default=None)
