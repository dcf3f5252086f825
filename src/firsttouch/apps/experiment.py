"""Applications as points: which strategies and sizes, what is skipped and why, and what one point's record holds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from firsttouch import _core
from firsttouch.apps import all_apps, report
from firsttouch.apps.base import App, Params, solve
from firsttouch.apps.measure import PHASES, Run, device_counter, run
from firsttouch.errors import Unsupported
from firsttouch.experiments.base import Experiment, Factor, Measurement, Part, Point, Preset
from firsttouch.experiments.common import MAP_ANEW, switch
from firsttouch.memory.strategies import STRATEGIES, Strategy, known_on, no_host_array, unavailable
from firsttouch.memory.workspace import Declaration, Workspace
from firsttouch.run import events
from firsttouch.run.session import Session
from firsttouch.schema import BufferFact, DeviceInfo, Factors, Record, Scalar
from firsttouch.units import format_size, parse_size

REPEATS = 3
_SETTINGS = {
    "pages": Factor("pages", ("policy", "base", "huge"), choices=("policy", "base", "huge"), doc="of host memory"),
    "host": Factor("host", ("malloc", "pinned"), choices=("malloc", "pinned"), doc="arrays of duplicated buffers"),
    "initialise": Factor("initialise", ("parallel", "single"), choices=("parallel", "single"), doc="CPU threads"),
    "budget": Factor("budget", (), "size", doc="bytes of device memory that the application may use"),
    "oversubscribe": Factor("oversubscribe", (), "ratio", doc="peak over what a ballast leaves of device memory"),
    "repeat": Factor("repeat", (REPEATS,), "count", doc="runs in one process"),
}
"""Factors that are there when they are asked for."""


def applications(asked: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
    """Every application as an experiment, by its own name. asked: the factors that --set and options name."""
    return {name: Application(app, asked) for name, app in all_apps().items()}


@lru_cache(maxsize=256)
def _solved(name: str, size: int) -> Params:
    return solve(all_apps()[name], size)


class Applications(Experiment):
    """What the report says of applications, whichever they are."""

    name = "app"
    order = 1000
    question = report.QUESTION
    unit = "ms"
    better = "lower"
    counted = report.COUNTED
    source = report.SOURCE
    figures = report.FIGURES

    def derive(self, records: Sequence[Record]) -> list[Record]:
        return report.derive(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Part]:
        known = all_apps()
        about = {name: app.pattern for name, app in known.items()}
        return report.sections(records, about, {name: app.source for name, app in known.items()})

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        return report.verdict(list(records))


class Application(Applications):
    """One application; its points are its strategies at one size or several."""

    fresh_process = True

    def __init__(self, app: type[App], asked: Mapping[str, Sequence[Scalar]] | None = None) -> None:
        self.app, self.asked = app, asked or {}

    def supports(self, device: DeviceInfo) -> str | None:
        return f"{device.name} has one agent only; give a device that runs kernels" if device.kind == "cpu" else None

    # ---------------------------------------------------------------------------------------------- what is planned

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        app = self.app
        strategies = [s for s in known_on(device) if app.bounded or not STRATEGIES[s].bounded]
        known = {"tiny": "tiny", "default": "default"} | _memory_sizes(device, _budget_asked(self.asked))
        factors = [
            Factor("app", (app.name,), choices=(app.name,)),
            Factor("strategy", strategies, choices=tuple(STRATEGIES)),
            Factor("size", ("default",), "extent", known=known),
        ]
        factors += [f for name, f in self._optional().items() if name in self.asked]
        factors += switch(device, "xnack")
        if device.kind in events.OFFERED_BY:
            factors.append(Factor("events", ("off", "on"), choices=("off", "on"), doc="unified-memory events recorded"))
        return factors

    def _optional(self) -> dict[str, Factor]:
        own = [Factor(name, (value,), "count") for name, value in self.app.sizes["default"].items()]
        own += [Factor(name, words, choices=words) for name, words in self.app.options.items()]
        return {**_SETTINGS, **{f.name: f for f in own}}

    def optional(self) -> list[str]:
        return list(self._optional())

    def drop(self, factors: Factors) -> bool:
        migrates = STRATEGIES[str(factors["strategy"])].allocator in ("managed", "managed-static", "malloc")
        return factors.get("events") == "on" and not migrates

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        app, strategy = self.app, STRATEGIES[str(factors["strategy"])]
        try:
            params = self.params(factors)
        except ValueError as error:
            return str(error)
        if reason := app.problem(params) or unavailable(strategy, device):
            return reason
        if strategy.bounded and not app.bounded:
            return f"{app.name}: its buffers have no bound that is known before the program runs"
        if reason := app.refuses(strategy, device):
            return reason
        if strategy.duplicated and "host" in factors and (reason := no_host_array(device, str(factors["host"]))):
            return reason
        if factors.get("repeat") == 0:
            return "repeat must be at least 1, not 0"
        if left_by_ballast(app, params, strategy, factors) is not None and "memory_free_bytes" not in device.facts:
            return f"{device.name} does not tell how much of its memory is free, as a ballast must know"
        return _too_large(app, params, strategy, factors, device)

    def params(self, factors: Factors) -> dict[str, int]:
        """The application's parameters at this point. Raises ValueError where there are none for the size."""
        size = factors["size"]
        found = dict(_solved(self.app.name, size) if isinstance(size, int) else self.app.sizes[str(size)])
        return found | {name: int(v) for name in found if isinstance(v := factors.get(name), int)}

    def environment(self, factors: Factors) -> dict[str, str]:
        watched = {events.VARIABLE: "1"} if factors.get("events") == "on" else {}
        return super().environment(factors) | MAP_ANEW | watched

    # ---------------------------------------------------------------------------------------------- what is measured

    def measure(self, point: Point, session: Session) -> Measurement:
        factors = point.factors
        strategy, params = STRATEGIES[str(factors["strategy"])], self.params(factors)
        options = {name: str(factors[name]) for name in self.app.options if name in factors}
        started = time.perf_counter()
        device = session.device
        kernels = self.app(params, session.seed, options).kernels
        for entry in kernels.entries:
            kernels.compiled(device, entry)
        context = time.perf_counter() - started
        if factors.get("events") == "on" and session.events is None:
            raise Unsupported(session.events_reason or "no unified-memory events were recorded in this process")

        def once(params: Params, *, seed: int, check: bool) -> tuple[App, Run]:
            app = self.app(params, seed, options)
            workspace = Workspace(
                strategy,
                session.info,
                device,
                host_allocator=str(factors.get("host", "malloc")),
                pages=str(factors.get("pages", "policy")),
            )
            rows = _window_rows(self.app, params, strategy, factors)
            return app, run(
                app,
                workspace,
                threads=1 if factors.get("initialise") == "single" else 0,
                check=check,
                windows={a: rows * a.row_bytes for a in app.tiled_arrays()} if rows else None,
                device_used=device_counter(session.info, device),
                log=session.events,
            )

        # Every kernel has run once then, and the driver has its own memory; with other data, so that what it leaves
        # behind is not what is expected.
        once(self.app.sizes["tiny"], seed=session.seed + 1, check=False)
        runs = []
        with _Ballast(device, left_by_ballast(self.app, params, strategy, factors)):
            for repeat in range(_repeats(factors)):
                app, ended = once(params, seed=session.seed, check=repeat == 0)
                runs.append(ended)
        return self._measurement(app, params, context, runs)

    def _measurement(self, app: App, params: Params, context: float, runs: list[Run]) -> Measurement:
        last, wrong = runs[-1], runs[0].wrong
        counters: dict[str, Scalar] = {"phase_context_ms": context * 1e3}
        for phase in PHASES[1:]:
            counters[f"phase_{phase}_ms"] = median(one.phases[phase] for one in runs) * 1e3
        counters |= {f"iteration_{i}_ms": s * 1e3 for i, s in enumerate(last.iterations)}
        if last.iterations:
            counters["iterations_ms"] = median(one.iterated for one in runs) * 1e3
        counters |= {name: max(one.memory.get(name, 0) for one in runs) for name in last.memory}
        counters["footprint_bytes"] = app.footprint(params)
        counters["copied_h2d_bytes"], counters["copied_d2h_bytes"] = last.crossed["gpu"], last.crossed["cpu"]
        counters |= {f"param_{name}": value for name, value in params.items()}
        counters |= {**app.used, **last.events}
        return Measurement(
            samples=[one.seconds * 1e3 for one in runs],
            verified=not wrong,
            verified_why=wrong,
            stopped_by="repetitions",
            counters=counters,
            buffers=[BufferFact(name=n, allocator=a, bytes=b) for n, a, b in last.buffers],
        )


# ------------------------------------------------------------------------------------------------------- memory


def _repeats(factors: Factors) -> int:
    wanted = factors.get("repeat")
    return wanted if isinstance(wanted, int) else REPEATS


def _coarse(size: float) -> int:
    """A size rounded down to a sixteenth of its power of two, so that a little more or less in use changes nothing."""
    step = 1 << max(0, int(size).bit_length() - 5)
    return int(size) // step * step


def _budget_asked(asked: Mapping[str, Sequence[Scalar]]) -> int | None:
    try:
        return min((parse_size(str(text)) for text in asked.get("budget", ())), default=None)
    except ValueError:  # the plan says so, in better words
        return None


def _memory_sizes(device: DeviceInfo, budget: int | None) -> dict[str, Scalar]:
    """Bytes that the words in-memory and oversubscribed mean on a device."""
    limits = _core.guard_limits()
    host, managed = limits["host"] or 0, limits["FIRSTTOUCH_MAX_MANAGED"]
    on_device = device.facts.get("memory_free_bytes") or device.facts.get("memory_bytes")
    free = on_device if isinstance(on_device, int) else host
    least = min(free, host // 2, *(limit for limit in (managed, budget) if limit is not None))
    return {"in-memory": _coarse(0.8 * least), "oversubscribed": _coarse(1.5 * (budget or free))}


def _gpu_bytes(declarations: Iterable[Declaration]) -> int:
    return sum(d.nbytes for d in declarations if d.sides != "cpu")


def _budget(factors: Factors) -> int | None:
    """Bytes of device memory that the application may use."""
    budget = factors.get("budget")
    return budget if isinstance(budget, int) else None


def _window_rows(app: type[App], params: Params, strategy: Strategy, factors: Factors) -> int:
    """Rows of the tiled buffers that the device holds at once under the budget; 0 where it holds all.

    Raises:
        ValueError: it can't be done; the text says why.
    """
    budget, declarations = _budget(factors), app.declarations(params)
    if budget is None or not strategy.duplicated or _gpu_bytes(declarations) <= budget:
        return 0
    tiled = [d for d in declarations if d.name in app.tiled]
    wanted = f"{app.name} needs {format_size(_gpu_bytes(declarations))} of device memory, more than the budget"
    if not tiled:
        raise ValueError(f"{wanted}, and declares no tiles to stream through it")
    rest = _gpu_bytes(d for d in declarations if d.name not in app.tiled)
    rows = max(0, budget - rest) // sum(d.nbytes // d.shape[0] for d in tiled)
    if rows < 1:
        raise ValueError(f"{wanted}, which does not hold one row of its tiles")
    return rows // 256 * 256 or rows


def _too_large(app: type[App], params: Params, strategy: Strategy, factors: Factors, device: DeviceInfo) -> str | None:
    """Why the memory here, or the budget, does not hold the application under the strategy, or None."""
    declarations = app.declarations(params)
    both = sum(d.nbytes for d in declarations if d.sides == "both")
    on_gpu, on_cpu = _gpu_bytes(declarations), sum(d.nbytes for d in declarations if d.sides == "cpu")
    entry = device.allocator(strategy.allocator)
    assert entry is not None
    try:
        rows = _window_rows(app, params, strategy, factors)
    except ValueError as error:
        return str(error)
    allowed, budget = _core.oversubscription_allowed(), _budget(factors)
    hint = "; --allow-oversubscription runs it all the same" if entry.managed else ""
    if not strategy.duplicated and budget is not None:
        used = on_gpu if entry.device_memory else on_gpu - both
        if used > budget and not (entry.managed and allowed):
            return f"{app.name} needs {format_size(used)} of device memory, more than the budget{hint}"
    on_host = on_cpu + (both if strategy.duplicated or entry.host_memory else 0)
    on_device = on_gpu if strategy.duplicated or entry.device_memory else on_gpu - both
    if rows:
        on_device = min(on_device, budget or on_device)
    if device.facts.get("shares_host_memory") is True:
        on_host, on_device = on_cpu + both * (2 if strategy.duplicated else 1) + on_gpu - both, 0
    host_limit, total = _core.guard_limits()["host"] or 0, device.facts.get("memory_bytes")
    if on_host > host_limit:
        return f"{app.name} needs {format_size(on_host)} of host memory; the limit is {format_size(host_limit)}"
    if entry.managed and allowed:
        return None
    if isinstance(total, int) and on_device > total:
        return f"{app.name} needs {format_size(on_device)} of {device.name}, which has {format_size(total)}{hint}"
    left = left_by_ballast(app, params, strategy, factors)
    if left is not None and on_device > left:
        needs = f"{app.name} needs {format_size(on_device)} of device memory"
        return f"{needs}, more than the {format_size(left)} that the ballast leaves{hint}"
    return None


def left_by_ballast(app: type[App], params: Params, strategy: Strategy, factors: Factors) -> int | None:
    """Bytes of device memory that a ballast is to leave free; None where there is to be none. It stands for a smaller
    device, where --oversubscribe asks for one, or where managed memory is to live within a budget.
    """
    ratio, budget, peak = factors.get("oversubscribe"), _budget(factors), _gpu_bytes(app.declarations(params))
    if isinstance(ratio, (int, float)):
        return int(peak / ratio)
    return budget if budget is not None and peak > budget and strategy.allocator.startswith("managed") else None


class _Ballast:
    """Holds plain device memory, so that only `left` bytes are free for the application while it runs."""

    def __init__(self, device: _core.Device, left: int | None) -> None:
        self._device, self._left = device, left
        self._held: _core.Buffer | None = None

    def __enter__(self) -> _Ballast:
        if self._left is not None:
            free = self._device.memory()[1]
            if free > self._left:
                self._held = self._device.allocate("device", free - self._left)
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.free()


@dataclass(frozen=True)
class Listed:
    """What a reader of --list wants to know of one application. streams: whether a budget can stream it."""

    name: str
    what: str
    source: str
    pattern: str
    default: Params
    footprint_bytes: int
    streams: bool
    options: Mapping[str, Sequence[str]]


def list_application(app: type[App]) -> Listed:
    default = app.sizes["default"]
    what = " ".join((app.__doc__ or "").split())
    footprint = app.footprint(default)
    return Listed(app.name, what, app.source, app.pattern, default, footprint, bool(app.tiled), app.options)
