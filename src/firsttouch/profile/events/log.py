"""Unified-memory events: which pages the driver moved or mapped, which faults it handled, and when.

docs/events.md says what each event means, what is counted, and what is not reported at all.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from firsttouch.profile.events.sums import KINDS, CauseSums, Course, EventKind, PhaseTotals, add_up, counters, shares
from firsttouch.records.schema import DeviceInfo, Record, Scalar, Struct, reason_in
from firsttouch.records.timeline import NamedInterval

VARIABLE = "FIRSTTOUCH_EVENTS"
"""The environment variable that requests events in a worker if it is '1'. WorkerRules of an experiment may set it."""

STATE = "um_events"
"""The counter of a record that says whether events were recorded: RECORDED, or NONE followed by the reason."""
RECORDED = "recorded"
MOST_LISTED = 1 << 19
"""The most events that a log holds one by one: a few hundred MiB. Totals have all of them."""
MOST_SENT = 20_000
"""The most events of one point that go into the trace. The point's totals count all of them."""


class MemoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """One record of the driver. start and end are seconds of time.monotonic(); they are equal if it has no duration.

    bytes: size of the region, 0 for faults. count: the number of page faults of a gpu_fault, otherwise 1. source,
    target: names of devices such as 'cpu' or 'cuda:0', several joined by '+', '' if the kind has none. cause: of a
    migration, one of _core.migration_causes(); of a fault, 'read', 'write', 'atomic' or 'prefetch'; of a remote map,
    'coherence', 'thrashing', 'policy', 'out_of_memory' or 'eviction'; '' if the driver does not state it. symbol: of a
    cpu_fault, the instruction that faulted.
    """

    kind: EventKind
    start: float
    end: float
    address: int = 0
    bytes: int = 0
    count: int = 1
    source: str = ""
    target: str = ""
    cause: str = ""
    symbol: str = ""


def totals(events: Iterable[MemoryEvent], kinds: Iterable[EventKind] = KINDS) -> dict[str, int]:
    """`add_up` of the events of a list."""
    return add_up((CauseSums(e.kind, e.cause, 1, e.bytes, e.count) for e in events), kinds)


@dataclass
class Window:
    """A span of time.monotonic() with its totals, and with the events that began in it, sorted by time. Both are added
    at its end.
    """

    start: float
    kinds: tuple[EventKind, ...] = KINDS
    """The kinds that the driver records. Nothing is known about other kinds."""
    end: float = 0.0
    phases: Sequence[PhaseTotals] = ()
    """The totals of all events, in the order of time."""
    events: list[MemoryEvent] = field(default_factory=list)
    unlisted: int = 0
    """The number of events that are in the totals and not in `events`, because there were too many."""
    dropped: int = 0
    """The number of records lost in the window because there was no room for them. They are in no total."""

    def totals(self) -> dict[str, Scalar]:
        """The counters of sums.counters, and um_dropped if records were lost."""
        return counters(self.phases, self.kinds) | ({"um_dropped": self.dropped} if self.dropped else {})

    def shares(self, phase: str) -> dict[str, float]:
        """The time of the phases of that name, divided by what the driver did, as sums.shares does."""
        return shares((p for p in self.phases if p.name == phase), self.kinds)


class Span(Struct):
    """What a worker sends of one point: when it was measured, its events, its named phases, and the events over time.

    phases: name, start and end, in seconds of time.monotonic(). left_out: the number of events that are not sent.
    course: of the last window; of the whole point if there was none.
    """

    start: float
    end: float
    events: list[MemoryEvent]
    left_out: int = 0
    phases: list[NamedInterval] = []
    course: Course = Course()


class Source(Protocol):
    """Where events and their totals come from."""

    def take(self) -> list[MemoryEvent]:
        """Returns the events since the last call, up to a limit. Work on the device must have ended before the call."""

    def unlisted(self) -> int:
        """Returns the number of events since the last call that are in the totals, and that `take` did not return."""

    def dropped(self) -> int:
        """Returns the number of records lost since the last call."""

    def restart(self) -> None:
        """Forgets all totals."""

    def mark(self, phase: str, restart_course: bool) -> int:
        """Begins a phase and returns its index since `restart`."""

    def phases(self) -> list[PhaseTotals]:
        """Returns the totals by phase since `restart`, of the events up to the last `take`."""

    def course(self) -> Course:
        """Returns the events over time, since a mark restarted it."""


class EventLog:
    """The events of this process since recording began or `forget` was called. Windows may be nested."""

    def __init__(self, source: Source, kinds: Iterable[EventKind] = KINDS) -> None:
        self.kinds = tuple(kinds)
        self.course: Course | None = None
        """The events over time in the last window that was not inside another one."""
        self._source = source
        self._events: list[MemoryEvent] = []
        self._unlisted = self._dropped = 0
        self._phase, self._open = "", 0

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Collects the events of the `with` block, which must wait for the work that it starts on the device. The
        window does not include the time of flushing.
        """
        self._flush()
        dropped, unlisted = self._dropped, self._unlisted
        first = self._source.mark(self._phase, not self._open)
        window = Window(time.monotonic(), self.kinds)
        self._open += 1
        try:
            yield window
        finally:
            self._open -= 1
            window.end = time.monotonic()
            last = self._source.mark(self._phase, False)
            self._fill(window, window.start, window.end)
            window.phases = self._source.phases()[first:last]
            window.dropped -= dropped
            window.unlisted -= unlisted
            if not self._open:
                self.course = self._source.course()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Gives the time of the `with` block a name, by which totals are kept."""
        before, self._phase = self._phase, name
        self._source.mark(name, False)
        try:
            yield
        finally:
            self._phase = before
            self._source.mark(before, False)

    def cut(self, start: float, end: float) -> Window:
        """The events and the totals since the last `forget`, of a point measured between two times. No event is
        left out for its time: on a busy machine the two clocks may be read so far apart that it seems to be outside.
        """
        window = Window(start, self.kinds, end)
        self._fill(window)
        window.phases = self._source.phases()
        if self.course is None:
            self.course = self._source.course()
        return window

    def forget(self) -> None:
        """Discards all events, so that they do not accumulate. A worker calls this before each point."""
        self._flush()
        self._events.clear()
        self._source.restart()
        self._unlisted = self._dropped = 0
        self.course = None

    def _fill(self, window: Window, start: float = -math.inf, end: float = math.inf) -> None:
        """Adds the events that began between two times."""
        self._flush()
        window.dropped, window.unlisted = self._dropped, self._unlisted
        within = (e for e in self._events if start <= e.start <= end)
        window.events = sorted(within, key=lambda e: e.start)

    def _flush(self) -> None:
        new_events, room = self._source.take(), MOST_LISTED - len(self._events)
        self._events += new_events[:room]
        self._unlisted += self._source.unlisted() + max(0, len(new_events) - room)
        self._dropped += self._source.dropped()


class _DriverSource:
    """The events that the driver records, read through the core."""

    def take(self) -> list[MemoryEvent]:
        from firsttouch import _core

        return msgspec.convert(_core.events_take(), list[MemoryEvent])

    def dropped(self) -> int:
        from firsttouch import _core

        return _core.events_dropped()

    def unlisted(self) -> int:
        from firsttouch import _core

        return _core.events_unlisted()

    def restart(self) -> None:
        from firsttouch import _core

        _core.events_restart()

    def mark(self, phase: str, restart_course: bool) -> int:
        from firsttouch import _core

        return _core.events_mark(phase, restart_course)

    def phases(self) -> list[PhaseTotals]:
        from firsttouch import _core

        return msgspec.convert(_core.events_phases(), list[PhaseTotals])

    def course(self) -> Course:
        from firsttouch import _core

        return msgspec.convert(_core.events_course(), Course)


def are_requested() -> bool:
    """True if this process is to record events."""
    return os.environ.get(VARIABLE) == "1"


def why_not_offered(device: DeviceInfo) -> str:
    """Returns why events of this device cannot be recorded, or '' if they can."""
    offered = device.capabilities.memory_events
    return "" if offered else f"no unified-memory events are offered for {device.name}"


def why_none(record: Record) -> str | None:
    """Why a point for which events were requested has none; None for other points."""
    return reason_in(record.counters.get(STATE))


def start(device: DeviceInfo) -> tuple[EventLog | None, str]:
    """Starts recording, before the device is opened. Returns the log, or None and the reason.

    The order is that of the vendor's sample: initialise the driver, then enable events, then create the first context.
    """
    from firsttouch import _core
    from firsttouch.machine.devices import show_libraries

    if not are_requested():
        return None, ""
    if reason := why_not_offered(device):
        return None, reason
    show_libraries()
    try:
        _core.count_devices(device.kind)  # initialises the driver
        kinds = msgspec.convert(_core.events_start(), list[EventKind])
    except (_core.Unavailable, _core.VendorError) as error:
        return None, " ".join(str(error).split())
    return EventLog(_DriverSource(), kinds), ""
