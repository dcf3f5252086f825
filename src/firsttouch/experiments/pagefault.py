"""pagefault: the price of the first touch."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch import _core
from firsttouch.experiments.base import Experiment, Factor, Figure, Measurement, Point, Preset
from firsttouch.experiments.common import BASE_PAGE, MAP_ANEW, GiB, MiB, allocator_names, switch, unreachable
from firsttouch.run.session import Session
from firsttouch.schema import DeviceInfo, Factors, Record

SCENARIOS = ("cpu-1", "cpu-n", "gpu-major", "gpu-minor", "prefault+minor")
PAGE_BYTES = {"base": BASE_PAGE, "huge": 2 * MiB}


class PageFault(Experiment):
    """One store per page of a fresh mapping, less a second pass over it. Source: IISWC 2025 Sec. III-D."""

    name = "pagefault"
    order = 50
    question = "What does the first touch of a page cost?"
    unit = "ns"
    better = "lower"
    counted = (
        "Time per page of a first store to every page of a fresh mapping, minus the time per page of a second round "
        "over the same pages. cpu-1 and cpu-n: one or all CPU threads; gpu-major: the GPU touches first; gpu-minor: "
        "the CPU touched before, the GPU faults (and, where memories are apart, pages migrate); prefault+minor: "
        "gpu-minor with the CPU's own touching counted in. glibc maps every block anew. Verified on every 16th trial."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-D"
    figures = (
        Figure(kind="line", x="pages", colour="scenario", dash="page_size", facet="allocator", log_x=True, log_y=True,
               x_title="pages touched", y_title="time per page"),
    )  # fmt: skip
    share = 1.5

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        counts = {
            "quick": [1, 64, 4096],
            "standard": [1, 10, 100, 1000, 10_000, 100_000],
            "full": [10**k for k in range(8)],
        }[preset]
        alone = device.kind == "cpu"
        scenarios, sizes = (SCENARIOS[:2], tuple(PAGE_BYTES)) if alone else (SCENARIOS, ("base",))
        wanted = ("mmap",) if alone else ("malloc", "managed", "svm-fine")
        allocators = [name for name in allocator_names(device) if name in wanted]
        return [
            Factor("allocator", allocators, choices=allocator_names(device)),
            Factor("scenario", scenarios, choices=scenarios),
            Factor(
                "page_size", sizes, choices=tuple(PAGE_BYTES), doc="asked of the kernel, and the stride of the touch"
            ),
            Factor("pages", counts, "count", doc="pages touched"),
            *switch(device, "xnack"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["pages"] == 0:
            return "no pages to touch"
        scenario, allocator = str(factors["scenario"]), str(factors["allocator"])
        touchers = {"gpu-major": ("gpu",), "gpu-minor": ("cpu", "gpu"), "prefault+minor": ("cpu", "gpu")}
        for agent in touchers.get(scenario, ("cpu",)):
            if reason := unreachable(device, allocator, agent):
                return reason
        entry = device.allocator(allocator)
        if entry is not None and entry.on_demand is False:
            return f"{allocator} memory is there before the first touch"
        return None

    def environment(self, factors: Factors) -> dict[str, str]:
        return {**super().environment(factors), **MAP_ANEW}

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        size = int(str(factors["pages"])) * PAGE_BYTES[str(factors["page_size"])]
        if device.kind != "cpu" and factors["allocator"] == "malloc":
            # The CPU's own touch of plain memory is measured on the device `cpu`.
            return str(factors["scenario"]).startswith("cpu") or (bool(self.skip(factors, device)) and size > BASE_PAGE)
        return size > {"quick": GiB // 4, "standard": 2 * GiB, "full": 64 * GiB}[preset]

    def measure(self, point: Point, session: Session) -> Measurement:
        page = PAGE_BYTES[str(point["page_size"])]
        outcome = _core.page_faults(
            session.device,
            allocator=str(point["allocator"]),
            pages=str(point["page_size"]),
            page_bytes=page,
            count=int(str(point["pages"])),
            scenario=str(point["scenario"]),
            seed=session.seed,
            stop=session.stop(max_samples=100),
        )
        return Measurement(
            samples=outcome.samples,
            verified=outcome.errors == 0,
            stopped_by=outcome.stopped_by,
            counters={**outcome.counters, "page_bytes": page},
        )

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        best: dict[str, Record] = {}
        for record in records:
            if record.summary and record.factors["page_size"] == "base":
                key = str(record.factors["scenario"])
                if key not in best or int(str(record.factors["pages"])) > int(str(best[key].factors["pages"])):
                    best[key] = record
        if not best:
            return "No first touch was measured."
        words = [
            f"{name} {record.summary.median:.4g} ns ({1e3 / record.summary.median:.3g} million pages/s)"
            for name, record in best.items()
            if record.summary and record.summary.median > 0
        ]
        pages = max(int(str(record.factors["pages"])) for record in best.values())
        return f"Touching up to {pages} base pages for the first time costs, per page: {'; '.join(words)}."
