"""bandwidth: STREAM on either agent, from memory and, in the cache sweep, from every level."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    GiB,
    KiB,
    MiB,
    agents,
    allocator_names,
    buffer_fact,
    first_toucher,
    known_elsewhere,
    last_level_bytes,
    main_allocator,
    measured_on_cpu,
    memory_bytes,
    octaves,
    switch,
    unreachable,
    whole_octave,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record, Scalar
from firsttouch.units import format_size

KERNELS = ("copy", "scale", "add", "triad", "read", "write")
SWEEP_BYTES = 64 * MiB
"""Bytes that the passes of one sweep run move at least, so that caching shows."""


class Bandwidth(Experiment):
    """STREAM (McCalpin) with verified results. Sources: STREAM, BabelStream; IISWC 2025 Sec. III-A.2."""

    name = "bandwidth"
    order = 20
    question = "How fast can an agent stream through memory?"
    unit = "GB/s"
    better = "higher"
    counted = (
        "Bytes that the kernel reads plus bytes that it writes, per second; 10^9 bytes are one GB. Write-allocate "
        "traffic is not counted. size is one array: copy, scale 2 arrays, add, triad 3, read, write 1. threads 0: all."
    )
    source = "STREAM; BabelStream; Wahlgren et al., IISWC 2025, Sec. III-A.2"
    figures = (
        Figure(kind="bar", x="kernel", colour="allocator", facet="agent", y_title="bandwidth, GB/s",
               where={"arrays": "memory"}),
        Figure(kind="line", x="size", colour="allocator", dash="agent", log_x=True, log_y=True,
               x_title="one array", y_title="triad, GB/s", where={"arrays": "sweep"}),
    )  # fmt: skip
    share = 3.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_gpu = device.kind not in ("cpu", "opencl")
        large = memory_bytes(device, 256 * MiB if on_gpu else 0)
        memory = {"quick": [large], "standard": [large, GiB] if on_gpu else [large], "full": [large, 4 * large]}[preset]
        low = 256 * KiB if on_gpu else 8 * KiB
        sweep = octaves(low, 2 * last_level_bytes(device), 1 if preset == "quick" else 2)
        touch = ("self",) if preset == "quick" or device.kind == "cpu" else ("self", "other")
        return [
            Factor("arrays", ("memory", "sweep"), choices=("memory", "sweep"), doc="beyond every cache, or all sizes"),
            Factor("kernel", KERNELS, choices=KERNELS),
            Factor("agent", agents(device), choices=agents(device)),
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("first_touch", touch, choices=("self", "other"), doc="who fills the arrays"),
            Factor("stores", ("normal", "nontemporal"), choices=("normal", "nontemporal"), doc="CPU stores"),
            Factor("threads", (1, 0), "count", doc="CPU threads, pinned and spread; 0 is all"),
            Factor("size", list(dict.fromkeys([*memory, *sweep])), "size", doc="bytes of one array"),
            *switch(device, "xnack"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        agent, allocator = str(factors["agent"]), str(factors["allocator"])
        toucher = first_toucher(agent, factors["first_touch"])
        if reason := unreachable(device, allocator, agent) or unreachable(device, allocator, toucher):
            return reason
        size, needed = int(str(factors["size"])), 4 * last_level_bytes(device)
        if factors["arrays"] == "memory" and size < needed:
            return f"{format_size(size)} could sit in a cache: memory means arrays of {format_size(needed)} or more"
        return None

    def drop(self, factors: Factors) -> bool:
        if factors["agent"] == "gpu" and (factors["stores"] != "normal" or factors["threads"] != 0):
            return True
        if factors["kernel"] == "read" and factors["stores"] == "nontemporal":
            return True
        return factors["arrays"] == "sweep" and factors["kernel"] != "triad"

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """Every kernel for the main allocator, triads for the others; one sweep, in standard of every allocator."""
        agent, allocator, size = str(factors["agent"]), str(factors["allocator"]), int(str(factors["size"]))
        if measured_on_cpu(device, allocator, agent) or (
            preset != "full" and known_elsewhere(device, allocator, agent)
        ):
            return True
        beyond = size >= 4 * last_level_bytes(device)
        plain = factors["stores"] == "normal" and factors["first_touch"] == "self"
        main = allocator == main_allocator(device) and agent == agents(device)[0]
        if unreachable(device, allocator, agent):  # its reason once is enough
            return not (beyond and plain and factors["arrays"] == "memory" and factors["kernel"] == "triad")
        if factors["arrays"] == "sweep":
            others = preset != "quick" and whole_octave(size, 2)
            return beyond or not plain or factors["threads"] == 1 or not (main or others)
        if not beyond or (factors["threads"] == 1 and not (plain and factors["kernel"] == "triad")):
            return True
        if preset == "quick" and factors["kernel"] in ("scale", "add"):  # much as copy and triad
            return True
        if preset == "quick" and factors["stores"] == "nontemporal" and not (main and factors["kernel"] == "triad"):
            return True
        if preset == "full" or (main and plain):
            return False
        if size > memory_bytes(device, 256 * MiB) or (factors["threads"] == 1 and not main):
            return True
        return factors["kernel"] != "triad" and not (main and factors["first_touch"] == "self")

    def measure(self, point: Point, session: Session) -> Measurement:
        agent, device, size = str(point["agent"]), session.device, int(str(point["size"]))
        allocator = str(point["allocator"])
        kernel = str(point["kernel"])
        passes = 1 if point["arrays"] == "memory" else max(1, SWEEP_BYTES // (3 * size))
        with (
            device.allocate(allocator, size) as a,
            device.allocate(allocator, size) as b,
            device.allocate(allocator, size) as c,
        ):
            outcome = _core.stream(
                device, a, b, c,
                op=kernel,
                agent=agent,
                first_touch=first_toucher(agent, point["first_touch"]),
                threads=int(str(point["threads"])),
                nontemporal=point["stores"] == "nontemporal",
                passes=passes,
                seed=session.seed,
                stop=session.stop(),
            )  # fmt: skip
            counters: dict[str, Scalar] = {
                f"shape_{k}" if agent == "gpu" else k: v for k, v in outcome.counters.items()
            }
            if agent == "cpu":
                counters["instructions"] = _core.stream_instructions()
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                stopped_by=outcome.stopped_by,
                counters={**counters, "passes": passes},
                buffers=[buffer_fact("a", a)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        triads = [
            r for r in records if r.factors["kernel"] == "triad" and r.factors["arrays"] == "memory" and r.summary
        ]
        if not triads:
            return "No triad beyond the caches was measured."
        median = {id(r): r.summary.median for r in triads if r.summary}
        best = max(triads, key=lambda r: median[id(r)])
        text = (
            f"Triad reaches {median[id(best)]:.4g} GB/s by the {best.factors['agent']} on "
            f"{best.factors['allocator']} memory"
        )
        if best.factors["agent"] == "cpu":
            text += f" with {best.factors['stores']} stores and {best.counters.get('threads', 0):g} threads"
        by_allocator: dict[str, float] = {}
        for record in triads:
            if record.factors["agent"] == best.factors["agent"]:
                name = str(record.factors["allocator"])
                by_allocator[name] = max(by_allocator.get(name, 0), median[id(record)])
        slow = min(by_allocator, key=lambda name: by_allocator[name])
        times = median[id(best)] / by_allocator[slow]
        if times > 1.25:
            text += f"; {slow} is {times:.3g} times slower at {by_allocator[slow]:.4g} GB/s"
        return text + "."
