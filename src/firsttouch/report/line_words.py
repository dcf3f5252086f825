"""What lines of a program cost, in words: for the terminal, and as a table of the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from firsttouch.advice.port.places import counted, where
from firsttouch.base.units import format_number, format_seconds, format_size
from firsttouch.profile.by_line import ByLine, CostKind, LineRow
from firsttouch.profile.phases import LIBRARY_DOMAINS
from firsttouch.profile.traced import CallLocation
from firsttouch.records.text import count
from firsttouch.report.profile_panels import plain
from firsttouch.report.profile_tables import DASH, ProfileTable

MOST_GROUPS = 5
"""The most lines, or pairs of lines, that the terminal shows."""
LEAST_SHARE = 5e-4
"""The least part of the time in which GPUs were used that a line is shown for."""
_LEAST_OF_GROUP = 0.02
"""The least part of the cost of a line that is told apart."""
_RATED = 64 << 10
"""Bytes from which on a copy has a rate; the time of smaller ones is that of a call."""
_MOST_ROWS = 100
_TO = {"h2d": "to the device", "d2h": "to the host"}
_Line: TypeAlias = tuple[CallLocation, str, CallLocation | None]
"""A place; the library that made the call, if no line is known; and the line that launched what it copied for."""


@dataclass
class LineGroup:
    """The rows of one line, or of lines between which data go to and fro."""

    rows: list[LineRow] = field(default_factory=list)

    def of(self, kind: CostKind) -> list[LineRow]:
        return [row for row in self.rows if row.kind == kind]

    def _cost_of(self, *kinds: CostKind) -> float:
        return sum(row.cost for row in self.rows if row.kind in kinds)

    @property
    def cost(self) -> float:
        """Seconds at most. What is not copied at all need not be copied faster."""
        return max(self._cost_of("copies"), self._cost_of("round trips", "copied again")) + self._cost_of("waits")


def _line(row: LineRow) -> _Line:
    return row.place, row.library, row.kernels


def groups_of(lines: ByLine) -> list[LineGroup]:
    """The habits of a program, the costliest first: what its lines do again and again, as far as it costs time."""
    habits = [row for row in lines.rows if row.rounds > 1 and (row.cost or row.memory == "pageable")]
    joined: dict[_Line, _Line] = {}

    def first(line: _Line) -> _Line:
        while joined.get(line, line) != line:
            line = joined[line]
        return line

    for row in habits:
        if row.since is not None:
            joined[first((row.since, row.library, row.kernels))] = first(_line(row))
    groups: defaultdict[_Line, LineGroup] = defaultdict(LineGroup)
    for row in habits:
        groups[first(_line(row))].rows.append(row)
    costly = [group for group in groups.values() if group.cost >= LEAST_SHARE * lines.seconds and group.cost]
    return sorted(costly, key=lambda group: -group.cost)


# ------------------------------------------------------------------------------------------------------- the terminal


def line_texts(lines: ByLine | None) -> list[str]:
    """Lines for the terminal: a heading, the costliest lines of the program with their costs, other copies, and what
    libraries did on their own account.
    """
    if lines is None:
        return []
    groups = groups_of(lines)
    shown, left = groups[:MOST_GROUPS], groups[MOST_GROUPS:]
    texts = [text for group in shown for text in _group_texts(group, lines)]
    if left:
        texts.append(_at_cost(sum(group.cost for group in left), f"{count(len(left), 'more line')} in the report"))
    if texts:
        texts.insert(0, f"time that each costs at most, of {_span(lines)}")
    told = {id(row) for group in shown for row in group.rows}
    others = [row for row in lines.rows if id(row) not in told and row.kind == "copies"]
    if shown and sum(row.seconds or 0.0 for row in others) < LEAST_SHARE * lines.seconds:
        others = []
    return [*texts, *_others(others, bool(shown)), *_libraries(lines)]


def _at_cost(seconds: float | None, text: str) -> str:
    return f"{format_seconds(seconds):<9} {text}" if seconds is not None else f"  {text}"


def answer(lines: ByLine | None) -> str:
    """The costliest line, in a sentence; '' if none costs time."""
    groups = groups_of(lines) if lines else []
    if lines is None or not groups:
        return ""
    others = sum(group.cost for group in groups[1:])
    more = f", and {count(len(groups) - 1, 'more line')} at most {format_seconds(others)}" if others else ""
    first = groups[0]
    return f"Of {_span(lines)}, {_subject(first)} costs at most {format_seconds(first.cost)}{more}."


def _subject(group: LineGroup) -> str:
    """The lines of a group."""
    row = next(iter(group.of("round trips")), group.rows[0])
    names = [where(row.since)] if row.since else []
    names.append(where(row.place, row.since))
    place = where(row.place) if row.since == row.place else " and ".join(names)
    return plain(f"{place}{_of_library(row)}", 200)


def _of_library(row: LineRow) -> str:
    if not row.library:
        return ""
    name = "" if where(row.place).endswith(f" of {row.library}") else f" of {row.library}"
    return f"{name}, {_on_whose_account(row)}"


def _on_whose_account(row: LineRow) -> str:
    """Of the call of a library."""
    if not row.is_its_own:
        return "for an unknown line"
    order = "after" if row.d2h and not row.h2d else "for"
    kernels = f", {order} kernels launched at {where(row.kernels)}" if row.kernels is not None else ""
    return f"in a thread of its own{kernels}"


def _group_texts(group: LineGroup, lines: ByLine) -> Iterator[str]:
    first, *more = _facets(group, lines)
    yield _at_cost(group.cost, f"{_subject(group)}: {first}")
    yield from (_at_cost(None, text) for text in more)


def _facets(group: LineGroup, lines: ByLine) -> list[str]:
    """What a group does, as far as it matters."""
    least = _LEAST_OF_GROUP * group.cost
    trips = [_trips_text(row) for row in group.of("round trips")]
    again = [_again_text(row) for row in group.of("copied again") if row.cost >= least]
    slow = [] if trips else [row for row in group.of("copies") if row.saves or (row.seconds or 0.0) >= least]
    copies = [_copies_text(row, lines) for row in slow]
    waits = group.of("waits")
    idle, calls = sum(row.idle or 0.0 for row in waits), sum(row.calls for row in waits)
    waited = [f"{counted(calls, 'wait')}, after which the GPU stood idle for {format_seconds(idle)}"]
    facets = [*trips, *copies, *again]
    return [*facets, *waited] if idle >= least > 0 or not facets else facets


def _copies_text(row: LineRow, lines: ByLine) -> str:
    way = "h2d" if row.h2d else "d2h"
    text = f"{counted(row.calls, 'copy', 'copies')} {_TO[way]}, {format_size(row.h2d + row.d2h, 3)}, {_from(way)} "
    text += _memory(row)
    text += _rate_text(row.h2d + row.d2h, row.seconds, row.calls)
    if row.saves is not None and row.best is not None:
        measured = f"in {lines.best_from}" if lines.best_from else "in this trace"
        best = _rate_text(row.h2d + row.d2h, row.best, row.calls)
        text += f" (page-locked{best} {measured}, which saves {format_seconds(row.saves)})"
    return text


def _memory(row: LineRow) -> str:
    return f"{row.memory} memory{f' of {row.memory_of}' if row.memory_of else ''}"


def _span(lines: ByLine) -> str:
    return f"the {format_seconds(lines.seconds)} from the GPU's first work to its last"


def _from(way: str) -> str:
    return "from" if way == "h2d" else "into"


def _rate_text(nbytes: int, seconds: float | None, calls: int) -> str:
    return f" at {_rate(nbytes, seconds)} GB/s" if seconds and nbytes >= _RATED * calls else ""


def _rate(nbytes: int, seconds: float | None) -> str:
    return format_number(nbytes / seconds * 1e-9, 3) if seconds else DASH


def _trips_text(row: LineRow) -> str:
    side = "host" if row.first_way == "d2h" else "device"
    trips = f"{counted(row.calls, 'round trip')} to the {side} and back, {format_size(row.h2d, 3)} unchanged"
    return f"{trips}{_certainty(row)}{_link_time(row)}"


def _again_text(row: LineRow) -> str:
    return f"{counted(row.calls, 'copy', 'copies')} of bytes copied here before{_certainty(row)}{_link_time(row)}"


def _certainty(row: LineRow) -> str:
    if row.certainty == "seen":
        return " (seen)"
    return f" ({row.certainty}: {format_size(row.compared, 3)} of {format_size(row.h2d + row.d2h, 3)} compared)"


def _link_time(row: LineRow) -> str:
    return f", {format_seconds(row.seconds)} on the link" if row.seconds else ""


def _others(copies: Sequence[LineRow], are_more: bool) -> Iterator[str]:
    """The copies of lines that are not shown, by direction and memory."""
    sums: defaultdict[tuple[str, str], list[LineRow]] = defaultdict(list)
    for row in copies:
        sums["h2d" if row.h2d else "d2h", _memory(row)].append(row)
    texts = []
    for (way, memory), of in sums.items():
        nbytes, seconds = sum(row.h2d + row.d2h for row in of), sum(row.seconds or 0.0 for row in of)
        at = _at(of[0]) if len(of) == 1 else f" at {len(of)} lines"
        rate = _rate_text(nbytes, seconds, sum(row.calls for row in of))
        texts.append(f"{_TO[way]} {format_size(nbytes, 3)} {_from(way)} {memory}{rate}{at}")
    if texts:
        yield f"{'other copies' if are_more else 'copies'}: {'; '.join(texts)}"


def _at(row: LineRow) -> str:
    """The line of copies; of a library's own, for which kernels they were, since its function tells nobody anything."""
    if row.kernels is not None:
        return f" by {plain(f'{row.library} {_on_whose_account(row)}', 200)}"
    return f" at {plain(where(row.place), 120)}"


def _libraries(lines: ByLine) -> Iterator[str]:
    """What libraries did by themselves."""
    texts = []
    for row in lines.rows:
        if row.kind == "allocations":
            at = "" if row.is_its_own or not row.place.line else f" at {where(row.place)}"
            texts.append(f"{row.library} allocated {format_size(row.held, 3)}{at} ({row.calls:,}x)")
        elif row.kind == "queries":
            texts.append(f"{row.library} asked {row.calls:,}x for free memory")
    for domain, ranges in lines.library_ranges.items():
        texts.append(f"{LIBRARY_DOMAINS.get(domain, domain)} named {ranges:,} NVTX ranges, which are no phases here")
    if texts:
        yield plain(f"by libraries: {'; '.join(texts)}", 400)


# ----------------------------------------------------------------------------------------------------------- the page


def line_tables(lines: ByLine | None) -> list[ProfileTable]:
    """The costliest lines, and the numbers of all."""
    if lines is None:
        return []
    groups = groups_of(lines)
    costs = ProfileTable("lines", "What each line costs", ["line", "at most", "what it does"])
    costs.rows = [
        [_subject(group), format_seconds(group.cost), plain("; ".join(_facets(group, lines)), 600)] for group in groups
    ]
    costs.notes = [
        f"The time that each costs at most, of {_span(lines)}. "
        "After a wait, the GPU stood idle until the next work that was launched, and counts for no longer than the "
        "program waited. That bytes are the same is possible where some of them were compared, and seen where all were."
    ]
    costs.notes += [plain(f"{text[:1].upper()}{text[1:]}.", 500) for text in _libraries(lines)]
    every = ProfileTable("all-lines", "All copies and waits by line", folded=bool(groups))
    every.heads = ["line", "what", "calls", "bytes", "host memory", "GB/s", "page-locked", "on the link", "GPU idle",
                   "certainty"]  # fmt: skip
    every.rows = [_cells(row) for row in lines.rows[:_MOST_ROWS] if row.kind not in ("allocations", "queries")]
    every.notes = [plain(note, 500) for note in (_best_note(lines), _unseen_note(lines)) if note]
    more = len(lines.rows) - _MOST_ROWS + lines.rows_left_out
    if more > 0:
        every.notes.append(f"{count(more, 'row')} with lower costs are left out.")
    return [table for table in (costs, every) if table.rows]


def _best_note(lines: ByLine) -> str:
    if not any(row.best for row in lines.rows):
        return ""
    source = (
        lines.best_from or "the page-locked copies of this trace, which may not be the best that the machine can do"
    )
    return f"The column page-locked has the GB/s that page-locked memory reaches, from {source}."


def _unseen_note(lines: ByLine) -> str:
    """What may be round trips too."""
    if not lines.not_compared:
        return ""
    copies = count(lines.not_compared, "copy", "copies")
    return f"Unseen: whether {copies} brought back what had been copied to the same addresses, which has no sample."


def _cells(row: LineRow) -> list[str]:
    total = row.h2d + row.d2h
    is_link = row.kind in ("copies", "round trips", "copied again")
    way = "" if (row.h2d and row.d2h) or not total else f" {_TO['h2d' if row.h2d else 'd2h']}"
    since = f" with {where(row.since, row.place)}" if row.since and row.since != row.place else ""
    return [
        plain(f"{where(row.place)}{_of_library(row)}", 160),
        plain(f"{row.kind}{way}{since}", 160),
        f"{row.calls:,}",
        format_size(total, 3) if total else DASH,
        f"{row.memory}{f' of {row.memory_of}' if row.memory_of else ''}" or DASH,
        _rate(total, row.seconds) if is_link else DASH,
        _rate(total, row.best) if is_link else DASH,
        format_seconds(row.seconds) if row.seconds else DASH,
        DASH if row.idle is None else format_seconds(row.idle) if row.idle else "0",
        row.certainty,
    ]
