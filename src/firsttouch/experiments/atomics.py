"""atomics: contention and coherence, by a histogram that many threads increment."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.analysis.statistics import median_of
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    BASE_PAGE,
    allocator_names,
    buffer_fact,
    main_allocator,
    measured_on_cpu,
    size_fact,
    unreachable,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_size

GROUP = 64
"""GPU threads come in groups of this many."""
TYPES = ("u64", "f64")
MIDDLE = 2**10
"""Elements of the histogram that is contended and still in every cache: what is taken where one size must do."""
BEYOND = 2**26
"""Elements that no cache holds: 512 MiB."""
WINDOWS = {"quick": 0.01, "standard": 0.02, "full": 0.05}
"""Seconds between two readings of the progress; three times that of both sides, which may share processors."""
LARGEST = 2**31


def most_gpu_threads(device: DeviceInfo) -> int:
    """Threads that the device holds at once in groups of 64; a group for each multiprocessor where it doesn't say."""
    if device.kind == "cpu":
        return 0
    each = size_fact(device, "threads_per_multiprocessor") or GROUP
    return max(1, size_fact(device, "multiprocessors")) * each // GROUP * GROUP


def powers(base: int, first: int, last: int) -> list[int]:
    """first, base times first, and so on up to two thirds of last, then last."""
    values, value = [], first
    while 3 * value <= 2 * last:
        values.append(value)
        value *= base
    return [*values, last] if last >= first else []


def parties(factors: Factors) -> list[str]:
    """The agents that take part."""
    return [agent for agent in ("cpu", "gpu") if factors[f"{agent}_threads"] != 0]


def loses_updates(device: DeviceInfo, allocator: str, who: list[str]) -> str | None:
    """Why these agents together can't increment memory of the allocator without losing updates, or None."""
    if "cpu" in who and allocator == "pinned-wc":
        return "what the CPU's atomic operations do on write-combined memory is not defined"
    entry = device.allocator(allocator)
    if len(who) < 2 or entry is None:
        return None
    if entry.concurrent is None:
        return f"the driver does not state that the CPU may use {allocator} memory while a kernel does"
    if not entry.concurrent:
        return f"{allocator} memory is for the CPU or a kernel, not for both at once"
    if not entry.shared_atomics:
        return f"the driver states no atomics of CPU and GPU together on {allocator} memory: updates would be lost"
    return None


class Atomics(Experiment):
    """Random elements of a histogram incremented by CPU and GPU. Source: IISWC 2025 Sec. III-A.4."""

    name = "atomics"
    order = 70
    question = "What do atomic updates cost when many threads contend, on one side or on both?"
    unit = "M/s"
    better = "higher"
    counted = (
        "Million atomic increments per second of random elements of one array, by all threads that take part. Every "
        "thread or group counts in a line of its own; another thread reads the counts twice, a window of 10 ms or more "
        "apart. Where CPU and GPU both take part, each is measured alone first, then both together (the sample). "
        "Reading end: the counts are read at the two ends of ten windows only; read_ratio is what runs that are read "
        "in every window make of that. After every run the array must sum to the increments."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A.4"
    figures = (
        Figure(kind="line", x="gpu_threads", colour="allocator", dash="type", facet="elements", log_x=True, log_y=True,
               where={"cpu_threads": 0, "reading": "progress"}, x_title="GPU threads, alone",
               y_title="million updates per second"),
        Figure(kind="line", x="cpu_threads", colour="allocator", dash="type", facet="elements", log_x=True, log_y=True,
               where={"gpu_threads": 0, "reading": "progress"}, x_title="CPU threads, alone",
               y_title="million updates per second"),
        Figure(kind="heat", x="gpu_threads", y="cpu_threads", z="cpu_relative", centre=1.0, facet="elements",
               x_title="GPU threads", y_title="CPU threads", z_title="CPU's rate together over its rate alone"),
        Figure(kind="heat", x="gpu_threads", y="cpu_threads", z="gpu_relative", centre=1.0, facet="elements",
               x_title="GPU threads", y_title="CPU threads", z_title="GPU's rate together over its rate alone"),
    )  # fmt: skip
    share = 1.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        elements = [1, MIDDLE, 2**20, *{"quick": (), "standard": (BEYOND,), "full": (2**30,)}[preset]]
        processors, most = _core.usable_processors(), most_gpu_threads(device)
        cpu = [1, processors] if preset == "quick" else powers(4 if preset == "standard" else 2, 1, processors)
        gpu = powers({"quick": 64, "standard": 8, "full": 4}[preset], GROUP, most)
        alone = device.kind == "cpu"
        # The host and OpenCL have one atomic add, which reaches every agent.
        scopes = ("system",) if device.kind in ("cpu", "opencl") else ("system", "device")
        return [
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("type", TYPES, choices=TYPES, doc="of an element, 8 bytes"),
            Factor("elements", elements, "count"),
            Factor("cpu_threads", cpu if alone else [0, *cpu], "count", doc="one to a processor"),
            Factor("gpu_threads", [0] if alone else [0, *gpu], "count", doc="in groups of 64"),
            Factor("scope", scopes, choices=("system", "device"), doc="of the GPU's atomic adds"),
            Factor("reading", ("progress", "end"), choices=("progress", "end"), doc="when the counts are read"),
        ]

    def drop(self, factors: Factors) -> bool:
        """Nobody at work; and a device's scope, which the CPU is outside of."""
        who = parties(factors)
        return not who or ("cpu" in who and factors["scope"] == "device")

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        who, allocator = parties(factors), str(factors["allocator"])
        elements, cpu, gpu = (int(str(factors[name])) for name in ("elements", "cpu_threads", "gpu_threads"))
        if not 0 < elements <= LARGEST:
            return f"a histogram has 1 to {LARGEST} elements"
        if cpu > _core.usable_processors():
            return f"this process may use {_core.usable_processors()} processors"
        if gpu % GROUP != 0 or (gpu > 0 and device.kind == "cpu"):
            return "the device cpu has no GPU threads" if device.kind == "cpu" else "GPU threads come in groups of 64"
        if (most := size_fact(device, "largest_allocation_bytes")) and 8 * elements > most:
            return f"{device.name} allocates at most {format_size(most)} at once"
        for agent in who:
            if reason := unreachable(device, allocator, agent):
                return reason
        return loses_updates(device, allocator, who)

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """The curves on one allocator; of the others the middle histogram under all threads, or the reason once."""
        who, allocator, elements = parties(factors), str(factors["allocator"]), int(str(factors["elements"]))
        if who == ["cpu"] and device.kind != "cpu" and (preset != "full" or measured_on_cpu(device, allocator, "cpu")):
            return True  # a co-running point has it too
        main, everybody = self._main(device, who), self._everybody(factors, device)
        usual = everybody and factors["type"] == "u64" and elements == MIDDLE and factors["scope"] == "system"
        if self.skip(factors, device) or (preset != "full" and allocator != main):
            return not usual or factors["reading"] == "end"
        managed = (entry := device.allocator(allocator)) is not None and entry.managed
        if factors["reading"] == "end":  # where pages wander, no two runs are alike
            return not usual or allocator != main or (len(who) == 2 and (managed or preset != "full"))
        if preset == "full":
            return (managed and elements > BEYOND) or (allocator != main and not everybody)
        if factors["scope"] == "device":
            return not everybody or elements != MIDDLE
        if len(who) == 2:
            return elements != MIDDLE or (factors["type"] == "f64" and not (everybody and preset == "standard"))
        return False

    @staticmethod
    def _main(device: DeviceInfo, who: list[str]) -> str:
        """The allocator that gets the curves: of co-running points the first on which no update is lost."""
        if len(who) == 1:
            return main_allocator(device)
        names = (a.name for a in device.allocators)
        able = (n for n in names if not any(unreachable(device, n, agent) for agent in who))
        return next((n for n in able if not loses_updates(device, n, who)), main_allocator(device))

    @staticmethod
    def _everybody(factors: Factors, device: DeviceInfo) -> bool:
        return factors["cpu_threads"] in (0, _core.usable_processors()) and factors["gpu_threads"] in (
            0,
            most_gpu_threads(device),
        )

    def measure(self, point: Point, session: Session) -> Measurement:
        elements = int(str(point["elements"]))
        with session.device.allocate(str(point["allocator"]), max(BASE_PAGE, 8 * elements)) as buffer:
            outcome = _core.atomics(
                session.device,
                buffer,
                type=str(point["type"]),
                scope=str(point["scope"]),
                elements=elements,
                cpu_threads=int(str(point["cpu_threads"])),
                gpu_threads=int(str(point["gpu_threads"])),
                reading=str(point["reading"]),
                window=WINDOWS[session.preset] * (3 if len(parties(point.factors)) == 2 else 1),
                seed=session.seed,
                stop=session.stop(
                    min_samples=5 if point["reading"] == "end" and session.preset != "quick" else 3, max_samples=200
                ),
            )
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                verified_why=_what_was_lost(outcome),
                stopped_by=outcome.stopped_by,
                counters=dict(outcome.counters),
                buffers=[buffer_fact("histogram", buffer)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        found = [record for record in records if record.summary]
        words = [self._alone(found, agent) for agent in ("gpu", "cpu")]
        return " ".join([*filter(None, words), *self._together(found), *self._reading(found)])

    @staticmethod
    def _alone(records: list[Record], agent: str) -> str:
        """The best rate of one side alone, and what one element takes from it."""
        curve = [r for r in records if parties(r.factors) == [agent] and r.factors["reading"] == "progress"]
        if not curve:
            return ""
        best = max(curve, key=median_of)
        same = {name: value for name, value in best.factors.items() if name not in ("elements", f"{agent}_threads")}
        single = [r for r in curve if r.factors["elements"] == 1 and same.items() <= r.factors.items()]
        contended = f"; a single element at most {_rate(max(map(median_of, single)))}" if single else ""
        threads, elements = _count(best, f"{agent}_threads", "thread"), _count(best, "elements", "element")
        where = f"{best.factors['type']}, {elements} in {best.factors['allocator']} memory"
        return f"The {agent.upper()} alone, with {threads}, makes up to {_rate(median_of(best))} ({where}){contended}."

    @staticmethod
    def _together(records: list[Record]) -> list[str]:
        """What each side keeps of its own rate at worst and at best when both run."""
        words = []
        for agent in ("cpu", "gpu"):
            kept = [float(str(r.counters[name])) for r in records if (name := f"{agent}_relative") in r.counters]
            if kept:
                words.append(f"the {agent.upper()} keeps {min(kept):.0%} to {max(kept):.0%}")
        return [f"When both run, {' and '.join(words)} of what it makes alone."] if words else []

    @staticmethod
    def _reading(records: list[Record]) -> list[str]:
        """What the reading of the progress changes."""
        ratios = [float(str(r.counters["read_ratio"])) for r in records if "read_ratio" in r.counters]
        if not ratios:
            return []
        said = " and ".join(f"{ratio:.4f}" for ratio in ratios)
        return [f"Rates read in windows are {said} times those of runs that nobody read."]


def _what_was_lost(outcome: _core.Outcome) -> str:
    found, increments = outcome.counters["found"], outcome.counters["increments"]
    if outcome.errors == 0:
        return ""
    return f"the histogram's sum is {found:.0f}, its increments were {increments:.0f}; {outcome.errors} are wrong"


def _count(record: Record, factor: str, noun: str) -> str:
    number = int(str(record.factors[factor]))
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} M/s" if rate >= 100 else f"{rate:.3g} M/s"
