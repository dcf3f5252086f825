"""The memory in use over time of a prediction: what the page map has after each launch and copy, when prices say it is.

Two replays go through the same program: one keeps its pages, the other adds up times. Either leaves out rounds that are
like one before, so that the two are matched by how much of the program they have done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firsttouch.machine.allocators.properties import is_plain_host, memory_of
from firsttouch.model.counting import CountedReplay
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pricing import Pricing
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program import steps
from firsttouch.program.program import Program
from firsttouch.program.replay import Replay
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo
from firsttouch.records.timeline import MemoryCourse, Phase

SOURCE = "the page map, after each launch and copy"
EVENLY = 16
"""The number of readings of what one launch or copy changes."""
LAST = "free"
"""The phase that no course has, as none of a measurement has it."""


class MemoryReplay(CountedReplay):
    """Also notes the memory in use: by how much of the program is done, bytes on the host and on the device; and what
    the host had at the end of each phase, and at most.
    """

    def __init__(self, program: Program, strategy: Strategy, device: DeviceInfo, settings: CountingSettings) -> None:
        super().__init__(program, strategy, device, settings)
        self._host: dict[int, int] = {}
        self._device: dict[int, int] = {}
        self._untouched: dict[int, int] = {}
        self.noted: list[tuple[int, int, int]] = [(0, 0, 0)]
        self.host_by_phase: dict[str, int] = {}
        self.most_on_host = 0
        self._file = 0
        """Bytes of a file that is mapped to be copied."""
        self.watch = self._note

    def _play(self, step: steps.Step) -> None:
        super()._play(step)
        if isinstance(step, steps.Allocate):
            self._obtained(step)
        elif isinstance(step, steps.MapFile):
            self._file = step.nbytes
        elif isinstance(step, steps.Free):
            sides = {"host": (self._host, self._untouched), "device": (self._device,)}
            for by_buffer in sides.get(step.side, (self._host, self._untouched, self._device)):
                by_buffer.pop(step.buffer, None)
        elif (
            isinstance(step, steps.Prefault | steps.CopyFile)
            or (isinstance(step, steps.Copy) and step.to == "cpu")
            or (isinstance(step, steps.Use) and step.agent == "cpu")
        ):
            self._touch(step.buffer)
        elif isinstance(step, steps.Use):
            self._touch_by_gpu(step.buffer)

    def _obtained(self, step: steps.Allocate) -> None:
        """On the device memory is there at once, on the host perhaps when it is touched."""
        entry = self.device.allocator(step.allocator)
        shared = entry is not None and step.side == "shared"
        if step.buffer in self.managed.buffers:
            return
        if step.side == "device" or (entry is not None and shared and memory_of(entry) == "device"):
            self._device[step.buffer] = -(-step.nbytes // BLOCK_BYTES) * BLOCK_BYTES
        elif entry is None or entry.on_demand is not False:
            self._untouched[step.buffer] = step.nbytes
        else:
            self._host[step.buffer] = step.nbytes

    def _touch(self, buffer: int) -> None:
        """The CPU, or a copy, uses an array of the host for the first time. What it leaves out is not told apart."""
        if (nbytes := self._untouched.pop(buffer, None)) is not None:
            self._host[buffer] = nbytes

    def _touch_by_gpu(self, buffer: int) -> None:
        """A kernel uses plain memory for the first time, whose pages are then in the GPU's memory if it has its own."""
        if self.device.capabilities.shares_host_memory:
            self._touch(buffer)
        elif (nbytes := self._untouched.pop(buffer, None)) is not None:
            self._device[buffer] = nbytes
            self.device_bytes += nbytes
            self._note_peak()

    def _note(self, replay: Replay) -> None:
        page = self.settings.kind.page
        on_host = on_device = 0
        for pages in self.managed.buffers.values():
            for first, end, state in pages.pieces(0, pages.blocks):
                on_host += (end - first) * state.cpu.bit_count() * page
                on_device += (end - first) * state.gpu.bit_count() * page
        on_host += sum(self._host.values())
        self.noted.append((self.done, on_host, on_device + sum(self._device.values())))
        self._note_peak()
        self.host_by_phase[self.phase] = on_host
        self.most_on_host = max(self.most_on_host, on_host + self._file)
        self._file = 0

    def counters(self) -> dict[str, int]:
        """Also those of memory in use: at the end of each phase, and at most. Where a page may be counted for the
        process and for the device, there is no sum of both.
        """
        counters = super().counters() | {"peak_host_bytes": self.most_on_host}
        if self.device.capabilities.shares_host_memory:
            most = max(host + device for _, host, device in self.noted)
            counters |= {"peak_machine_bytes": most, "peak_machine_noise_bytes": 0}
        if self._in_both():
            return counters
        shown = (name for name in self.host_by_phase if name != LAST)
        sums = {f"memory_{name}_bytes": self.by_phase[name] + self.host_by_phase[name] for name in shown}
        return counters | sums | {"peak_bytes": max(self.most_on_host, *sums.values())}

    def _in_both(self) -> bool:
        """As in harness/memory_use.py."""
        entry = self.device.allocator(self.strategy.allocator)
        if entry is None or self.device.capabilities.shares_host_memory:
            return True
        node = self.device.facts.get("directManagedMemAccessFromHost") is True
        return entry.gpu != "none" and (is_plain_host(entry.name) or (entry.managed and node))


@dataclass
class Clock:
    """The time that a replay has priced, by how much of the program is done."""

    noted: list[tuple[int, str, float]] = field(default_factory=list)
    """Done, the phase, and ns of this phase so far."""

    def note(self, replay: Replay) -> None:
        """Watches a replay that prices."""
        assert isinstance(replay, Pricing)
        self.noted.append((replay.done, replay.phase, replay.terms.time_of(replay.phase)))


def course(clock: Clock, memory: MemoryReplay, phases: Mapping[str, float]) -> MemoryCourse:
    """Puts the two replays together. phases: seconds of each phase, in their order."""
    starts, until, shown = dict[str, float](), 0.0, list[Phase]()
    for name, seconds in phases.items():
        starts[name] = until
        if name != LAST:
            shown.append(Phase(name, until, until + seconds))
            until += seconds
    readings = [(0, 0.0)]
    for progress, phase, ns in clock.noted:
        readings.append((progress, max(readings[-1][1], min(until, starts[phase] + 1e-9 * ns))))
    host, device = list[tuple[float, float]](), list[tuple[float, float]]()
    last = max((progress for progress, phase, _ in clock.noted if phase != LAST), default=0)
    for progress, on_host, on_device in memory.noted:
        if progress <= last:
            t = _time_at(readings, progress)
            _add(host, t, on_host)
            _add(device, t, on_device)
    return MemoryCourse(shown, host, device, SOURCE, "", "", 0.0)


def _time_at(readings: Sequence[tuple[int, float]], progress: int) -> float:
    """The time at which this much of the program is done, interpolated between two readings."""
    i = bisect_right(readings, progress, key=lambda pair: pair[0])
    before = readings[i - 1]
    if before[0] == progress or i == len(readings):
        return before[1]
    after = readings[i]
    return before[1] + (after[1] - before[1]) * (progress - before[0]) / (after[0] - before[0])


def _add(readings: list[tuple[float, float]], t: float, nbytes: int) -> None:
    """A reading. What a launch or a copy takes or returns, it does evenly; of one time the last reading counts."""
    before = readings[-1] if readings else (t, float(nbytes))
    if before[0] == t:
        readings[-1:] = [(t, float(nbytes))]
        return
    for i in range(1, EVENLY) if before[1] != nbytes else ():
        part = i / EVENLY
        readings.append((min(t, before[0] + (t - before[0]) * part), before[1] + (nbytes - before[1]) * part))
    readings.append((t, float(nbytes)))
