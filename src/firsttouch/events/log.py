"""Unified-memory events: which pages the driver moved or mapped, which faults it handled, and when.

docs/events.md says what each event means, what is counted, and what is not reported at all.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import msgspec

from firsttouch.records.schema import DeviceInfo, Record, Struct

VARIABLE = "FIRSTTOUCH_EVENTS"
"""The environment variable that requests events in a worker if it is '1'. An experiment's environment() may set it."""

STATE = "um_events"
"""The counter of a record that says whether events were recorded: RECORDED, or NONE followed by the reason."""
RECORDED, NONE = "recorded", "none: "
MOST_SENT = 20_000
"""The most events of one point that go into the trace. The point's totals count all of them."""

Kind: TypeAlias = Literal["h2d", "d2h", "d2d", "cpu_fault", "gpu_fault", "thrashing", "throttling", "remote_map"]
MOVES: tuple[Kind, ...] = ("h2d", "d2h", "d2d")
"""Kinds that move bytes: host to device, device to host, device to device."""
CAUSES = ("prefetch", "fault", "speculative", "eviction", "access_counter")
"""Why bytes moved: a prefetch call; a fault; the driver's prefetching around a fault; freeing memory; moving pages that
one side often accesses remotely.
"""


class MemoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """One record of the driver. start and end are seconds of time.monotonic(); they are equal if it has no duration.

    bytes: size of the region, 0 for faults. count: the number of page faults of a gpu_fault, otherwise 1. source,
    target: names of devices such as 'cpu' or 'cuda:0', several joined by '+', '' if the kind has none. cause: of a
    migration, one of CAUSES; of a fault, 'read', 'write', 'atomic' or 'prefetch'; of a remote map, 'coherence',
    'thrashing', 'policy', 'out_of_memory' or 'eviction'; '' if the driver does not state it. symbol: of a cpu_fault,
    the instruction that faulted.
    """

    kind: Kind
    start: float
    end: float
    address: int = 0
    bytes: int = 0
    count: int = 1
    source: str = ""
    target: str = ""
    cause: str = ""
    symbol: str = ""


_RECORDS: dict[Kind, str] = {
    **{way: f"um_{way}_migrations" for way in MOVES},
    "gpu_fault": "um_gpu_fault_groups",
    "cpu_fault": "um_cpu_faults",
    "thrashing": "um_thrashing",
    "throttling": "um_throttling",
    "remote_map": "um_remote_maps",
}
"""The counter that holds the number of records, by kind."""
KINDS = tuple(_RECORDS)


def _increments(event: MemoryEvent) -> dict[str, int]:
    """What one event adds to each counter."""
    kind, added = event.kind, {_RECORDS[event.kind]: 1}
    if kind in MOVES:
        added |= {f"um_{kind}_bytes": event.bytes, f"um_{kind}_{event.cause or 'unknown'}_bytes": event.bytes}
    elif kind == "gpu_fault":
        added["um_gpu_faults"] = event.count
    elif kind == "remote_map":
        added["um_remote_map_bytes"] = event.bytes
    return added


def totals(events: Iterable[MemoryEvent], kinds: Iterable[Kind] = KINDS) -> dict[str, int]:
    """Sums over the events of `kinds`, as counters of a record. All are whole numbers.

    For h2d and d2h: um_h2d_migrations, um_h2d_bytes, and um_h2d_CAUSE_bytes for each of CAUSES. um_gpu_fault_groups
    counts records, um_gpu_faults the faults in them. um_cpu_faults, um_thrashing, um_throttling and um_remote_maps
    count records; um_remote_map_bytes is a sum of bytes. Counters of d2d and of unknown causes are left out if zero.
    """
    kinds = tuple(kinds)
    examples = (MemoryEvent(kind, 0, 0, cause=cause) for kind in kinds if kind != "d2d" for cause in CAUSES)
    sums: dict[str, int] = defaultdict(int, {name: 0 for example in examples for name in _increments(example)})
    for event in events:
        if event.kind in kinds:
            for name, value in _increments(event).items():
                sums[name] += value
    return {**sums}


@dataclass
class Window:
    """A span of time.monotonic() with the events that began in it, sorted by time. Its events are added at its end."""

    start: float
    kinds: tuple[Kind, ...] = KINDS
    """The kinds that the driver records. Nothing is known about other kinds."""
    end: float = 0.0
    events: list[MemoryEvent] = field(default_factory=list)
    dropped: int = 0
    """The number of records lost in the window because there was no room for them."""

    def totals(self) -> dict[str, int]:
        """The counters of `totals`, and um_dropped if records were lost."""
        return totals(self.events, self.kinds) | ({"um_dropped": self.dropped} if self.dropped else {})


class Span(Struct):
    """What a worker sends of one point: when it was measured, and its events.

    left_out: the number of events of the point that are not sent.
    """

    start: float
    end: float
    events: list[MemoryEvent]
    left_out: int = 0


class Source(Protocol):
    """Where events come from."""

    def take(self) -> list[MemoryEvent]:
        """Returns the events recorded since the last call. Work on the device must have ended before the call."""

    def dropped(self) -> int:
        """Returns the number of records lost since the last call."""


class EventLog:
    """The events of this process since recording began or `forget` was called. Windows may be nested."""

    def __init__(self, source: Source, kinds: Iterable[Kind] = KINDS) -> None:
        self.kinds = tuple(kinds)
        self._source = source
        self._events: list[MemoryEvent] = []
        self._dropped = 0

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Collects the events of the `with` block, which must wait for the work that it starts on the device. The
        window does not include the time of flushing.
        """
        self._flush()
        dropped, window = self._dropped, Window(time.monotonic(), self.kinds)
        try:
            yield window
        finally:
            window.end = time.monotonic()
            self._fill(window)
            window.dropped -= dropped

    def cut(self, start: float, end: float) -> Window:
        """The events between two times, both after the last `forget`."""
        window = Window(start, self.kinds, end)
        self._fill(window)
        return window

    def forget(self) -> None:
        """Discards all events, so that they do not accumulate. A worker calls this before each point."""
        self._flush()
        self._events.clear()
        self._dropped = 0

    def _fill(self, window: Window) -> None:
        self._flush()
        window.dropped = self._dropped
        within = (e for e in self._events if window.start <= e.start <= window.end)
        window.events = sorted(within, key=lambda e: e.start)

    def _flush(self) -> None:
        self._events += self._source.take()
        self._dropped += self._source.dropped()


class _DriverSource:
    """The events that the driver records, read through the core."""

    def take(self) -> list[MemoryEvent]:
        from firsttouch import _core

        return msgspec.convert(_core.events_take(), list[MemoryEvent])

    def dropped(self) -> int:
        from firsttouch import _core

        return _core.events_dropped()


def are_requested() -> bool:
    """True if this process is to record events."""
    return os.environ.get(VARIABLE) == "1"


def why_not_offered(device: DeviceInfo) -> str:
    """Returns why events of this device cannot be recorded, or '' if they can."""
    offered = device.capabilities.memory_events
    return "" if offered else f"no unified-memory events are offered for {device.name}"


def why_none(record: Record) -> str | None:
    """Why a point for which events were requested has none; None for other points."""
    state = record.counters.get(STATE)
    return state.removeprefix(NONE) if isinstance(state, str) and state.startswith(NONE) else None


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
        kinds = msgspec.convert(_core.events_start(), list[Kind])
    except (_core.Unavailable, _core.VendorError) as error:
        return None, " ".join(str(error).split())
    return EventLog(_DriverSource(), kinds), ""
