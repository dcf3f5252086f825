"""latency: how long one dependent load takes, over the size of what it may hit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from firsttouch import _core
from firsttouch.analysis.plateaus import describe_plateaus, find_plateaus, name_plateaus
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
    line_bytes,
    main_allocator,
    measured_on_cpu,
    octaves,
    switch,
    unreachable,
    whole_octave,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record

COMMON = ("pinned", "managed", "svm-fine")
"""Beside the main allocator, those of which quick takes more than the ends of the curve."""
PAGE_GROUP = 256 * KiB
"""Bytes visited together in the order `by-page`: 64 base pages, multichase's default TLB locality."""


class Latency(Experiment):
    """Dependent loads through one random cycle over every line. Source: multichase; IISWC 2025 Sec. III-A.1."""

    name = "latency"
    order = 10
    question = "How long does one load take?"
    unit = "ns"
    better = "lower"
    counted = (
        "One dependent load, averaged over at least 100,000 along one random cycle through every cache line of the "
        "buffer, after a warm traversal. Order random leaves a page at every load; by-page reads 256 KiB at a time, "
        "so that the difference is the TLB's."
    )
    source = "multichase (pointer chase); Wahlgren et al., IISWC 2025, Sec. III-A.1"
    figures = (
        Figure(kind="line", x="size", colour="allocator", dash="agent", facet="order", log_x=True, log_y=True,
               x_title="buffer", y_title="time per load", levels=True),
    )  # fmt: skip
    share = 3.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_cpu = device.kind in ("cpu", "opencl")
        beyond = 1 << (2 * last_level_bytes(device) - 1).bit_length()
        largest = {
            "quick": max(256 * MiB, beyond) if on_cpu else GiB,
            "standard": max(GiB, beyond) if on_cpu else 4 * GiB,
            "full": 4 * GiB,
        }
        density = {"quick": 1, "standard": 2 if on_cpu else 4, "full": 4}
        touch = ("self", "other") if preset == "full" and device.kind != "cpu" else ("self",)
        return [
            Factor("agent", agents(device), choices=agents(device), doc="who loads"),
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("first_touch", touch, choices=("self", "other"), doc="who writes the cycle: the agent or the other"),
            Factor("order", ("random", "by-page"), choices=("random", "by-page")),
            Factor("size", octaves(4 * KiB if preset == "quick" else KiB, largest[preset], density[preset]), "size"),
            *switch(device, "xnack"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        toucher = first_toucher(str(factors["agent"]), factors["first_touch"])
        if reason := unreachable(device, str(factors["allocator"]), str(factors["agent"])):
            return reason
        return unreachable(device, str(factors["allocator"]), toucher)

    def drop(self, factors: Factors) -> bool:
        size = factors["size"]
        return factors["order"] == "by-page" and isinstance(size, int) and size < 2 * PAGE_GROUP

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """The main curve whole; the others at whole octaves, in quick at every third, or sixth where seldom used."""
        agent, allocator = str(factors["agent"]), str(factors["allocator"])
        if measured_on_cpu(device, allocator, agent) or (
            preset != "full" and known_elsewhere(device, allocator, agent)
        ):
            return True
        main = agent == agents(device)[0] and allocator == main_allocator(device)
        if preset == "full" or (main and factors["order"] == "random"):
            return False
        if device.kind != "cpu" and unreachable(device, allocator, agent):
            return factors["size"] != MiB  # the reason once is enough
        if device.kind != "cpu" and factors["order"] == "by-page" and not main:
            return True
        common = device.kind == "cpu" or allocator in COMMON or allocator == main_allocator(device)
        every = (1 if common else 2) * (3 if preset == "quick" else 1)
        largest = GiB if preset != "quick" or allocator == main_allocator(device) else 128 * MiB
        return not whole_octave(factors["size"], every) or int(str(factors["size"])) > largest

    def measure(self, point: Point, session: Session) -> Measurement:
        agent, device = str(point["agent"]), session.device
        with device.allocate(str(point["allocator"]), int(str(point["size"]))) as buffer:
            outcome = _core.chase(
                device,
                buffer,
                agent=agent,
                first_touch=first_toucher(agent, point["first_touch"]),
                stride=line_bytes(session.info),
                group_bytes=PAGE_GROUP if point["order"] == "by-page" else 0,
                last_level=last_level_bytes(session.info),
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                stopped_by=outcome.stopped_by,
                counters={**outcome.counters, "stride": line_bytes(session.info)},
                buffers=[buffer_fact("chase", buffer)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        curves: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        for record in records:
            if record.factors["order"] == "random" and record.factors["first_touch"] == "self" and record.summary:
                key = (str(record.factors["agent"]), str(record.factors["allocator"]))
                curves[key][int(str(record.factors["size"]))] = record.summary.median
        if not curves:
            return "No curve of random loads was measured."
        (agent, allocator), curve = max(curves.items(), key=lambda item: len(item[1]))
        sizes = sorted(curve)
        found = find_plateaus(sizes, [curve[size] for size in sizes])
        words = describe_plateaus(name_plateaus(found, device.facts if device else {}))
        if not words:
            words = f"{curve[sizes[0]]:.3g} ns at the smallest buffer, {curve[sizes[-1]]:.4g} ns at the largest"
        others = {
            key: other[max(other)] for key, other in curves.items() if key != (agent, allocator) and max(other) >= MiB
        }
        far = max(others.items(), key=lambda item: item[1], default=None)
        tail = (
            f" Slowest: {far[0][0]} on {far[0][1]}, {far[1]:.4g} ns."
            if far and far[1] > 1.2 * max(curve.values())
            else ""
        )
        return f"A load by the {agent} from {allocator} memory takes {words}.{tail}"
