"""Unified-memory events beside the times: what the driver moved, mapped and faulted, and when.

docs/events.md says what each event means, what it counts and what is not reported at all.
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

from firsttouch.records.schema import DeviceInfo, Struct

VARIABLE = "FIRSTTOUCH_EVENTS"
"""The environment variable of a worker that asks for events: '1' for yes. An experiment's environment() may set it."""

STATE = "um_events"
"""The counter of a record that says whether events were recorded: RECORDED, or NONE and the sentence why not."""
RECORDED, NONE = "recorded", "none: "
MOST_SENT = 20_000
"""Events of one point that go into the trace; its totals count all."""

Kind: TypeAlias = Literal["h2d", "d2h", "d2d", "cpu_fault", "gpu_fault", "thrashing", "throttling", "remote_map"]
MOVES: tuple[Kind, ...] = ("h2d", "d2h", "d2d")
"""Kinds that move bytes: host to device, device to host, device to device."""
CAUSES = ("prefetch", "fault", "speculative", "eviction", "access_counter")
"""Why bytes moved: a prefetch call, a fault, the driver's own guess beside a fault, to make room, to be nearer."""


class MemoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """One record of the driver. start and end are seconds of time.monotonic(); end is start where it has no duration.

    bytes: of the region, 0 for faults. count: page faults that a gpu_fault stands for, else 1. source, target: names of
    devices such as 'cpu' or 'cuda:0', several joined by '+', '' where the kind has none. cause: of a migration one of
    CAUSES; of a fault 'read', 'write', 'atomic' or 'prefetch'; of a remote map 'coherence', 'thrashing', 'policy',
    'out_of_memory' or 'eviction'; '' where the driver does not say. symbol: of a cpu_fault, the faulting instruction.
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
"""The counter of each kind's records."""
KINDS = tuple(_RECORDS)


def _counted(event: MemoryEvent) -> dict[str, int]:
    """What one event adds to which counter."""
    kind, found = event.kind, {_RECORDS[event.kind]: 1}
    if kind in MOVES:
        found |= {f"um_{kind}_bytes": event.bytes, f"um_{kind}_{event.cause or 'unknown'}_bytes": event.bytes}
    elif kind == "gpu_fault":
        found["um_gpu_faults"] = event.count
    elif kind == "remote_map":
        found["um_remote_map_bytes"] = event.bytes
    return found


def totals(events: Iterable[MemoryEvent], kinds: Iterable[Kind] = KINDS) -> dict[str, int]:
    """Sums over `events` as counters of a record, whole numbers; nothing of a kind that is not among `kinds`.

    For h2d and d2h alike: um_h2d_migrations, um_h2d_bytes, um_h2d_CAUSE_bytes for each of CAUSES. um_gpu_fault_groups
    are records, um_gpu_faults the faults in them. um_cpu_faults, um_thrashing, um_throttling, um_remote_maps are
    records; um_remote_map_bytes. Of d2d, and of an unknown cause, only what is not zero.
    """
    kinds = tuple(kinds)
    shapes = (MemoryEvent(kind, 0, 0, cause=cause) for kind in kinds if kind != "d2d" for cause in CAUSES)
    sums: dict[str, int] = defaultdict(int, {name: 0 for shape in shapes for name in _counted(shape)})
    for event in events:
        if event.kind in kinds:
            for name, value in _counted(event).items():
                sums[name] += value
    return {**sums}


@dataclass
class Window:
    """A span of time.monotonic() with the events that began in it, in order of time; filled in when it ends."""

    start: float
    kinds: tuple[Kind, ...] = KINDS
    """What the driver records here. Of other kinds nothing is known."""
    end: float = 0.0
    events: list[MemoryEvent] = field(default_factory=list)
    dropped: int = 0
    """Records that were lost in the meantime, because there was no room for them."""

    def totals(self) -> dict[str, int]:
        """The counters of `totals`, with um_dropped where records were lost."""
        return totals(self.events, self.kinds) | ({"um_dropped": self.dropped} if self.dropped else {})


class Span(Struct):
    """What a worker hands over of one point: when it was measured, and its events, left_out of them not among these."""

    start: float
    end: float
    events: list[MemoryEvent]
    left_out: int = 0


class Source(Protocol):
    """Where events come from."""

    def take(self) -> list[MemoryEvent]:
        """Everything that was recorded since the last call. Work on the device must have ended before."""

    def dropped(self) -> int:
        """Records lost since the last call."""


class EventLog:
    """The events of this process while recording, kept until they are forgotten. Windows may lie within windows."""

    def __init__(self, source: Source, kinds: Iterable[Kind] = KINDS) -> None:
        self.kinds = tuple(kinds)
        self._source = source
        self._held: list[MemoryEvent] = []
        self._dropped = 0

    @contextmanager
    def window(self) -> Iterator[Window]:
        """The events of the block, which must wait for what it started on the device. Flushing is outside its span."""
        self._flush()
        dropped, window = self._dropped, Window(time.monotonic(), self.kinds)
        try:
            yield window
        finally:
            window.end = time.monotonic()
            self._fill(window)
            window.dropped -= dropped

    def cut(self, start: float, end: float) -> Window:
        """The events between two moments since the last `forget`."""
        window = Window(start, self.kinds, end)
        self._fill(window)
        return window

    def forget(self) -> None:
        """Drop what is held, so that it does not grow without end. A worker does so before each point."""
        self._flush()
        self._held.clear()
        self._dropped = 0

    def _fill(self, window: Window) -> None:
        self._flush()
        window.dropped = self._dropped
        within = (e for e in self._held if window.start <= e.start <= window.end)
        window.events = sorted(within, key=lambda e: e.start)

    def _flush(self) -> None:
        self._held += self._source.take()
        self._dropped += self._source.dropped()


class _Driver:
    """The driver's own records, through the core."""

    def take(self) -> list[MemoryEvent]:
        from firsttouch import _core

        return msgspec.convert(_core.events_take(), list[MemoryEvent])

    def dropped(self) -> int:
        from firsttouch import _core

        return _core.events_dropped()


def asked() -> bool:
    """Whether this process is to record events."""
    return os.environ.get(VARIABLE) == "1"


def not_offered(device: DeviceInfo) -> str:
    """Why no driver tells of this device's events; '' where one does."""
    offered = device.capabilities.memory_events
    return "" if offered else f"no unified-memory events are offered for {device.name}"


def start(device: DeviceInfo) -> tuple[EventLog | None, str]:
    """Begin to record, before the device is opened: the log, or None and the sentence why not.

    In the order of the vendor's own sample: the driver is initialised, then events, then comes the first context.
    """
    from firsttouch import _core
    from firsttouch.machine.devices import show_libraries

    if not asked():
        return None, ""
    if reason := not_offered(device):
        return None, reason
    show_libraries()
    try:
        _core.count_devices(device.kind)  # initialises the driver
        kinds = msgspec.convert(_core.events_start(), list[Kind])
    except (_core.Unavailable, _core.VendorError) as error:
        return None, " ".join(str(error).split())
    return EventLog(_Driver(), kinds), ""
