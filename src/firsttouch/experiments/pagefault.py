"""pagefault: the cost of the first touch of a page."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.base.units import format_seconds
from firsttouch.experiments.contract.base import (
    Candidate,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
    WorkerRules,
)
from firsttouch.experiments.contract.common import (
    BASE_PAGE,
    HUGE_PAGE,
    MMAP_EVERY_BLOCK,
    GiB,
    MiB,
    allocator_names,
    unreachable,
)
from firsttouch.experiments.contract.modelled import device_of, known_prices, predicted
from firsttouch.experiments.contract.presets import FULL, QUICK, STANDARD, Above, Not, exclude, leave_out, take
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.allocators.properties import is_common, is_plain_host, requested_pages, role
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro import touches
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.records.codebook import Codebook, CounterEntry, FirstTouch, PriceSource
from firsttouch.records.figures import Line
from firsttouch.records.findings import Claim, Finding, Quantity, counter, finding, number, quantity, ratio_of
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record, Scalar, as_number
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

TOUCHERS = {
    "cpu": ("cpu",),
    "gpu-major": ("gpu",),
    "gpu-minor": ("cpu", "gpu"),
    "prefault+minor": ("cpu", "gpu"),
}
"""The scenarios, each with the agents that access the pages."""
TIMES_CPU = ("cpu", "prefault+minor")
"""The scenarios in which the CPU's accesses are timed."""
ACCESSES = {"store": "store to", "load": "load from"}
MAX_PAGES = 2**32
PAGE_BYTES = {"base": BASE_PAGE, "huge": HUGE_PAGE}
PAGE_VALUES = {"base": "page", "huge": "huge_page"}
"""The values of a platform that are the sizes of its host's pages."""
SINGLE_TRIALS = (100, 1000)
"""The least and the most trials of a point with one page, whose samples are a distribution of single faults."""
PERCENTILES = (1, 5, *range(10, 100, 10), 95, 99)
LEAST_DISTRIBUTED = 20
"""The fewest samples whose distribution is shown."""
TRIALS = (3, 100)
"""Those of other points."""
OWN_BLOCK_BYTES = 8 * MiB
"""The least bytes of a block of managed memory. CUDA takes small ones from a block that earlier trials used, so that
their pages are there already: seen on an H200 with blocks of 400 KiB, not with 4 MiB.
"""
TRIED_BYTES = 128 * MiB
"""More than the least number of trials are taken until they have touched this much, even if their time is over."""


def _page_bytes(device: DeviceInfo, page_size: str) -> int:
    """Bytes of a page of the host: of this machine, or of the modelled one; 0 if its platform does not state it."""
    if device.modelled is None:
        return PAGE_BYTES[page_size]
    return int(as_number(device.facts.get(f"host_{PAGE_VALUES[page_size]}_bytes")) or 0)


def _touched_bytes(candidate: Candidate) -> int:
    """Bytes of the pages that are touched."""
    return candidate.factors.count("pages") * _page_bytes(candidate.device, candidate.factors.text("page_size"))


def _exceeds_page(candidate: Candidate) -> bool:
    """Whether more than one base page is touched."""
    return _touched_bytes(candidate) > _page_bytes(candidate.device, "base")


def _is_default_allocator(allocator: str, device: DeviceInfo, preset: Preset) -> bool:
    """True if a preset measures it: mappings with base pages, and on a device memory that both agents share. `full`
    adds malloc, whose pages may be there already.
    """
    if requested_pages(allocator) == "base":
        return True
    return is_common(allocator) and (role(allocator) == "shared" or (preset == "full" and is_plain_host(allocator)))


class PageFault(Experiment):
    """One access to each page of a new mapping, minus a second round over it. Source: IISWC 2025 Sec. III-A6."""

    name = "pagefault"
    order = 50
    question = "What does the first touch of a page cost?"
    metric = Metric("ns", "lower", version=2)
    counted = (
        "Time per page of a first access to every page of a new block, minus the time per page of a second round over "
        "the same pages. cpu: CPU threads access the pages; gpu-major: the GPU does, first; gpu-minor: the CPU stores "
        "to them first, then the GPU faults (and, if memories are separate, pages migrate); prefault+minor: gpu-minor "
        "including the time of the CPU's stores. Before each trial the pages are shown to be absent (counter absent); "
        "every difference is a sample, and a point whose interval reaches zero is skipped. Verified in every 16th "
        "trial."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-A6"
    codebook = Codebook(
        called="page faults",
        factors={
            "allocator": {},
            "scenario": {
                "cpu": "threads of the CPU touch new pages",
                "gpu-major": "the GPU touches new pages",
                "gpu-minor": "the GPU touches pages that the CPU touched",
                "prefault+minor": "the same, with the time of the CPU's touches",
                "cpu-1": "one thread of the CPU touches new pages (version 1)",
                "cpu-n": "all threads of the CPU touch new pages (version 1)",
            },
            "access": {"store": "a store to each page", "load": "a load from each page"},
            "page_size": {"base": "the smallest pages", "huge": "huge pages"},
            "pages": {},
            "threads": {},
        },
        only_where={"threads": {"scenario": [*TIMES_CPU, "cpu-1", "cpu-n"]}},
        counters=(
            CounterEntry(name="page_bytes", unit="B"),
            CounterEntry(name="absent", unit="word"),
            CounterEntry(name="cpu_threads", unit=""),
            CounterEntry(name="pages_per_s", unit="1/s"),
            CounterEntry(name=r"(first|second|mean|p\d+)_ns", unit="ns"),
        ),
        touch=FirstTouch(
            by="scenario",
            agents={
                "cpu": "cpu",
                "cpu-1": "cpu",
                "cpu-n": "cpu",
                "gpu-major": "gpu",
                "gpu-minor": "gpu",
                "prefault+minor": "gpu",
            },
            pages="pages",
            threads=["cpu_threads", "threads"],
            single=["cpu-1"],
        ),
        prices=(
            PriceSource(
                price="first_touch",
                where={"scenario": "cpu", "access": "store"},
                by={"allocator": "allocator", "page_size": "page_size", "threads": "threads"},
                names={"count": "pages", "bytes": "page_bytes"},
            ),
            PriceSource(
                price="lone_fault",
                where={"pages": 1, "access": "store", "page_size": "base"},
                by={"allocator": "allocator", "scenario": "scenario"},
                names={"mean": "mean_ns", "p95": "p95_ns"},
            ),
        ),
    )
    figures = (
        Line(x="pages", colour="scenario", dash="page_size", facet="allocator", log_x=True, log_y=True,
             x_title="pages touched", y_title="time per page, ns"),
        Line(x="series", y="value", series="p{}_ns", colour="scenario", facet="allocator", where={"pages": 1},
             log_y=True, titles={"series": "percentile"}, x_title="share of the touches, %",
             y_title="time of a single first touch, ns", title="A single first touch: the distribution of its time"),
        Line(x="pages", y="pages_per_s", colour="scenario", dash="threads", facet="allocator", log_x=True, log_y=True,
             x_title="pages touched", y_title="pages per second"),
    )  # fmt: skip

    worker = WorkerRules(environment=lambda factors: MMAP_EVERY_BLOCK)
    not_followed = {"access": "a first load is predicted to take as long as a first store"}
    planning = Planning(
        share=1.5,
        rules=(
            leave_out("the CPU's first touch of plain host memory is measured on the device cpu",
                      runs_kernels=True, plain_host=True, scenario="cpu"),
            leave_out("what cannot be measured is recorded once", runs_kernels=True, skipped=True,
                      exceeds_page=True),
            exclude("a single page is touched by one thread", scenario="cpu", pages=1, threads=Not(1)),
            leave_out("the CPU prefaults with all threads", scenario="prefault+minor", threads=Not(0)),
            leave_out("the quick preset touches at most 256 MiB", QUICK, touched=Above(GiB // 4)),
            leave_out("the standard preset touches at most 2 GiB", STANDARD, touched=Above(2 * GiB)),
            leave_out("a preset touches at most 64 GiB", touched=Above(64 * GiB)),
            take("the full preset measures every access", FULL),
            leave_out("loads are measured for base pages", access="load", page_size="huge"),
            leave_out("loads are measured where the first agent faults", access="load",
                      scenario=("gpu-minor", "prefault+minor")),
            leave_out("loads are measured for one page and for 10,000", access="load", pages=Not((1, 10_000))),
        ),
        properties={"touched": _touched_bytes, "exceeds_page": _exceeds_page},
    )  # fmt: skip

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        counts = {
            "quick": [1, 64, 4096],
            "standard": [1, 10, 100, 1000, 10_000, 100_000],
            "full": [10**k for k in range(8)],
        }[preset]
        alone = not device.capabilities.runs_kernels
        scenarios, sizes = (("cpu",), tuple(PAGE_BYTES)) if alone else (tuple(TOUCHERS), ("base",))
        allocators = [name for name in allocator_names(device) if _is_default_allocator(name, device, preset)]
        return [
            Factor("allocator", allocators, choices=allocator_names(device), doc="how the memory is obtained"),
            Factor("scenario", scenarios, doc="who touches the pages, and whether the CPU did before"),
            Factor(
                "access",
                ("store",) if preset == "quick" else tuple(ACCESSES),
                choices=tuple(ACCESSES),
                doc="the access that is timed",
            ),
            Factor(
                "page_size",
                sizes,
                choices=tuple(PAGE_BYTES),
                doc="page size requested from the kernel, and stride of the touches",
            ),
            Factor("pages", counts, "count", least=1, most=MAX_PAGES, doc="pages touched"),
            Factor(
                "threads",
                (1, 0),
                "count",
                most=usable_processors(device),
                doc="CPU threads whose accesses are timed, pinned and spread; 0 is all",
            ),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["scenario"] not in TIMES_CPU and factors["threads"] != 0:
            return Meaningless(
                "threads are those of the CPU, whose accesses are not timed in this scenario; it goes with threads=0"
            )
        allocator, agents = factors.text("allocator"), TOUCHERS[factors.text("scenario")]
        if reason := unreachable(device, allocator, *agents):
            return reason
        entry = device.allocator(allocator)
        if entry is not None and entry.on_demand is False:
            return f"{allocator} memory is allocated before the first touch"
        if len(agents) > 1 and device.capabilities.on_host_processor:
            return "the kernels use the CPU's page tables, so what the CPU has touched causes no fault in them"
        return None

    def measure(self, point: Point, session: Session) -> Measurement:
        page = PAGE_BYTES[point.text("page_size")]
        least, most = _trial_limits(page, point.count("pages"))
        entry = session.info.allocator(point.text("allocator"))
        outcome = _core.page_faults(
            session.device,
            allocator=point.text("allocator"),
            pages=point.text("page_size"),
            page_bytes=page,
            count=point.count("pages"),
            least_bytes=OWN_BLOCK_BYTES if entry is not None and entry.managed else 0,
            scenario=point.text("scenario"),
            load=point["access"] == "load",
            threads=point.count("threads"),
            seed=session.seed,
            stop=session.stop(min_samples=least, max_samples=most),
        )
        shown = outcome.counters["shown_absent"] == 1
        counters: dict[str, Scalar] = {"page_bytes": page, "absent": _describe_absence(point, session.info, shown)}
        counters["pages_per_s"] = 1e9 / _resolved_median(outcome)
        if point["pages"] == 1:
            counters |= _distribution(outcome.samples)
        kept = [name for name in outcome.counters if name != "shown_absent"]
        return Measurement.of(outcome, keep=kept, counters=counters)

    def predict(self, point: Point, platform: Platform) -> Measurement:
        with known_prices():
            answer = touches.first_touch(
                platform,
                PlatformPrices(platform),
                device_of(point, platform),
                scenario=point.text("scenario"),
                allocator=point.text("allocator"),
                page_size=point.text("page_size"),
                page_bytes=int(platform.quantity(f"host.{PAGE_VALUES[point.text('page_size')]}").value),
                pages=point.count("pages"),
                threads=point.count("threads"),
            )
        return predicted(answer)

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Adds more percentiles of single first touches, for the figure of their distribution, without those at which
        the difference of two times is not above zero.
        """
        return [
            msgspec.structs.replace(
                r, counters={**r.counters, **_positive_times(_distribution(r.samples, PERCENTILES))}
            )
            if r.factors.get("pages") == 1 and len(r.samples) >= LEAST_DISTRIBUTED
            else r
            for r in records
        ]

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        current = [r for r in records if r.metric_version == self.metric.version]
        return [*_cost_findings(current), *_single_touch_findings(current)]


def _trial_limits(page_bytes: int, pages: int) -> tuple[int, int]:
    """The least and the most trials of a point."""
    if pages == 1:
        return SINGLE_TRIALS
    least, most = TRIALS
    return min(most, max(least, TRIED_BYTES // (pages * page_bytes))), most


def _describe_absence(point: Point, device: DeviceInfo, shown: bool) -> str:
    """What showed before each trial that the pages were absent. shown: the CPU's page tables had none of them."""
    if not shown:
        return "not shown: the CPU's page tables cannot be read"
    capabilities = device.capabilities
    if point["scenario"] == "cpu" or capabilities.on_host_processor or is_plain_host(point.text("allocator")):
        return "shown by /proc/self/pagemap"
    return "shown for the CPU's page tables; no call tells it for the GPU's"


def _resolved_median(outcome: _core.Outcome) -> float:
    """The median of the samples.

    Raises:
        Unsupported: its interval reaches zero.
    """
    n, median, *_, low, high = _core.summarise(outcome.samples)
    if low <= 0:
        first, second = (_format_ns(outcome.counters[f"{which}_ns"]) for which in ("first", "second"))
        raise Unsupported(
            f"below what this machine resolves: the first round took {first} per page and the second {second}; "
            f"the median of {n} differences is {_format_ns(median)}, with a 95 % interval from {_format_ns(low)} to "
            f"{_format_ns(high)}"
        )
    return median


def _distribution(samples: Sequence[float], percentiles: Sequence[int] = (50, 95, 99)) -> dict[str, Scalar]:
    percentile = statistics.quantiles(samples, n=100, method="inclusive")
    return {"mean_ns": statistics.fmean(samples), **{f"p{k}_ns": percentile[k - 1] for k in percentiles}}


def _positive_times(times: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: v for name, v in times.items() if isinstance(v, float) and v > 0}


def _format_ns(nanoseconds: float) -> str:
    return format_seconds(nanoseconds * 1e-9)


COST = Claim(
    "pagefault.cost",
    "{value} {toucher} ({rate})",
    "the first {touch} each of {pages} pages of {page_bytes} of {allocator} memory costs, per page:",
    ("scenario", "threads", "access", "page_size"),
)
SINGLE = Claim(
    "pagefault.single",
    "{value} {toucher} (95th percentile {p95})",
    "a single first {touch} a page of {page_bytes} of {allocator} memory takes on average:",
    ("scenario", "threads", "access", "page_size", "pages"),
)


def _cost_findings(records: Iterable[Record]) -> list[Finding]:
    """What the first touch of the most pages costs each toucher, by memory and access."""
    findings = []
    for rows in group_by(records, "allocator", "page_size", "access").values():
        for same in group_by(rows, "scenario", "threads").values():
            most = max(same, key=lambda r: number(r, "pages"))
            rate = replace(ratio_of(Quantity(1e9, "", 1e9, 1e9), quantity(most)), unit="pages/s")
            findings.append(_touch_finding(COST, most, rate=rate))
    return findings


def _single_touch_findings(records: Iterable[Record]) -> list[Finding]:
    """The mean and the 95th percentile of single first touches."""
    findings = []
    for record in records:
        mean, p95 = (counter(record, name, "ns") for name in ("mean_ns", "p95_ns"))
        if record.factors["pages"] == 1 and mean and p95:
            findings.append(_touch_finding(SINGLE, record, mean, p95=p95))
    return findings


def _touch_finding(claim: Claim, record: Record, value: Quantity | None = None, **details: Quantity) -> Finding:
    return finding(
        claim,
        record,
        value,
        details=details,
        toucher=_toucher(record),
        touch=ACCESSES[record.text("access")],
        page_bytes=record.counters.get("page_bytes"),
    )


def _toucher(record: Record) -> str:
    """The scenario in words."""
    threads = record.count("threads")
    cpu = {0: "all CPU threads", 1: "one CPU thread"}.get(threads, f"{threads} CPU threads")
    return {
        "cpu": f"by {cpu}",
        "gpu-major": "by the GPU",
        "gpu-minor": "by the GPU after the CPU",
        "prefault+minor": f"by {cpu} and then the GPU",
    }[record.text("scenario")]
