"""transfer: moving bytes between host and device, by copy engine, kernel or CPU."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import (
    GiB,
    KiB,
    MiB,
    allocator_names,
    buffer_fact,
    main_allocator,
    switch,
    unavailable,
    unreachable,
)
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record
from firsttouch.units import format_size

DEVICE_SIDE = ("device", "vmm", "svm-coarse")
ENGINES = ("copy-engine", "kernel", "cpu")


class Transfer(Experiment):
    """Copies queued behind a gate, checked byte for byte. Source: nvbandwidth's method; IISWC 2025 Sec. III-B."""

    name = "transfer"
    order = 30
    question = "How fast do bytes move between host and device?"
    unit = "GB/s"
    better = "higher"
    counted = (
        "Every byte copied counts once (a copy within one memory reads and writes it, so the traffic there is twice "
        "that). Copies are queued back to back behind a gate and timed on the device's clock; latency_us is one copy "
        "alone from the call to its completion. allocator is the host's side of h2d and d2h and both sides of d2d and "
        "h2h; other is the device's side."
    )
    source = "nvbandwidth; Wahlgren et al., IISWC 2025, Sec. III-B"
    figures = (
        Figure(kind="line", x="size", colour="allocator", dash="engine", facet="direction", log_x=True, log_y=True,
               x_title="bytes copied", y_title="bandwidth, GB/s"),
        Figure(kind="line", x="size", y="latency_us", colour="allocator", dash="engine", facet="direction",
               log_x=True, log_y=True, x_title="bytes copied", y_title="one copy alone, us"),
    )  # fmt: skip
    share = 3.0

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_cpu = device.kind in ("cpu", "opencl")
        sizes = {
            "quick": [4 * KiB, 256 * KiB, 4 * MiB, 64 * MiB if on_cpu else 256 * MiB],
            "standard": [1, 64, *(4 * KiB << (2 * k) for k in range(9)), *([] if on_cpu else [GiB])],
            "full": [1, 8, 64, 512, *(4 * KiB << k for k in range(18 if on_cpu else 22))],
        }[preset]
        directions = ("h2h",) if device.kind == "cpu" else ("h2d", "d2h", "d2d", "h2h")
        engines = ("cpu",) if device.kind == "cpu" else ENGINES
        others = (
            [main_allocator(device)] if preset != "full" else [n for n in allocator_names(device) if n in DEVICE_SIDE]
        )
        streams = (1,) if preset == "quick" or device.kind == "cpu" else (1, 2, 4)
        chunks = (0,) if preset == "quick" or device.kind == "cpu" else (0, 4 * MiB)
        return [
            Factor("direction", directions, choices=directions),
            Factor("engine", engines, choices=engines),
            Factor("allocator", allocator_names(device), choices=allocator_names(device)),
            Factor("other", others or ["malloc"], choices=allocator_names(device)),
            Factor("streams", streams, "count", doc="a transfer split over so many streams"),
            Factor("chunk", chunks, "count", doc="bytes of each piece of a pipelined transfer; 0 copies it whole"),
            Factor("size", sizes, "size"),
            *switch(device, "sdma", () if preset == "quick" else ("0", "1")),
        ]

    @staticmethod
    def _sides(factors: Factors) -> tuple[str, str]:
        """The allocators of source and target."""
        here, there = str(factors["allocator"]), str(factors["other"])
        return {"h2d": (here, there), "d2h": (there, here)}.get(str(factors["direction"]), (here, here))

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["streams"] == 0:
            return "a transfer needs at least one stream"
        for allocator in self._sides(factors):
            if reason := unavailable(device, allocator):
                return reason
            entry = device.allocator(allocator)
            if entry is not None and entry.managed:
                return f"{allocator} pages move to the device at the first copy, so there is no transfer to repeat"
            agent = {"kernel": "gpu", "cpu": "cpu"}.get(str(factors["engine"]))
            if agent and (reason := unreachable(device, allocator, agent)):
                return reason
        return None

    def drop(self, factors: Factors) -> bool:
        on_device = factors["allocator"] in DEVICE_SIDE
        engine, direction = factors["engine"], factors["direction"]
        if (direction != "d2d") == on_device:
            return True
        if (engine, direction) in (("cpu", "d2d"), ("kernel", "h2h")):
            return True
        if engine != "copy-engine" and (factors["streams"] != 1 or factors["chunk"] != 0):
            return True
        if engine != "copy-engine" and factors.get("sdma") == "0":
            return True  # only the runtime's own copies can use the DMA engines
        chunk = factors["chunk"]
        return isinstance(chunk, int) and chunk > 0 and int(str(factors["size"])) < 4 * chunk

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        size, allocator = int(str(factors["size"])), factors["allocator"]
        if device.kind != "cpu" and factors["direction"] == "h2h":
            return True  # measured on the device `cpu`
        if (factors["streams"] != 1 or factors["chunk"] != 0) and (allocator != "pinned" or size < 16 * MiB):
            return True
        if device.kind == "opencl" and preset != "full" and (factors["engine"] == "cpu" or size > 64 * MiB):
            return True
        if preset != "full" and size >= GiB and (allocator != "pinned" or factors["streams"] != 1 or factors["chunk"]):
            return True  # most of an experiment's time, for what 256 MiB show too
        if self.skip(factors, device):
            return size != 4 * MiB
        return preset == "quick" and allocator in ("mmap", "malloc-thp") and device.kind != "cpu"

    def measure(self, point: Point, session: Session) -> Measurement:
        device, size = session.device, int(str(point["size"]))
        source_allocator, target_allocator = self._sides(point.factors)
        with device.allocate(source_allocator, size) as source, device.allocate(target_allocator, size) as target:
            outcome = _core.copy(
                device,
                target,
                source,
                engine=str(point["engine"]),
                bytes=size,
                streams=int(str(point["streams"])),
                chunk=int(str(point["chunk"])),
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement(
                samples=outcome.samples,
                verified=outcome.errors == 0,
                stopped_by=outcome.stopped_by,
                counters=dict(outcome.counters),
                buffers=[buffer_fact("source", source), buffer_fact("target", target)],
            )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        parts = []
        rows = [r for r in records if r.summary]
        for direction in ("h2d", "d2h", "d2d", "h2h"):
            of = [r for r in rows if r.factors["direction"] == direction]
            if not of:
                continue
            largest = max(int(str(r.factors["size"])) for r in of)  # smaller ones may stay in a cache
            of = [r for r in of if r.factors["size"] == largest]
            best = max(of, key=lambda r: r.summary.median if r.summary else 0)
            assert best.summary is not None
            parts.append(
                f"{direction} {best.summary.median:.4g} GB/s ({best.factors['allocator']}, {best.factors['engine']}, "
                f"{format_size(int(str(best.factors['size'])))})"
            )
        if not parts:
            return "No transfer was measured."
        smallest = min(rows, key=lambda r: float(str(r.counters.get("latency_us", "inf"))))
        return (
            f"Fastest: {'; '.join(parts)}. The shortest copy alone takes "
            f"{float(str(smallest.counters['latency_us'])):.3g} us ({smallest.factors['direction']}, "
            f"{smallest.factors['allocator']}, {smallest.factors['engine']})."
        )
