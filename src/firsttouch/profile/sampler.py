"""Samples the memory of the target from outside: what each tick reads, what is read now and then, and what is written.

The sampler touches nothing in the target. A thread of the core reads every tick; `step`, which the profiler's loop or a
thread calls, takes what there is, finds new processes, and does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from firsttouch.machine.tree import Tree
from firsttouch.profile import schema
from firsttouch.profile.perf import PerfBatch, PerfEvents
from firsttouch.profile.records import Pace, Writer
from firsttouch.profile.slow import SlowReader
from firsttouch.profile.tree import Processes

FLUSH_APART = 0.5
"""Seconds between two writes: what a kill of the profiler loses at most, besides the tick in progress."""
COST_APART = 10.0
STEP, SCAN_APART = 0.1, 0.25
"""Seconds between two steps, and between two searches for new processes where perf events do not tell of them."""


class Gpus(Protocol):
    """What samples the memory of GPUs (profile/gpus.py)."""

    def slow(self, pids: Sequence[int]) -> None: ...
    def drain(self, keys: Callable[[int], int | None]) -> list[schema.Samples | schema.Notice]: ...
    @property
    def cpu_seconds(self) -> float: ...


@dataclass
class Sampler:
    """Samples one target. began: the reading of CLOCK_MONOTONIC that is the time 0 of the profile.

    perf: perf events of the tree (profile/perf.py), or None. marker: the folder of the profile, by which processes are
    found whose parents have ended; '' if the target does not have it in its environment.
    """

    tree: Tree
    writer: Writer
    began: float
    interval: float
    nodes: list[schema.Node] = field(default_factory=list)
    gpus: Gpus | None = None
    perf: PerfEvents | None = None
    marker: str = ""
    root: int = 0
    _ticks: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        pace = Pace(self.interval)
        self.processes = Processes(self.tree, self.writer, pace, self.marker)
        self.slow = SlowReader(self.tree, self.writer, pace, self.nodes, self.began)
        self._cpu_before = time.process_time()
        self._flushed = self._scanned = self._cost_written = self.began
        self._due = self.began

    def begin(self, pid: int, *, is_child: bool = False, wake: int = 0) -> bool:
        """Begins with the first process. Returns False if it is gone. is_child: whether its end is told to this
        process. wake: the signal that asks for a step at once.
        """
        self.root, self.processes.first_is_child = pid, is_child
        there = self.processes.add(max(0.0, time.monotonic() - self.began), pid, None)
        self.processes.start(self.interval, self.perf, wake)
        return there

    def wait(self) -> float:
        """Seconds until the next step."""
        return max(0.0, self._due - time.monotonic())

    def step(self, *, last: bool = False) -> None:
        """Takes what was read, and reads what is due. last: the target has ended."""
        now = time.monotonic()
        self._due = now + STEP
        if self.perf is not None:
            self._take_events(self.perf.read(rest=last))
        elif now - self._scanned >= SCAN_APART:
            self._scanned = now
            self.processes.scan(now - self.began)
        self._ticks = self.processes.take_readings(self.began)
        self.slow.step(now, self.processes, self.root)
        if now - self._flushed >= FLUSH_APART:
            self.flush(now)

    def _take_events(self, told: PerfBatch) -> None:
        for start in told.starts:
            self.processes.started(start.pid, start.parent)
        for change in told.names:
            self.processes.executed(max(0.0, change.t - self.began), change.pid, change.name)

    def flush(self, now: float, *, last: bool = False) -> None:
        """Writes what was sampled since the last call."""
        self._flushed = now
        if self.gpus is not None:
            self.gpus.slow(list(self.processes.members))
            for line in self.gpus.drain(self.processes.key_of):
                self.writer.add(line)
        for samples in (*self.processes.take(last=last), *self.slow.take(last=last)):
            self.writer.add(samples)
        if last or now - self._cost_written >= COST_APART:
            self._cost_written = now
            self.writer.add(self.cost(now))
        self.writer.flush()

    def cost(self, now: float) -> schema.Cost:
        return schema.Cost(
            t=round(now - self.began, 5),
            cpu=round(time.process_time() - self._cpu_before, 4),
            helper_cpu=round(self.gpus.cpu_seconds, 4) if self.gpus is not None else 0.0,
            lock=round(self.slow.lock_seconds, 4),
            ticks=self._ticks[0],
            late=self._ticks[1],
        )
