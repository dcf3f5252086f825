"""Counters of the vendor's profiler in the report: one row for each point that was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.profile.counters.tool import OF_ITERATION, PREFIX, STATE, why_none
from firsttouch.records.schema import Record
from firsttouch.records.statistics import value, varying
from firsttouch.records.text import distinguishing_factors, fact_title, label


@dataclass
class CounterTable:
    """The counters of the points of one section. Columns that are zero in all rows are left out."""

    columns: list[str]
    rows: list[list[str]]
    tools: str
    which: str
    """What distinguishes the points of the table from other points of the section."""


def counter_table(records: Sequence[Record]) -> CounterTable | None:
    """The counters of every counted point, without those of single iterations, which have a figure. Returns None if
    there is none.
    """
    counted = [r for r in records if STATE in r.counters and why_none(r) is None]
    if not counted:
        return None
    factors = varying(counted)
    names = dict.fromkeys(n for r in counted for n in r.counters if n.startswith(PREFIX) and n != STATE)
    names = dict.fromkeys(
        n for n in names if any(r.counters.get(n) for r in counted) and not n.startswith(OF_ITERATION)
    )
    rows = [[*(label(f, value(r, f)) for f in factors), *(label(n, r.counters.get(n)) for n in names)] for r in counted]
    heads = [*(name.replace("_", " ") for name in factors), *(_head(name) for name in names)]
    tools = ", ".join(dict.fromkeys(str(r.counters[STATE]) for r in counted))
    return CounterTable(heads, rows, tools, "" if factors else distinguishing_factors(counted, records))


def _head(name: str) -> str:
    return fact_title(name.removeprefix(PREFIX))
