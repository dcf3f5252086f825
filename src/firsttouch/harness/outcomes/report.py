"""The report of `firsttouch app`: its summary rows, sections and figures.

Result files from others are treated as untrusted: any factor or counter may be absent or of another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from msgspec import structs

from firsttouch.experiments.contract import shares
from firsttouch.experiments.contract.base import ReportSection
from firsttouch.harness.outcomes import app_findings, exchanges, iterations, predicted_terms
from firsttouch.harness.outcomes.derive import (
    BASELINE,
    FASTEST,
    MACHINE_NOISE,
    MACHINE_PEAK,
    TIMELINE,
    against_fastest,
    application,
    baseline_of,
    derive,
    is_events_run,
    prefixes,
    strategy,
)
from firsttouch.harness.outcomes.placements import (
    AS_IS,
    FINALIST,
    PLACEMENT,
    of_searches,
    ranked_first,
    without_candidates,
)
from firsttouch.profile.events import unseen
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.figures import Bar, Figure, Heat, Line, MemoryTimeline, Stack, Table, Timeline
from firsttouch.records.findings import Finding
from firsttouch.records.schema import FAILURES, INTERFACE, ITERATION_TIME, RELATIVE_TO, Record, Scalar, Status
from firsttouch.records.statistics import non_negative, positive, series, value, varying
from firsttouch.records.text import condition, is_size

QUESTION = "What does each memory strategy cost an application, in time and in memory?"
_SAMPLE = "One sample is one run, from the first allocation to the last free, without the phase context."
COUNTED = (
    f"{_SAMPLE} Phases: context: the device is opened and the kernels are compiled; allocate: all buffers are "
    "allocated; input: files are read; initialise: the input data are generated on the agent that they start on; "
    "compute: the kernels run, with the copies, prefetches and page migrations that they need; readback: the results "
    "are transferred to the CPU, which reads one byte of each page; output: files are written; free. Each phase ends "
    "when all queued work has ended. Times of phases and iterations are those of the repetition of median time (the "
    "mean of the two in the middle), so that they add up to it. The time without the CPU's initialisation leaves the "
    "phase initialise out where the CPU generates the data. The result of every repetition is checked, outside all "
    "phases. Iterations are timed by the device's clock, starting with the first launch. GPU time lasts from the "
    "first prefetch or launch of the phase compute until the device is idle, without copies to it. Kernel time is "
    "that between the events around each launch, replay or library call of the phase compute, including page faults "
    "of the kernels. It is the mean of separate runs, which are not samples. Peak memory is the maximum in use, minus "
    "the use before the first allocation. Where a page may be in the counts of both sides, as in the one memory of an "
    "APU, that of the whole machine is compared, if its noise, such as what other programs changed, is at most a "
    "tenth. Copied bytes are those that the strategy copies or is expected to move. Relative values are ratios under "
    "the same conditions: to explicit, which copies from pageable host arrays, or to what --relative-to names, and to "
    "explicit+pinned, which copies from page-locked ones. Events come from a separate run, since recording them takes "
    "time. The figure of what the driver did divides the compute time of that run into time with a move to the "
    "device; of the remainder, time with a move to the host; then time in which a GPU fault was handled; and time "
    "without any record. The driver drops records while busy; what must have moved shows how many bytes are missing "
    "at least. Where several processes share the work, the time of a run is that of the process that takes longest, "
    "and everything else is that of process 0. An exchange lasts from the beginning of packing until all is unpacked, "
    "by the device's clock; send and receive alone by the processor's."
)
COUNTED_IN_SHORT = f"{_SAMPLE} The section of all applications defines phases, peaks and relative values."
SOURCE = "Each application states its source; docs/applications.md describes the strategies"

_TITLES = {
    "median": "total",
    "relative_time": "relative time",
    "relative_without_initialise": "relative time without the CPU's initialisation",
    "phase_compute_ms": "compute",
    "relative_compute": "relative compute",
    "gpu_ms": "GPU time",
    "relative_gpu": "relative GPU time",
    "iterations_ms": "iterations",
    "kernel_ms": "kernel",
    "kernel_sd_ms": "sd of kernel",
    "relative_kernel": "relative kernel",
    "peak_host_bytes": "peak host",
    "peak_device_bytes": "peak device",
    MACHINE_PEAK: "peak of the machine",
    MACHINE_NOISE: "noise of the machine's peak",
    "relative_memory": "relative memory",
    "copied_h2d_bytes": "copied to the device",
    "copied_d2h_bytes": "copied to the host",
    "um_gpu_fault_groups": "recorded GPU fault groups",
    **exchanges.COLUMNS,
}
STACK = Stack(x="strategy", series="phase_{}_ms", y_title="time, ms", title="Time of each phase")
WITHOUT_CONTEXT = replace(STACK, without=("context",), title="Time of a run by phase")
DRIVER = Stack(
    x="strategy", series="um_compute_{}_ms", y_title="time, ms", titles={"series": "during the phase"},
    title="Time of the phase compute by what the driver did, with events recorded",
)  # fmt: skip
SUMS = Stack(
    x="strategy", series="um_{}_sum_ms", y_title="time, ms", titles={"series": "durations of"},
    names={"gpu fault": "GPU page faults (stall)", "h2d": "transfers to the device", "d2h": "transfers to the host"},
    title="Durations of faults and transfers in the whole run, added up, as nvprof sums them",
)  # fmt: skip
COURSE = Timeline(by="strategy", title="Bytes moved by the driver over time, in the last repetition")
MEMORY = MemoryTimeline(by="strategy", repeated=True)
ITERATIONS = Line(
    x="series", y="value", series=ITERATION_TIME, colour="strategy", order=tuple(STRATEGIES),
    log_y=True, x_title="iteration", y_title="ms per iteration", title="Time of each iteration",
)  # fmt: skip
TABLE = Table(
    columns=("strategy", *_TITLES, "library", "verified"), titles=_TITLES,
    title="Times, peak memory, and bytes copied or expected to move; relative is to explicit",
)  # fmt: skip
PLACEMENTS = Bar(
    x=PLACEMENT, colour="strategy", where={FINALIST: 1}, y_title="total, ms",
    title="The placements that were fastest when tried once, and what the strategies do by themselves",
)  # fmt: skip
SHARES = replace(shares.FIGURE, order=tuple(STRATEGIES), y_title="computing and readback, ms")
BY_SHARE = Line(x="gpu_share", colour="strategy", order=tuple(STRATEGIES), y_title="ms", title="Time over gpu_share")
BY_RATIO = Line(
    x="oversubscribe", y="without_initialise_ms", colour="strategy", order=tuple(STRATEGIES), log_y=True,
    x_title="bytes of data for each byte of device memory left free", y_title="ms without the CPU's initialisation",
    title="Time without the CPU's initialisation over the ratio of the data to the device memory left free",
)  # fmt: skip
SCALED = 3
"""From so many values of a size or a parameter on, times are drawn over it."""
FIGURES = (STACK, ITERATIONS, BY_SHARE, BY_RATIO, SHARES, TABLE)

CASE = "case"
"""In figures of several applications: the application, with its own parameters if it ran with several values."""
_HEAT = Heat(x="strategy", y=CASE, centre=1, x_title="strategy", y_title="application")
_COMPARED = {
    "time": "Time of a run",
    "without_initialise": "Time without the CPU's initialisation",
    "compute": "Time of the phase compute",
    "gpu": "GPU time",
    "kernel": "Kernel time",
    "memory": "Peak memory",
}
RUNS = Bar(x=CASE, colour="strategy", x_title="application", y_title="time of a run, ms", title="Time of a run")
GPU_TIMES = Bar(
    x="app", y="gpu_ms", colour="strategy", x_title="application", y_title="GPU time, ms",
    title="GPU time: prefetches and kernels, without copies to the device",
)  # fmt: skip
AGAINST_FASTEST = replace(
    _HEAT,
    z=FASTEST,
    z_title="time of a run relative to the fastest strategy",
    title="Time of a run relative to the fastest strategy of the application",
)


# ---------------------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class PointSummary:
    """The summary of one point. Times are in ms, memory is in bytes; None if not measured.

    conditions: the factors other than the strategy that vary among the points of the application. reason: why the point
    was not measured, or what is wrong with its result. suspect: the rule of plausibility that it breaks, or ''.
    relative_to: the baseline. relative_*: ratios to it, and the bounds of relative_time and relative_memory;
    relative_pinned_*: to explicit+pinned. best_share: the share of the GPU that a search found; best_speedup: how many
    times as fast as the GPU alone it is. throughput: GB/s by tier; by_iteration: what is known of the bytes of each
    iteration (harness/outcomes/iterations.py); not_seen: how much of the moves no event shows, in words, or ''.
    predicted: nothing of it was measured.
    """

    device: str
    application: str
    strategy: str
    relative_to: str
    conditions: dict[str, Scalar]
    status: Status
    verified: bool | None
    suspect: str
    reason: str
    total_ms: float | None
    compute_ms: float | None
    gpu_ms: float | None
    kernel_ms: float | None
    kernel_sd_ms: float | None
    peak_host_bytes: float | None
    peak_device_bytes: float | None
    peak_machine_bytes: float | None
    peak_machine_noise_bytes: float | None
    relative_time: float | None
    relative_time_low: float | None
    relative_time_high: float | None
    relative_without_initialise: float | None
    relative_compute: float | None
    relative_gpu: float | None
    relative_kernel: float | None
    relative_memory: float | None
    relative_memory_low: float | None
    relative_memory_high: float | None
    relative_pinned_time: float | None
    relative_pinned_without_initialise: float | None
    relative_pinned_compute: float | None
    relative_pinned_gpu: float | None
    relative_pinned_kernel: float | None
    relative_pinned_memory: float | None
    best_share: float | None
    best_speedup: float | None
    best_speedup_low: float | None
    best_speedup_high: float | None
    throughput: dict[str, float]
    by_iteration: list[iterations.Row]
    not_seen: str
    predicted: bool


def summary(records: Sequence[Record]) -> list[PointSummary]:
    """A row for each point, by device and application. Events runs have a row only if they failed, and so have the
    placements that a search tried.
    """
    rows = []
    records = without_candidates(records)
    for device in dict.fromkeys(r.device for r in records):
        derived = [
            r for r in derive([r for r in records if r.device == device]) if not is_events_run(r) or _has_failed(r)
        ]
        for app in sorted({application(r) for r in derived}):
            group = [r for r in derived if application(r) == app]
            conditions = [name for name in varying(group) if name != "strategy"]
            rows += [_summary_of(r, {name: r.factors[name] for name in conditions if name in r.factors}) for r in group]
    return rows


def _has_failed(record: Record) -> bool:
    return record.verified is False or bool(record.suspect) or record.status in FAILURES


def _summary_of(record: Record, conditions: dict[str, Scalar]) -> PointSummary:
    return PointSummary(
        device=record.device,
        application=application(record),
        strategy=strategy(record),
        relative_to=baseline_of([record]),
        conditions=conditions,
        status=record.status,
        verified=record.verified,
        suspect=record.suspect,
        reason=record.reason or record.verified_why,
        total_ms=positive(record, "median"),
        compute_ms=positive(record, "phase_compute_ms"),
        gpu_ms=positive(record, "gpu_ms"),
        kernel_ms=positive(record, "kernel_ms"),
        kernel_sd_ms=non_negative(record, "kernel_sd_ms"),
        peak_host_bytes=non_negative(record, "peak_host_bytes"),
        peak_device_bytes=non_negative(record, "peak_device_bytes"),
        peak_machine_bytes=non_negative(record, MACHINE_PEAK),
        peak_machine_noise_bytes=non_negative(record, MACHINE_NOISE),
        best_share=non_negative(record, "best_share"),
        throughput=iterations.throughput(record),
        by_iteration=iterations.rows(record),
        not_seen=unseen.in_words(record),
        predicted=record.modelled is not None,
        **{
            f.name: positive(record, f.name)
            for f in fields(PointSummary)
            if f.name.startswith(("relative_", "best_speedup")) and f.name != RELATIVE_TO
        },
    )


# ---------------------------------------------------------------------------------------------- sections


def sections(records: Sequence[Record], about: Mapping[str, str], sources: Mapping[str, str]) -> list[ReportSection]:
    """One section per application in alphabetical order. If there are several, an overview of all comes first.

    about, sources: by application, its access pattern in a few words, and who defined it.
    """
    records = predicted_terms.with_terms(ranked_first(sorted(records, key=_rank)))
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(application(record), []).append(record)
    counted = COUNTED if len(groups) < 2 else COUNTED_IN_SHORT
    by_application = [
        _section(app, groups[app], about.get(app, ""), sources.get(app, ""), counted) for app in sorted(groups)
    ]
    of_strategies = without_candidates(records)
    plain = sorted((r for r in of_strategies if not is_events_run(r)), key=lambda r: (_rank(r), application(r)))
    if len(groups) < 2 or not plain:
        return by_application
    overview = ReportSection(
        QUESTION,
        with_cases(against_fastest(plain)),
        _overview_figures(plain),
        counted=COUNTED,
        source=SOURCE,
        overview=True,
        findings=lambda _good, _device: app_findings.of_all(of_strategies),  # they also name incorrect results
    )
    return [overview, *by_application]


def with_cases(records: Sequence[Record]) -> list[Record]:
    """The records with their CASE, which an application's parameters belong to: they need no panels of their own."""
    by_application: dict[str, list[Record]] = {}
    for record in records:
        by_application.setdefault(application(record), []).append(record)
    names = {
        app: [name for name in varying(rows) if any(name in r.parameters for r in rows)]
        for app, rows in by_application.items()
    }

    def case(record: Record) -> str:
        app = application(record)
        return ", ".join([app, *filter(None, [condition(record, [n for n in names[app] if n in record.factors])])])

    return [structs.replace(r, counters={**r.counters, CASE: case(r)}) for r in records]


def overview(records: Sequence[Record]) -> tuple[Heat, ...]:
    """A figure for each value that is compared to the baseline, or to copies from page-locked arrays."""
    return tuple(
        replace(
            _HEAT,
            z=f"{prefix}_{name}",
            z_title=f"{noun if noun[:2].isupper() else noun[0].lower() + noun[1:]} relative to {baseline}",
            title=f"{noun} relative to {baseline}",
        )
        for baseline, prefix in prefixes(records).items()
        for name, noun in _COMPARED.items()
    )


def _overview_figures(records: Sequence[Record]) -> Sequence[Figure]:
    """The figures of several applications: without runs of the baseline to compare with, relative to the fastest."""
    timed = (replace(GPU_TIMES, x=CASE),) if any("kernel_ms" in r.counters for r in records) else ()
    timed = (*(replace(f, facet="app") for f in _ratio_lines(records)), *timed)
    against = overview(records)
    apps: dict[str, set[str]] = {}
    for record in records:
        apps.setdefault(application(record), set()).add(strategy(record))
    if any(len(names) > 1 and baseline_of(records) in names for names in apps.values()):
        return (*timed, *against)
    if any(len(names) > 1 for names in apps.values()):
        return (*timed, AGAINST_FASTEST, *against)
    if len({r.factors[INTERFACE] for r in records if INTERFACE in r.factors}) > 1:
        return (exchanges.RUNS, *against)
    searched = any(shares.speedup(r) for r in records)
    return (replace(SHARES, facet="app") if searched else RUNS, *against)


_RANKS = {name: rank for rank, name in enumerate(STRATEGIES)}


def _rank(record: Record) -> int:
    """The position in the table of strategies. Unknown strategies come last."""
    return _RANKS.get(strategy(record), len(_RANKS))


def _section(app: str, records: list[Record], about: str, source: str, counted: str) -> ReportSection:
    question = f"What does each memory strategy cost {app}{f' ({about})' if about else ''}?"
    return ReportSection(
        question,
        records,
        _figures(records),
        title=app,
        counted=counted,
        source=source or SOURCE,
        findings=lambda _good, _device: _findings(records),  # they also name incorrect results
    )


def _findings(records: Sequence[Record]) -> list[Finding]:
    """The findings of one application: of its strategies, and of a search for placements."""
    return [*app_findings.of_application(without_candidates(records)), *of_searches(records)]


def _ratio_lines(ran: Sequence[Record]) -> list[Line]:
    """The time over the ratio of less and less memory, if there are several."""
    return [BY_RATIO] if len({r.factors.get(BY_RATIO.x) for r in ran if BY_RATIO.y in r.counters}) > 1 else []


def _number_figures(ran: Sequence[Record]) -> list[Figure]:
    """The time over the ratio of less and less memory, and over a size or a parameter with several values."""
    figures: list[Figure] = [*_ratio_lines(ran)]
    for name in varying(ran):
        if name != "size" and not any(name in r.parameters for r in ran):
            continue
        values = [r.factors.get(name) for r in ran]
        if all(type(v) is int for v in values) and len(set(values)) >= SCALED:
            title = f"Time of a run over {name}"
            figures.append(replace(BY_SHARE, x=name, log_x=is_size(name), log_y=True, x_title="", title=title))
    return figures


def _figures(records: Sequence[Record]) -> list[Figure]:
    """The figures that apply to these records."""
    ran = [r for r in records if r.status == "ok" and r.summary is not None]
    context = max((positive(r, "phase_context_ms") or 0.0 for r in ran), default=0.0)
    longest = max((positive(r, "median") or 0.0 for r in ran), default=0.0)
    figures: list[Figure] = [STACK, WITHOUT_CONTEXT] if context > longest / 2 else [STACK]
    figures += predicted_terms.figures(ran)
    if any("kernel_ms" in r.counters for r in ran):
        figures.append(GPU_TIMES)
    if any(TIMELINE in r.counters for r in ran):
        figures.insert(0, MEMORY)  # which the call asked for
    if any(len(series(r, ITERATIONS.series)) > 1 for r in ran):
        figures.append(ITERATIONS)
    if any(series(r, DRIVER.series) for r in ran):
        note = unseen.note(ran, "strategy")
        figures += [replace(f, note=note) for f in (DRIVER, SUMS, COURSE)]
    figures[1:1] = iterations.figures(ran)
    if len({r.factors.get("gpu_share") for r in ran}) > 1:
        figures.append(BY_SHARE)
    figures = [*_number_figures(ran), *figures]
    if any(shares.speedup(r) for r in ran):
        figures.append(SHARES)
    if len({(r.factors.get(INTERFACE), r.factors.get(exchanges.BUFFERS)) for r in ran}) > 1:
        figures = [exchanges.FIGURE, exchanges.OF_ONE, *figures]
    if any(FINALIST in r.counters for r in ran):
        figures = [PLACEMENTS, *(replace(figure, where={PLACEMENT: AS_IS}) for figure in figures)]
    conditions = [name for name in varying(ran) if name not in ("app", *TABLE.columns)]
    shown = {"strategy": True, "verified": any(r.verified is not True for r in ran)}
    columns = [n for n in TABLE.columns if shown.get(n, any(value(r, n) is not None for r in ran))]
    title = TABLE.title.replace(BASELINE, baseline_of(ran))
    return [*figures, replace(TABLE, title=title, columns=(columns[0], *conditions, *columns[1:]))]
