"""caching: which memory an agent caches, and what it costs when threads share a line."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.analysis.caching import is_cached
from firsttouch.analysis.statistics import median_of
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    BASE_PAGE,
    MiB,
    agents,
    allocator_names,
    buffer_fact,
    line_bytes,
    main_allocator,
    measured_on_cpu,
    memory_bytes,
    unreachable,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_seconds

ENTRY = 8
PADDINGS = (0, 32, 64, 128)
"""Bytes that an entry is padded to; 0: entries side by side."""
PATTERNS = ("reread", "own", "even", "one")
MOST_THREADS = 2**20
REREAD_BYTES = {"quick": 64 * MiB, "standard": 256 * MiB, "full": 256 * MiB}
"""At most so much is read over: a last cache that holds it is still far slower than the first."""


def thread_counts(device: DeviceInfo, agent: str, preset: Preset) -> list[int]:
    """Threads from one to all of the CPU, or to 2^20 of a GPU."""
    if agent == "cpu":
        most, factor = _core.usable_processors(), {"quick": 2**20, "standard": 4, "full": 2}[preset]
    else:
        most, factor = MOST_THREADS, {"quick": 2**10, "standard": 2**5, "full": 2}[preset]
    counts = [1]
    while counts[-1] * factor < most:
        counts.append(counts[-1] * factor)
    return [*counts, most] if most > 1 else counts


class Caching(Experiment):
    """Threads that increment entries near each other. Source: ISMM 2017 Sec. 4.2.3 and 6.2.2."""

    name = "caching"
    order = 75
    question = "Which memory does each agent cache, and what does sharing a line cost?"
    unit = "ns"
    better = "lower"
    counted = (
        "own, even, one: one update of an 8-byte entry (a load, an add, a store) as a thread sees it: the time of a "
        "run by the updates of each thread. own: every thread has its entry; even: the odd threads do nothing; "
        "one: all threads race for the first entry, and lose updates. reread: one dependent load of 4 KiB that are "
        "read again and again; the counter cold_ns has the time of loads all over the buffer."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.3 and 6.2.2"
    figures = (
        Figure(kind="line", x="threads", y="update_ns", colour="pattern", dash="padding", facet="allocator", log_x=True,
               log_y=True, x_title="threads", y_title="time per update, ns"),
        Figure(kind="table", x="allocator", where={"pattern": "reread"},
               columns=("agent", "allocator", "reread_ns", "cold_ns", "cached")),
    )  # fmt: skip
    share = 1.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        counts = {count for agent in agents(device) for count in thread_counts(device, agent, preset)}
        # The host and OpenCL have one kind of load.
        loads = ("cached",) if device.kind in ("cpu", "opencl") else ("cached", "uncached")
        return [
            Factor("agent", agents(device), choices=agents(device), doc="who loads and stores"),
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("pattern", PATTERNS, choices=PATTERNS, doc="an entry each, even threads alone, one entry for all"),
            Factor("padding", PADDINGS, "size", doc="bytes that an entry of 8 is padded to"),
            Factor("threads", sorted(counts), "count"),
            Factor("loads", loads, choices=("cached", "uncached"), doc="in the first-level cache, or past it"),
        ]

    def drop(self, factors: Factors) -> bool:
        """One entry has no neighbour; reading again is one thread's; a CPU's loads are cached or not by the memory."""
        pattern, past = factors["pattern"], factors["loads"] == "uncached"
        if pattern == "reread":
            return factors["threads"] != 1 or factors["padding"] != 0 or past
        return (pattern == "one" and factors["padding"] != 0) or (past and factors["agent"] == "cpu")

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        agent, threads, padding = str(factors["agent"]), int(str(factors["threads"])), int(str(factors["padding"]))
        most = _core.usable_processors() if agent == "cpu" else MOST_THREADS
        if not 0 < threads <= most:
            return f"the {agent} has 1 to {most} threads here"
        if padding % ENTRY != 0 or padding > BASE_PAGE:
            return f"an entry is padded to whole words, to {BASE_PAGE} bytes at most"
        if factors["loads"] == "uncached" and device.kind == "opencl":
            return "OpenCL has one kind of load"
        return unreachable(device, str(factors["allocator"]), agent)

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """The main allocator's curves; of every other the verdict, and entries side by side and apart."""
        agent, allocator, pattern = (str(factors[name]) for name in ("agent", "allocator", "pattern"))
        threads, padding = int(str(factors["threads"])), int(str(factors["padding"]))
        if measured_on_cpu(device, allocator, agent):
            return True
        if pattern == "reread":
            return False
        counts = thread_counts(device, agent, preset)
        if threads not in counts or self.skip(factors, device):
            return True  # the reason stands at the verdict
        far = 128 if agent == "gpu" else 64
        if agent != agents(device)[0] or allocator != main_allocator(device):
            few = {"quick": (), "standard": counts[-1:], "full": counts[-1:]}[preset]
            return pattern != "own" or padding not in (0, far) or threads not in few or factors["loads"] == "uncached"
        if preset == "full":
            return False
        if factors["loads"] == "uncached":
            return pattern != "own" or padding != 0
        if pattern == "even":
            return preset == "quick" and (padding != 0 or threads != counts[-1])
        return preset == "quick" and padding not in (0, far) and threads != counts[-1]

    def measure(self, point: Point, session: Session) -> Measurement:
        return self._reread(point, session) if point["pattern"] == "reread" else self._update(point, session)

    @staticmethod
    def _reread(point: Point, session: Session) -> Measurement:
        device, allocator = session.device, str(point["allocator"])
        with device.allocate(allocator, min(REREAD_BYTES[session.preset], memory_bytes(session.info))) as buffer:
            outcome = _core.reread(device, buffer, agent=str(point["agent"]), seed=session.seed, stop=session.stop())
            again, cold = outcome.counters["reread_ns"], outcome.counters["cold_ns"]
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                stopped_by=outcome.stopped_by,
                counters={"reread_ns": again, "cold_ns": cold, "cached": is_cached(again, cold)},
                buffers=[buffer_fact("chase", buffer)],
            )

    @staticmethod
    def _update(point: Point, session: Session) -> Measurement:
        device, pattern, threads = session.device, str(point["pattern"]), int(str(point["threads"]))
        stride = 0 if pattern == "one" else max(ENTRY, int(str(point["padding"])))
        with device.allocate(str(point["allocator"]), max(BASE_PAGE, threads * stride)) as buffer:
            outcome = _core.caching(
                device,
                buffer,
                agent=str(point["agent"]),
                threads=threads,
                stride=stride,
                even_only=pattern == "even",
                loads=str(point["loads"]),
                seed=session.seed,
                stop=session.stop(max_samples=200),
            )
            why = "of one entry for all, which loses updates, only that it lies between one and all of them"
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                verified_why=why if pattern == "one" else "",
                stopped_by=outcome.stopped_by,
                counters={**outcome.counters, "update_ns": _core.summarise(outcome.samples)[1]},
                buffers=[buffer_fact("entries", buffer)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        found = [record for record in records if record.summary]
        words = [*self._cached(found), *self._sharing(found, line_bytes(device) if device else 64)]
        return " ".join(words) or "No update was measured."

    @staticmethod
    def _cached(records: list[Record]) -> list[str]:
        """Who caches what, and what not."""
        words = []
        for agent in ("gpu", "cpu"):
            told = {
                r.factors["allocator"]: r.counters["cached"]
                for r in records
                if r.factors["pattern"] == "reread" and r.factors["agent"] == agent
            }
            for cached, verb in ((True, "caches"), (False, "does not cache")):
                if names := [str(name) for name, value in told.items() if value is cached]:
                    words.append(f"The {agent.upper()} {verb} {', '.join(names)}.")
        return words

    @staticmethod
    def _sharing(records: list[Record], line: int) -> list[str]:
        """Entries side by side against entries on lines of their own, under the most threads of each agent."""
        words = []
        for agent in ("gpu", "cpu"):
            own = [
                r
                for r in records
                if (r.factors["pattern"], r.factors["agent"], r.factors["loads"]) == ("own", agent, "cached")
                and r.factors["threads"] != 1
            ]
            near = [r for r in own if r.factors["padding"] == 0]
            pairs = [(r, _apart(r, own, line)) for r in near]
            found = max((p for p in pairs if p[1]), key=lambda p: int(str(p[0].factors["threads"])), default=None)
            if found and found[1]:
                side, apart = median_of(found[0]), median_of(found[1])
                words.append(
                    f"With {int(str(found[0].factors['threads'])):,} threads of the {agent.upper()} on "
                    f"{found[0].factors['allocator']} memory, an update of entries side by side takes "
                    f"{format_seconds(side * 1e-9)}, of entries on lines of their own {format_seconds(apart * 1e-9)}: "
                    f"{side / apart:.2g} times."
                )
        return words


def _apart(record: Record, others: list[Record], line: int) -> Record | None:
    """The record of the same conditions with an entry to a line, or None."""
    same = {name: value for name, value in record.factors.items() if name != "padding"}
    fits = (r for r in others if same.items() <= r.factors.items() and int(str(r.factors["padding"])) >= min(64, line))
    return max(fits, key=lambda r: int(str(r.factors["padding"])), default=None)
