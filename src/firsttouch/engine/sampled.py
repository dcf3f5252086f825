"""Samples the memory of the worker and of its device while a point is measured, from outside, for `app --timeline`.

Each sampled point has a profile of its own, DIR/timelines/NNNN/profile.jsonl, with the spans of time that the worker
tells afterwards. A failure of sampling never fails a point: a counter of its record says why there is none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from firsttouch.base.processes import why_foreign
from firsttouch.engine.planned import Planned
from firsttouch.machine.tree import Tree
from firsttouch.profile import process_memory, schema
from firsttouch.profile.gpu_sampler import GpuSampler
from firsttouch.profile.nvml import FLUSH
from firsttouch.profile.records import Writer, header
from firsttouch.profile.sampler import Sampler
from firsttouch.profile.timelines import COUNTER, FOLDER, SOURCE, read_course, write_course
from firsttouch.records.schema import NONE, DeviceInfo, Record, Scalar
from firsttouch.records.timeline import MemoryCourse, NamedInterval, peak, peak_of_both
from firsttouch.workers.protocol import Reply, describe

INTERVAL = 0.01
LOST = "NVML no longer answered"
_LONGEST_STEP = 5.0
"""Seconds that a step may take at the end of a point, after which its profile is given up."""


class PointSampler:
    """Samples the points of a run that ask for it. directory: of the results.

    One process asks NVML for all points; it is started with the first whose device is no processor of the host.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._tree = directory, Tree()
        self._gpus: _Gpus | None = None

    @contextmanager
    def sampling(self, pid: int | None, planned: Planned) -> Iterator[PointProfile]:
        """Samples a process during the block. pid: None if several processes carry out the point."""
        profile = PointProfile(planned.info)
        try:
            if pid is None:
                raise _NotSampled("the memory of points that several processes carry out is not sampled")
            if reason := why_foreign():
                raise _NotSampled(reason)
            profile.begin(*self._begin_profile(pid, planned))
        except Exception as error:
            profile.give_up(error)
        try:
            yield profile
        finally:
            profile.end()

    def keep(self, course: MemoryCourse, record: Record) -> None:
        """Stores the memory over time that was predicted for a point, and where."""
        folder = self._next_folder()
        folder.mkdir(parents=True)
        write_course(folder, course)
        record.counters = {**record.counters, SOURCE: course.source, COUNTER: f"{FOLDER}/{folder.name}"}

    def __enter__(self) -> PointSampler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._gpus is not None:
            self._gpus.stop()
        self._gpus = None

    def _begin_profile(self, pid: int, planned: Planned) -> tuple[Sampler, Path, int]:
        """Begins a profile, and returns its sampler, its folder and the process."""
        gpus = None if planned.info.capabilities.on_host_processor else self._read_gpus()
        folder = self._next_folder()
        writer = Writer(folder)
        began = time.monotonic()
        in_use = gpus.now() if gpus is not None else []
        nodes = process_memory.nodes(self._tree)
        first = header(
            command=[planned.point.experiment, *(f"{name}={value}" for name, value in planned.point.factors.items())],
            pid=pid,
            attached=True,
            clock=began,
            interval=INTERVAL,
            layers=gpus.states() if gpus is not None else [],
            gpus=in_use,
            nodes=nodes,
        )
        writer.add(first)
        if gpus is not None:
            for gpu_name, line in ((gpu.name, gpus.latest[gpu.name]) for gpu in in_use):
                writer.add(schema.Samples(of=gpu_name, columns=line.columns, rows=[[0.0, *line.rows[-1][1:]]]))
        sampler = Sampler(self._tree, writer, began, INTERVAL, nodes, gpus, detailed=False)
        return sampler, folder, pid

    def _next_folder(self) -> Path:
        parent = self._directory / FOLDER
        taken = [int(name) for path in parent.glob("*") if (name := path.name).isdecimal()]
        return next(path for i in count(max(taken, default=0) + 1) if not (path := parent / f"{i:04}").exists())

    def _read_gpus(self) -> _Gpus:
        """The sampler of the GPUs, which has told what was read before now."""
        if self._gpus is None:
            self._gpus = _Gpus(self._tree, INTERVAL)
            self._gpus.start()
        while self._gpus.drain(lambda pid: None):
            pass
        return self._gpus


class _Gpus(GpuSampler):
    """The GPUs with what was last read of each, since the sampler tells only what has changed."""

    def start(self, timeout: float = 10.0) -> tuple[list[schema.ProfiledGpu], list[schema.LayerState]]:
        self.latest: dict[str, schema.Samples] = {}
        self.profiled, self.layers = super().start(timeout)
        for gpu in self.profiled:
            before = msgspec.structs.asdict(gpu.before)
            self.latest[gpu.name] = schema.Samples(of=gpu.name, columns=[*before], rows=[[0.0, *before.values()]])
        return self.profiled, self.layers

    def drain(self, keys: Callable[[int], int | None]) -> list[schema.Samples | schema.Notice]:
        lines = super().drain(keys)
        self.latest |= {line.of: line for line in lines if isinstance(line, schema.Samples) and "/" not in line.of}
        return lines

    def now(self) -> list[schema.ProfiledGpu]:
        """The GPUs with the memory that was last read."""
        seen = [gpu for gpu in self.profiled if not (self.is_lost and _is_read_by_nvml(gpu))]
        return [msgspec.structs.replace(gpu, before=self._gpu_memory(gpu)) for gpu in seen]

    def states(self) -> list[schema.LayerState]:
        lost = self.is_lost and any(map(_is_read_by_nvml, self.profiled))
        return [schema.LayerState("gpus", False, f"{LOST}.")] if lost else self.layers

    def _gpu_memory(self, gpu: schema.ProfiledGpu) -> schema.GpuMemory:
        line = self.latest[gpu.name]
        columns_and_values = zip(line.columns, line.rows[-1][1:], strict=True)
        return schema.GpuMemory(**{name: int(value) for name, value in columns_and_values if value is not None})


def _is_read_by_nvml(gpu: schema.ProfiledGpu) -> bool:
    return gpu.source.startswith("NVML")


class _NotSampled(Exception):
    """Why a point is not sampled, as a clause."""


class PointProfile:
    """The profile of one point. `end` must follow `begin`; `add_to` then completes the record."""

    def __init__(self, device: DeviceInfo) -> None:
        self._device = device
        self._why = self._why_no_gpu = ""
        self._sampler: Sampler | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._spans: Sequence[NamedInterval] = ()

    def begin(self, sampler: Sampler, folder: Path, pid: int) -> None:
        self._sampler, self._folder, self._pid = sampler, folder, pid
        if not sampler.begin(pid):
            raise _NotSampled("the worker had ended")
        self._thread = threading.Thread(target=self._step_until_end, daemon=True)
        self._thread.start()

    def give_up(self, error: Exception) -> None:
        self._why = self._why or (
            str(error) if isinstance(error, _NotSampled) else f"sampling failed: {describe(error)}"
        )

    def take(self, reply: Reply | None) -> None:
        """Takes what the worker told about its phases, and waits until memory was read that was in use then."""
        self._spans = reply.phases if reply is not None else ()
        if self._spans and self._sampler is not None and self._sampler.gpus is not None:
            self._ended.wait(2 * FLUSH)

    def _step_until_end(self) -> None:
        assert self._sampler is not None
        try:
            while not self._ended.wait(self._sampler.wait()):
                self._sampler.step()
        except Exception as error:
            self.give_up(error)

    def end(self) -> None:
        if self._sampler is None:
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_STEP)
            if self._thread.is_alive():  # the thread still writes to the file
                self._why = f"a reading of memory took more than {_LONGEST_STEP:g} s"
                return
        try:
            self._finish_sampler(self._sampler)
        except Exception as error:
            self.give_up(error)
        with suppress(OSError):
            self._sampler.writer.close()
        self._why = self._why or self._sampler.writer.failure

    def _finish_sampler(self, sampler: Sampler) -> None:
        sampler.processes.stop()
        sampler.step(last=True)
        now = time.monotonic()
        sampler.flush(now, last=True)
        if sampler.gpus is not None and sampler.gpus.is_lost:
            self._why_no_gpu = LOST
        for mark in marks(self._spans, sampler.began, self._pid):
            sampler.writer.add(mark)
        sampler.writer.add(schema.End(t=round(now - sampler.began, 5), why="the point ended", still_running=1))

    def add_to(self, record: Record) -> None:
        """Adds to the record where its profile is, and the peaks of memory between the readings of the worker."""
        counters: dict[str, Scalar] = {}
        if not self._why and self._spans:
            try:
                course = read_course(self._folder, self._device, self._why_no_gpu)
            except Exception as error:
                self.give_up(error)
            else:
                counters = peaks(record.counters, course)
                counters[SOURCE] = course.source or f"{NONE}{course.why}"
                counters[COUNTER] = f"{FOLDER}/{self._folder.name}"
        elif not self._why:
            self._why = "the worker did not say when its phases were"
        record.counters = {**record.counters, **counters} if counters else {**record.counters, SOURCE: NONE + self._why}


def marks(spans: Sequence[NamedInterval], began: float, pid: int) -> list[schema.Mark]:
    """The begins and ends of spans in the order of time. Those of spans that lie in others are between theirs."""
    marks: list[schema.Mark] = []
    open_ones: list[NamedInterval] = []

    def add(kind: Literal["begin", "end"], name: str, t: float) -> None:
        marks.append(schema.Mark(t=round(max(0.0, t - began), 6), kind=kind, name=name, pid=pid, source="app"))

    def close(until: float) -> None:
        while open_ones and open_ones[-1][2] <= until:
            name, _, end = open_ones.pop()
            add("end", name, end)

    for span in sorted(spans, key=lambda span: (span[1], -span[2])):
        close(span[1])
        open_ones.append(span)
        add("begin", span[0], span[1])
    close(float("inf"))
    return marks


def peaks(counters: Mapping[str, Scalar], course: MemoryCourse) -> dict[str, Scalar]:
    """The counters of peaks that were higher between two readings of the worker than at any. Of the device, also that
    which the worker cannot count. All are rises over what was in use before the first phase.
    """
    if not course.is_seen:
        return {}
    names = {"peak_host_bytes": peak(course.host), "peak_device_bytes": peak(course.device)}
    peaks: dict[str, Scalar] = {}
    for name, sampled in names.items():
        read = counters.get(name)
        if sampled is not None and (name in counters or name == "peak_device_bytes"):
            peaks[name] = max(sampled, read) if isinstance(read, int) else sampled
    if isinstance(whole := counters.get("peak_bytes"), int):
        both = [value for value in (peak_of_both(course), *peaks.values()) if isinstance(value, int)]
        peaks["peak_bytes"] = max([whole, *both])
    return peaks
