"""What a run of applications gave, on the terminal: each point on a line, or of many each application."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from firsttouch.cli.console import Console
from firsttouch.text import count, label, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from firsttouch.harness.report import Row

_FEW = 30
"""Points that have a line each; of more, each application has one, with a column per strategy."""
_MOST_REASONS = 12
_MOST_NAMED = 5
_PLAIN_WIDTH = 160
"""Columns where neither a terminal nor COLUMNS says how many there are."""

_Group: TypeAlias = tuple[str, list["Row"]]


def show(rows: Sequence[Row]) -> None:
    """Print the rows on stdout."""
    console = Console(soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PLAIN_WIDTH
    groups = _groups(rows)
    if len(rows) <= _FEW:
        console.print(_by_point(groups))
    else:
        _by_application(console, groups)
    console.print()
    for sentence in _sentences(rows):
        console.print(sentence)


def _groups(rows: Iterable[Row]) -> list[_Group]:
    """Rows that differ by strategy only, each group with what they share in words."""
    devices = {row.device for row in rows}
    groups: dict[str, list[Row]] = {}
    for row in rows:
        where = [f"on {row.device}"] if len(devices) > 1 else []
        conditions = [f"{name} {label(name, v)}" for name, v in row.conditions.items()]
        groups.setdefault(", ".join([" ".join([row.application, *where]), *conditions]), []).append(row)
    return list(groups.items())


# ---------------------------------------------------------------------------------------------- a line per point


def _ms(v: float) -> str:
    return quantity(v, "ms")


def _bytes(v: float) -> str:
    return quantity(v, "B")


def _ratio(v: float) -> str:
    return f"{v:.2f}" if 0.1 <= v < 10 else f"{v:.3g}"


_COLUMNS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("total", "total_ms", _ms),
    ("compute", "compute_ms", _ms),
    ("peak\nhost", "peak_host_bytes", _bytes),
    ("peak\ndevice", "peak_device_bytes", _bytes),
    ("rel.\ntotal", "relative_time", _ratio),
    ("rel.\ncompute", "relative_compute", _ratio),
    ("rel.\nmemory", "relative_memory", _ratio),
)
"""Heading, quantity and how it reads."""
_MARKS = {"verified": "✓", "wrong": "✗", "not verified": "?"}


def _by_point(groups: Sequence[_Group]) -> Table:
    rows = [row for _, group in groups for row in group]
    columns = [one for one in _COLUMNS if one[0] == "total" or any(getattr(row, one[1]) is not None for row in rows)]
    table = _table("")
    for heading, *_ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title, group in groups:
        table.add_row(title, style="bold")
        for row in group:
            values = [(getattr(row, name), text) for _, name, text in columns]
            cells = ["" if v is None else text(v) for v, text in values]
            table.add_row(f"  {row.strategy}", *(cells if row.status == "ok" else [row.status]), _MARKS.get(_end(row)))
    return table


def _table(heading: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column(heading, overflow="fold", min_width=18, max_width=40)
    return table


# ---------------------------------------------------------------------------------------------- a line per application


def _by_application(console: Console, groups: Sequence[_Group]) -> None:
    """A table of times relative to explicit; several, side by side in columns, where the terminal is too narrow."""
    strategies = list(dict.fromkeys(row.strategy for _, group in groups for row in group))
    while strategies:
        part = strategies
        while len(part) > 1 and _needed(console, _times(groups, part)) > console.width:
            part = part[:-1]
        console.print(_times(groups, part))
        strategies = strategies[len(part) :]


def _needed(console: Console, table: Table) -> int:
    return table.__rich_measure__(console, console.options.update(max_width=10_000)).maximum


def _times(groups: Sequence[_Group], strategies: Sequence[str]) -> Table:
    table = _table("time")
    for name in strategies:
        table.add_column(name.replace("+", "\n+"), justify="right", no_wrap=True)
    for title, group in groups:
        cells = {row.strategy: _time(row) for row in group}
        table.add_row(title, *(cells.get(name, "") for name in strategies))
    return table


def _time(row: Row) -> str:
    """Relative to explicit; in ms of explicit itself and where there is none."""
    from firsttouch.harness.derive import BASELINE

    if row.status != "ok" or row.verified is False:
        return "-" if row.status == "skipped" else _end(row)
    if row.relative_time is not None and row.strategy != BASELINE:
        return _ratio(row.relative_time)
    return "" if row.total_ms is None else _ms(row.total_ms)


# ---------------------------------------------------------------------------------------------- in words


def _sentences(rows: Sequence[Row]) -> list[str]:
    """How many points ended how, and why some did not end well: those that went wrong before those skipped."""
    ends = dict(sorted(Counter(_end(row) for row in rows).items(), key=lambda end: end[0] != "verified"))
    told = [f"{count(len(rows), 'point')}: {', '.join(f'{n} {end}' for end, n in ends.items())}."]
    if any(row.relative_time is not None for row in rows):
        told[0] += " Relative to explicit: 0.5 is half of its time or memory."
    bad: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.status == "skipped"):
        if _end(row) != "verified":
            bad.setdefault((_end(row), row.reason), []).append(row)
    reasons = [f"- {_who(group)}: {end}{f': {reason}' if reason else ''}" for (end, reason), group in bad.items()]
    told += reasons[:_MOST_REASONS]
    if more := len(reasons) - _MOST_REASONS:
        told += [f"- and {more} more, told in the report"] if more > 0 else []
    return told


def _end(row: Row) -> str:
    if row.status != "ok":
        return row.status
    return {True: "verified", False: "wrong", None: "not verified"}[row.verified]


def _who(rows: Sequence[Row]) -> str:
    strategies = dict.fromkeys(row.strategy for row in rows)
    applications = dict.fromkeys(row.application for row in rows)
    return f"{_some(list(strategies), 'strategies')} of {_some(list(applications), 'applications')}"


def _some(names: Sequence[str], noun: str) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} {noun}"
