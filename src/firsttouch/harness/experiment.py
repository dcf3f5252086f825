"""Applications as experiments: their strategies and sizes, which points are skipped, and the record of a point."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.base.outputs import Output
from firsttouch.experiments.contract.base import (
    CountingRules,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
    ReportSection,
    WorkerRules,
    describe_factors,
)
from firsttouch.experiments.contract.common import MMAP_EVERY_BLOCK
from firsttouch.experiments.contract.meanings import EVENTS, HARDWARE, SHARES
from firsttouch.experiments.contract.rank_interfaces import MPI_FACTS, mpi_facts
from firsttouch.experiments.contract.rules import Preset
from firsttouch.harness import counting, division, exchanging, kernel_times, placements, timelines
from firsttouch.harness.app import App, Params, solve
from firsttouch.harness.divided import Division
from firsttouch.harness.fitting import memory_sizes, requested_budget, why_does_not_fit, why_too_small, window_rows
from firsttouch.harness.measure import PHASES, Run, phases_before_work, process_seconds, run
from firsttouch.harness.memory_use import memory_counters, over_runs
from firsttouch.harness.outcomes import app_findings, report
from firsttouch.harness.outcomes.derive import derive
from firsttouch.harness.outcomes.exchanges import BUFFERS
from firsttouch.harness.outcomes.placements import PLACEMENT
from firsttouch.harness.shortage import FACTORS as SHORTAGE
from firsttouch.harness.shortage import Shortage, is_oversubscribed
from firsttouch.machine.allocators.properties import may_migrate
from firsttouch.profile.counters.marks import ITERATIONS
from firsttouch.profile.events import log as events
from firsttouch.program.execution.ballast import why_not_oversubscribed
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.phase_threads import CPU_CODE, INITIALISE, PARALLEL, SINGLE, threads_of
from firsttouch.program.strategies import STRATEGIES, Strategy, strategies_of, unavailable
from firsttouch.records.codebook import TWO_CLOCKS, Codebook, CounterEntry
from firsttouch.records.findings import Finding
from firsttouch.records.schema import INTERFACE, PARAMETER, BufferFact, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

REPEATS = 3
SETTINGS = {
    "pages": Factor("pages", ("policy", "base", "huge"), doc="page size of host memory"),
    "control": Factor(
        "control",
        ("strategy", "copied"),
        doc="the small buffers that both agents use in turns: the strategy's, or copied",
    ),
    INITIALISE: Factor(INITIALISE, (PARALLEL, SINGLE), doc="CPU threads that generate inputs"),
    CPU_CODE: Factor(CPU_CODE, (PARALLEL, SINGLE), doc="CPU threads of what the CPU computes between kernels"),
    "budget": Factor("budget", (), "size", doc="bytes of device memory that the application may use"),
    **{factor.name: factor for factor in SHORTAGE},
    "repeat": Factor("repeat", (REPEATS,), "count", least=1, doc="runs in one process"),
    kernel_times.SETTING.name: kernel_times.SETTING,
    timelines.SETTING.name: timelines.SETTING,
}
"""Factors that a plan has only if they are set."""


def applications(apps: Mapping[str, type[App]], requested: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
    """Each application as an experiment, by name. requested: the factors set by --set and other options."""
    return {name: Application(app, requested) for name, app in apps.items()}


CODEBOOK = Codebook(
    called="applications",
    between_memories=True,
    factors={
        "app": {},
        "strategy": {},
        "size": {},
        "events": {"off": "no events are recorded", "on": "unified-memory events are recorded"},
        **{
            name: {}
            for name in (PLACEMENT, *SETTINGS, *(factor.name for factor in exchanging.FACTORS), *exchanging.OPTIONS)
        },
    },
    open=True,  # to parameters and options of the application
    counters=(
        CounterEntry(name="phase_context_ms", unit="ms"),  # of an earlier process
        CounterEntry(name="phase_.+_ms", unit="ms", at_most="median"),
        CounterEntry(name=r"iteration_\d+_ms", unit="ms", at_most="max"),  # they are those of one run
        CounterEntry(name="gpu_ms", unit="ms", at_most="phase_compute_ms", rounding=TWO_CLOCKS),
        CounterEntry(name="kernel_ms", unit="ms", at_most="kernel_compute_ms", rounding=TWO_CLOCKS),
        CounterEntry(name="memory_[a-z]+_bytes|peak_device_bytes", unit="B", at_most="peak_bytes"),
        CounterEntry(name="memory_iteration_.+_bytes", unit="B"),  # of a run after the samples, with a peak of its own
        CounterEntry(name=r"hw_(iteration_\d+_)?kernel_ms", unit="ms"),  # under the profiler
        CounterEntry(name=r"hw_\w+_bytes", unit="B"),
        HARDWARE,
        *EVENTS,
        *SHARES,
        MPI_FACTS,
        CounterEntry(name=r"(peak|peak_host|peak_machine|peak_machine_noise|footprint)_bytes", unit="B"),
        CounterEntry(name="measured_peak_bytes|ballast_bytes|free_beside_ballast_bytes", unit="B"),
        CounterEntry(name=r"(copied_d2h|copied_h2d|message_\w+)_bytes", unit="B"),
        CounterEntry(name="without_initialise_ms", unit="ms", at_most="median"),
        CounterEntry(name=r"(without_initialise|kernel|gpu)_sd_ms|(kernel_compute|calls|exchange)_ms", unit="ms"),
        CounterEntry(name="iterations_ms|process_ms", unit="ms"),
        CounterEntry(name=r"param_\w+|kernel_intervals|messages|exchange_part|steps|shared", unit=""),
        CounterEntry(name="size_reached|ratio_reached", unit=""),
        CounterEntry(name="census|census_digest|field_summary|fields_digest", unit="word"),
        CounterEntry(name="library|relative_to|ran_schedule|timeline|timeline_source", unit="word"),
    ),
)
"""What readers of the records of applications need to know. Applications add counters of their own."""
_SOLUTIONS: dict[tuple[type[App], int], Params] = {}


def _solve_cached(app: type[App], size: int) -> Params:
    """solve(), once per application and size."""
    if (app, size) not in _SOLUTIONS:
        _SOLUTIONS[app, size] = solve(app, size)
    return _SOLUTIONS[app, size]


class Applications(Experiment):
    """Derives and reports the records of any application. known: the applications whose code is available."""

    name = "app"
    order = 1000
    question = report.QUESTION
    metric = Metric("ms", "lower")
    counted = report.COUNTED
    source = report.SOURCE
    figures = report.FIGURES
    codebook = CODEBOOK
    without_effect = {"repeat": "each point is predicted once"}
    not_followed = {"peak": "the device memory of the declared buffers stands for what a run would measure"}
    planning = Planning(switches_of=("memory", "copies"))

    def __init__(self, known: Mapping[str, type[App]] | None = None) -> None:
        self.known = known or {}

    def derive(self, records: Sequence[Record]) -> list[Record]:
        return derive(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        about = {name: app.pattern for name, app in self.known.items()}
        return report.sections(records, about, {name: app.source for name, app in self.known.items()})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return app_findings.of_application(records)


def _environment(factors: Factors) -> Mapping[str, str]:
    recording = {events.VARIABLE: "1"} if factors.get("events") == "on" else {}
    return MMAP_EVERY_BLOCK | recording | exchanging.environment(factors)


class Application(Applications):
    """One application. Its points are strategies at one or more sizes."""

    worker = WorkerRules(fresh=True, environment=_environment, sampled=timelines.is_wanted)
    planning = replace(Applications.planning, setup=None)

    def __init__(self, app: type[App], requested: Mapping[str, Sequence[Scalar]] | None = None) -> None:
        super().__init__({app.name: app})
        self.app, self.requested = app, requested or {}
        self.counting = CountingRules(
            by_marks=True, why_not=lambda factors: counting.why_not(app, factors, self.requested)
        )
        self.ranks = exchanging.RANKS_OF_APPS if app.exchanges else None

    # ---------------------------------------------------------------------------------------------- planning

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        if not device.capabilities.runs_kernels:
            raise Unsupported(f"{device.name} does not run kernels; choose a device that does")
        app = self.app
        strategies = [s for s in strategies_of(device) if app.bounded or not STRATEGIES[s].bounded]
        named_sizes = {"tiny": "tiny", "default": "default"} | memory_sizes(device, requested_budget(self.requested))
        factors = [
            Factor("app", (app.name,)),
            Factor("strategy", strategies, choices=tuple(STRATEGIES)),
            Factor("size", ("default",), "extent", known=named_sizes),
        ]
        if app.exchanges:
            factors += exchanging.factors_of(device)
        if device.capabilities.memory_events:
            factors.append(Factor("events", ("off", "on"), doc="record unified-memory events"))
        names = {factor.name for factor in factors}
        return factors + [factor for factor in self.optional_factors() if factor.name not in names]

    def optional_factors(self) -> list[Factor]:
        """Those that points have only if --set names them."""
        optional_factors = [Factor(name, (value,), "count") for name, value in self.app.sizes["default"].items()]
        optional_factors += [Factor(name, words) for name, words in self.app.options.items()]
        optional_factors += division.FACTORS.values() if self.app.divided else ()
        optional_factors += placements.factors_of(self.app, self.requested.get(PLACEMENT, ()))
        by_name = {**SETTINGS, **{f.name: f for f in optional_factors}}
        return [replace(factor, optional=True) for factor in by_name.values()]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        app, strategy = self.app, STRATEGIES[factors.text("strategy")]
        if factors.get("events") == "on" and not may_migrate(strategy.allocator):
            return Meaningless("unified-memory events exist only for strategies whose pages move")
        if factors.get("events") == "on" and placements.BEST in self.requested.get(PLACEMENT, ()):
            return Meaningless("a search for placements records no events")
        if app.exchanges and (meaningless := exchanging.why_meaningless(factors)):
            return Meaningless(meaningless)
        if is_oversubscribed(factors) and (reason := why_not_oversubscribed(device)):
            return reason
        try:
            params = self.params(factors)
        except ValueError as error:
            return str(error)
        if reason := app.problem(params) or unavailable(strategy, device):
            return reason
        if app.exchanges and (reason := exchanging.why_skipped(app, params, factors, device)):
            return reason
        if strategy.bounded and not app.bounded:
            return f"{app.name}: its buffer sizes have no upper bound at compile time"
        reason = app.refuses(strategy, device) or division.why_skipped(app, factors, strategy, device)
        if reason := reason or placements.why_not_placed(app, strategy, factors, device):
            return reason
        return why_too_small(app, params, factors, device) or why_does_not_fit(app, params, strategy, factors, device)

    def params(self, factors: Factors) -> dict[str, int]:
        """Returns the application's parameters at this point. Raises ValueError if none fit the size."""
        size = factors["size"]
        params = dict(_solve_cached(self.app, size) if isinstance(size, int) else self.app.sizes[str(size)])
        return params | {name: int(v) for name in params if isinstance(v := factors.get(name), int)}

    def predict(self, point: Point, platform: Platform) -> Measurement:
        from firsttouch.harness.predicting import predict_application

        return predict_application(self.app, self.params(point.factors), point.factors, platform)

    # ---------------------------------------------------------------------------------------------- measurement

    def measure(self, point: Point, session: Session) -> Measurement:
        factors = point.factors
        strategy, params = STRATEGIES[factors.text("strategy")], self.params(factors)
        runner = _AppRunner(self.app, factors, strategy, session)
        context = runner.compile(params)
        if factors.get("events") == "on":
            session.recorded_events()  # raises Unsupported if there are none

        counted = session.counted is not None
        repeats = 1 if counted else _repeats(factors)
        # Warm-up: every kernel runs once, and the driver allocates its own memory. The seed differs, so that leftover
        # data can't pass the check. A profiler would take most of its time for it.
        if not counted:
            runner.run(self.app.sizes["tiny"], seed=session.seed + 1)
        runs: list[Run] = []
        timed: list[Run] = []
        shortage = Shortage(self.app, params, strategy, factors, session.info, lambda s: runner.peak(params, s))
        own_processors = session.on_own_processors() if session.ranks > 1 else nullcontext()
        with own_processors, shortage.ballast(session.device) as ballast:
            short = shortage.counters(ballast, session.device)
            chosen = division.find(
                self.app,
                factors,
                runner.division,
                lambda divided: runner.run(params, divided=divided)[1],
                repeats,
            )
            runner.division = chosen.division
            marks = counting.Marks(session.device) if counted else None
            for _ in range(repeats):
                # All are checked, the later ones in full only if their output differs from the first.
                checked_outputs = [*session.outputs, *(run.output for run in runs)]
                app, finished = runner.run(params, known=checked_outputs, marks=marks)
                runs.append(finished)
            if kernel_times.are_wanted(factors) and not counted:
                timer = _core.KernelTimer(session.device)
                timed += [runner.run(params, timer=timer)[1] for _ in runs]
            stepped = timelines.takes_steps(factors) and not counted and runner.run(params, stepwise=True)[1]
        measurement = self._measurement(app, params, context, runs)
        if timelines.is_wanted(factors):
            measurement.phases = timelines.spans(runs[-1])
            measurement.counters |= timelines.in_use_by_iteration(stepped) if stepped else {}
        measurement.counters |= {**short, **chosen.counters(runs), **kernel_times.counters(timed)}
        measurement.counters |= mpi_facts(factors.text(INTERFACE), session) if session.ranks > 1 else {}
        measurement.counters |= {ITERATIONS: runs[-1].marked} if counted else {}
        if isinstance(size := factors["size"], int):
            measurement.counters["size_reached"] = app.footprint(params) / size
        return measurement

    def _measurement(self, app: App, params: Params, context: float, runs: list[Run]) -> Measurement:
        last, error = runs[-1], next(filter(None, (run.error for run in runs)), "")
        # Of the repetitions in the middle, whose mean is the median: so the phases add up to it.
        ordered = sorted(runs, key=lambda run: run.seconds)
        middle = ordered[(len(runs) - 1) // 2 : len(runs) // 2 + 1]
        counters: dict[str, Scalar] = {"phase_context_ms": context * 1e3}
        for phase in [name for name in PHASES[1:] if name in middle[0].phases]:
            counters[f"phase_{phase}_ms"] = mean(run.phases[phase] for run in middle) * 1e3
        counters |= _without_initialise(app, runs, middle)
        if (gpu := [run.gpu for run in middle if run.gpu is not None]) and len(gpu) == len(middle):
            counters["gpu_ms"] = mean(gpu) * 1e3
            if len(every := [run.gpu for run in runs if run.gpu is not None]) > 1:
                counters["gpu_sd_ms"] = stdev(every) * 1e3
        iterations = zip(*(run.iterations for run in middle), strict=False)
        counters |= {f"iteration_{i}_ms": mean(each) * 1e3 for i, each in enumerate(iterations)}
        if last.iterations:
            counters["iterations_ms"] = mean(run.iterations_total for run in middle) * 1e3
        counters |= over_runs([r.memory for r in runs])
        counters["process_ms"] = process_seconds() * 1e3
        counters["footprint_bytes"] = app.footprint(params)
        counters["copied_h2d_bytes"], counters["copied_d2h_bytes"] = last.transferred["gpu"], last.transferred["cpu"]
        counters |= {f"{PARAMETER}{name}": value for name, value in params.items()}
        counters |= {name: mean(run.exchanged[name] for run in middle) for name in last.exchanged}
        counters |= {**app.used, **last.events, **division.facts(app)}
        return Measurement(
            samples=[max(r.slowest, r.seconds) * 1e3 for r in runs],
            verified=not error,
            verified_why=error,
            stopped_by="repetitions",
            counters=counters,
            outputs=[run.output for run in runs if run.output],
            buffers=[BufferFact(name=n, allocator=a, bytes=b) for n, a, b in last.buffers],
        )


class _AppRunner:
    """Runs an application as the factors of a point say. division: how its work is divided."""

    def __init__(self, app: type[App], factors: Factors, strategy: Strategy, session: Session) -> None:
        self._app, self._factors, self._strategy, self._session = app, factors, strategy, session
        self._options = {name: factors.text(name) for name in app.options if name in factors}
        self._exchanges = exchanging.Exchanges(factors, session)
        self.division = division.divide(app, factors, strategy, session.info)

    def compile(self, params: Params) -> float:
        """Open the device and compile all kernels. Returns the seconds that it took."""
        started = time.perf_counter()
        device = self._session.device
        kernels = self._app(params, self._session.seed, self._options).kernels
        for entry in kernels.entries:
            kernels.compiled(device, entry)
        return time.perf_counter() - started

    def run(
        self,
        params: Params,
        *,
        seed: int | None = None,
        known: Collection[str] | None = None,
        divided: Division | None = None,
        timer: _core.KernelTimer | None = None,
        strategy: Strategy | None = None,
        marks: counting.Marks | None = None,
        stepwise: bool = False,
    ) -> tuple[App, Run]:
        """Run it once. known: digests of outputs that were checked; without it, the output is not checked. strategy: if
        it is not the point's.
        """
        factors, session, strategy = self._factors, self._session, strategy or self._strategy
        seed, reads = session.seed if seed is None else seed, known is not None or stepwise
        app = self._app(params, seed, self._options, rank=session.rank, ranks=session.ranks)
        app.division = divided or self.division
        workspace = Workspace(
            strategy,
            session.info,
            session.device,
            pages=str(factors.get("pages", "policy")),
            copy_control=factors.get("control") == "copied",
            guidance=placements.placement_of(self._app, factors),
            messages=str(factors.get(BUFFERS, "")),
        )
        rows = window_rows(self._app, params, strategy, factors)
        return app, run(
            app,
            workspace,
            threads=threads_of(factors),
            check=known is not None,
            known=known or (),
            windows={a: rows * a.row_bytes for a in app.tiled_arrays()} if rows else None,
            counters=memory_counters(session.info, session.device, strategy.allocator) if reads else None,
            log=session.events,
            timer=timer,
            marks=marks,
            stepwise=stepwise,
            exchange=self._exchanges.new(),
            rest=timelines.REST if timelines.is_wanted(factors) else 0.0,
        )

    def peak(self, params: Params, strategy: Strategy) -> int:
        """The highest use of device memory of a run under a strategy, in bytes. Raises Unsupported if none is seen."""
        if not (peak := self.run(params, strategy=strategy, known=())[1].memory.get("peak_device_bytes")):
            raise Unsupported(
                f"no device memory of {self._app.name} was seen, so its peak is unknown; use peak=declared"
            )
        return peak


def _without_initialise(app: App, runs: Sequence[Run], middle: Sequence[Run]) -> dict[str, Scalar]:
    """The time of the runs in the middle, without the phase initialise unless the GPU generates most of the data, and
    its standard deviation over all runs.
    """
    left_out = phases_before_work(app.declarations(app.sizes["default"]))

    def milliseconds(run: Run) -> float:
        return 1e3 * sum(seconds for phase, seconds in run.phases.items() if phase not in left_out)

    counters: dict[str, Scalar] = {"without_initialise_ms": mean(map(milliseconds, middle))}
    return counters | ({"without_initialise_sd_ms": stdev(map(milliseconds, runs))} if len(runs) > 1 else {})


def _repeats(factors: Factors) -> int:
    repeats = factors.get("repeat")
    return repeats if isinstance(repeats, int) else REPEATS


@dataclass(frozen=True)
class ApplicationListing:
    """The entry of one application in --list. streams: whether it can be streamed under a budget."""

    name: str
    what: str
    source: str
    pattern: str
    default: Params
    footprint_bytes: int
    streams: bool
    options: Mapping[str, Sequence[str]]
    guided: Sequence[str]
    """The buffers that take advice and prefetches."""
    factors: Mapping[str, Mapping[str, str]]
    """Further factors for --set, besides strategy and size."""


class ApplicationsOutput(Output, frozen=True, kw_only=True, tag="firsttouch-app-list/1"):
    """What `firsttouch app --list --json` prints."""

    applications: list[ApplicationListing]


def list_application(app: type[App]) -> ApplicationListing:
    default = app.sizes["default"]
    description = " ".join((app.__doc__ or "").split())
    footprint = app.footprint(default)
    return ApplicationListing(
        app.name,
        description,
        app.source,
        app.pattern,
        default,
        footprint,
        bool(app.tiled),
        app.options,
        placements.guided_buffers(app),
        describe_factors([*(exchanging.FACTORS if app.exchanges else ()), *Application(app).optional_factors()]),
    )
