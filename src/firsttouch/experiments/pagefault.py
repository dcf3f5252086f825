"""pagefault: the cost of the first touch of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from firsttouch import _core
from firsttouch.allocators.properties import is_common, requested_pages, role
from firsttouch.analysis.findings import Claim, Finding, Quantity, finding, number, quantity, ratio_of
from firsttouch.analysis.statistics import group_by
from firsttouch.experiments.base import Experiment, Factor, Measurement, Point, Preset
from firsttouch.experiments.common import BASE_PAGE, MMAP_EVERY_BLOCK, GiB, MiB, allocator_names, switch, unreachable
from firsttouch.experiments.presets import QUICK, STANDARD, Above, Candidate, leave_out
from firsttouch.figures import Line
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record
from firsttouch.session import Session

SCENARIOS = ("cpu-1", "cpu-n", "gpu-major", "gpu-minor", "prefault+minor")
MAX_PAGES = 2**32
PAGE_BYTES = {"base": BASE_PAGE, "huge": 2 * MiB}


def _touched_bytes(candidate: Candidate) -> int:
    """Bytes of the pages that are touched."""
    return candidate.factors.count("pages") * PAGE_BYTES[candidate.factors.text("page_size")]


def _is_default(allocator: str, alone: bool) -> bool:
    """True if it is measured by default: base pages on the device `cpu`, elsewhere memory that both may share."""
    if alone:
        return requested_pages(allocator) == "base"
    return is_common(allocator) and role(allocator) in ("host", "shared")


class PageFault(Experiment):
    """One store to each page of a new mapping, minus a second round over it. Source: IISWC 2025 Sec. III-A.6."""

    name = "pagefault"
    order = 50
    question = "What does the first touch of a page cost?"
    metric = Metric("ns", "lower")
    counted = (
        "Time per page of a first store to every page of a new mapping, minus the time per page of a second round "
        "over the same pages. cpu-1 and cpu-n: one or all CPU threads; gpu-major: the GPU touches first; gpu-minor: "
        "the CPU touches first, then the GPU faults (and, if memories are separate, pages migrate); prefault+minor: "
        "gpu-minor including the time of the CPU's touches. glibc maps every block anew. Verified in every 16th trial."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A.6"
    figures = (
        Line(x="pages", colour="scenario", dash="page_size", facet="allocator", log_x=True, log_y=True,
             x_title="pages touched", y_title="time per page"),
    )  # fmt: skip
    share = 1.5

    properties: ClassVar = {"touched": _touched_bytes}
    rules = (
        leave_out("the CPU's first touch of plain host memory is measured on the device cpu",
                  runs_kernels=True, plain_host=True, scenario=("cpu-1", "cpu-n")),
        leave_out("plain host memory that the GPU cannot reach is recorded once",
                  runs_kernels=True, plain_host=True, skipped=True, touched=Above(BASE_PAGE)),
        leave_out("the quick preset touches at most 256 MiB", QUICK, touched=Above(GiB // 4)),
        leave_out("the standard preset touches at most 2 GiB", STANDARD, touched=Above(2 * GiB)),
        leave_out("a preset touches at most 64 GiB", touched=Above(64 * GiB)),
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        counts = {
            "quick": [1, 64, 4096],
            "standard": [1, 10, 100, 1000, 10_000, 100_000],
            "full": [10**k for k in range(8)],
        }[preset]
        alone = not device.capabilities.runs_kernels
        scenarios, sizes = (SCENARIOS[:2], tuple(PAGE_BYTES)) if alone else (SCENARIOS, ("base",))
        allocators = [name for name in allocator_names(device) if _is_default(name, alone)]
        return [
            Factor("allocator", allocators, choices=allocator_names(device), doc="how the memory is obtained"),
            Factor(
                "scenario", scenarios, choices=scenarios, doc="who touches the pages, and whether the CPU did before"
            ),
            Factor(
                "page_size",
                sizes,
                choices=tuple(PAGE_BYTES),
                doc="page size requested from the kernel, and stride of the touches",
            ),
            Factor("pages", counts, "count", least=1, most=MAX_PAGES, doc="pages touched"),
            *switch(device, "xnack"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        scenario, allocator = factors.text("scenario"), factors.text("allocator")
        touchers = {"gpu-major": ("gpu",), "gpu-minor": ("cpu", "gpu"), "prefault+minor": ("cpu", "gpu")}
        for agent in touchers.get(scenario, ("cpu",)):
            if reason := unreachable(device, allocator, agent):
                return reason
        entry = device.allocator(allocator)
        if entry is not None and entry.on_demand is False:
            return f"{allocator} memory is allocated before the first touch"
        return None

    def environment(self, factors: Factors) -> dict[str, str]:
        return {**super().environment(factors), **MMAP_EVERY_BLOCK}

    def measure(self, point: Point, session: Session) -> Measurement:
        page = PAGE_BYTES[point.text("page_size")]
        outcome = _core.page_faults(
            session.device,
            allocator=point.text("allocator"),
            pages=point.text("page_size"),
            page_bytes=page,
            count=point.count("pages"),
            scenario=point.text("scenario"),
            seed=session.seed,
            stop=session.stop(max_samples=100),
        )
        return Measurement.of(outcome, counters={"page_bytes": page})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        found = []
        for (_, size), rows in group_by(records, "allocator", "page_size").items():
            by_scenario = {r.factors["scenario"]: r for r in sorted(rows, key=lambda r: number(r, "pages"))}
            page = PAGE_BYTES.get(str(size))
            found += [_cost(by_scenario[s], words, page) for s, words in TOUCHERS.items() if s in by_scenario]
        return found


TOUCHERS = {
    "cpu-1": "by one CPU thread",
    "cpu-n": "by all CPU threads",
    "gpu-major": "by the GPU",
    "gpu-minor": "by the GPU after the CPU",
    "prefault+minor": "by the CPU and then the GPU",
}
"""Scenarios in words."""
_COST = ("pagefault.cost", "the first touch of {pages} pages of {page_bytes} of {allocator} memory costs, per page:")
COST = Claim(_COST[0], "{value} {toucher} ({rate})", _COST[1])
NO_COST = Claim(_COST[0], "nothing measurable {toucher}", _COST[1])


def _cost(record: Record, toucher: str, page: int | None) -> Finding:
    cost = quantity(record)
    if (cost.value if cost.low is None else cost.low) <= 0:
        return finding(NO_COST, record, toucher=toucher, page_bytes=page)
    rate = ratio_of(Quantity(1e9, "", 1e9, 1e9), cost)
    details = {"rate": replace(rate, unit="pages/s")}
    return finding(COST, record, details=details, toucher=toucher, page_bytes=page)
