"""Which part of the pages that must have moved is in no record of the driver.

While busy, the driver drops records without reporting it. Where it is known how many bytes must have moved at least
(um_least_h2d_bytes and um_least_d2h_bytes: program/least_moves.py), a record says how much of them is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from firsttouch.records.schema import Record, as_number
from firsttouch.records.statistics import value

WAYS: Mapping[str, str] = {"h2d": "to the device", "d2h": "to the host", "d2d": "between devices"}
LEAST = 0.01
"""The least share that is stated. Kernels leave out a few bytes of ranges, such as the corners of a space."""


def _bytes(record: Record, name: str) -> float:
    return as_number(record.counters.get(name)) or 0.0


def unseen(record: Record, way: str) -> float:
    """The share of the bytes that must have moved one way of which no event was recorded; 0 if none is known of.

    Bytes that were mapped remotely need not move.
    """
    if f"um_{way}_bytes" not in record.counters:
        return 0.0
    least = _bytes(record, f"um_least_{way}_bytes") - _bytes(record, "um_remote_map_bytes")
    share = 1 - _bytes(record, f"um_{way}_bytes") / least if least > 0 else 0.0
    return min(1.0, share) if share >= LEAST and math.isfinite(share) else 0.0


def is_complete(record: Record) -> bool:
    """Whether all bytes that must have moved were seen. Where their number is not known, as in records of earlier
    versions, they were seen unless there were fewer than the application declared.
    """
    if any(f"um_least_{way}_bytes" in record.counters for way in WAYS):
        return not any(unseen(record, way) for way in WAYS)
    recorded_ways = [way for way in WAYS if f"um_{way}_bytes" in record.counters]
    return all(
        _bytes(record, f"um_{way}_bytes") >= (1 - LEAST) * _bytes(record, f"copied_{way}_bytes")
        for way in recorded_ways
    )


def percent(share: float) -> str:
    """'at least 58 %', rounded down."""
    return f"at least {math.floor(100 * share)} %"


def in_words(record: Record) -> str:
    """'at least 58 % of the bytes to the device not seen', both ways; '' if nothing is known to be missing."""
    shares = {words: unseen(record, way) for way, words in WAYS.items()}
    parts = [f"{percent(share)} of the bytes {words}" for words, share in shares.items() if share]
    return f"{' and '.join(parts)} not seen" if parts else ""


def note(records: Iterable[Record], name: str) -> str:
    """A sentence on what is missing of records, by the values of a factor or counter; '' if nothing is known to be."""
    shares: dict[str, dict[str, list[int]]] = {}
    for record in records:
        for way, words in WAYS.items():
            if share := unseen(record, way):
                of_way = shares.setdefault(words, {})
                of_way.setdefault(str(value(record, name) or ""), []).append(math.floor(100 * share))
    parts = [
        f"of the bytes {words}, at least {', '.join(f'{_span(rows)} ({value})' for value, rows in by_value.items())}"
        for words, by_value in shares.items()
    ]
    return f"Not seen: {'; '.join(parts)}." if parts else ""


def _span(percents: list[int]) -> str:
    low, high = min(percents), max(percents)
    return f"{low} %" if low == high else f"{low} to {high} %"
