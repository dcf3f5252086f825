"""allocation: the cost of the call, memory not touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from firsttouch import _core
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import HOST_ALLOCATORS, GiB, KiB, MiB, allocator_names, unavailable
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_size

CHUNKS = 100
FROM, GROWS = 256 * KiB, 3.0
"""Cost grows with size where the largest block costs at least GROWS times a block of FROM bytes."""


class Allocation(Experiment):
    """100 blocks obtained in one loop and freed in a second. Source: IISWC 2025 Sec. III-C."""

    name = "allocation"
    order = 40
    question = "What does the call cost that obtains memory?"
    unit = "ns"
    better = "lower"
    counted = (
        "One allocation, averaged over a loop of 100 (fewer where 100 blocks exceed the preset's memory: counter "
        "chunks), after 10 warm-up loops, memory not touched. free_ns is one free of the second loop."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-C"
    figures = (
        Figure(kind="line", x="size", colour="allocator", log_x=True, log_y=True, x_title="block",
               y_title="time per allocation"),
        Figure(kind="line", x="size", y="free_ns", colour="allocator", log_x=True, log_y=True, x_title="block",
               y_title="time per free, ns"),
    )  # fmt: skip
    share = 1.5

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        sizes = {
            "quick": [64, 4 * KiB, 256 * KiB, 16 * MiB],
            "standard": [2, 64, 1 * KiB, *(4 * KiB << (2 * k) for k in range(7))],
            "full": [2 << k for k in range(30)],
        }[preset]
        return [
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("size", sizes, "size", doc="bytes of one block"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return unavailable(device, str(factors["allocator"]))

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        return device.kind != "cpu" and factors["allocator"] in HOST_ALLOCATORS  # measured on the device `cpu`

    def measure(self, point: Point, session: Session) -> Measurement:
        size = int(str(point["size"]))
        together = {"quick": GiB // 4, "standard": GiB, "full": 4 * GiB}[session.preset]
        chunks = max(1, min(CHUNKS, together // size))
        outcome = _core.allocation(
            session.device, allocator=str(point["allocator"]), bytes=size, chunks=chunks, stop=session.stop()
        )
        return Measurement(
            samples=outcome.samples,
            verified=outcome.errors == 0,
            stopped_by=outcome.stopped_by,
            counters={**outcome.counters, "chunks": chunks},
        )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        curves: dict[str, dict[int, float]] = defaultdict(dict)
        for record in records:
            if record.summary:
                curves[str(record.factors["allocator"])][int(str(record.factors["size"]))] = record.summary.median
        grows: dict[bool, list[str]] = defaultdict(list)
        for allocator, curve in curves.items():
            sizes = [size for size in sorted(curve) if size >= FROM]
            if len(sizes) > 1:
                grows[curve[sizes[-1]] >= GROWS * curve[sizes[0]]].append(allocator)
        said = "".join(
            f" From {format_size(FROM)} blocks on, cost {words}: {', '.join(grows[key])}."
            for key, words in ((True, "grows with size"), (False, "hardly grows"))
            if grows[key]
        )
        cheapest = min(curves.items(), key=lambda item: min(item[1].values()), default=None)
        dearest = max(curves.items(), key=lambda item: min(item[1].values()), default=None)
        if cheapest is None or dearest is None:
            return "No allocation was measured."
        return (
            f"The cheapest call is {cheapest[0]} with {min(cheapest[1].values()):.3g} ns, the dearest {dearest[0]} "
            f"with at least {min(dearest[1].values()):.3g} ns.{said}"
        )
