"""One run of an application under a strategy: phases, iterations, memory, and the check of the result."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firsttouch import _core
from firsttouch.experiments.contract.base import ONE_AT_A_TIME
from firsttouch.harness import outputs
from firsttouch.harness.app import App, in_pieces
from firsttouch.harness.counting import Marks
from firsttouch.harness.memory_use import MemoryCounters, Meter
from firsttouch.machine.tree import Tree
from firsttouch.profile.events.iterations import moved_by_iteration
from firsttouch.profile.events.log import EventLog
from firsttouch.program.declarations import Agent, Declaration
from firsttouch.program.execution.agents import Cpu, Gpu
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.exchange import Exchange
from firsttouch.program.execution.gpu_clock import GpuClock
from firsttouch.program.execution.iteration_marks import InUse, IterationMarks
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.phase_threads import EVERY_THREAD, PhaseThreads
from firsttouch.records.schema import Scalar
from firsttouch.records.timeline import NamedInterval

NONSENSE = 0xFFF5A5A5
"""A word that no result holds: NaN as f32 and, twice, as f64; as an integer, out of any application's range."""
WAY_TO: Mapping[Agent, str] = {"gpu": "h2d", "cpu": "d2h"}
"""The direction of moves to each agent, as the counters of events name it."""
PHASES = ("context", "allocate", "input", "initialise", "compute", "readback", "output", "free")
"""The phases of a run. Applications without files have no input and no output."""


def phases_before_work(declarations: Iterable[Declaration]) -> tuple[str, ...]:
    """The phases that come before what an application is about: that of the CPU's initialisation too, unless the GPU
    generates most of the data.
    """
    starting = [(d.starts_on, d.nbytes) for d in declarations]
    on_cpu, on_gpu = (sum(nbytes for side, nbytes in starting if side == agent) for agent in ("cpu", "gpu"))
    return PHASES[:1] if on_gpu > on_cpu else ("context", "initialise")


@dataclass(frozen=True)
class KernelTime:
    """Seconds of the kernels of a run on the device's clock, and the number of launches, replays and library calls."""

    seconds: float
    intervals: int


@dataclass
class Run:
    """Measurements of one run.

    phases: seconds by name; spans: their begins and ends in seconds of time.monotonic(); iterations: seconds of each,
    and iterations_total of all; marked: their number, even if several were timed together; iteration_ends: where
    they begin and end in seconds of time.monotonic(), if that was noted; in_use: the memory in
    use after each by counter, if that was read; transferred: bytes to each agent; gpu: seconds
    of GPU time (program/execution/gpu_clock.py), if the device worked; kernels: their time in the phase compute, if
    there was a timer; events: totals by name; exchanged: counters of what was exchanged with other processes; slowest:
    seconds of the process that took longest; buffers: name, allocator and bytes of each; error: the message of check(),
    "" if correct; output: the digest of what it examined, "" if there is none.
    """

    phases: dict[str, float] = field(default_factory=dict)
    iterations: list[float] = field(default_factory=list)
    iterations_total: float = 0.0
    marked: int = 0
    iteration_ends: list[float] = field(default_factory=list)
    in_use: Sequence[InUse] = ()
    memory: dict[str, int] = field(default_factory=dict)
    transferred: Mapping[Agent, int] = field(default_factory=dict)
    gpu: float | None = None
    kernels: KernelTime | None = None
    events: Mapping[str, Scalar] = field(default_factory=dict)
    exchanged: Mapping[str, float] = field(default_factory=dict)
    slowest: float = 0.0
    buffers: list[tuple[str, str, int]] = field(default_factory=list)
    error: str = ""
    output: str = ""
    spans: list[NamedInterval] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The time from the first allocation to the last free."""
        return sum(seconds for phase, seconds in self.phases.items() if phase != "context")


def process_seconds() -> float:
    """Seconds since this process was started: proc(5), starttime in /proc/pid/stat, in clock ticks since boot."""
    fields = Tree().stat("self")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


class ActiveRun:
    """A run in progress: the workspace, both agents, and the times of the phases."""

    def __init__(self, app: App, workspace: Workspace, log: EventLog | None = None) -> None:
        self.app, self.workspace, self.run = app, workspace, Run()
        self._log = log
        files = app.kernel_files()
        self.cpu, self.gpu = Cpu(workspace, files), Gpu(workspace, files)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body of the with statement, including all work that it queues."""
        with self._log.phase(name) if self._log is not None else nullcontext():
            started = time.monotonic()
            yield
            if name != "free":
                self.workspace.wait()
            ended = time.monotonic()
        self.run.spans.append((name, started, ended))
        self.run.phases[name] = self.run.phases.get(name, 0.0) + ended - started


def run(
    app: App,
    workspace: Workspace,
    *,
    threads: PhaseThreads = EVERY_THREAD,
    check: bool = True,
    known: Collection[str] = (),
    windows: dict[Array, int] | None = None,
    counters: MemoryCounters | None = None,
    log: EventLog | None = None,
    timer: _core.KernelTimer | None = None,
    marks: Marks | None = None,
    exchange: Exchange | None = None,
    rest: float = 0.0,
    stepwise: bool = False,
) -> Run:
    """Run an application once.

    Args:
        threads: of the CPU in each phase.
        known: digests of outputs that were checked. A run that leaves one of them is not checked again.
        windows: bytes of device memory for each tiled array, if there is a budget.
        counters: count memory in use.
        log: event log; events from the first allocation to the end of readback are added up.
        timer: times the kernels of the phase compute. Iterations are not timed then.
        marks: queues the marks by which a profiler tells the phase compute and its iterations.
        exchange: carries messages between processes. All begin each run, and each phase compute, together.
        rest: seconds without work before the first allocation.
        stepwise: wait after each iteration, and read the memory in use.

    Raises:
        GuardRefused, Unavailable, Unsupported: the strategy cannot be used on this device.
    """
    active = ActiveRun(app, workspace, log)
    active.gpu.windows = windows or {}
    active.gpu.exchanges = exchange or Exchange()
    active.gpu.marks.placed = log is not None or rest > 0
    if marks is not None:
        active.gpu.marks.marker, active.cpu.why_not_at_once = marks.iteration, ONE_AT_A_TIME
    app.arrange()
    gc.collect()
    meter = Meter(counters or MemoryCounters())
    active.gpu.marks.read = meter.more if stepwise else None
    time.sleep(rest)
    try:
        with meter, log.window() if log is not None else nullcontext() as window:
            _run_phases(active, meter, threads, windows, timer, marks)
        _note_iterations(active.run, active.gpu.marks)
        if window is not None:
            moved = moved_by_iteration(window, active.run.iteration_ends, active.gpu.marks.numbers())
            parts = {f"um_compute_{part}_ms": ms for part, ms in window.shares("compute").items()}
            least = {f"um_least_{WAY_TO[to]}_bytes": nbytes for to, nbytes in workspace.least.items()}
            active.run.events = window.totals() | parts | least | moved
        active.run.transferred = dict(workspace.transferred)
        active.run.exchanged = active.gpu.exchanges.counters(active.run.phases["compute"])
        active.run.buffers = workspace.allocations()
        if check:
            active.run.error, active.run.output = _check_outputs(app, workspace, known)
        fill_with_nonsense(active, on_demand=True)
    finally:
        with active.phase("free"):
            active.gpu.exchanges.free()
            workspace.free()
    active.run.memory = meter.after_free()
    active.run.slowest = active.gpu.exchanges.largest(active.run.seconds)
    return active.run


def _note_iterations(run: Run, marks: IterationMarks) -> None:
    run.iterations, run.iterations_total = marks.seconds(), marks.total()
    run.marked, run.iteration_ends = sum(marks.numbers()), marks.times()
    run.in_use = marks.readings


def _check_outputs(app: App, workspace: Workspace, checked_digests: Collection[str]) -> tuple[str, str]:
    """'' or an error message: of elements that nobody wrote, or else of check(); and the digest of what was examined.
    Raises TypeError if check() returns anything else, for example because of a missing return.
    """
    if digest := outputs.matching(app, workspace.contents, checked_digests):
        return "", digest
    view = outputs.DigestedView(app, workspace.contents)
    for array in app.arrays.values():
        if array.declaration.is_result and (unwritten := count_nonsense(view(array))):
            return f"{unwritten} of {math.prod(array.shape)} elements of {array.name} were never written", ""
    error: object = app.check(view)
    if not isinstance(error, str):
        raise TypeError(f"check() of {app.name} must return '' or an error message, not {error!r:.80}")
    return error, "" if error else view.digest()


def count_nonsense(values: np.ndarray[Any, Any]) -> int:
    """The elements that consist of NONSENSE only; 0 if they are smaller than a word."""
    words = values.dtype.itemsize // 4
    if words == 0:
        return 0
    flat = values.reshape(-1).view(np.uint32).reshape(-1, words)
    return sum(in_pieces(lambda a, b: int((flat[a:b] == NONSENSE).all(axis=1).sum()), len(flat), 2**20))


def fill_with_nonsense(active: ActiveRun, *, on_demand: bool) -> None:
    """Fill outputs with NONSENSE, so that neither an earlier run nor the kernel's zeros pass for a result.

    on_demand: all that the application writes, after a run, because the next may get the same pages. Otherwise, before
    a run, those whose pages are there; filling others would be their first touch, which is measured.
    """
    workspace, device = active.workspace, active.workspace.info
    for array in active.app.arrays.values():
        blocks, declared = array.memory, array.declaration
        wanted = declared.role in ("output", "inout") and (on_demand or declared.starts_on is None)
        if not wanted or array in active.gpu.windows:
            continue
        memory = blocks.host if on_demand and blocks.shared else blocks.device
        if memory is None or array.nbytes % 4:
            continue
        entry = device.allocator(memory.allocator)
        if not on_demand and (entry is None or entry.on_demand is not False):
            continue
        if memory is blocks.device:
            active.gpu.launch("fill_32", array, 0, array.nbytes // 4, NONSENSE, over=array.nbytes // 4, writes=[array])
        else:
            workspace.view(array, reads=False, writes=True).view(np.uint32)[:] = NONSENSE
        workspace.wait()
        workspace.forget(array)


def _run_phases(
    active: ActiveRun,
    meter: Meter,
    threads: PhaseThreads,
    windows: dict[Array, int] | None,
    timer: _core.KernelTimer | None,
    marks: Marks | None,
) -> None:
    """The measured window, from allocate to readback. Memory use is read after each phase."""
    app, workspace, cpu, gpu = active.app, active.workspace, active.cpu, active.gpu
    arrays = list(app.arrays.values())
    gpu.exchanges.meet()
    with active.phase("allocate"):
        workspace.allocate(arrays, windows)
        gpu.exchanges.allocate(workspace)
    meter.read("allocate")
    fill_with_nonsense(active, on_demand=False)
    app.prepare(gpu)
    _run_phase_with_files(active, meter, "input", app.read_files)
    with active.phase("initialise"):
        cpu.threads = threads.initialise
        app.initialise(cpu, gpu)
        workspace.wait()
        workspace.after_initialise()
        cpu.threads = app.division.cpu_threads or threads.compute
    meter.read("initialise")
    gpu.timer = timer
    gpu.exchanges.meet()
    workspace.time_with(clock := GpuClock(workspace.device))
    with active.phase("compute"), marks.phase() if marks is not None else nullcontext():
        workspace.before_compute()
        cpu.in_turns, gpu.idle = app.division.in_turns, app.divided and app.division.gpu_share == 0
        app.compute(cpu, gpu)
        workspace.join_prefetches()
        clock.stop()
    gpu.timer = None
    workspace.time_with(None)
    active.run.gpu = clock.seconds()
    if timer is not None:  # after the phase, since reading events takes time
        active.run.kernels = KernelTime(*timer.take())
    meter.read("compute")
    with active.phase("readback"):
        workspace.read_back([a for a in arrays if a.declaration.ends_on == "cpu"])
    meter.read("readback")
    _run_phase_with_files(active, meter, "output", app.write_files)


def _run_phase_with_files(active: ActiveRun, meter: Meter, phase: str, use: Callable[[Cpu], None]) -> None:
    if active.app.has_files():
        with active.phase(phase):
            use(active.cpu)
        meter.read(phase)
