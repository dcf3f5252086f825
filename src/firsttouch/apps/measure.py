"""One run of an application under a strategy: phases, iterations, memory, and whether the result is right."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from firsttouch import _core
from firsttouch.apps.base import App
from firsttouch.memory.agents import Cpu, Gpu, KernelFile
from firsttouch.memory.workspace import Agent, Array, Workspace
from firsttouch.run.events import EventLog
from firsttouch.schema import DeviceInfo, Scalar

PHASES = ("context", "allocate", "initialise", "compute", "readback", "free")
GENERATE = "generate"


@dataclass
class Run:
    """What one run gave. phases: seconds by name; iterations: seconds each, iterated: all of them; events: totals."""

    phases: dict[str, float] = field(default_factory=dict)
    iterations: list[float] = field(default_factory=list)
    iterated: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    crossed: Mapping[Agent, int] = field(default_factory=dict)
    events: Mapping[str, Scalar] = field(default_factory=dict)
    buffers: list[tuple[str, str, int]] = field(default_factory=list)
    wrong: str = ""
    checked: bool = False

    @property
    def seconds(self) -> float:
        """From the first allocation to the last free."""
        return sum(seconds for phase, seconds in self.phases.items() if phase != "context")


class Meter:
    """Memory in use by this process: host bytes from its resident size, device bytes from the device's own count.

    device_used: bytes of device memory in use now, or None where the device's memory is the host's or can't be counted.
    """

    def __init__(self, device_used: Callable[[], int | None]) -> None:
        self._device_used = device_used
        with suppress(OSError):  # forget the highest resident size so far (proc(5), clear_refs)
            Path("/proc/self/clear_refs").write_text("5")
        self._host_before, self._device_before = _resident()[0], device_used()
        self.peak = {"peak_host_bytes": 0, "peak_bytes": 0}

    def read(self, phase: str) -> None:
        """Take the peaks so far, at the end of a phase. Between two readings the host's high water counts, the device's
        use does not.
        """
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
    """Bytes of this process in memory: now, and at most so far."""
    fields = {"VmRSS": 0, "VmHWM": 0}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in fields:
            fields[name] = int(value.split()[0]) * 1024
    return fields["VmRSS"], fields["VmHWM"]


def device_counter(info: DeviceInfo, device: _core.Device) -> Callable[[], int | None]:
    """How to count device memory in use: by the vendor's management library, else by what the driver has free."""
    if info.facts.get("shares_host_memory") is True or info.kind == "opencl":  # OpenCL does not tell what is free
        return lambda: None

    def used() -> int | None:
        counted = device.usage().get("used_bytes")
        total, free = device.memory()
        return total - free if counted is None else counted

    return used


def shared_kernels(name: str) -> KernelFile:
    """A kernel file of this folder that is no application's own."""
    return KernelFile(name, Path(__file__).with_name(f"{name}.c").read_text(encoding="utf-8"))


class Stage:
    """One run in the making: the workspace, both agents, and the times of the phases."""

    def __init__(self, app: App, workspace: Workspace) -> None:
        self.app, self.workspace, self.run = app, workspace, Run()
        files = [*map(shared_kernels, (GENERATE, *app.more_kernels)), app.kernels]
        self.cpu, self.gpu = Cpu(workspace, files), Gpu(workspace, files)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is inside, to the end of all queued work."""
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
        threads: of the CPU in the phase initialise; 0 all.
        windows: bytes of the device's part of each tiled array under a budget.
        device_used: counts device memory in use.
        log: unified-memory events; those from the first allocation to the end of readback are totalled.

    Raises:
        GuardRefused, Unavailable, Unsupported: the strategy cannot be used here after all.
    """
    stage = Stage(app, workspace)
    stage.gpu.windows = windows or {}
    app.arrange()
    gc.collect()
    meter = Meter(device_used)
    try:
        with log.window() if log is not None else nullcontext() as window:
            _phases(stage, meter, threads, windows)
        if window is not None:
            stage.run.events = window.totals()
        stage.run.iterations = stage.gpu.iteration_seconds()
        stage.run.iterated = stage.gpu.iterated_seconds()
        stage.run.memory, stage.run.crossed = meter.peak, workspace.crossed.copy()
        stage.run.buffers = workspace.allocations()
        if check:
            stage.run.wrong, stage.run.checked = app.check(workspace.contents), True
    finally:
        with stage.phase("free"):
            workspace.free()
    return stage.run


def _phases(stage: Stage, meter: Meter, threads: int, windows: dict[Array, int] | None) -> None:
    """The measured window: allocate to readback, with the memory in use read after each."""
    app, workspace, cpu, gpu = stage.app, stage.workspace, stage.cpu, stage.gpu
    arrays = list(app.arrays.values())
    with stage.phase("allocate"):
        workspace.allocate(arrays, windows)
    meter.read("allocate")
    app.prepare(gpu)
    with stage.phase("initialise"):
        cpu.threads = threads
        app.initialise(cpu, gpu)
        workspace.wait()
        workspace.initialised()
        cpu.threads = 0
    meter.read("initialise")
    with stage.phase("compute"):
        workspace.begin()
        app.compute(cpu, gpu)
    meter.read("compute")
    with stage.phase("readback"):
        workspace.read_back([a for a in arrays if a.declaration.ends_on == "cpu"])
    meter.read("readback")
