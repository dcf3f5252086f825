"""Prints the results of a run of applications: one line per point, or one line per application if there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from firsttouch.base.units import format_number
from firsttouch.cli.console import Console
from firsttouch.model.ranges import another_run
from firsttouch.records.text import caption, count, named, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from firsttouch.harness.outcomes.placements import RankedPlacement
    from firsttouch.harness.outcomes.report import PointSummary

_FEW = 30
"""The most points that have a line each. If there are more, each application has a line, with one column per strategy.
"""
_MOST_REASONS = 12
_MOST_NAMED = 5

_Group: TypeAlias = tuple[str, list["PointSummary"]]


def show(rows: Sequence[PointSummary]) -> None:
    """Prints the rows to stdout."""
    console, groups = _console(), _groups(rows)
    if len(rows) <= _FEW:
        console.print(_by_point(groups))
    else:
        _by_application(console, groups)
    console.print()
    for sentence in _sentences(rows):
        console.print(sentence)


def _console() -> Console:
    return Console(soft_wrap=False)


def _groups(rows: Iterable[PointSummary]) -> list[_Group]:
    """Groups the rows that differ only by strategy. Each group has its common conditions in words."""
    devices = {row.device for row in rows}
    groups: dict[str, list[PointSummary]] = {}
    for row in rows:
        where = [f"on {row.device}"] if len(devices) > 1 else []
        conditions = [named(name, v) for name, v in row.conditions.items()]
        groups.setdefault(", ".join([" ".join([row.application, *where]), *conditions]), []).append(row)
    return list(groups.items())


# ---------------------------------------------------------------------------------------------- a line per point


def _ms(v: float) -> str:
    return quantity(v, "ms")


def _bytes(v: float) -> str:
    return quantity(v, "B")


def _ratio(v: float) -> str:
    return f"{v:.2f}" if 0.1 <= v < 10 else format_number(v)


_COLUMNS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("total", "total_ms", _ms),
    ("compute", "compute_ms", _ms),
    ("GPU", "gpu_ms", _ms),
    ("kernel", "kernel_ms", _ms),
    ("peak\nhost", "peak_host_bytes", _bytes),
    ("peak\ndevice", "peak_device_bytes", _bytes),
    ("peak of\nmachine", "peak_machine_bytes", _bytes),
    ("rel.\ntotal", "relative_time", _ratio),
    ("to\npinned", "relative_pinned_time", _ratio),
    ("rel.\ncompute", "relative_compute", _ratio),
    ("rel.\nmemory", "relative_memory", _ratio),
)
"""Heading, attribute of the row, and format."""
_WITH = {"gpu_ms": "kernel_ms"}
"""Columns that are shown beside others only."""
_MARKS = {"verified": "✓", "wrong": "✗", "not verified": "?", "suspect": "!"}


def _by_point(groups: Sequence[_Group]) -> Table:
    rows = [row for _, group in groups for row in group]
    measured_columns = {name for _, name, _ in _COLUMNS if any(getattr(row, name) is not None for row in rows)}
    columns = [c for c in _COLUMNS if c[1] == "total_ms" or {c[1], _WITH.get(c[1], c[1])} <= measured_columns]
    table = _table("")
    for heading, *_ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title, group in groups:
        table.add_row(title, style="bold")
        for row in group:
            values = [(name, getattr(row, name), text) for _, name, text in columns]
            cells = ["" if v is None else _unsure(row, name) + text(v) for name, v, text in values]
            table.add_row(f"  {row.strategy}", *(cells if row.status == "ok" else [row.status]), _MARKS.get(_end(row)))
    return table


def _unsure(row: PointSummary, name: str = "relative_time") -> str:
    if name == "relative_memory":
        return _tilde(row.relative_memory_low, row.relative_memory_high)
    return _tilde(row.relative_time_low, row.relative_time_high) if name == "relative_time" else ""


def _tilde(low: float | None, high: float | None) -> str:
    """'~' before a ratio whose interval includes 1."""
    return "~" if low is not None and high is not None and low <= 1 <= high else ""


def _table(heading: str, most: int = 40) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column(heading, overflow="fold", min_width=18, max_width=most)
    return table


# ---------------------------------------------------------------------------------------------- a line per application


def _by_application(console: Console, groups: Sequence[_Group]) -> None:
    """Prints a table of times relative to the baseline."""
    strategies = list(dict.fromkeys(row.strategy for _, group in groups for row in group))
    console.print_divided(strategies, lambda part: _times(groups, part))


def _times(groups: Sequence[_Group], strategies: Sequence[str]) -> Table:
    table = _table("time")
    for name in strategies:
        table.add_column(name.replace("+", "\n+"), justify="right", no_wrap=True)
    for title, group in groups:
        cells = {row.strategy: _time(row) for row in group}
        table.add_row(title, *(cells.get(name, "") for name in strategies))
    return table


def _time(row: PointSummary) -> str:
    """The time relative to the baseline. An absolute time for the baseline itself, and if it was not measured."""
    if row.status != "ok" or row.verified is False or row.suspect:
        return "-" if row.status == "skipped" else _end(row)
    if row.relative_time is not None and row.strategy != row.relative_to:
        return _unsure(row) + _ratio(row.relative_time)
    return "" if row.total_ms is None else _ms(row.total_ms)


# ---------------------------------------------------------------------------------------------- placements


def show_placements(lines: Sequence[RankedPlacement]) -> None:
    """Prints the rankings of searches for placements: what was measured as often as the strategies, fastest first."""
    if not lines:
        return
    console = _console()
    groups: dict[tuple[str, str, str], list[RankedPlacement]] = {}
    for line in lines:
        groups.setdefault((line.application, line.device, line.base), []).append(line)
    table = _table("placements", most=100)
    for heading in ("total", "rel."):
        table.add_column(heading, justify="right", no_wrap=True)
    sentences = []
    for (application, device, base), ranked in groups.items():
        finals = [line for line in ranked if line.finalist]
        table.add_row(f"{application} on {device}", style="bold")
        for line in finals:
            name = line.strategy if not line.settings else f"{line.strategy}, {line.placement}"
            table.add_row(f"  {name}", _ms(line.total_ms), _relative(line))
        tried = count(len({line.placement for line in ranked if line.settings}), "placement")
        best = finals[0]
        gain = f"{best.placement} takes {_ratio(best.relative)} of the time of {base} by itself"
        sentences.append(f"{application}: {tried} tried; {gain if best.is_gain else f'no gain over {base} by itself'}.")
    console.print(table)
    for sentence in sentences:
        console.print(sentence)
    console.print()


def _relative(line: RankedPlacement) -> str:
    return _tilde(line.relative_low, line.relative_high) + _ratio(line.relative)


# ---------------------------------------------------------------------------------------------- in words


def _without_baseline(rows: Sequence[PointSummary]) -> str:
    """Says that no point can be compared with the strategy that --relative-to names."""
    from firsttouch.harness.outcomes.derive import BASELINE

    baseline = rows[0].relative_to if rows else BASELINE
    if baseline == BASELINE or any(row.relative_time is not None for row in rows):
        return ""
    tried = any(row.strategy == baseline for row in rows)
    return f"No ratios: {baseline} has no time" + ("." if tried else f" here; add --strategy {baseline}.")


def _sentences(rows: Sequence[PointSummary]) -> list[str]:
    """The number of points by outcome, and the reasons of those that are not verified, skipped points last."""
    ends = dict(sorted(Counter(_end(row) for row in rows).items(), key=lambda end: end[0] != "verified"))
    sentences = [f"{count(len(rows), 'point')}: {', '.join(f'{n} {end}' for end, n in ends.items())}."]
    if any(row.relative_time is not None for row in rows):
        baseline = next(row.relative_to for row in rows if row.relative_time is not None)
        sentences[0] += f" Relative to {baseline}: 0.5 is half of its time or memory."
        if any(_unsure(row) for row in rows):
            sentences[0] += " ~: the interval of the ratio includes 1."
    if any(_end(row) == "verified" for row in rows):
        sentences[0] += f" {caption(another_run())}."
    sentences += filter(None, [_without_baseline(rows), *map(_best_share, rows), _noise_sentence(rows)])
    if any(row.kernel_ms is not None for row in rows):
        sentences[0] += " Kernel times are means of separate runs, so chance may put them above compute."
    bad: dict[tuple[str, str], list[PointSummary]] = {}
    for row in sorted(rows, key=lambda row: row.status == "skipped"):
        if (end := _end(row)) not in ("verified", "predicted"):
            bad.setdefault((end, row.suspect if end == "suspect" else row.reason), []).append(row)
    reasons = [f"- {_who(group)}: {end}{f': {reason}' if reason else ''}" for (end, reason), group in bad.items()]
    sentences += reasons[:_MOST_REASONS]
    if (more := len(reasons) - _MOST_REASONS) > 0:
        sentences.append(f"- and {more} more, listed in the report")
    return sentences


def _noise_sentence(rows: Sequence[PointSummary]) -> str:
    """Why runs whose memory is that of the whole machine have no relative memory, or ''."""
    lacking = [r.peak_machine_noise_bytes for r in rows if r.relative_memory is None and r.relative_time is not None]
    known_noise = [noise for noise in lacking if noise is not None]
    if not known_noise:
        return ""
    return (
        f"No relative memory: the machine's memory in use also changed by up to {_bytes(max(known_noise))} without the "
        "application, more than a tenth of a peak; close other programs, or use a larger --size."
    )


def _best_share(row: PointSummary) -> str:
    """What the search for the best division of work found, or ''."""
    if row.best_share is None or row.best_speedup is None or _end(row) not in ("verified", "predicted"):
        return ""
    from firsttouch.experiments.contract.shares import claim_of, parts_of
    from firsttouch.records.findings import Quantity
    from firsttouch.report.sentences import quantity_text

    ratio = Quantity(row.best_speedup, "", row.best_speedup_low, row.best_speedup_high)
    words = {"where": _who([row]), "best": f"{row.best_share:g}"}
    words |= {name: quantity_text(part) for name, part in parts_of(ratio).items()}
    return f"- {claim_of(row.best_share, ratio).text.format_map(words)}"


def _end(row: PointSummary) -> str:
    if row.status != "ok":
        return row.status
    if row.suspect and row.verified is not False:
        return "suspect"
    if row.predicted and row.verified is None:
        return "predicted"
    return {True: "verified", False: "wrong", None: "not verified"}[row.verified]


def _who(rows: Sequence[PointSummary]) -> str:
    strategies = dict.fromkeys(row.strategy for row in rows)
    applications = dict.fromkeys(row.application for row in rows)
    return f"{_names_or_count(list(strategies), 'strategies')} of {_names_or_count(list(applications), 'applications')}"


def _names_or_count(names: Sequence[str], noun: str) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} {noun}"
