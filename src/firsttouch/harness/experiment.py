"""Applications as experiments: their strategies and sizes, which points are skipped, and the record of a point."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import mean

from firsttouch import _core
from firsttouch.allocators.properties import may_migrate, moves_when_touched
from firsttouch.analysis.findings import Finding
from firsttouch.events import log as events
from firsttouch.experiment.base import Experiment, Factor, Measurement, Point, Preset, ReportSection, describe_factors
from firsttouch.experiment.common import MMAP_EVERY_BLOCK
from firsttouch.experiment.meanings import EVENTS, SHARES
from firsttouch.harness import division, exchanging, kernel_times, placements, timelines
from firsttouch.harness.app import App, Params, solve
from firsttouch.harness.measure import PHASES, Run, memory_counters, process_seconds, run
from firsttouch.outcomes import findings, report
from firsttouch.outcomes.derive import derive
from firsttouch.outcomes.exchanges import BUFFERS
from firsttouch.outcomes.placements import PLACEMENT
from firsttouch.records.codebook import TWO_CLOCKS, Codebook, CounterEntry
from firsttouch.records.schema import BufferFact, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.session import Session
from firsttouch.units import format_size, parse_size
from firsttouch.workspace.ballast import Ballast, why_no_ballast, why_not_oversubscribed
from firsttouch.workspace.declarations import Declaration
from firsttouch.workspace.needs import memory_needs, why_too_large
from firsttouch.workspace.strategies import STRATEGIES, Strategy, strategies_of, unavailable
from firsttouch.workspace.workspace import Workspace

REPEATS = 3
OVERSUBSCRIBED = "oversubscribed"
REACHED = 0.95
"""The part of a size in bytes that an application should at least reach."""
SETTINGS = {
    "pages": Factor("pages", ("policy", "base", "huge"), doc="page size of host memory"),
    "scratch": Factor("scratch", ("device", "strategy"), doc="memory of the scratch buffers that the GPU uses"),
    "initialise": Factor("initialise", ("parallel", "single"), doc="CPU threads"),
    "budget": Factor("budget", (), "size", doc="bytes of device memory that the application may use"),
    "oversubscribe": Factor(
        "oversubscribe",
        (),
        "ratio",
        doc="ratio of the application's device memory to the device memory that is left free",
    ),
    "repeat": Factor("repeat", (REPEATS,), "count", least=1, doc="runs in one process"),
    kernel_times.SETTING.name: kernel_times.SETTING,
    timelines.SETTING.name: timelines.SETTING,
}
"""Factors that a plan has only if they are set."""


def applications(known: Mapping[str, type[App]], requested: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
    """Each application as an experiment, by name. requested: the factors set by --set and other options."""
    return {name: Application(app, requested) for name, app in known.items()}


CODEBOOK = Codebook(
    factors={
        "app": {},
        "strategy": {},
        "size": {},
        "repeat": {},
        "events": {"off": "no events are recorded", "on": "unified-memory events are recorded"},
        "kernel_times": {},
        "timeline": {},
    },
    open=True,  # to parameters and options of the application
    counters=(
        CounterEntry(name="phase_context_ms", unit="ms"),  # of an earlier process
        CounterEntry(name="phase_.+_ms", unit="ms", at_most="median"),
        CounterEntry(name=r"iteration_\d+_ms", unit="ms", at_most="max"),  # they are those of one run
        CounterEntry(name="kernel_ms", unit="ms", at_most="kernel_compute_ms", rounding=TWO_CLOCKS),
        CounterEntry(name="memory_.+_bytes|peak_device_bytes", unit="B", at_most="peak_bytes"),
        *EVENTS,
        *SHARES,
        CounterEntry(name=r"(peak|peak_host|footprint|copied_d2h|copied_h2d|message_\w+)_bytes", unit="B"),
        CounterEntry(name=r"(kernel_compute|kernel_sd|calls|exchange|iterations|process)_ms", unit="ms"),
        CounterEntry(name=r"param_\w+|kernel_intervals|messages|exchange_part|size_reached|steps|shared", unit=""),
        CounterEntry(name="census|census_digest|library|ran_schedule|timeline|timeline_source", unit="word"),
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
    switches_of = ("memory", "copies")

    def __init__(self, known: Mapping[str, type[App]] | None = None) -> None:
        self.known = known or {}

    def derive(self, records: Sequence[Record]) -> list[Record]:
        return derive(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        about = {name: app.pattern for name, app in self.known.items()}
        return report.sections(records, about, {name: app.source for name, app in self.known.items()})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return findings.of_application(records)


class Application(Applications):
    """One application. Its points are strategies at one or more sizes."""

    fresh_process = True
    least_ranks = 1
    alone = True

    def __init__(self, app: type[App], requested: Mapping[str, Sequence[Scalar]] | None = None) -> None:
        super().__init__({app.name: app})
        self.app, self.requested = app, requested or {}
        self.ranked = app.exchanges

    def supports(self, device: DeviceInfo) -> str | None:
        return (
            None
            if device.capabilities.runs_kernels
            else f"{device.name} does not run kernels; choose a device that does"
        )

    # ---------------------------------------------------------------------------------------------- planning

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        app = self.app
        strategies = [s for s in strategies_of(device) if app.bounded or not STRATEGIES[s].bounded]
        known = {"tiny": "tiny", "default": "default"} | _memory_sizes(device, _requested_budget(self.requested))
        factors = [
            Factor("app", (app.name,)),
            Factor("strategy", strategies, choices=tuple(STRATEGIES)),
            Factor("size", ("default",), "extent", known=known),
        ]
        if app.exchanges:
            factors += exchanging.factors_of(device)
        if device.capabilities.memory_events:
            factors.append(Factor("events", ("off", "on"), doc="record unified-memory events"))
        return factors

    def _optional(self) -> dict[str, Factor]:
        own = [Factor(name, (value,), "count") for name, value in self.app.sizes["default"].items()]
        own += [Factor(name, words) for name, words in self.app.options.items()]
        own += division.FACTORS.values() if self.app.divided else ()
        own += placements.factors_of(self.app, self.requested.get(PLACEMENT, ()))
        return {**SETTINGS, **{f.name: f for f in own}}

    def optional(self) -> list[Factor]:
        return list(self._optional().values())

    def why_meaningless(self, factors: Factors, device: DeviceInfo) -> str:
        if factors.get("events") == "on" and not may_migrate(STRATEGIES[factors.text("strategy")].allocator):
            return "unified-memory events exist only for strategies whose pages move"
        if factors.get("events") == "on" and placements.BEST in self.requested.get(PLACEMENT, ()):
            return "a search for placements records no events"
        return exchanging.why_meaningless(factors) if self.app.exchanges else ""

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        app, strategy = self.app, STRATEGIES[factors.text("strategy")]
        if (factors["size"] == OVERSUBSCRIBED or "oversubscribe" in factors) and (
            reason := why_not_oversubscribed(device)
        ):
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
        left = bytes_left_by_ballast(app, params, strategy, factors)
        if left is not None and (reason := why_no_ballast(device, device.allocator(strategy.allocator), left)):
            return reason
        return _too_small(app, params, factors, device) or _too_large(app, params, strategy, factors, device)

    def params(self, factors: Factors) -> dict[str, int]:
        """Returns the application's parameters at this point. Raises ValueError if none fit the size."""
        size = factors["size"]
        found = dict(_solve_cached(self.app, size) if isinstance(size, int) else self.app.sizes[str(size)])
        return found | {name: int(v) for name in found if isinstance(v := factors.get(name), int)}

    def environment(self, factors: Factors) -> dict[str, str]:
        recording = {events.VARIABLE: "1"} if factors.get("events") == "on" else {}
        return MMAP_EVERY_BLOCK | recording | exchanging.environment(factors)

    def sampled(self, factors: Factors) -> bool:
        return timelines.is_wanted(factors)

    def places(self, factors: Factors, device: DeviceInfo) -> Sequence[str]:
        return exchanging.places(factors, device)

    def takes_mpi(self, factors: Factors) -> bool:
        return exchanging.takes_mpi(factors)

    # ---------------------------------------------------------------------------------------------- measurement

    def measure(self, point: Point, session: Session) -> Measurement:
        factors = point.factors
        strategy, params = STRATEGIES[factors.text("strategy")], self.params(factors)
        runner = _AppRunner(self.app, factors, strategy, session)
        context = runner.compile(params)
        if factors.get("events") == "on":
            session.recorded_events()  # raises Unsupported if there are none

        # Warm-up: every kernel runs once, and the driver allocates its own memory. The seed differs, so that leftover
        # data can't pass the check.
        runner.run(self.app.sizes["tiny"], seed=session.seed + 1)
        runs: list[Run] = []
        timed: list[Run] = []
        left = bytes_left_by_ballast(self.app, params, strategy, factors)
        own = session.on_own_processors() if session.ranks > 1 else nullcontext()
        with own, Ballast(session.device, session.info.allocator(strategy.allocator), left) as ballast:
            found = division.find(
                self.app, factors, runner.division, lambda one: runner.run(params, divided=one)[1], _repeats(factors)
            )
            runner.division = found.division
            for _ in range(_repeats(factors)):
                # All are checked, the later ones in full only if their output differs from the first.
                app, finished = runner.run(params, known=[*session.outputs, *(run.output for run in runs)])
                runs.append(finished)
            if kernel_times.are_wanted(factors):
                timer = _core.KernelTimer(session.device)
                timed += [runner.run(params, timer=timer)[1] for _ in runs]
        measurement = self._measurement(app, params, context, runs)
        measurement.phases = timelines.spans(runs[-1]) if timelines.is_wanted(factors) else []
        measurement.counters |= {**ballast.counters, **found.counters(runs), **kernel_times.counters(timed)}
        if isinstance(size := factors["size"], int):
            measurement.counters["size_reached"] = app.footprint(params) / size
        return measurement

    def _measurement(self, app: App, params: Params, context: float, runs: list[Run]) -> Measurement:
        last, error = runs[-1], next(filter(None, (run.error for run in runs)), "")
        # Of the repetitions in the middle, whose mean is the median: so the phases add up to it.
        ordered = sorted(runs, key=lambda run: run.seconds)
        middle = ordered[(len(runs) - 1) // 2 : len(runs) // 2 + 1]
        counters: dict[str, Scalar] = {"phase_context_ms": context * 1e3}
        for phase in PHASES[1:]:
            counters[f"phase_{phase}_ms"] = mean(run.phases[phase] for run in middle) * 1e3
        iterations = zip(*(run.iterations for run in middle), strict=False)
        counters |= {f"iteration_{i}_ms": mean(each) * 1e3 for i, each in enumerate(iterations)}
        if last.iterations:
            counters["iterations_ms"] = mean(run.iterations_total for run in middle) * 1e3
        counters |= {name: max(r.memory.get(name, 0) for r in runs) for name in last.memory}
        counters["process_ms"] = process_seconds() * 1e3
        counters["footprint_bytes"] = app.footprint(params)
        counters["copied_h2d_bytes"], counters["copied_d2h_bytes"] = last.transferred["gpu"], last.transferred["cpu"]
        counters |= {f"param_{name}": value for name, value in params.items()}
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
        divided: division.Division | None = None,
        timer: _core.KernelTimer | None = None,
    ) -> tuple[App, Run]:
        """Run it once. known: digests of outputs that were checked; without it, the output is not checked."""
        factors, session, strategy = self._factors, self._session, self._strategy
        seed = session.seed if seed is None else seed
        app = self._app(params, seed, self._options, rank=session.rank, ranks=session.ranks)
        app.division = divided or self.division
        workspace = Workspace(
            strategy,
            session.info,
            session.device,
            pages=str(factors.get("pages", "policy")),
            place_scratch=_places_scratch(factors),
            guidance=placements.placement_of(self._app, factors),
            messages=str(factors.get(BUFFERS, "")),
        )
        rows = _window_rows(self._app, params, strategy, factors)
        return app, run(
            app,
            workspace,
            threads=1 if factors.get("initialise") == "single" else 0,
            check=known is not None,
            known=known or (),
            windows={a: rows * a.row_bytes for a in app.tiled_arrays()} if rows else None,
            counters=memory_counters(session.info, session.device, strategy.allocator),
            log=session.events,
            timer=timer,
            exchange=self._exchanges.new(),
            rest=timelines.REST if timelines.is_wanted(factors) else 0.0,
        )


# ------------------------------------------------------------------------------------------------------- memory


def _repeats(factors: Factors) -> int:
    repeats = factors.get("repeat")
    return repeats if isinstance(repeats, int) else REPEATS


def _places_scratch(factors: Factors) -> bool:
    return factors.get("scratch") == "strategy"


def _round_down(size: float) -> int:
    """Round a size down to a sixteenth of its power of two, so that it does not depend on small changes in use."""
    step = 1 << max(0, int(size).bit_length() - 5)
    return int(size) // step * step


def _requested_budget(requested: Mapping[str, Sequence[Scalar]]) -> int | None:
    try:
        return min((parse_size(str(text)) for text in requested.get("budget", ())), default=None)
    except ValueError:  # reported when the plan is made
        return None


def _memory_sizes(device: DeviceInfo, budget: int | None) -> dict[str, Scalar]:
    """The sizes named in-memory and oversubscribed on a device, in bytes."""
    limits = _core.guard_limits()
    host, managed = limits["host"] or 0, limits["FIRSTTOUCH_MAX_MANAGED"]
    on_device = device.facts.get("memory_free_bytes") or device.facts.get("memory_bytes")
    free = on_device if isinstance(on_device, int) else host
    smallest = min(free, host // 2, *(limit for limit in (managed, budget) if limit is not None))
    beyond: Scalar = _round_down(1.5 * (budget or free))
    if budget is None and why_not_oversubscribed(device):
        beyond = OVERSUBSCRIBED  # Application.skip says why
    return {"in-memory": _round_down(0.8 * smallest), OVERSUBSCRIBED: beyond}


def _gpu_bytes(declarations: Iterable[Declaration]) -> int:
    return sum(d.nbytes for d in declarations if d.sides != "cpu")


def _budget(factors: Factors) -> int | None:
    """Bytes of device memory that the application may use."""
    budget = factors.get("budget")
    return budget if isinstance(budget, int) else None


def _window_rows(app: type[App], params: Params, strategy: Strategy, factors: Factors) -> int:
    """Returns the rows of the tiled buffers that fit on the device at once under the budget; 0 if all fit.

    Raises:
        ValueError: not even one row fits, or no buffers are tiled.
    """
    budget, declarations = _budget(factors), app.declarations(params)
    if budget is None or not strategy.duplicated or _gpu_bytes(declarations) <= budget:
        return 0
    tiled = [d for d in declarations if d.name in app.tiled]
    needs = f"{app.name} needs {format_size(_gpu_bytes(declarations))} of device memory, more than the budget"
    if not tiled:
        raise ValueError(f"{needs}, and has no tiled buffers that could be streamed")
    rest = _gpu_bytes(d for d in declarations if d.name not in app.tiled)
    rows = max(0, budget - rest) // sum(d.nbytes // d.shape[0] for d in tiled)
    if rows < 1:
        raise ValueError(f"{needs}, which is too small for one row of its tiled buffers")
    return rows // 256 * 256 or rows


def _too_small(app: type[App], params: Params, factors: Factors, device: DeviceInfo) -> str | None:
    """Returns that the application does not reach a size beyond the device or the budget, or None."""
    size, footprint = factors["size"], app.footprint(params)
    available = _budget(factors) or device.facts.get("memory_free_bytes") or device.facts.get("memory_bytes")
    if not (isinstance(size, int) and isinstance(available, int)) or "oversubscribe" in factors:
        return None
    if footprint >= REACHED * size or not footprint <= available < size:
        return None
    limit = (
        f"the budget of {format_size(available)}"
        if _budget(factors)
        else f"the {format_size(available)} of {device.name}"
    )
    return (
        f"{app.name} cannot exceed {limit} with a size of {format_size(size)}: its largest parameters below that take "
        f"{format_size(footprint)}"
    )


def _too_large(app: type[App], params: Params, strategy: Strategy, factors: Factors, device: DeviceInfo) -> str | None:
    """Returns why the application does not fit into memory or the budget under the strategy, or None: of several
    processes, why the part of one does not.
    """
    declarations = app.declarations(params, ranks=exchanging.ranks_of(factors))
    entry = device.allocator(strategy.allocator)
    assert entry is not None
    try:
        rows = _window_rows(app, params, strategy, factors)
    except ValueError as error:
        return str(error)
    allowed, budget = _core.oversubscription_allowed(), _budget(factors)
    hint = "; use --allow-oversubscription to run it anyway" if entry.managed else ""
    needs = memory_needs(
        declarations,
        strategy,
        device,
        messages=str(factors.get(BUFFERS, "")),
        place_scratch=_places_scratch(factors),
    )
    if not strategy.duplicated and budget is not None and needs.device > budget and not (entry.managed and allowed):
        return f"{app.name} needs {format_size(needs.device)} of device memory, more than the budget{hint}"
    on_host, on_device = needs.on(device)
    if rows:
        on_device = min(on_device, budget or on_device)
    subject, host_limit = f"{app.name} needs", _core.guard_limits()["host"] or 0
    if reason := why_too_large(subject, on_host, host_limit, "host memory; the limit is"):
        return reason
    if entry.managed and allowed:
        return None
    if reason := why_too_large(subject, on_device, device.facts.get("memory_bytes"), f"{device.name}, which has"):
        return reason + hint
    left = bytes_left_by_ballast(app, params, strategy, factors)
    if left is not None and on_device > left:
        return f"{subject} {format_size(on_device)} of device memory, more than the {format_size(left)} left free{hint}"
    return None


def bytes_left_by_ballast(app: type[App], params: Params, strategy: Strategy, factors: Factors) -> int | None:
    """Returns the bytes of device memory that a ballast allocation leaves free, or None if there is no ballast.

    A ballast simulates a smaller device, for --oversubscribe and for managed memory under a budget.
    """
    ratio, budget, peak = factors.get("oversubscribe"), _budget(factors), _gpu_bytes(app.declarations(params))
    if isinstance(ratio, (int, float)):
        return int(peak / ratio)
    return budget if budget is not None and peak > budget and moves_when_touched(strategy.allocator) else None


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


def list_application(app: type[App]) -> ApplicationListing:
    default = app.sizes["default"]
    what = " ".join((app.__doc__ or "").split())
    footprint = app.footprint(default)
    return ApplicationListing(
        app.name,
        what,
        app.source,
        app.pattern,
        default,
        footprint,
        bool(app.tiled),
        app.options,
        placements.guided_buffers(app),
        describe_factors([*(exchanging.FACTORS if app.exchanges else ()), *Application(app).optional()]),
    )
