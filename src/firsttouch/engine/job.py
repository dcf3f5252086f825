"""The task of measuring one point: what the runner sends to a worker, and how the worker fills in the record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from firsttouch.errors import Unsupported
from firsttouch.events import log as events
from firsttouch.events.log import Span
from firsttouch.events.sums import Course
from firsttouch.machine.numa import node_number
from firsttouch.machine.parties import node_parties, parties, rank_party
from firsttouch.machine.switches import optimistic_device
from firsttouch.records.schema import (
    NODE,
    PEER,
    SCHEMA,
    AllocatorInfo,
    Clocks,
    DeviceCapabilities,
    DeviceInfo,
    Factors,
    Metric,
    Party,
    Record,
    Scalar,
    Status,
    Summary,
)
from firsttouch.records.trust import fill_in_from, sources, without_verified_facts
from firsttouch.workers.protocol import Pipe, Reply, Task, describe, one_line

if TYPE_CHECKING:
    from firsttouch import _core
    from firsttouch.experiments.base import Experiment, Measurement
    from firsttouch.session import Session


class Job(Task, tag="job"):
    """Measure one point.

    seconds: the time that its sampling may take. limit: the seconds after which the worker is killed. kind: the kind of
    work that the experiment belongs to (firsttouch/work.py). peers: the other devices that take part. counted: if a
    profiler counts this run of the point, the counters of the record with the timed samples. outputs: digests of
    outputs that earlier points checked. ranks: the devices of the processes that carry out the point together, each in
    a job of its own; empty if it is one process. rank: which of them this is.
    """

    experiment: str
    device: DeviceInfo
    factors: dict[str, Scalar]
    metric: Metric
    preset: str
    seed: int
    seconds: float
    tolerance: float
    limit: float = 30.0
    kind: str = "run"
    peers: list[DeviceInfo] = []
    counted: dict[str, Scalar] | None = None
    outputs: list[str] = []
    ranks: list[DeviceInfo] = []
    rank: int = 0

    def of_rank(self, rank: int) -> Job:
        """The job of one of the ranks."""
        return msgspec.structs.replace(self, device=self.ranks[rank], rank=rank)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def blank_record(job: Job, status: Status, reason: str = "") -> Record:
    """Returns a record without samples."""
    return Record(
        schema=SCHEMA,
        experiment=job.experiment,
        device=job.device.name,
        factors=job.factors,
        unit=job.metric.unit,
        better=job.metric.better,
        metric_version=job.metric.version,
        status=status,
        reason=one_line(reason),
        preset=job.preset,
        seed=job.seed,
        started=now(),
    )


def _open_session(job: Job, pipe: Pipe) -> Session:
    """Returns a session that reports to the runner when a device is opened, because a driver may hang or crash then."""
    from firsttouch.session import Session

    class ReportingSession(Session):
        @cached_property
        def device(self) -> _core.Device:
            return self._report(self.open_device)

        def open_other(self, name: str) -> _core.Device:
            return self._report(lambda: super(ReportingSession, self).open_other(name))

        def share(self, text: str | None) -> str:
            return pipe.share(text)

        @staticmethod
        def _report(opening: Callable[[], _core.Device]) -> _core.Device:
            pipe.send(Reply(state="opening"))
            device = opening()
            pipe.send(Reply(state="opened"))
            return device

    return ReportingSession(job.device, job.seed, job.seconds, job.tolerance, job.preset)


class JobHandler:
    """Measures the points of one group, on one open device.

    find: returns the experiment of a job. Raises UsageError if there is none.
    """

    def __init__(self, find: Callable[[Job], Experiment]) -> None:
        self._find = find
        self._session: Session | None = None

    def __call__(self, job: Job, pipe: Pipe) -> Reply:
        """Measures one point of any experiment."""
        from firsttouch.experiments.base import Point

        record, span, outputs = blank_record(job, "ok"), None, list[str]()
        phases: list[tuple[str, float, float]] = []
        record.parties = _parties(job)
        with _failures_recorded(record):
            experiment = self._find(job)
            session = self._session_for(job, pipe)
            session.party = record.parties[0] if job.ranks else None
            point = Point(job.experiment, job.device.name, Factors(job.factors))
            record.clocks_before = self._clocks(session, experiment)
            _check_possible(experiment, job, session)
            record.stated_by = _stated_by(experiment, job, session.info)
            _forget_events(session)
            started = time.monotonic()
            try:
                measurement = experiment.measure(point, session)
            finally:
                ended = time.monotonic()
                record.seconds = ended - started
            record.clocks_after = self._clocks(session, experiment)
            if session.party is not None:
                session.party.clocks_before, session.party.clocks_after = record.clocks_before, record.clocks_after
            record.throttled = _throttled(record.clocks_before, record.clocks_after)
            _fill(record, measurement, follows=job.rank > 0)
            outputs = [*measurement.outputs] if measurement.verified else []
            phases = [(str(name), float(start), float(end)) for name, start, end in measurement.phases]
            if events.are_requested():
                span = _add_events(record, session, started, ended)
        return Reply(state="done", record=_storable(record), span=span, outputs=outputs, phases=phases)

    def _session_for(self, job: Job, pipe: Pipe) -> Session:
        if self._session is None or self._session.info.name != job.device.name:
            self._session = _open_session(job, pipe)
        self._session.seconds, self._session.seed = job.seconds, job.seed
        self._session.tolerance, self._session.preset = job.tolerance, job.preset
        self._session.limit = job.limit
        self._session.counted = job.counted
        self._session.outputs = job.outputs
        self._session.rank, self._session.ranks = job.rank, max(1, len(job.ranks))
        self._session.peers = {device.name: device for device in job.peers}
        return self._session

    @staticmethod
    def _clocks(session: Session, experiment: Experiment) -> Clocks | None:
        """The current clocks, or None if only the experiment may open the device and has not done so."""
        if _opens_device_itself(experiment) and "device" not in vars(session):
            return None
        clocks = session.device.clocks()
        return None if clocks is None else msgspec.convert(clocks, Clocks)


def _parties(job: Job) -> list[Party]:
    """The devices, or the NUMA nodes, of a point in which several take part; of a rank itself alone."""
    numbers = (node_number(str(job.factors.get(name, ""))) for name in (NODE, PEER))
    named = [node for node in numbers if node is not None]
    if job.ranks:
        return [rank_party(job.ranks, job.rank, (named[0], named[-1]) if named else ())]
    if job.peers:
        return parties([job.device, *job.peers])
    return node_parties(job.device, dict.fromkeys(named))


def _opens_device_itself(experiment: Experiment) -> bool:
    """True if the device must not be opened before the experiment does so, which may time the opening."""
    return experiment.fresh_process or not experiment.opens_device


def _check_possible(experiment: Experiment, job: Job, session: Session) -> None:
    """Checks again whether the point can be measured, with what the driver states in this process. With other
    environment variables, that may differ from what it stated at discovery.

    Raises:
        Unsupported: the point cannot be measured.
    """
    if _opens_device_itself(experiment):
        return
    stated = msgspec.convert(session.device.allocators(), list[AllocatorInfo])
    session.info = msgspec.structs.replace(
        job.device,
        capabilities=msgspec.convert(session.device.capabilities(), DeviceCapabilities),
        allocators=fill_in_from(stated, optimistic_device(job.device, Factors(job.factors))),
    )
    if job.rank == 0 and (reason := experiment.skip(Factors(job.factors), session.info)):
        raise Unsupported(reason)


def _stated_by(experiment: Experiment, job: Job, device: DeviceInfo) -> str:
    """The source of the verified facts that make the point possible, or '' if what the driver states suffices."""
    stated = without_verified_facts(device)
    if stated is device or not experiment.skip(Factors(job.factors), stated):
        return ""
    return f"verified {', '.join(sources(device))}"


@contextmanager
def _failures_recorded(record: Record) -> Iterator[None]:
    """Turns an exception of the block into the record's status and reason."""
    from firsttouch import _core

    try:
        yield
    except (Unsupported, _core.GuardRefused, _core.Unavailable) as error:
        record.status, record.reason = "skipped", one_line(str(error)) or describe(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even if an experiment calls sys.exit(), only this point fails
        record.status, record.reason = "failed", describe(error)


def _throttled(*clocks: Clocks | None) -> bool | None:
    known = [c for c in clocks if c is not None]
    return any(c.throttle for c in known) if known else None


def _fill(record: Record, measurement: Measurement, *, follows: bool) -> None:
    """Copies a measurement into the record. Raises ValueError or TypeError if the measurement is invalid.

    follows: it is that of a further rank, which need not have samples.
    """
    from firsttouch import _core
    from firsttouch.experiments import base

    if not isinstance(measurement, base.Measurement):
        raise TypeError(f"measure() returned {measurement!r:.60}, not a Measurement")
    if measurement.verified is not None and type(measurement.verified).__name__ not in ("bool", "bool_"):  # or numpy's
        raise TypeError(f"verified is {measurement.verified!r:.60}, not True, False or None")
    samples = [float(sample) for sample in measurement.samples]
    if not samples and not follows:
        raise ValueError("no samples")
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not finite")
    if measurement.verified is None and not measurement.verified_why:
        raise ValueError("verified is None and verified_why does not say why: a bug in the experiment")
    record.samples = samples
    if samples:
        record.summary = msgspec.convert(
            dict(zip(Summary.__struct_fields__, _core.summarise(samples), strict=True)), Summary
        )
    record.verified = None if measurement.verified is None else bool(measurement.verified)
    record.verified_why = one_line(measurement.verified_why)
    record.stopped_by = measurement.stopped_by
    record.counters = dict(measurement.counters)
    record.buffers = list(measurement.buffers)


def _forget_events(session: Session) -> None:
    """Discards the events before this point. If the library fails, recording ends and measuring continues."""
    from firsttouch import _core

    try:
        if session.events is not None:
            session.events.forget()
    except _core.VendorError as error:
        session.events, session.events_reason = None, one_line(str(error))


def _add_events(record: Record, session: Session, started: float, ended: float) -> Span | None:
    """Adds the totals of the point's events to the counters. Counters that the experiment set are kept."""
    from firsttouch import _core

    never_opened = f"{record.experiment} did not open its device in its own process"
    reason, window, course = session.events_reason or events.why_not_offered(session.info) or never_opened, None, None
    try:
        if session.events is not None:
            window, course = session.events.cut(started, ended), session.events.course
    except _core.VendorError as error:
        reason = one_line(str(error))
    if window is None:
        record.counters.setdefault(events.STATE, events.NONE + reason)
        return None
    counters: dict[str, Scalar] = {events.STATE: events.RECORDED, **window.totals()}
    record.counters = counters | record.counters
    sent = window.events[: events.MOST_SENT]
    return Span(
        start=started,
        end=ended,
        events=sent,
        left_out=window.unlisted + len(window.events) - len(sent),
        phases=[(phase.name, phase.start, phase.start + phase.ns * 1e-9) for phase in window.phases if phase.name],
        course=course or Course(),
    )


def _storable(record: Record) -> Record:
    """Returns a record that the runner can decode. Counters of an invalid type make the point fail."""
    try:
        return msgspec.json.decode(msgspec.json.encode(record), type=Record)
    except (TypeError, ValueError) as error:
        reason = f"the measurement can't be stored: {describe(error)}"
        empty: dict[str, Any] = {"samples": [], "summary": None, "counters": {}, "buffers": [], "verified": None}
        return msgspec.structs.replace(record, status="failed", reason=reason, stopped_by="", verified_why="", **empty)
