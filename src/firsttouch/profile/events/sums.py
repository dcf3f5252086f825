"""Totals of unified-memory events as the recorder keeps them: by phase, kind and cause, and over time.

They count every event, however many there are. The recorder is native/events/totals.hpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

from firsttouch.records.schema import Scalar

EventKind: TypeAlias = Literal["h2d", "d2h", "d2d", "cpu_fault", "gpu_fault", "thrashing", "throttling", "remote_map"]
MOVES: tuple[EventKind, ...] = ("h2d", "d2h", "d2d")
"""Kinds that move bytes: host to device, device to host, device to device."""
_RECORDS: dict[EventKind, str] = {
    **{way: f"um_{way}_migrations" for way in MOVES},
    "gpu_fault": "um_gpu_fault_groups",
    "cpu_fault": "um_cpu_faults",
    "thrashing": "um_thrashing",
    "throttling": "um_throttling",
    "remote_map": "um_remote_maps",
}
"""The counter that holds the number of records, by kind."""
KINDS = tuple(_RECORDS)
TIMED: tuple[EventKind, ...] = ("h2d", "d2h", "gpu_fault", "d2d", "throttling")
"""Kinds with durations."""
_EVERYWHERE: tuple[EventKind, ...] = ("h2d", "d2h", "gpu_fault")
"""Kinds whose times are counters even if they are zero."""


class CauseSums(msgspec.Struct, frozen=True, array_like=True):
    """The events of one kind and cause that began in a phase. busy_ns: within the phase, events that overlap once."""

    kind: EventKind
    cause: str
    count: int
    bytes: int = 0
    faults: int = 0
    sum_ns: int = 0
    busy_ns: int = 0


class Busy(msgspec.Struct, frozen=True, array_like=True):
    """The time within a phase in which at least one event of a kind lasted. It may be longer by uncertain_ns."""

    kind: EventKind
    busy_ns: int
    uncertain_ns: int = 0


class PhaseTotals(msgspec.Struct, frozen=True, array_like=True):
    """The totals of the time between two marks. start is in seconds of time.monotonic().

    The last three divide the phase: time with a copy to the device, otherwise with one to the host, otherwise with a
    GPU fault.
    """

    name: str
    start: float
    ns: int
    causes: list[CauseSums] = []
    kinds: list[Busy] = []
    to_device_ns: int = 0
    to_host_ns: int = 0
    fault_ns: int = 0


class CourseRow(msgspec.Struct, frozen=True, array_like=True):
    """One kind and cause over time. Number and bytes of events are in the bin in which they end."""

    kind: EventKind
    cause: str
    counts: list[int]
    bytes: list[int]
    busy_ns: list[int]


class Course(msgspec.Struct, frozen=True, array_like=True):
    """Events over time, in at most 1024 bins of equal width. start is in seconds of time.monotonic()."""

    start: float = 0.0
    bin_ns: int = 1
    rows: list[CourseRow] = []

    def sums(self, kind: EventKind, column: Literal["counts", "bytes", "busy_ns"]) -> list[tuple[float, int]]:
        """The sum so far, for all causes of a kind together: pairs of the end of a bin and the sum, where it grows."""
        columns = [getattr(row, column) for row in self.rows if row.kind == kind]
        totals = [sum(values) for values in zip(*columns, strict=True)]
        ends = (self.start + (i + 1) * self.bin_ns * 1e-9 for i in range(len(totals)))
        return [(end, total) for end, v, total in zip(ends, totals, accumulate(totals), strict=True) if v]


def added(kind: EventKind, cause: str, *, count: int = 1, bytes: int = 0, faults: int = 0) -> dict[str, int]:
    """What events of one kind and cause add to each counter of a record."""
    sums = {_RECORDS[kind]: count}
    if kind in MOVES:
        sums |= {f"um_{kind}_bytes": bytes, f"um_{kind}_{cause or 'unknown'}_bytes": bytes}
    elif kind == "gpu_fault":
        sums["um_gpu_faults"] = faults
    elif kind == "remote_map":
        sums["um_remote_map_bytes"] = bytes
    return sums


def add_up(rows: Iterable[CauseSums], kinds: Iterable[EventKind] = KINDS) -> dict[str, int]:
    """Sums over events of `kinds`, as counters of a record. All are whole numbers.

    For h2d and d2h: um_h2d_migrations, um_h2d_bytes, and um_h2d_CAUSE_bytes for each cause that the driver may state.
    um_gpu_fault_groups counts records, um_gpu_faults the faults in them. um_cpu_faults, um_thrashing, um_throttling
    and um_remote_maps count records; um_remote_map_bytes is a sum of bytes. Counters of d2d and of unknown causes are
    left out if zero.
    """
    from firsttouch._core import migration_causes

    kinds = tuple(kinds)
    examples = (added(kind, cause) for kind in kinds if kind != "d2d" for cause in migration_causes())
    sums: dict[str, int] = defaultdict(int, {name: 0 for example in examples for name in example})
    for row in rows:
        if row.kind in kinds:
            for name, value in added(row.kind, row.cause, count=row.count, bytes=row.bytes, faults=row.faults).items():
                sums[name] += value
    return {**sums}


def counters(phases: Sequence[PhaseTotals], kinds: Iterable[EventKind] = KINDS) -> dict[str, Scalar]:
    """The counters of `add_up`, and times in ms: um_h2d_ms, in which at least one copy lasted, and um_h2d_sum_ms, the
    durations of all copies added up; the same for d2h and gpu_fault, and for d2d and throttling if they occurred.
    um_uncertain_ms, if not zero, is by how much such a time may be too short.
    """
    kinds = tuple(kinds)
    counters: dict[str, Scalar] = {**add_up((row for phase in phases for row in phase.causes), kinds)}
    uncertain = 0
    for kind in (kind for kind in TIMED if kind in kinds):
        summed = sum(row.sum_ns for phase in phases for row in phase.causes if row.kind == kind)
        busy = [busy_time for phase in phases for busy_time in phase.kinds if busy_time.kind == kind]
        if summed or kind in _EVERYWHERE:
            counters |= {
                f"um_{kind}_ms": sum(busy_time.busy_ns for busy_time in busy) / 1e6,
                f"um_{kind}_sum_ms": summed / 1e6,
            }
        uncertain = max(uncertain, sum(busy_time.uncertain_ns for busy_time in busy))
    return counters | ({"um_uncertain_ms": uncertain / 1e6} if uncertain else {})


def shares(phases: Iterable[PhaseTotals], kinds: Iterable[EventKind] = KINDS) -> dict[str, float]:
    """The time of phases in ms, divided by what the driver did: nothing_recorded, gpu_faults, to_device, to_host. The
    parts add up to the time of the phases. Empty if one of these kinds is not recorded.
    """
    if not set(_EVERYWHERE) <= set(kinds):
        return {}
    parts = dict.fromkeys(("nothing_recorded", "gpu_faults", "to_device", "to_host"), 0.0)
    for phase in phases:
        busy = {"gpu_faults": phase.fault_ns, "to_device": phase.to_device_ns, "to_host": phase.to_host_ns}
        for name, ns in {"nothing_recorded": phase.ns - sum(busy.values()), **busy}.items():
            parts[name] += ns / 1e6
    return parts
