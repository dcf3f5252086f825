"""locking: CPU and GPU compete for one lock."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.analysis.statistics import median_of
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import allocator_names, buffer_fact, main_allocator, unreachable
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record

RIVALS = ("both", "cpu", "gpu")
LINE = 256
"""Bytes between two words that are accessed inside, as the kernel has it."""
INSIDE, MOST_INSIDE = 16, 256
SECTIONS = {"quick": 500, "standard": 20_000, "full": 1_000_000}
OUTSIDE = {"quick": [0, 1000], "standard": [0, 100, 10_000], "full": [0, *(10**k for k in range(7))]}
LEFT_OUT = {
    "quick": ("mmap", "malloc-thp", "managed-static", "pinned-wc", "registered"),
    "standard": ("mmap", "malloc-thp", "managed-static"),
    "full": (),
}
"""Allocators that a preset has no time for."""


class Locking(Experiment):
    """Leaders of both agents meet at a Peterson lock. Source: Dashti and Fedorova, ISMM 2017, Sec. 4.2.4."""

    name = "locking"
    order = 110
    question = "What does a critical section cost that CPU and GPU compete for?"
    unit = "ns"
    better = "lower"
    counted = (
        "One critical section: the time of a run over the sections that all competitors had in it. A competitor, a "
        "CPU thread or a GPU group of one thread, makes `outside` accesses to words of its own, takes its agent's "
        "test-and-set lock, as leader takes the Peterson lock between the agents, adds one to each of `inside` words "
        "of a shared region, each on a line of its own, and leaves. rivals says who competes. The Peterson lock is "
        "always in memory in which each agent sees the other's stores; allocator is that of the region and of the "
        "words outside."
    )
    source = "Dashti and Fedorova, ISMM 2017, Sec. 4.2.4; Peterson, Information Processing Letters 12(3), 1981"
    figures = (
        Figure(kind="line", x="outside", colour="allocator", dash="rivals", log_x=True, log_y=True,
               x_title="accesses outside", y_title="time per critical section"),
        Figure(kind="line", x="outside", y="cpu_share", colour="allocator", log_x=True, where={"rivals": "both"},
               x_title="accesses outside", y_title="share of the sections that the CPU had"),
    )  # fmt: skip
    share = 1.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        alone, more = device.kind == "cpu", preset == "full"
        threads, groups = _competitors(device)
        rivals = ("cpu",) if alone else RIVALS
        return [
            Factor("allocator", allocator_names(device), choices=allocator_names(device), doc="of region and words"),
            Factor("rivals", rivals, choices=rivals, doc="who competes"),
            Factor("outside", OUTSIDE[preset], "count", doc="accesses to a competitor's own words between sections"),
            Factor("inside", (1, INSIDE, MOST_INSIDE) if more else (INSIDE,), "count", doc="accesses in a section"),
            Factor("cpu_threads", sorted({1, threads, _core.usable_processors()} if more else {threads}), "count"),
            Factor("gpu_groups", sorted({min(1, groups), groups} if more else {groups}), "count"),
            Factor("sections", [SECTIONS[preset]], "count", doc="of a sample; fewer where much is done outside"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, rivals = str(factors["allocator"]), str(factors["rivals"])
        agents = {"both": ("gpu", "cpu")}.get(rivals, (rivals,))
        for agent in agents:
            if reason := unreachable(device, allocator, agent):
                return reason
        entry = device.allocator(allocator)
        if rivals == "both" and entry is not None and not entry.concurrent:
            return f"CPU and GPU do not see each other's stores to {allocator} memory while a kernel runs"
        return _no_contest(factors, agents, device)

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """Memory that both can share; beside it the main allocator by one agent alone, and each reason once.

        Of what full varies besides, one at a time with nothing outside.
        """
        entry, main = device.allocator(str(factors["allocator"])), main_allocator(device)
        assert entry is not None
        if entry.name in LEFT_OUT[preset]:
            return True
        if preset == "full" and _varied(factors, device) > (factors["outside"] == 0):
            return True
        if self.skip(factors, device):
            return factors["rivals"] != "both" or factors["outside"] != 0
        return device.kind != "cpu" and not entry.concurrent and (entry.name != main or factors["rivals"] != "gpu")

    def measure(self, point: Point, session: Session) -> Measurement:
        rivals = point["rivals"]
        number = {
            name: int(str(point[name])) for name in ("cpu_threads", "gpu_groups", "sections", "inside", "outside")
        }
        sections = max(16, number["sections"] // (1 + number["outside"] // 100))
        with session.device.allocate(str(point["allocator"]), max(4096, number["inside"] * LINE)) as region:
            outcome = _core.locking(
                session.device,
                region,
                cpu_threads=number["cpu_threads"] if rivals != "gpu" else 0,
                gpu_groups=number["gpu_groups"] if rivals != "cpu" else 0,
                sections=sections,
                inside=number["inside"],
                outside=number["outside"],
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                verified_why=f"{outcome.errors} words or sections do not add up" if outcome.errors else "",
                stopped_by=outcome.stopped_by,
                counters=dict(outcome.counters),
                buffers=[buffer_fact("region", region)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        rows = [r for r in records if r.summary and r.factors["inside"] == INSIDE] or [r for r in records if r.summary]
        if not rows:
            return "No critical section was timed."
        least = min(_count(r, "outside") for r in rows)
        near = [r for r in rows if _count(r, "outside") == least]
        both = sorted((r for r in near if r.factors["rivals"] == "both"), key=median_of)
        if not both:
            best = min(near, key=median_of)
            who = str(best.factors["rivals"]).upper()
            return f"By the {who} alone a critical section takes {_ns(best)} ({best.factors['allocator']})."
        words = f"With {least or 'no'} accesses outside, a section that both compete for takes {_ns(both[0])}"
        words += f" on {both[0].factors['allocator']} memory"
        alone = [
            f"{_ns(r)} by the {agent.upper()} alone"
            for agent in ("cpu", "gpu")
            for r in near
            if (r.factors["rivals"], r.factors["allocator"]) == (agent, both[0].factors["allocator"])
        ]
        words += f", against {' and '.join(dict.fromkeys(alone))}" if alone else ""
        if len(both) > 1:
            words += f"; slowest on {both[-1].factors['allocator']}, {_ns(both[-1])}"
        share = float(str(both[0].counters["cpu_share"]))
        return f"{words}. The CPU had {share:.0%} of the sections on {both[0].factors['allocator']}."


def _competitors(device: DeviceInfo) -> tuple[int, int]:
    """CPU threads and GPU groups that compete by default: four each, half the processors where a driver shares them."""
    processors = _core.usable_processors()
    if device.kind == "cpu":
        return min(4, processors), 0
    threads = min(4, max(1, processors // 2))
    return threads, threads if device.facts.get("shares_host_memory") else min(4, _resident(device))


def _resident(device: DeviceInfo) -> int:
    """Groups of one thread that are resident together for certain: one on every multiprocessor."""
    return max(1, int(str(device.facts.get("multiprocessors", 1))))


def _no_contest(factors: Factors, agents: tuple[str, ...], device: DeviceInfo) -> str | None:
    """Why nobody, or not all at once, can compete with these numbers, or None."""
    most = {"cpu": _core.usable_processors(), "gpu": _resident(device)}
    for agent, name in (("cpu", "cpu_threads"), ("gpu", "gpu_groups")):
        number = int(str(factors[name]))
        if agent in agents and not 1 <= number <= most[agent]:
            return f"{name} {number}: 1 to {most[agent]} run at once here"
    if not 1 <= int(str(factors["inside"])) <= MOST_INSIDE:
        return f"1 to {MOST_INSIDE} accesses fit inside"
    return None if factors["sections"] else "no sections to time"


def _varied(factors: Factors, device: DeviceInfo) -> int:
    """How many of the numbers are not the usual ones; those of an agent that takes no part make no further points."""
    threads, groups = _competitors(device)
    usual = {"inside": INSIDE, "cpu_threads": threads, "gpu_groups": groups}
    absent = {"cpu": "gpu_groups", "gpu": "cpu_threads"}.get(str(factors["rivals"]))
    return sum((2 if name == absent else 1) * (factors[name] != number) for name, number in usual.items())


def _count(record: Record, factor: str) -> int:
    return int(str(record.factors[factor]))


def _ns(record: Record) -> str:
    value = median_of(record)
    return f"{value:.4g} ns" if value < 1e4 else f"{value / 1e3:.4g} us"
