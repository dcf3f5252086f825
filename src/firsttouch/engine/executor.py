"""Measures points in workers, which may crash, hang or take too much memory: each ends as one record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

from firsttouch.engine.filling import blank_record
from firsttouch.engine.job import Job
from firsttouch.engine.launching import Launching
from firsttouch.engine.planned import Planned, PointGroup
from firsttouch.engine.ranked import RankedWorker
from firsttouch.engine.sampled import PointSampler
from firsttouch.machine import processor_time
from firsttouch.machine.limits import host_limit
from firsttouch.profile.events.trace import Trace
from firsttouch.records.schema import Record
from firsttouch.workers.process import TaskResult, Worker

SLACK = 2**30
"""Bytes of host memory that a worker may use beyond the guard's limit, for the interpreter and vendor libraries."""
OUTPUTS_KEPT = 64
"""The number of digests of checked outputs that a worker is sent: the latest."""
GIVE_UP_AFTER = 2
"""The number of new workers that fail in a row before measuring, after which a group is not tried with that peer again.
"""
PointWorker: TypeAlias = Worker | RankedWorker
_Start: TypeAlias = tuple[PointGroup, str]
"""What a new worker opens: the device of a group, and the peer that a point names."""


class PointExecutor:
    """Measures points in workers, one at a time. One worker, or several ranks, serve the points of one group."""

    def __init__(
        self,
        trace: Trace | None = None,
        launching: Launching | None = None,
        sampler: PointSampler | None = None,
    ) -> None:
        self._sampler = sampler
        self._launching = launching or Launching()
        self._trace = trace
        self._memory = host_limit() + SLACK
        self._worker: PointWorker | None = None
        self._group: PointGroup | None = None
        self._failed_starts: dict[_Start, list[Record]] = {}
        self._outputs: list[str] = []
        self._own = time.process_time()

    @property
    def outputs(self) -> Sequence[str]:
        """Digests of outputs that were checked, the latest."""
        return self._outputs[-OUTPUTS_KEPT:]

    def measure(self, planned: Planned) -> Record:
        """Measures one point and returns its record, even if the worker crashes or hangs."""
        start = planned.group, planned.peer
        record = blank_record(planned, "failed")
        if self._is_given_up(start, record):
            return record
        try:
            worker = self._worker_for(planned)
        except OSError as error:
            record.reason = f"no process could be started for it: {error.strerror}"
            return record
        before, self._own = self._own, time.process_time()
        record, result = self._measure_in_worker(worker, planned, record)
        if self._sampler is not None and result.reply is not None and result.reply.memory is not None:
            self._sampler.keep(result.reply.memory, record)
        record.others_share = share_of_others(planned, result, time.process_time() - before)
        if result.reply is not None:
            self._outputs += result.reply.outputs
            if self._trace is not None and result.reply.span is not None:
                # Before the record: if the process is killed in between, the point is measured again.
                self._trace.add(record, result.reply.span)
        self._note_start(start, result, record)
        # A failure may have left the device in an unusable state.
        if planned.fresh or result.outcome != "done" or record.status == "failed":
            self.end_worker()
        return record

    def _measure_in_worker(self, worker: PointWorker, planned: Planned, record: Record) -> tuple[Record, TaskResult]:
        """Sends the point to the worker, and samples its memory meanwhile if that is asked for."""
        job = Job(planned, outputs=[*self.outputs])
        if not planned.sampled or self._sampler is None:
            result = worker.ask(job, timeout=planned.limit, memory=self._memory)
            return conclude(record, result), result
        with self._sampler.sampling(worker.pid if isinstance(worker, Worker) else None, planned) as profile:
            result = worker.ask(job, timeout=planned.limit, memory=self._memory)
            profile.take(result.reply)
        record = conclude(record, result)
        if record.status == "ok":
            profile.add_to(record)
        return record, result

    def _is_given_up(self, start: _Start, record: Record) -> bool:
        """True, with status and reason filled in, if these devices are not tried again."""
        failed = self._failed_starts.get(start, [])
        if len(failed) < GIVE_UP_AFTER:
            return False
        record.status = failed[-1].status  # so that --resume tries after a crash
        record.reason = f"not tried: its device did not open {len(failed)} times in a row: {failed[-1].reason}"
        return True

    def _worker_for(self, planned: Planned) -> PointWorker:
        if planned.fresh or planned.group != self._group or not (self._worker and self._worker.alive()):
            self.end_worker()
        if self._worker is None:
            self._worker, self._group = self._start_for(planned), planned.group
        return self._worker

    def _start_for(self, planned: Planned) -> PointWorker:
        if not planned.ranks:
            return Worker(planned.environment)
        launcher = self._launching.launcher(len(planned.ranks), planned.mpi)
        return RankedWorker(planned.ranks, launcher, planned.environment, SLACK)

    def _note_start(self, start: _Start, result: TaskResult, record: Record) -> None:
        if result.last_state in ("", "opening") and record.status != "ok":
            self._failed_starts.setdefault(start, []).append(record)
        else:
            self._failed_starts.pop(start, None)

    def end_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        self._worker = None

    def __enter__(self) -> PointExecutor:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._worker is not None and kind is not None:  # interrupted in the middle of a point
            self._worker.kill()
        self.end_worker()


def share_of_others(planned: Planned, result: TaskResult, runner_seconds: float) -> float | None:
    """The part of the processors' time that others than the workers used while they measured: the largest of all hosts.

    own: the processor time of this process meanwhile, and since the point before, which a short one is taken with.
    """
    by_host: dict[str, list[processor_time.ProcessorUse]] = {}
    for reply in result.replies or [result.reply]:
        if reply is not None and reply.record is not None and reply.use is not None:
            host = reply.record.parties[0].host if reply.record.parties else ""
            by_host.setdefault(host, []).append(reply.use)
    capabilities = planned.info.capabilities
    drivers = capabilities.runs_kernels and not capabilities.on_host_processor
    shares = [processor_time.others_share(uses, runner_seconds, drivers=drivers) for uses in by_host.values()]
    return max((round(share, 3) for share in shares if share is not None), default=None)


def conclude(record: Record, result: TaskResult) -> Record:
    """Returns the record that the worker sent, or `record` with the status and reason of the worker's failure."""
    if result.outcome == "done" and result.reply is not None and result.reply.record is not None:
        return result.reply.record
    record.status = "failed" if result.outcome == "done" else result.outcome
    record.reason = result.reason
    record.seconds = result.seconds
    return record
