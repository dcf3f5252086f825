"""Unified-memory events in the report: one row of totals per point with events, and why other points have none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.profile.events.log import RECORDED, STATE
from firsttouch.profile.events.unseen import WAYS, is_complete, percent, unseen
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import value, varying
from firsttouch.records.text import distinguishing_factors, label, quantity

_COUNTS = {
    "um_gpu_fault_groups": "GPU fault groups",
    "um_gpu_faults": "GPU faults",
    "um_cpu_faults": "CPU faults",
    "um_thrashing": "thrashing",
    "um_throttling": "throttling",
    "um_remote_maps": "remote maps",
    "um_dropped": "records lost",
}
_TIMES = {"um_h2d_ms": "moves to the device", "um_d2h_ms": "moves to the host", "um_gpu_fault_ms": "GPU faults"}


@dataclass
class EventTable:
    """Totals of the points of one section. Columns that are zero in all rows are left out."""

    columns: list[str]
    rows: list[list[str]]
    quiet: int
    """The number of points that recorded events and had none."""
    which: str
    """What distinguishes the points of the table from other points of the section, such as 'strategy managed'."""


def event_table(records: Sequence[Record]) -> EventTable | None:
    """The totals of every point with events. Returns None if no point recorded events."""
    recorded = [r for r in records if r.counters.get(STATE) == RECORDED]
    if not recorded:
        return None
    eventful = [r for r in recorded if any(_amount(r, name) for name in (*_COUNTS, *(f"um_{w}_bytes" for w in WAYS)))]
    names = varying(eventful)
    ways = {way: head for way, head in WAYS.items() if any(_amount(r, f"um_{way}_bytes") for r in eventful)}
    times = {
        name: f"time of {time_name}" for name, time_name in _TIMES.items() if any(_amount(r, name) for r in eventful)
    }
    counts = {name: head for name, head in _COUNTS.items() if any(_amount(r, name) for r in eventful)}
    rows = [
        [
            *(label(name, value(r, name)) for name in names),
            *(_moved(r, way) for way in ways),
            *(_at_least(r, label(name, r.counters.get(name))) for name in counts),
            *(_at_least(r, _time(r, name)) for name in times),
        ]
        for r in eventful
    ]
    heads = [*(name.replace("_", " ") for name in names), *(f"bytes {head}" for head in ways.values())]
    shared = "" if names else distinguishing_factors(eventful, records)
    return EventTable([*heads, *counts.values(), *times.values()], rows, len(recorded) - len(eventful), shared)


def have_moves(records: Sequence[Record]) -> bool:
    """True if a point recorded events that moved bytes, so that a trace shows them over time."""
    recorded = (r for r in records if r.counters.get(STATE) == RECORDED)
    return any(_amount(r, f"um_{way}_bytes") for r in recorded for way in WAYS)


def _amount(record: Record, name: str) -> Scalar:
    value = record.counters.get(name)
    return value if isinstance(value, int | float) else 0


def _time(record: Record, name: str) -> str:
    amount = record.counters.get(name)
    return quantity(amount, "ms") if isinstance(amount, float) else label(name, amount)


def _moved(record: Record, way: str) -> str:
    """'2 MiB: 1.5 MiB fault, 512 KiB speculative'."""
    causes = re.finditer(rf"^um_{way}_(.+)_bytes$", "\n".join(record.counters), re.MULTILINE)
    amounts = {cause[1]: _amount(record, cause[0]) for cause in causes}
    parts = [f"{label('bytes', v)} {cause.replace('_', ' ')}" for cause, v in amounts.items() if v]
    if missing := unseen(record, way):
        parts.append(f"{percent(missing)} of what must have moved not seen")
    total = _at_least(record, label("bytes", record.counters.get(f"um_{way}_bytes")))
    return f"{total}: {', '.join(parts)}" if parts else total


def _at_least(record: Record, text: str) -> str:
    """An amount of a point of which records are missing."""
    return text if is_complete(record) or not text or text == label("", None) else f"at least {text}"
