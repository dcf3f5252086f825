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

from firsttouch.schema import DeviceInfo, Scalar

VARIABLE = "FIRSTTOUCH_EVENTS"
"""The environment variable of a worker that asks for events: '1' for yes. An experiment's environment() may set it."""

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


_ALWAYS = (
    *(
        f"um_{way}_{what}"
        for way in ("h2d", "d2h")
        for what in ("bytes", *(f"{c}_bytes" for c in CAUSES), "migrations")
    ),
    *("um_gpu_fault_groups", "um_gpu_faults", "um_cpu_faults", "um_thrashing", "um_throttling"),
    *("um_remote_maps", "um_remote_map_bytes"),
)


def totals(events: Iterable[MemoryEvent]) -> dict[str, Scalar]:
    """Sums over `events` as counters of a record, all whole numbers.

    Always there, for h2d and d2h alike: um_h2d_bytes, um_h2d_CAUSE_bytes for each of CAUSES, um_h2d_migrations; then
    um_gpu_fault_groups (records) and um_gpu_faults (faults in them), um_cpu_faults, um_thrashing, um_throttling,
    um_remote_maps and um_remote_map_bytes. um_d2d_... and um_..._unknown_bytes are there where not zero.
    """
    sums: dict[str, int] = defaultdict(int, dict.fromkeys(_ALWAYS, 0))
    for event in events:
        if event.kind in MOVES:
            sums[f"um_{event.kind}_bytes"] += event.bytes
            sums[f"um_{event.kind}_{event.cause or 'unknown'}_bytes"] += event.bytes
            sums[f"um_{event.kind}_migrations"] += 1
        elif event.kind == "gpu_fault":
            sums["um_gpu_fault_groups"] += 1
            sums["um_gpu_faults"] += event.count
        elif event.kind == "remote_map":
            sums["um_remote_maps"] += 1
            sums["um_remote_map_bytes"] += event.bytes
        else:
            sums["um_cpu_faults" if event.kind == "cpu_fault" else f"um_{event.kind}"] += 1
    return {**sums}


@dataclass
class Window:
    """A span of time.monotonic() with the events that began in it, in order of time, filled in when it ends."""

    start: float
    end: float = 0.0
    events: list[MemoryEvent] = field(default_factory=list)
    dropped: int = 0
    """Records that were lost in the meantime, because there was no room for them."""


class Source(Protocol):
    """Where events come from."""

    def take(self) -> list[MemoryEvent]:
        """Everything that was recorded since the last call. Work on the device must have ended before."""

    def dropped(self) -> int:
        """Records lost since the last call."""


class EventLog:
    """The events of this process while recording. Windows may lie within windows."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._held: list[MemoryEvent] = []
        self._dropped = 0
        self._open = 0

    @contextmanager
    def window(self) -> Iterator[Window]:
        """The events of the block, which must wait for what it started on the device. Flushing is outside its span."""
        self._flush()
        if not self._open:
            self._held.clear()
        self._open += 1
        window, dropped = Window(time.monotonic()), self._dropped
        try:
            yield window
        finally:
            window.end = time.monotonic()
            self._open -= 1
            self._flush()
            window.dropped = self._dropped - dropped
            within = (e for e in self._held if window.start <= e.start <= window.end)
            window.events = sorted(within, key=lambda e: e.start)

    def _flush(self) -> None:
        self._held += self._source.take()
        self._dropped += self._source.dropped()


def asked() -> bool:
    """Whether this process is to record events."""
    return os.environ.get(VARIABLE) == "1"


def start(device: DeviceInfo) -> tuple[EventLog | None, str]:
    """Begin to record on an open device: the log, or None and the sentence why not. Measuring goes on either way."""
    if not asked():
        return None, ""
    return None, f"no unified-memory events are offered for {device.name}"
