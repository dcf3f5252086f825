"""migration: iterations over data that began on the other side."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median

from firsttouch import _core
from firsttouch.analysis.passes import behaviour, settled_at
from firsttouch.errors import Unsupported
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    GiB,
    KiB,
    MiB,
    allocator_names,
    main_allocator,
    switch,
    unavailable,
    unreachable,
)
from firsttouch.experiments.steps import event_counters
from firsttouch.run.events import VARIABLE
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record, Scalar
from firsttouch.units import format_size


@dataclass(frozen=True)
class Touch:
    """A pass takes the first `run` bytes of every `stride`."""

    run: int
    stride: int
    shuffled: bool = False

    def places(self, size: int) -> int:
        return size // self.stride


LINE = 128
TOUCHES = {
    "dense": Touch(LINE, LINE),
    "eighth": Touch(LINE, 8 * LINE),
    "random": Touch(LINE, LINE, shuffled=True),
    "per-4KiB": Touch(8, 4 * KiB),
    "per-64KiB": Touch(8, 64 * KiB),
    "per-2MiB": Touch(8, 2 * MiB),
}
SPARSE = ("per-4KiB", "per-64KiB", "per-2MiB")
SINGLE = ("read-mostly", "preferred-gpu", "preferred-cpu", "accessed-by-gpu", "accessed-by-cpu")
PAIRS = ("preferred-cpu+accessed-by-gpu", "preferred-gpu+accessed-by-cpu", "read-mostly+preferred-gpu")
PREFETCHES = {"none": ("none", 1), "whole": ("whole", 1), "iteration": ("iteration", 1),
              "streams-2": ("whole", 2), "streams-4": ("whole", 4)}  # fmt: skip
ALLOCATORS = ("managed", "managed-static", "malloc", "svm-fine", "svm-coarse", "pinned", "registered", "device")
COPIED = ("device", "vmm")
"""Memory that is reached by copies of the whole instead of migration: the reference."""
BASE: dict[str, Scalar] = {"touch": "dense", "order": "parallel", "advice": "none", "prefetch": "none",
                           "starts_on": "cpu", "operation": "update"}  # fmt: skip
"""The point around which one condition at a time varies; its allocator is base_allocator()."""
ITERATIONS = 12


def base_allocator(device: DeviceInfo) -> str:
    """The allocator whose conditions are varied: memory that the driver may move, if the device has any."""
    for name in ("managed", "svm-fine"):
        if unavailable(device, name) is None:
            return name
    return main_allocator(device)


def varied(factors: Factors, device: DeviceInfo) -> list[str]:
    """The factors in which a point differs from the base point."""
    names = [name for name, value in BASE.items() if factors[name] != value]
    return names if factors["allocator"] == base_allocator(device) else ["allocator", *names]


def case_of(factors: Factors, device: DeviceInfo) -> str:
    """A point in words: the allocator at the base point, else what differs from it."""
    words = {"prefetch": "prefetch {}", "starts_on": "starts on {}", "operation": "{} only"}
    said = [words.get(name, "{}").format(factors[name]) for name in varied(factors, device)]
    return ", ".join(said) or str(factors["allocator"])


def _around(*free: str, events: str = "off") -> dict[str, Scalar]:
    """What a figure keeps: the base point's conditions except those named."""
    kept = {name: value for name, value in BASE.items() if name not in free}
    return {**kept, "events": events, **({} if "allocator" in free else {"base": True})}


class Migration(Experiment):
    """A kernel's passes over data that began elsewhere. Source: Schieffer et al., ICPP 2024; Chien et al. 2019."""

    name = "migration"
    order = 55
    question = "What do iterations cost over data that began on the other side, and what moves?"
    unit = "ms"
    better = "lower"
    counted = (
        "All passes of one repetition on a fresh buffer, each on the device's clock, plus on the host's clock the "
        "advice, the prefetch and, for allocator device, the copy to it that come before. Not in it: the "
        "initialisation, and the read of all words by the CPU at the end with what moves back in it (counter "
        "cpu_read_ms). iteration_N_ms are medians over repetitions. A pass adds one to every word it takes (update) or "
        "sums them (read). Every word is checked after every repetition."
    )
    source = "Schieffer et al., ICPP 2024, Sec. 6 (12 iterations); Chien et al., MCHPC 2019 (advice and prefetch)"
    figures = (
        Figure(kind="line", series="iteration_{}_ms", x="series", y="value", colour="allocator", log_y=True,
               where=_around("allocator"), x_title="iteration", y_title="time per pass, ms"),
        Figure(kind="line", series="iteration_{}_ms", x="series", y="value", colour="advice", dash="operation",
               log_y=True, where=_around("advice", "operation", "starts_on"), facet="starts_on",
               x_title="iteration", y_title="time per pass, ms"),
        Figure(kind="line", series="iteration_{}_ms", x="series", y="value", colour="prefetch", log_y=True,
               where=_around("prefetch"), x_title="iteration", y_title="time per pass, ms"),
        Figure(kind="line", series="iteration_{}_ms", x="series", y="value", colour="touch", dash="order", log_y=True,
               where=_around("touch", "order"), x_title="iteration", y_title="time per pass, ms"),
        Figure(kind="bar", x="case", colour="case", log_y=True, where={"events": "off"},
               y_title="all passes with what prepares them, ms"),
        Figure(kind="line", series="iteration_{}_h2d_bytes", x="series", y="value", colour="case", log_y=True,
               where={"events": "on"}, x_title="iteration", y_title="bytes moved to the device"),
        Figure(kind="line", series="iteration_{}_gpu_fault_groups", x="series", y="value", colour="case", log_y=True,
               where={"events": "on"}, x_title="iteration", y_title="fault groups of the device"),
        Figure(kind="table", x="case", where={"events": "on"},
               columns=("case", "median", "touched", "compute_h2d_bytes", "compute_gpu_fault_groups",
                        "bytes_per_touch", "smallest_record", "largest_record", "record_multiple", "cpu_read_d2h_bytes",
                        "cpu_read_cpu_faults")),
    )  # fmt: skip
    share = 1.0

    def supports(self, device: DeviceInfo) -> str | None:
        return "the CPU alone has no other side to migrate to" if device.kind == "cpu" else None

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        sizes = {"quick": [64 * MiB], "standard": [256 * MiB, GiB], "full": [256 * MiB, GiB]}[preset]
        if device.facts.get("shares_host_memory"):  # nothing moves there
            sizes = [16 * MiB if preset == "quick" else 64 * MiB]
        allocators = [name for name in ALLOCATORS if device.allocator(name) is not None]
        advices = ("none", *SINGLE, *PAIRS)
        return [
            Factor("allocator", allocators, choices=allocator_names(device)),
            Factor("touch", tuple(TOUCHES), choices=tuple(TOUCHES), doc="which bytes a pass takes"),
            Factor("order", ("parallel", "sequential"), choices=("parallel", "sequential"),
                   doc="by all threads, or in order by one"),
            Factor("advice", advices, choices=advices, doc="what the driver is told after the initialisation"),
            Factor("prefetch", tuple(PREFETCHES), choices=tuple(PREFETCHES)),
            Factor("starts_on", ("cpu", "gpu"), choices=("cpu", "gpu"), doc="who initialises"),
            Factor("operation", ("update", "read"), choices=("update", "read")),
            Factor("events", ("off", "on"), choices=("off", "on"), doc="whether unified-memory events are recorded"),
            Factor("size", sizes, "size"),
            Factor("iterations", (ITERATIONS,), "count"),
            *switch(device, "xnack"),
        ]  # fmt: skip

    def environment(self, factors: Factors) -> dict[str, str]:
        return {**super().environment(factors), VARIABLE: "1" if factors["events"] == "on" else "0"}

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, size = str(factors["allocator"]), int(str(factors["size"]))
        stride = TOUCHES[str(factors["touch"])].stride
        if factors["iterations"] == 0:
            return "no pass to time"
        if size < stride or size % 8:
            return f"a pass needs whole words, and one place of {format_size(stride)} at least"
        if reason := unreachable(device, allocator, "gpu"):
            return reason
        if allocator not in COPIED and (reason := unreachable(device, allocator, "cpu")):
            return reason
        entry = device.allocator(allocator)
        guided = factors["advice"] != "none" or factors["prefetch"] != "none"
        if guided and entry is not None and entry.managed and entry.concurrent is False:
            return "the driver takes no advice or prefetch where CPU and GPU may not use managed memory at once"
        return None

    def drop(self, factors: Factors) -> bool:
        return factors["order"] == "sequential" and factors["touch"] not in SPARSE

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """One condition at a time around the base point, and the pairs that mean something."""
        least = next(f.values[0] for f in self.factors(device, preset) if f.name == "size")
        names, first = varied(factors, device), factors["size"] == least
        watched = factors["events"] == "on"
        if self.skip(factors, device):  # the reason once is enough
            return names != ["allocator"] or watched or not first
        if preset != "full" and "read-mostly" in str(factors["advice"]) and factors["operation"] == "update":
            return True  # a store to a duplicated page ends the copy: half a second a pass over 64 MiB on an H200
        if not first and (watched or (preset != "full" and names and factors["allocator"] not in COPIED)):
            return True
        if not _moves(device) and (watched or set(names) & {"advice", "prefetch"}):  # and so is the driver's refusal
            return (
                len(names) + watched > 1
                or factors["advice"] not in ("none", SINGLE[0])
                or factors["prefetch"] not in ("none", "whole")
            )
        if watched and not _watched(factors, names, preset):
            return True
        if preset == "full" and first and not watched and len(set(names) - {"order"}) == 2:
            return False
        return not (_alone(factors, names, preset) or _together(factors, names, preset))

    def measure(self, point: Point, session: Session) -> Measurement:
        device, log, watched = session.device, session.events, point["events"] == "on"
        if watched and log is None:
            raise Unsupported(session.events_reason or "no unified-memory events were recorded in this process")
        touch, size = TOUCHES[str(point["touch"])], int(str(point["size"]))
        prefetch, streams = PREFETCHES[str(point["prefetch"])]
        with log.window() if watched and log else nullcontext() as window:
            outcome = _core.migration(
                device,
                allocator=str(point["allocator"]),
                bytes=size,
                copied=point["allocator"] in COPIED,
                run_bytes=touch.run,
                stride_bytes=touch.stride,
                shuffled=touch.shuffled,
                sequential=point["order"] == "sequential",
                update=point["operation"] == "update",
                advice=[] if point["advice"] == "none" else str(point["advice"]).split("+"),
                prefetch=prefetch,
                streams=streams,
                starts_on=str(point["starts_on"]),
                iterations=int(str(point["iterations"])),
                seed=session.seed,
                stop=session.stop(max_samples=5 if watched else 50),  # a fault is a record
            )
        names = varied(point.factors, session.info)
        counters: dict[str, Scalar] = {
            **outcome.counters,
            "case": case_of(point.factors, session.info),
            "family": ", ".join(names) or "base",
            "base": "allocator" not in names,
            "touched": touch.places(size),
        }
        if window is not None:
            counters |= event_counters(window, outcome.repetitions, touch.places(size))
            counters["events_dropped"] = window.dropped
        return Measurement(
            samples=outcome.samples,
            verified=outcome.errors == 0,
            stopped_by=outcome.stopped_by,
            counters=counters,
        )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        rows = [r for r in records if r.summary]
        plain = [r for r in rows if r.factors["events"] == "off"]
        if not plain:
            return "No passes were timed."
        smallest = min(int(str(r.factors["size"])) for r in plain)
        at = [r for r in plain if r.factors["size"] == smallest]
        shared = bool(device and device.facts.get("shares_host_memory"))
        parts = [_found(at, shared), _effects(at), _of_prefetch(rows), *_of_touches(rows), _cost_of_events(rows)]
        return f"Over {format_size(smallest)}: {' '.join(part for part in parts if part)}"


def _moves(device: DeviceInfo) -> bool:
    """Whether the device has memory that its driver moves."""
    return any(a.available and a.managed for a in device.allocators)


def _alone(factors: Factors, names: Sequence[str], preset: Preset) -> bool:
    """Whether at most one condition differs, with a value that the preset takes."""
    quick = {"allocator": (*ALLOCATORS[:5], "pinned", "device"), "touch": ("eighth", "random"), "advice": SINGLE,
             "prefetch": ("whole", "iteration")}  # fmt: skip
    return not names or (
        len(names) == 1 and (preset != "quick" or factors[names[0]] in quick.get(names[0], [factors[names[0]]]))
    )


def _together(factors: Factors, names: Sequence[str], preset: Preset) -> bool:
    """Pairs of conditions: sparse touches in order; advice for reads, and (not in quick) for data of the GPU."""
    if names == ["touch", "order"]:
        return True
    if names == ["advice", "operation"]:
        return preset != "quick" or factors["advice"] == "read-mostly"
    return names == ["advice", "starts_on"] and preset != "quick" and factors["advice"] in SINGLE


def _watched(factors: Factors, names: Sequence[str], preset: Preset) -> bool:
    """Whether a point of the smallest size has a twin that records events."""
    if names in ([], ["touch", "order"]):
        return True
    return len(names) == 1 and names != ["allocator"] and (preset != "quick" or factors["prefetch"] == "whole")


def times_of(record: Record) -> list[float]:
    """The passes of a record in ms, in order."""
    count = int(str(record.factors["iterations"]))
    return [float(str(record.counters[f"iteration_{n}_ms"])) for n in range(count)]


def _found(rows: Sequence[Record], shared: bool) -> str:
    """One clause per allocator at the base point."""
    rows = [r for r in rows if r.counters.get("family") in ("base", "allocator")]
    settled = {str(r.factors["allocator"]): settled_at(times_of(r)) for r in rows}
    if shared:
        words = ", ".join(f"{name} {ms:.3g} ms" for name, ms in settled.items())
        return f"the device shares the host's memory, so nothing migrates; a pass settles at: {words}."
    reference = next((settled[name] for name in COPIED if name in settled), None)
    clauses = []
    for record in rows:
        name, times = str(record.factors["allocator"]), times_of(record)
        kind, early = behaviour(times, reference)
        now = f"{settled[name]:.3g} ms"
        clauses.append(
            {
                "moves at once": f"{name} moves in the first pass ({times[0]:.3g} ms, then {now})",
                "moves by and by": f"{name} gets faster over {early} passes (from {times[0]:.3g} to {now})",
                "stays": f"{name} stays ({now} a pass, {settled[name] / (reference or 1):.3g} times that of a copy)",
                "is there": f"{name} is there from the first pass on ({now})",
            }[kind]
        )
    return "; ".join(clauses) + "." if clauses else ""


def _effects(rows: Sequence[Record]) -> str:
    """What each advice and prefetch by itself does to the whole."""
    base = {str(r.factors["operation"]): r for r in rows if r.counters.get("family") in ("base", "operation")}
    found = []
    for record in rows:
        against = base.get(str(record.factors["operation"]))
        if record.counters.get("family") not in ("advice", "prefetch", "advice, operation") or against is None:
            continue
        if record.summary and against.summary and record.summary.median > 0:
            found.append((against.summary.median / record.summary.median, str(record.counters["case"])))
    found.sort(reverse=True)
    told = found if len(found) <= 6 else [*found[:3], *found[-3:]]
    said = ", ".join(f"{case} {gain:.2g}" for gain, case in told)
    return f"Times as fast as without{' (most and least)' * (told != found)}: {said}." if found else ""


def _of_prefetch(rows: Sequence[Record]) -> str:
    groups = {
        str(r.counters["case"]): int(str(r.counters["compute_most_gpu_fault_groups"]))
        for r in rows
        if PREFETCHES[str(r.factors["prefetch"])][0] == "whole" and "compute_most_gpu_fault_groups" in r.counters
    }
    if not groups:
        return ""
    if not any(groups.values()):
        return "After a whole prefetch the passes raise 0 fault groups."
    return f"After a prefetch the passes still raise fault groups: {', '.join(f'{k} {v}' for k, v in groups.items())}."


def _of_touches(rows: Sequence[Record]) -> list[str]:
    """What the records of touches in order add up to."""
    said = []
    for record in rows:
        seen = record.counters
        if record.factors["order"] == "sequential" and "record_multiple" in seen:
            causes = [
                f"{_size(seen[key])} {key.removeprefix('compute_h2d_').removesuffix('_bytes')}"
                for key in seen
                if _CAUSE.fullmatch(key)
            ]
            same = "the same in" if seen["same_every_time"] else "though not the same in"
            said.append(
                f"Touched {record.factors['touch']} in order, {_size(seen['compute_h2d_bytes'])} move for "
                f"{seen['touched']} touches, {_size(seen['bytes_per_touch'])} each ({', '.join(causes)}), in records "
                f"of {_size(seen['smallest_record'])} to {_size(seen['largest_record'])}, all multiples of "
                f"{_size(seen['record_multiple'])}, {same} every repetition."
            )
    if any(float(str(r.counters.get("compute_h2d_speculative_bytes", 0))) > 0 for r in rows) and said:
        said.append(
            "There a fault moves its own page, and the driver adds what it guesses: the region around the page, and "
            "neighbours once most of a larger region is there."
        )
    return said


_CAUSE = re.compile(r"compute_h2d_([a-z_]+)_bytes")


def _size(value: Scalar) -> str:
    return format_size(float(str(value)))


def _cost_of_events(rows: Sequence[Record]) -> str:
    """Points with and without recording, by their factors."""
    twins: dict[str, dict[str, float]] = defaultdict(dict)
    for record in rows:
        key = repr({name: value for name, value in record.factors.items() if name != "events"})
        twins[key][str(record.factors["events"])] = record.summary.median if record.summary else 0
    ratios = [pair["on"] / pair["off"] for pair in twins.values() if len(pair) == 2 and pair["off"] > 0]
    if not ratios:
        return ""
    return (
        f"Recording events makes the same points take {median(ratios):.3g} times as long (median of {len(ratios)}, "
        f"{min(ratios):.3g} to {max(ratios):.3g})."
    )
