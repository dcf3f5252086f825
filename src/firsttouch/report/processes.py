"""Who carried out a point together, in words."""

from __future__ import annotations

from collections import Counter

from firsttouch.records.schema import SHARED, Record
from firsttouch.records.text import first_few

_MOST_NAMED = 4


def processes(record: Record) -> str | None:
    """The processes of a point, where there were several: their number, devices and hosts, and what they share."""
    parties = record.parties
    if record.status != "ok" or len({party.rank for party in parties}) < 2:
        return None
    devices = Counter(party.device for party in parties)
    on = first_few([f"{name} ({number})" if number > 1 else name for name, number in devices.items()], _MOST_NAMED)
    hosts = first_few(list(dict.fromkeys(party.host for party in parties if party.host)), _MOST_NAMED)
    at = f" at {hosts}" if hosts else ""
    alike = f"; some share a {', a '.join(words)}" if (words := _shared(record)) else ""
    return f"{len(parties)} processes on {on}{at}{alike}"


def _shared(record: Record) -> list[str]:
    return [word for word in str(record.counters.get(SHARED) or "").split(", ") if word]
