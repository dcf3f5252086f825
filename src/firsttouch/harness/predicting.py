"""Predicts a point of an application on a machine that a platform describes."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Measurement
from firsttouch.experiments.contract.rank_interfaces import devices_of
from firsttouch.harness import kernel_times, timelines
from firsttouch.harness.app import App, Params
from firsttouch.harness.exchanging import OPTIONS, ranks_of
from firsttouch.harness.measure import phases_before_work
from firsttouch.harness.outcomes.exchanges import BUFFERS, EXCHANGED
from firsttouch.harness.placements import placement_of
from firsttouch.harness.shortage import bytes_left_by_ballast, declared_peak
from firsttouch.program.dry_run import ProcessPart, program_of
from firsttouch.program.phase_threads import USUAL_THREADS, threads_of
from firsttouch.program.program import Program, message_sizes
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import INTERFACE, PARAMETER, Factors, Scalar

if TYPE_CHECKING:
    from firsttouch.model.kernels import Kernels
    from firsttouch.model.platform import Platform
    from firsttouch.model.prediction import Prediction
    from firsttouch.model.ranks import SharedWork

NOT_MODELLED = ("pages", "budget")
"""Settings of a point that no prediction follows."""
FILES = "files"
"""The option of applications that changes no kernel, but where the input comes from and the output goes to."""
WITHOUT_FILES = "reading the input from files and writing the output to files"
"""What the times of a point with files lack."""


def predict_application(app: type[App], params: Params, factors: Factors, platform: Platform) -> Measurement:
    """The prediction of a point. Raises NotModelled, MissingValue and Unsupported."""
    from firsttouch.model.prediction import PredictionSettings, beside_others, predict

    if app.exchanges and ranks_of(factors) > 1 and app.options.keys() & OPTIONS.keys():
        raise NotModelled(f"what processes of {app.name} send each other depends on its data")
    if ranks_of(factors) > len(devices_of(platform.device)):
        raise NotModelled("processes that share a device")
    if app.divided:
        raise NotModelled(f"in {app.name} both agents work on the same data at once")
    for name in NOT_MODELLED:
        if factors.get(name, "off") not in ("off", "policy"):
            raise NotModelled(f"{name}={factors[name]}")
    strategy = STRATEGIES[factors.text("strategy")]
    options = {name: factors.text(name) for name in app.options if name in factors}
    settings_of_kernels = options | {name: factors.text(name) for name in USUAL_THREADS if name in factors}
    settings = PredictionSettings(
        placement_of(app, factors),
        factors.get("control") == "copied",
        threads_of(factors),
        bytes_left_by_ballast(declared_peak(app, params, factors), strategy, factors, platform.device),
        timelines.is_wanted(factors),
        _shared_work(app, factors),
    )
    kernels, note = _predict_kernels(app, _footprint(app, params, factors), platform, settings_of_kernels)
    notes = [*([note] if note else []), *([WITHOUT_FILES] if options.get(FILES) == "used" else [])]
    programs = [
        program_of(app, params, kernels.rounds if kernels else 0, options, ProcessPart(rank, ranks_of(factors)))
        for rank in range(ranks_of(factors))
    ]
    prediction = beside_others([predict(each, strategy, platform, settings, kernels, notes) for each in programs])
    counters: dict[str, Scalar] = {f"phase_{name}_ms": time.value for name, time in prediction.phases.items()}
    before = phases_before_work(programs[0].declarations)
    counters["without_initialise_ms"] = sum(t.value for name, t in prediction.phases.items() if name not in before)
    counters |= _gpu_times(prediction, kernel_times.are_wanted(factors)) if kernels is not None else {}
    if kernels is not None and prediction.iterations:
        counters |= {f"iteration_{n}_ms": ms for n, ms in enumerate(prediction.iterations)}
        counters["iterations_ms"] = prediction.iterations_total
        for memory, by_iteration in prediction.reads.items():
            counters |= {f"hw_iteration_{n}_{memory}_read_bytes": round(read) for n, read in enumerate(by_iteration)}
    if settings.shared is not None:
        counters |= _exchanges(prediction, programs[0])
    counters["footprint_bytes"] = app.footprint(params)
    counters |= {f"{PARAMETER}{name}": value for name, value in params.items()}
    recorded = factors.get("events") == "on"
    counters |= {n: v for n, v in prediction.counters.items() if recorded or not n.startswith("um_")}
    if isinstance(size := factors["size"], int):
        counters["size_reached"] = app.footprint(params) / size
    total = prediction.total
    made = Measurement.predicted(total.value, total.low, total.high, terms=prediction.terms, counters=counters)
    made.memory = prediction.memory
    return made


def _footprint(app: type[App], params: Params, factors: Factors) -> int:
    """Bytes of the buffers of a process."""
    return sum(d.nbytes for d in app.declarations(params, 0, ranks_of(factors)))


def _shared_work(app: type[App], factors: Factors) -> SharedWork | None:
    """How the processes of a point share its work, if there are several."""
    from firsttouch.model.ranks import SharedWork

    if not app.exchanges or ranks_of(factors) == 1:
        return None
    return SharedWork(ranks_of(factors), factors.text(INTERFACE), factors.text(BUFFERS))


def _exchanges(prediction: Prediction, program: Program) -> dict[str, Scalar]:
    """What process 0 exchanges, under the names of measured records."""
    from firsttouch.model.ranks import exchanged, messages_alone

    sizes = [size for size, count in message_sizes(program.compute).items() for _ in range(count)]
    whole, compute = exchanged(prediction.terms).value, prediction.phases["compute"].value
    counters: dict[str, Scalar] = {EXCHANGED: whole, "calls_ms": messages_alone(prediction.terms).value}
    counters["exchange_part"] = min(1.0, whole / compute) if compute else 0.0
    counters["messages"] = len(sizes)
    if sizes:
        counters |= {"message_median_bytes": int(median(sizes)), "message_largest_bytes": max(sizes)}
    return counters


def _gpu_times(prediction: Prediction, of_kernels: bool) -> dict[str, Scalar]:
    """The time of the work of the device without copies to it, and that of kernels if it is wanted."""
    from firsttouch.model.pricing import COPY_IN

    compute = prediction.phases["compute"].value
    copies = sum(t.ms for t in prediction.terms if t.phase == "compute" and t.what.startswith(COPY_IN))
    times: dict[str, Scalar] = {"gpu_ms": compute - copies}
    return times | ({"kernel_ms": prediction.kernels, "kernel_compute_ms": compute} if of_kernels else {})


def _predict_kernels(
    app: type[App], nbytes: int, platform: Platform, settings: Mapping[str, str]
) -> tuple[Kernels | None, str]:
    """What its kernels take, or why that is not known."""
    from firsttouch.model.kernel_records import kernels_for
    from firsttouch.model.kernels import NoProfile

    try:
        return kernels_for(app, nbytes, platform, settings), ""
    except NoProfile as missing:
        return None, str(missing)
