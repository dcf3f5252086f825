"""The process in which points are measured, so that nothing one point does reaches the runner.

``python -m firsttouch.run.worker RUNNER_PID`` reads one Job, Discover or Try per line from stdin and answers with Reply
lines on what was its stdout. It dies with the runner: the kernel kills it (PR_SET_PDEATHSIG), and stdin ends.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from firsttouch.errors import Unsupported
from firsttouch.run import events
from firsttouch.run.events import Span
from firsttouch.schema import SCHEMA, AllocatorInfo, Clocks, DeviceInfo, Factors, Record, Status, Struct, Summary

if TYPE_CHECKING:
    from firsttouch import _core
    from firsttouch.experiments.base import Experiment, Measurement
    from firsttouch.run.session import Session

LONGEST_REASON = 600
_PR_SET_PDEATHSIG = 1


class Job(Struct, tag="job"):
    """Measure one point. seconds is the time that its sampling may take."""

    experiment: str
    device: DeviceInfo
    factors: Factors
    unit: str
    preset: str
    seed: int
    seconds: float
    tolerance: float


class Discover(Struct, tag="discover"):
    """Name the devices of one kind."""

    kind: str


class Try(Struct, tag="try"):
    """Answer one question of memory/methods.py about an allocator, in a process that this may end."""

    device: DeviceInfo
    allocator: str
    question: str


Request: TypeAlias = Job | Discover | Try
Event: TypeAlias = Literal["ready", "opening", "opened", "done"]


class Reply(Struct):
    """What happened: "ready" once after the imports, "opening" and "opened" around the device, "done" per request.

    value: the answer to a Try, '' where there is none; reason says why, or how it was found. span: the unified-memory
    events of a point, where they were recorded.
    """

    event: Event
    record: Record | None = None
    devices: list[DeviceInfo] = []
    value: str = ""
    reason: str = ""
    span: Span | None = None


def one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]


def describe(error: BaseException) -> str:
    """An exception as one line: its kind and its text."""
    return one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def blank_record(job: Job, status: Status, reason: str = "") -> Record:
    """The record of a point that gave no samples, or the beginning of one that did."""
    return Record(
        schema=SCHEMA,
        experiment=job.experiment,
        device=job.device.name,
        factors=job.factors,
        unit=job.unit,
        status=status,
        reason=one_line(reason),
        preset=job.preset,
        seed=job.seed,
        started=now(),
    )


def _die_with(runner: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != runner:
        os._exit(1)


def _claim_stdout() -> int:
    """A descriptor of the pipe to the runner; whatever a library prints on stdout goes to stderr from now on."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    return pipe


@dataclass
class _Pipe:
    descriptor: int

    def send(self, reply: Reply) -> None:
        line = memoryview(msgspec.json.encode(reply) + b"\n")
        while line:
            line = line[os.write(self.descriptor, line) :]


def _open_session(job: Job, pipe: _Pipe) -> Session:
    """A session that tells the runner when its device opens, since a driver may hang or crash there."""
    from firsttouch.run.session import Session

    class Told(Session):
        @cached_property
        def device(self) -> _core.Device:
            pipe.send(Reply(event="opening"))
            device = self.open_device()
            pipe.send(Reply(event="opened"))
            return device

    return Told(job.device, job.seed, job.seconds, job.tolerance, job.preset)


class _Bench:
    """Measures the points of one group, on one open device."""

    def __init__(self, pipe: _Pipe) -> None:
        self.pipe = pipe
        self.session: Session | None = None

    def measure(self, job: Job) -> Reply:
        """The protocol of one point, whatever the experiment."""
        from firsttouch.experiments.base import Point
        from firsttouch.run.catalogue import find

        record, span = blank_record(job, "ok"), None
        with _outcome_in(record):
            experiment = find(job.experiment, job.factors)
            session = self._session(job)
            point = Point(job.experiment, job.device.name, job.factors)
            record.clocks_before = self._clocks(session, experiment)
            _judge(experiment, job, session)
            _forget_events(session)
            started = time.monotonic()
            try:
                measurement = experiment.measure(point, session)
            finally:
                ended = time.monotonic()
                record.seconds = ended - started
            record.clocks_after = self._clocks(session, experiment)
            record.throttled = _throttled(record.clocks_before, record.clocks_after)
            _fill(record, measurement)
            if events.asked():
                span = _add_events(record, session, started, ended)
        return Reply(event="done", record=_checked(record), span=span)

    def _session(self, job: Job) -> Session:
        if self.session is None or self.session.info.name != job.device.name:
            self.session = _open_session(job, self.pipe)
        self.session.seconds, self.session.seed = job.seconds, job.seed
        self.session.tolerance, self.session.preset = job.tolerance, job.preset
        return self.session

    @staticmethod
    def _clocks(session: Session, experiment: Experiment) -> Clocks | None:
        """The clocks now, where the device is not the experiment's to open."""
        if _is_left_closed(experiment) and "device" not in vars(session):
            return None
        clocks = session.device.clocks()
        return None if clocks is None else msgspec.convert(clocks, Clocks)


def _is_left_closed(experiment: Experiment) -> bool:
    """Whether the device is not opened before the experiment does so, which may time just that."""
    return experiment.fresh_process or not experiment.opens_device


def _judge(experiment: Experiment, job: Job, session: Session) -> None:
    """Ask anew whether the point can be measured, of what the driver states in this process: in another environment
    it may state something else than at discovery.

    Raises:
        Unsupported: it can't.
    """
    if _is_left_closed(experiment):
        return
    stated = msgspec.convert(session.device.allocators(), list[AllocatorInfo])
    session.info = msgspec.structs.replace(job.device, allocators=stated)
    if reason := experiment.skip(job.factors, session.info):
        raise Unsupported(reason)


@contextmanager
def _outcome_in(record: Record) -> Iterator[None]:
    """What the block raises becomes the record's status and reason."""
    from firsttouch import _core

    try:
        yield
    except (Unsupported, _core.GuardRefused, _core.Unavailable) as error:
        record.status, record.reason = "skipped", one_line(str(error)) or describe(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even sys.exit() of an experiment is only this point's failure
        record.status, record.reason = "failed", describe(error)


def _throttled(*clocks: Clocks | None) -> bool | None:
    known = [c for c in clocks if c is not None]
    return any(c.throttle for c in known) if known else None


def _fill(record: Record, measurement: Measurement) -> None:
    """Take over what was measured. Raises ValueError where it is no measurement."""
    from firsttouch import _core

    samples = [float(sample) for sample in measurement.samples]
    if not samples:
        raise ValueError("no samples")
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not finite")
    if measurement.verified is None and not measurement.verified_why:
        raise ValueError("verified is None and verified_why does not say why: a bug of the experiment")
    record.samples = samples
    record.summary = msgspec.convert(
        dict(zip(Summary.__struct_fields__, _core.summarise(samples), strict=True)), Summary
    )
    record.verified = None if measurement.verified is None else bool(measurement.verified)
    record.verified_why = one_line(measurement.verified_why)
    record.stopped_by = measurement.stopped_by
    record.counters = dict(measurement.counters)
    record.buffers = list(measurement.buffers)


def _forget_events(session: Session) -> None:
    """Those before this point. A library that fails here records no more; measuring goes on."""
    from firsttouch import _core

    try:
        if session.events is not None:
            session.events.forget()
    except _core.VendorError as error:
        session.events, session.events_reason = None, one_line(str(error))


def _add_events(record: Record, session: Session, started: float, ended: float) -> Span | None:
    """Put the totals of the point's events beside the experiment's own counters, which have the last word."""
    from firsttouch import _core

    never_opened = f"{record.experiment} did not open its device in its own process"
    reason, window = session.events_reason or events.not_offered(session.info) or never_opened, None
    try:
        if session.events is not None:
            window = session.events.cut(started, ended)
    except _core.VendorError as error:
        reason = one_line(str(error))
    if window is None:
        record.counters.setdefault(events.STATE, events.NONE + reason)
        return None
    found = {events.STATE: events.RECORDED, **window.totals()}
    record.counters |= {name: value for name, value in found.items() if name not in record.counters}
    sent = window.events[: events.MOST_SENT]
    return Span(start=started, end=ended, events=sent, left_out=len(window.events) - len(sent))


def _discover(kind: str) -> Reply:
    from firsttouch.machine.devices import describe_devices

    try:
        return Reply(event="done", devices=describe_devices(kind))
    except Exception as error:
        return Reply(event="done", reason=one_line(str(error)) or describe(error))


def _try(request: Try, pipe: _Pipe) -> Reply:
    from firsttouch.memory.trials import run_trial

    value, reason = run_trial(
        request.device,
        request.allocator,
        request.question,
        opening=lambda: pipe.send(Reply(event="opening")),
        opened=lambda: pipe.send(Reply(event="opened")),
    )
    return Reply(event="done", value=value, reason=one_line(reason))


def _checked(record: Record) -> Record:
    """A record that the runner can decode; counters of a strange type are the experiment's bug."""
    try:
        return msgspec.json.decode(msgspec.json.encode(record), type=Record)
    except (TypeError, ValueError) as error:
        record.counters, record.buffers = {}, []
        record.status, record.reason = "failed", f"the measurement can't be stored: {describe(error)}"
        return record


def main(runner: int) -> None:
    _die_with(runner)
    pipe = _Pipe(_claim_stdout())
    bench: _Bench | None = None
    pipe.send(Reply(event="ready"))
    for line in sys.stdin.buffer:
        request: Request = msgspec.json.decode(line, type=Request)
        if isinstance(request, Discover):
            pipe.send(_discover(request.kind))
        elif isinstance(request, Try):
            pipe.send(_try(request, pipe))
        else:
            bench = bench or _Bench(pipe)
            pipe.send(bench.measure(request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
