"""How a worker measures one point, and fills in its record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from firsttouch.base.errors import Unsupported
from firsttouch.engine.filling import blank_record, failures_recorded, fill
from firsttouch.engine.job import Job
from firsttouch.engine.predicting import predict_point
from firsttouch.machine.numa import node_number
from firsttouch.machine.parties import node_parties, parties, rank_party
from firsttouch.machine.processor_time import ProcessorUse, shortest_period, use_now
from firsttouch.machine.switches import optimistic_device
from firsttouch.profile.events import log as events
from firsttouch.profile.events.log import Span
from firsttouch.profile.events.sums import Course
from firsttouch.records.schema import (
    NODE,
    NONE,
    PEER,
    AllocatorInfo,
    Clocks,
    DeviceCapabilities,
    DeviceInfo,
    Party,
    Record,
    Scalar,
)
from firsttouch.records.trust import fill_in_from, sources, without_verified_facts
from firsttouch.workers.protocol import Pipe, Reply, one_line

if TYPE_CHECKING:
    from firsttouch.experiments.contract.base import Experiment
    from firsttouch.workers.session import OpenDevices, Session

_POINTS_TOGETHER = 64
"""At most this many short points are taken together to tell what other programs used."""


class JobHandler:
    """Measures the points of one group, on devices that stay open.

    find: returns the experiment of a job. Raises UsageError if there is none.
    """

    def __init__(self, find: Callable[[Job], Experiment]) -> None:
        self._find = find
        self._opened: OpenDevices | None = None
        self._uses: list[ProcessorUse] = []
        self._note_use()  # for the first point, if it is short

    def __call__(self, job: Job, pipe: Pipe) -> Reply:
        """Measures one point of any experiment."""
        if job.info.modelled is not None:
            return predict_point(self._find, job)
        record = blank_record(job.planned, "ok")
        record.parties = _parties(job)
        reply = Reply(state="done", record=record)
        with failures_recorded(record):
            experiment = self._find(job)
            opened = self._open_devices_for(job, pipe)
            opens_itself = _opens_device_itself(experiment)
            record.clocks_before = _clocks(opened, opens_itself)
            session = _session(
                job, opened, job.info if opens_itself else _device_as_stated(experiment, job, opened), record
            )
            record.stated_by = _facts_source(experiment, job, session.info)
            opened.forget_events()
            self._note_use()
            started = time.monotonic()
            try:
                measurement = experiment.measure(job.point, session)
            finally:
                ended = time.monotonic()
                record.seconds = ended - started
            reply.use = self._processor_use()
            record.clocks_after = _clocks(opened, opens_itself)
            if session.party is not None:
                session.party.clocks_before, session.party.clocks_after = record.clocks_before, record.clocks_after
            record.throttled = _was_throttled(record.clocks_before, record.clocks_after)
            fill(record, measurement, follows=job.rank > 0)
            reply.outputs = [*measurement.outputs] if measurement.verified else []
            reply.phases = [(str(name), float(start), float(end)) for name, start, end in measurement.phases]
            if events.are_requested():
                reply.span = _add_events(record, session, started, ended)
        return reply

    def _note_use(self) -> None:
        """Notes what was used of the processors before a point."""
        if (now := use_now()) is not None:
            alike = [use for use in self._uses if use.processors == now.processors]
            self._uses = [*alike[-_POINTS_TOGETHER:], now]

    def _processor_use(self) -> ProcessorUse | None:
        """What was used during a point; if it was shorter than the kernel's counts can tell, with points before it."""
        after = use_now()
        before = [use for use in self._uses if after is not None and use.processors == after.processors]
        if after is None or not before:
            return None
        latest = after.seconds - shortest_period(after.processors)
        return after.since(next((use for use in reversed(before) if use.seconds <= latest), before[0]))

    def _open_devices_for(self, job: Job, pipe: Pipe) -> OpenDevices:
        """What is open already, unless that is of another device. Tells the runner when a device is opened, because a
        driver may hang or crash then.
        """
        from firsttouch.workers.session import OpenDevices

        if self._opened is None or self._opened.info.name != job.info.name:
            self._opened = OpenDevices(job.info, pipe.opening, pipe.share)
        return self._opened


def _session(job: Job, opened: OpenDevices, info: DeviceInfo, record: Record) -> Session:
    """info: the device with what its driver states in this process."""
    from firsttouch.workers.session import Session

    planned = job.planned
    return Session(
        info,
        planned.seed,
        planned.seconds,
        planned.tolerance,
        planned.preset,
        peers={device.name: device for device in planned.peers},
        limit=planned.limit,
        counted=job.counted,
        outputs=job.outputs,
        rank=job.rank,
        ranks=max(1, len(planned.ranks)),
        party=record.parties[0] if planned.ranks else None,
        opened=opened,
    )


def _clocks(opened: OpenDevices, opens_itself: bool) -> Clocks | None:
    """The current clocks, or None if only the experiment may open the device and has not done so."""
    if opens_itself and not opened.is_open:
        return None
    clocks = opened.device.clocks()
    return None if clocks is None else msgspec.convert(clocks, Clocks)


def _parties(job: Job) -> list[Party]:
    """The devices, or the NUMA nodes, of a point in which several take part; of a rank itself alone."""
    planned = job.planned
    numbers = (node_number(str(planned.point.factors.get(name, ""))) for name in (NODE, PEER))
    named = [node for node in numbers if node is not None]
    if planned.ranks:
        return [rank_party(planned.ranks, job.rank, (named[0], named[-1]) if named else ())]
    if planned.peers:
        return parties([planned.info, *planned.peers])
    return node_parties(planned.info, dict.fromkeys(named))


def _opens_device_itself(experiment: Experiment) -> bool:
    """True if the device must not be opened before the experiment does so, which may time the opening."""
    return experiment.worker.fresh or not experiment.worker.opens_device


def _device_as_stated(experiment: Experiment, job: Job, opened: OpenDevices) -> DeviceInfo:
    """The device with what its driver states in this process. With other environment variables, that may differ from
    what it stated at discovery.

    Raises:
        Unsupported: the point cannot be measured with it.
    """
    factors = job.point.factors
    stated = msgspec.convert(opened.device.allocators(), list[AllocatorInfo])
    info = msgspec.structs.replace(
        job.info,
        capabilities=msgspec.convert(opened.device.capabilities(), DeviceCapabilities),
        allocators=fill_in_from(stated, optimistic_device(job.info, factors)),
    )
    if job.rank == 0 and (reason := experiment.skip(factors, info)):
        raise Unsupported(reason)
    return info


def _facts_source(experiment: Experiment, job: Job, device: DeviceInfo) -> str:
    """The source of the verified facts that make the point possible, or '' if what the driver states suffices."""
    stated = without_verified_facts(device)
    if stated is device or not experiment.skip(job.point.factors, stated):
        return ""
    return f"verified {', '.join(sources(device))}"


def _was_throttled(*clocks: Clocks | None) -> bool | None:
    known_clocks = [c for c in clocks if c is not None]
    return any(c.throttle for c in known_clocks) if known_clocks else None


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
        record.counters.setdefault(events.STATE, NONE + reason)
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
