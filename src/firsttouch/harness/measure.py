"""One run of an application under a strategy: phases, iterations, memory, and the check of the result."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from firsttouch import _core
from firsttouch.events.log import EventLog
from firsttouch.harness.app import App
from firsttouch.records.schema import DeviceInfo, Scalar
from firsttouch.workspace.agents import Cpu, Gpu, KernelFile
from firsttouch.workspace.workspace import Agent, Array, Workspace

PHASES = ("context", "allocate", "initialise", "compute", "readback", "free")
GENERATE = "generate"


@dataclass
class Run:
    """Measurements of one run.

    phases: seconds by name; iterations: seconds of each, and iterations_total of all; transferred: bytes to each agent;
    events: totals by name; buffers: name, allocator and bytes of each; error: the message of check(), "" if correct.
    """

    phases: dict[str, float] = field(default_factory=dict)
    iterations: list[float] = field(default_factory=list)
    iterations_total: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    transferred: Mapping[Agent, int] = field(default_factory=dict)
    events: Mapping[str, Scalar] = field(default_factory=dict)
    buffers: list[tuple[str, str, int]] = field(default_factory=list)
    error: str = ""

    @property
    def seconds(self) -> float:
        """The time from the first allocation to the last free."""
        return sum(seconds for phase, seconds in self.phases.items() if phase != "context")


class Meter:
    """Measures memory in use: the process's resident size on the host, and the device's own count.

    device_used: bytes of device memory in use, or None if they can't be counted or are host memory.
    """

    def __init__(self, device_used: Callable[[], int | None]) -> None:
        self._device_used = device_used
        with suppress(OSError):  # resets VmHWM, the peak resident size: proc(5), clear_refs
            Path("/proc/self/clear_refs").write_text("5")
        self._host_before, self._device_before = _resident()[0], device_used()
        self.peak = {"peak_host_bytes": 0, "peak_bytes": 0}

    def read(self, phase: str) -> None:
        """Update the peaks at the end of a phase. Between readings, only the host's peak resident size is tracked."""
        now, highest = _resident()
        host = max(0, now - self._host_before)
        device = self._device_used()
        on_device = 0 if device is None or self._device_before is None else max(0, device - self._device_before)
        self.peak[f"memory_{phase}_bytes"] = host + on_device
        found = {"peak_host_bytes": max(host, highest - self._host_before), "peak_bytes": host + on_device}
        if device is not None:
            found["peak_device_bytes"] = on_device
        for name, value in found.items():
            self.peak[name] = max(self.peak.get(name, 0), value)


def _resident() -> tuple[int, int]:
    """Resident size of this process in bytes: current and peak."""
    fields = {"VmRSS": 0, "VmHWM": 0}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in fields:
            fields[name] = int(value.split()[0]) * 1024
    return fields["VmRSS"], fields["VmHWM"]


def device_counter(info: DeviceInfo, device: _core.Device) -> Callable[[], int | None]:
    """A counter of device memory in use, from the vendor's management library or else the driver's free memory."""
    if info.capabilities.shares_host_memory or not info.capabilities.reports_free_memory:
        return lambda: None

    def used() -> int | None:
        counted = device.usage().get("used_bytes")
        total, free = device.memory()
        return total - free if counted is None else counted

    return used


def shared_kernels(name: str) -> KernelFile:
    """A kernel file that several applications share, from apps/ or workspace/."""
    folder = "workspace" if name == GENERATE else "apps"
    path = Path(__file__).parents[1] / folder / f"{name}.c"
    return KernelFile(name, path.read_text(encoding="utf-8"))


class ActiveRun:
    """A run in progress: the workspace, both agents, and the times of the phases."""

    def __init__(self, app: App, workspace: Workspace) -> None:
        self.app, self.workspace, self.run = app, workspace, Run()
        files = [*map(shared_kernels, (GENERATE, *app.more_kernels)), app.kernels]
        self.cpu, self.gpu = Cpu(workspace, files), Gpu(workspace, files)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body of the with statement, including all work that it queues."""
        started = time.perf_counter()
        yield
        if name != "free":
            self.workspace.wait()
        self.run.phases[name] = self.run.phases.get(name, 0.0) + time.perf_counter() - started


def run(
    app: App,
    workspace: Workspace,
    *,
    threads: int = 0,
    check: bool = True,
    windows: dict[Array, int] | None = None,
    device_used: Callable[[], int | None] = lambda: None,
    log: EventLog | None = None,
) -> Run:
    """Run an application once.

    Args:
        threads: CPU threads of the phase initialise; 0: all.
        windows: bytes of device memory for each tiled array, if there is a budget.
        device_used: counts device memory in use.
        log: event log; events from the first allocation to the end of readback are added up.

    Raises:
        GuardRefused, Unavailable, Unsupported: the strategy cannot be used on this device.
    """
    active = ActiveRun(app, workspace)
    active.gpu.windows = windows or {}
    app.arrange()
    gc.collect()
    meter = Meter(device_used)
    try:
        with log.window() if log is not None else nullcontext() as window:
            _phases(active, meter, threads, windows)
        if window is not None:
            active.run.events = window.totals()
        active.run.iterations = active.gpu.iteration_seconds()
        active.run.iterations_total = active.gpu.total_iteration_seconds()
        active.run.memory, active.run.transferred = meter.peak, workspace.transferred.copy()
        active.run.buffers = workspace.allocations()
        if check:
            active.run.error = _check(app, workspace)
    finally:
        with active.phase("free"):
            workspace.free()
    return active.run


def _check(app: App, workspace: Workspace) -> str:
    """The result of check(): '' or an error message. Raises TypeError for anything else, such as a missing return."""
    error: object = app.check(workspace.contents)
    if not isinstance(error, str):
        raise TypeError(f"check() of {app.name} must return '' or an error message, not {error!r:.80}")
    return error


def _phases(active: ActiveRun, meter: Meter, threads: int, windows: dict[Array, int] | None) -> None:
    """The measured window, from allocate to readback. Memory use is read after each phase."""
    app, workspace, cpu, gpu = active.app, active.workspace, active.cpu, active.gpu
    arrays = list(app.arrays.values())
    with active.phase("allocate"):
        workspace.allocate(arrays, windows)
    meter.read("allocate")
    app.prepare(gpu)
    with active.phase("initialise"):
        cpu.threads = threads
        app.initialise(cpu, gpu)
        workspace.wait()
        workspace.after_initialise()
        cpu.threads = 0
    meter.read("initialise")
    with active.phase("compute"):
        workspace.before_compute()
        app.compute(cpu, gpu)
    meter.read("compute")
    with active.phase("readback"):
        workspace.read_back([a for a in arrays if a.declaration.ends_on == "cpu"])
    meter.read("readback")
