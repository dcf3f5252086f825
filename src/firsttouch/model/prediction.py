"""Predicts a program under a strategy on a machine of a platform file: its phases, what they consist of, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from firsttouch.base.errors import Unsupported
from firsttouch.machine.allocators.properties import memory_of
from firsttouch.model.computing import KERNELS, ProfiledComputing
from firsttouch.model.costs import Assumption, Time, Unmeasured
from firsttouch.model.estimate import Impossible, NotEstimated, priced
from firsttouch.model.kernels import Kernels
from firsttouch.model.memory_course import Clock, MemoryReplay, course
from firsttouch.model.moving import Moving
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pages import Kind
from firsttouch.model.platform import Platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.pricing import IN_KERNELS
from firsttouch.model.ranks import RankComputing, SharedWork, wait_for_slowest
from firsttouch.model.rules.access_counters import Translation, counters_enabled
from firsttouch.model.rules.releases import Release, parse_release
from firsttouch.model.terms import Term
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.phase_threads import EVERY_THREAD, PhaseThreads
from firsttouch.program.program import Program
from firsttouch.program.strategies import Strategy
from firsttouch.records.predicted import LEFT_OUT
from firsttouch.records.schema import DeviceInfo
from firsttouch.records.timeline import MemoryCourse

ASSUMED = "assumed of the program"
PHASES = ("allocate", "initialise", "compute", "readback", "free")


@dataclass(frozen=True)
class PredictionSettings:
    """What decides besides program, strategy and platform, as a point sets it.

    threads: of the CPU in each phase. left: bytes of device memory that managed pages may have; None: all that the
    device has.
    """

    guidance: Placement = BY_ITSELF
    copy_control: bool = False
    threads: PhaseThreads = EVERY_THREAD
    left: int | None = None
    over_time: bool = False
    """Whether the memory in use over time is predicted too."""
    shared: SharedWork | None = None
    """How several processes share the work; None: one has all of it."""


@dataclass(frozen=True)
class Prediction:
    """What a program does and takes. phases: ms of each. terms: what they consist of, and last, without time, what is
    assumed of the program, and what is not in it. counters: under the names of measured records.
    """

    phases: Mapping[str, Time]
    terms: Sequence[Term]
    counters: Mapping[str, int]
    memory: MemoryCourse | None = None
    iterations: Sequence[float] = ()
    """ms of each iteration of the last timed loop, or the mean of each group if there are many."""
    iterations_total: float = 0.0
    """ms of all of them."""
    kernels: float = 0.0
    """ms of the kernels of the phase compute, with what memory adds to them."""
    reads: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Bytes that kernels read in each of these iterations from the device's memory and across the link, if both."""

    @property
    def total(self) -> Time:
        """ms from the first allocation to the last free."""
        whole = Time()
        for phase in self.phases.values():
            whole += phase
        return whole


def predict(
    program: Program,
    strategy: Strategy,
    platform: Platform,
    settings: PredictionSettings = PredictionSettings(),
    kernels: Kernels | None = None,
    notes: Sequence[str] = (),
) -> Prediction:
    """Predict a program. kernels: what its kernels take; None: not known, which `notes` say.

    Raises:
        MissingValue: the platform lacks a value that the prediction needs.
        Unsupported: the strategy cannot run this program there, or the model does not cover it.
    """
    clock, threads = Clock(), settings.threads
    computing = (
        RankComputing(platform, kernels, notes, threads, settings.shared)
        if settings.shared
        else ProfiledComputing(platform, kernels, notes, threads)
    )
    rules = counting_settings(platform, settings)
    try:
        pricing = priced(
            program,
            strategy,
            PlatformPrices(platform),
            copy_control=settings.copy_control,
            guidance=settings.guidance,
            computing=computing,
            settings=rules,
            watch=clock.note if settings.over_time else None,
        )
    except (Impossible, NotEstimated, Unmeasured) as error:
        raise Unsupported(str(error)) from None
    terms = pricing.terms.terms()
    phases = {phase: Time() for phase in PHASES}
    for term in terms:
        phases[term.phase] += Time(term.ms, term.low, term.high)
    rules = pricing.pages.settings if isinstance(pricing, Moving) else rules
    counted = MemoryReplay(program, strategy, platform.device, rules)
    counted.run()
    seconds = {phase: 1e-3 * time.value for phase, time in phases.items()}
    memory = course(clock, counted, seconds) if settings.over_time else None
    for what, texts in ((ASSUMED, program.assumptions), (LEFT_OUT, computing.notes)):
        if texts:
            terms.append(Term("compute", what, 0, 0, 0.0, 0.0, 0.0, tuple(map(Assumption, texts))))
    loop = pricing.iterations
    iterations = [1e-6 * ns for ns in loop.shown()]
    kernel_ns = pricing.terms.counts[IN_KERNELS]
    kernel_ms = 1e-6 * kernel_ns + sum(term.ms for term in terms if term.what == KERNELS and term.phase == "compute")
    times = (iterations, 1e-6 * loop.total, kernel_ms)
    return Prediction(phases, terms, counted.counters(), memory, *times, pricing.reads.shown())


def beside_others(predictions: Sequence[Prediction]) -> Prediction:
    """The first of several processes that share the work, which waits for the slowest of them."""
    first, *_ = predictions
    compute = first.phases["compute"]
    waiting = wait_for_slowest(compute, (each.phases["compute"] for each in predictions))
    if waiting.high <= 0:
        return first
    whole = compute + Time(waiting.ms, waiting.low, waiting.high)
    return replace(first, phases={**first.phases, "compute": whole}, terms=[*first.terms, waiting])


def counting_settings(platform: Platform, settings: PredictionSettings) -> CountingSettings:
    """What decides counts on a platform."""
    device = platform.device
    managed = any(a.managed and a.available and memory_of(a) == "migrating" for a in device.allocators)
    release = parse_release(platform.word("driver.release")) if managed and _is_uvm(platform) else ()
    kind = Kind(
        int(platform.quantity("host.page").value),
        release,
        coherent=_is_coherent(device),
        maps_evicted=bool(release) and _maps_evicted(platform, release),
    )
    return CountingSettings(
        int(platform.quantity("host.processors").value),
        kind,
        capacity=settings.left,
        guidance=settings.guidance,
        copy_control=settings.copy_control,
        phase_threads=settings.threads,
    )


def _is_uvm(platform: Platform) -> bool:
    return platform.word("driver.family") == "uvm"


def _maps_evicted(platform: Platform, release: Release) -> bool:
    """Whether the GPU keeps access to managed pages that leave its memory for others."""
    if not (platform.flag("driver.ats") and platform.flag("driver.counters")):
        return False
    return counters_enabled(release, cast(Translation, platform.word("driver.translation")))


def _is_coherent(device: DeviceInfo) -> bool:
    """Whether the CPU can access the GPU's memory where it is."""
    return device.facts.get("directManagedMemAccessFromHost") is True
