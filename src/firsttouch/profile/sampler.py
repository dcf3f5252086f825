"""Samples the memory of the target from outside: what each tick reads, what is read now and then, and what is written.

The sampler touches nothing in the target. A thread of the core reads every tick; `step`, which the profiler's loop or a
thread calls, takes what there is, finds new processes, and does the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from firsttouch.machine.tree import Tree
from firsttouch.profile import schema
from firsttouch.profile.faults import FaultRecorder
from firsttouch.profile.gpu_sampler import GpuSampler
from firsttouch.profile.perf import PerfBatch, TargetEvents
from firsttouch.profile.records import LONGEST_SPAN, LONGEST_SPAN_OF_PROCESS, Pace, Track, Writer
from firsttouch.profile.slow import HOST_APART, HOST_APART_IF_SHARED, SlowReader
from firsttouch.profile.touches import TouchRecorder
from firsttouch.profile.tree import Processes

FLUSH_APART = 0.5
"""Seconds after which the next step writes. A kill of the profiler loses what was read since the last write."""
COST_APART = 10.0
FIRST_STEP, STEP, SCAN_APART = 0.05, 0.25, 0.25
"""Seconds between the first steps and between later ones, and between two searches for new processes where perf events
do not tell of them.
"""


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
    gpus: GpuSampler | None = None
    perf: TargetEvents | None = None
    marker: str = ""
    detailed: bool = True
    """Whether to read what is read now and then (profile/slow.py), under the target's memory lock."""
    host_tells_of_gpu: bool = False
    """Whether a GPU uses the host's memory and its driver does not state how much."""
    touches: bool = False
    """Whether sampled page faults are recorded by their address too."""
    root: int = 0
    _ticks: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._pace = pace = Pace(self.interval)
        self._gpu_tracks: dict[str, Track] = {}
        self.processes = Processes(self.tree, self.writer, pace, self.marker)
        apart = HOST_APART_IF_SHARED if self.host_tells_of_gpu else HOST_APART
        self.slow = SlowReader(self.tree, self.writer, pace, self.nodes, self.began, apart)
        self.faults: FaultRecorder | None = None
        if self.perf is not None and self.perf.every:
            every = self.perf.every
            touches = TouchRecorder(every) if self.touches else None
            self.faults = FaultRecorder(every, self.processes.key_of, self.perf.attached, touches)
        self._cpu_before = time.process_time()
        self._helper_before = self.gpus.cpu_seconds if self.gpus is not None else 0.0
        self._flushed = self._scanned = self._cost_written = self.began
        self._due = self.began
        self._lost = self._lost_is_noticed = False

    def begin(self, pid: int, *, is_child: bool = False, wake: int = 0) -> bool:
        """Begins with the first process. Returns False if it is gone. is_child: whether its end is told to this
        process. wake: the signal that asks for a step at once.
        """
        self.root, self.processes.first_is_child = pid, is_child
        is_there = self.processes.add_first(max(0.0, time.monotonic() - self.began), pid)
        if not is_child:  # it has perhaps started others already
            self.processes.scan(max(0.0, time.monotonic() - self.began))
        self.processes.start(self.interval, self.perf, wake)
        return is_there

    def wait(self) -> float:
        """Seconds until the next step."""
        return max(0.0, self._due - time.monotonic())

    def step(self, *, last: bool = False) -> None:
        """Takes what was read, and reads what is due. last: the target has ended."""
        now = time.monotonic()
        self._due = now + (
            self.interval if self.gpus is not None and self.gpus.has_ticks else self._seconds_to_next_step(now)
        )
        if self.gpus is not None:
            self.gpus.tick(now)
        if self.perf is not None:
            self._take_events(self.perf.read(rest=last), now)
        if (self.perf is None or self._lost) and now - self._scanned >= SCAN_APART:
            self._scanned, self._lost = now, False
            self.processes.scan(now - self.began)
        self._ticks = self.processes.take_readings(self.began)
        if self.detailed:
            self.slow.step(now, self.processes, self.root)
        if now - self._flushed >= FLUSH_APART:
            self.flush(now)

    def _seconds_to_next_step(self, now: float) -> float:
        """Seconds until the next step: few at first, so that short targets are seen well."""
        return min(STEP, max(FIRST_STEP, (now - self.began) / 10))

    def _take_events(self, batch: PerfBatch, now: float) -> None:
        if batch.lost:
            self._lost = True
            if self.faults is None and not self._lost_is_noticed:  # with faults, it is told how many samples were lost
                self._lost_is_noticed = True
                text = (
                    "So many processes were started at once that the kernel did not tell of all; some are not counted."
                )
                self.writer.add(schema.Notice(t=round(max(0.0, now - self.began), 5), text=text))
        for start in batch.starts:
            self.processes.started(start.pid, start.parent)
        for change in batch.names:
            t = max(0.0, change.t - self.began)
            self.processes.executed(t, change.pid, change.name, is_program=change.executed)
        self.processes.add_started(now - self.began)
        if self.faults is not None:
            self.faults.take(batch)

    def _take_gpus(self, gpus: GpuSampler) -> None:
        """Takes what was read of the GPUs, whose times are those of CLOCK_MONOTONIC."""
        gpus.slow(list(self.processes.members))
        for line in gpus.drain(self.processes.key_of):
            if isinstance(line, schema.Notice):
                self.writer.add(schema.Notice(t=max(0.0, round(line.t - self.began, 5)), text=line.text))
                continue
            if line.of not in self._gpu_tracks:
                longest = LONGEST_SPAN_OF_PROCESS if "/" in line.of else LONGEST_SPAN
                self._gpu_tracks[line.of] = Track(line.of, line.columns, self._pace, longest)
            for monotonic, *values in line.rows:
                self._gpu_tracks[line.of].add(max(0.0, (monotonic or 0.0) - self.began), tuple(values))

    def flush(self, now: float, *, last: bool = False) -> None:
        """Writes what was sampled since the last call."""
        self._flushed = now
        if self.gpus is not None:
            self._take_gpus(self.gpus)
        gpus = (samples for track in self._gpu_tracks.values() if (samples := track.take(last=last)))
        for samples in (*self.processes.take(last=last), *self.slow.take(last=last), *gpus):
            self.writer.add(samples)
        if last or now - self._cost_written >= COST_APART:  # without the search for names at the end
            self._cost_written = now
            self.writer.add(self.cost(now))
        if self.faults is not None:
            self._write_faults(self.faults, now, last=last)
        self.writer.flush()

    def _write_faults(self, faults: FaultRecorder, now: float, *, last: bool) -> None:
        t = round(now - self.began, 5)
        lines: list[schema.ProfileLine] = [*faults.flush(t)]
        if last and self.perf is not None:
            lines += [schema.Faults(t=t, every=faults.every, rows=[], counted=self.perf.counted()), *faults.symbols()]
            if reason := self.perf.why_no_lines:
                lines.append(schema.Notice(t=t, text=f"lines of Python are not told of all processes: {reason}"))
        for line in lines:
            self.writer.add(line)

    def cost(self, now: float) -> schema.ProfilingCost:
        return schema.ProfilingCost(
            t=round(now - self.began, 5),
            cpu=round(time.process_time() - self._cpu_before, 4),
            helper_cpu=round(self.gpus.cpu_seconds - self._helper_before, 4) if self.gpus is not None else 0.0,
            lock=round(self.slow.lock_seconds, 4),
            ticks=self._ticks[0],
            late=self._ticks[1],
        )
