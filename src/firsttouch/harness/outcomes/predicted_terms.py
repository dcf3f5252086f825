"""Where predicted time goes: the terms of records as counters, for a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import structs

from firsttouch.records.figures import Stack
from firsttouch.records.schema import Record, Scalar

SERIES = "takes_{}_ms"
MOST = 7
"""The terms that a figure has by name; the others are one."""
OTHERS = "all others"
FIGURE = Stack(
    x="strategy", series=SERIES, y_title="time, ms", titles={"series": "what takes time"},
    title="Where the time goes",
)  # fmt: skip


def with_terms(records: Iterable[Record]) -> list[Record]:
    """The records, those of predictions with a counter for each of the largest terms of all."""
    all_records = list(records)
    sums = Counter[str]()
    for record in all_records:
        for term in record.terms:
            if term.ms > 0:
                sums[term.what] += int(term.ms * 1e6)
    named = {term_name for term_name, _ in sums.most_common(MOST if len(sums) > MOST + 1 else None)}
    return [
        structs.replace(r, counters={**r.counters, **_term_counters(r, named)}) if r.terms else r for r in all_records
    ]


def _term_counters(record: Record, named: set[str]) -> dict[str, Scalar]:
    counters: dict[str, float] = {}
    for term in record.terms:
        if term.ms > 0:
            name = SERIES.format(term.what if term.what in named else OTHERS)
            counters[name] = counters.get(name, 0.0) + term.ms
    return {**counters}


def figures(records: Sequence[Record]) -> list[Stack]:
    """The figure, if a record has terms."""
    return [FIGURE] if any(record.terms for record in records) else []
