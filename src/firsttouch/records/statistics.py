"""Groups, distinct values and counters of records."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from firsttouch.records.schema import Record, Scalar, as_number

_HUGE = 1e300
"""Integers in a result file may be too large for a float; larger values are clamped to this."""


def measured(records: Iterable[Record]) -> list[Record]:
    """The points that findings may use."""
    return [r for r in records if r.is_measured]


def value(record: Record, name: str) -> Scalar:
    """The value of a factor or a counter, of 'median' or of 'device'; None if the record does not have it."""
    if name == "median":
        return record.summary.median if record.summary else None
    if name == "device" and name not in record.factors:
        return record.device
    return record.factors.get(name, record.counters.get(name))


def median_of(record: Record) -> float:
    """The median of a record, which must have a summary, in the record's unit."""
    assert record.summary is not None
    return record.summary.median


def non_negative(record: Record, name: str) -> float | None:
    """Returns a value if it is zero or positive, otherwise None."""
    v = as_number(value(record, name))
    return None if v is None or not 0 <= v < math.inf else min(v, _HUGE)


def positive(record: Record, name: str) -> float | None:
    """Returns a value if it is positive, otherwise None."""
    return non_negative(record, name) or None


def distinct(records: Iterable[Record], name: str) -> list[Scalar]:
    """The values of `name`: numbers ascending, everything else in the order of the records."""
    seen = list(dict.fromkeys(value(r, name) for r in records))
    numbers = [v for v in seen if not isinstance(v, bool | str | None)]
    return [*sorted(numbers), *(v for v in seen if isinstance(v, bool | str | None))]


def varying(records: Sequence[Record]) -> list[str]:
    """The names with more than one value: `device`, then factors in the order of the records."""
    names = dict.fromkeys(("device", *(name for r in records for name in r.factors)))
    return [name for name in names if _varies(records, name)]


def _varies(records: Sequence[Record], name: str) -> bool:
    """Whether the records have several values of a factor. 1, 1.0, True and '1' are different values."""
    values = (value(r, name) if name == "device" else r.factors.get(name) for r in records)
    first = next(values, None)
    return any(v != first or type(v) is not type(first) for v in values)


def group_by(records: Iterable[Record], *names: str) -> dict[tuple[Scalar, ...], list[Record]]:
    """Groups records by their values of `names`. Groups are in the order of first appearance."""
    groups: dict[tuple[Scalar, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(value(record, name) for name in names), []).append(record)
    return groups


def series(record: Record, pattern: str) -> dict[Scalar, Scalar]:
    """The counters that match a pattern with one {}, by the text in place of {}, which becomes a number if it is one.

    For the counters iteration_1_ms and iteration_2_ms, 'iteration_{}_ms' returns {1: ..., 2: ...}.
    """
    start, _, end = pattern.partition("{}")
    least = len(start) + len(end)
    matching = [n for n in record.counters if len(n) > least and n.startswith(start) and n.endswith(end)]
    return {_number_or_text(n[len(start) : len(n) - len(end)]): record.counters[n] for n in matching}


def series_of_parts(record: Record, pattern: str, parts: Container[str]) -> dict[tuple[Scalar, str], Scalar]:
    """The counters that match a pattern with two {}, the second of which matches one of `parts`.

    The counter hw_iteration_1_l2_bytes is (1, 'l2') of 'hw_iteration_{}_{}_bytes'.
    """
    start, middle, end = pattern.split("{}")
    matching = {}
    for name, v in record.counters.items():
        if name.startswith(start) and name.endswith(end):
            key, _, part = name[len(start) : len(name) - len(end)].partition(middle)
            if part in parts:
                matching[_number_or_text(key), part] = v
    return matching


def _number_or_text(text: str) -> Scalar:
    if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        return text
    return float(text) if "." in text else int(text)


def expand(records: Iterable[Record], pattern: str, parts: Mapping[str, str] = MappingProxyType({})) -> list[Record]:
    """Returns one record for each matching counter of each record, with the factor 'series' and the counter 'value'.

    parts: words for what the last {} matches, which are the factor 'part'; other counters are left out. A {} before it
    is then 'series'.
    """
    expanded = []
    for record in records:
        other_factors = {name: v for name, v in record.factors.items() if name != "value"}
        for series_factors, v in _matches(record, pattern, parts):
            changes = {"factors": {**other_factors, **series_factors}, "counters": {**record.counters, "value": v}}
            expanded.append(msgspec.structs.replace(record, **changes))
    return expanded


def _matches(record: Record, pattern: str, parts: Mapping[str, str]) -> Iterator[tuple[dict[str, Scalar], Scalar]]:
    if pattern.count("{}") == 2:
        for (key, part), v in series_of_parts(record, pattern, parts).items():
            yield {"series": key, "part": parts[part]}, v
        return
    for key, v in series(record, pattern).items():
        if not parts:
            yield {"series": key}, v
        elif key in parts:
            yield {"part": parts[str(key)]}, v
