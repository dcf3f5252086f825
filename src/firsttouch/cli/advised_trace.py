"""What `firsttouch advise --profile` prints: at most 25 lines, the answer first. Each line has its word, exact
(recorded) or assumed; each row says whether what kernels use is known.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from firsttouch.advice.answer import Absent
from firsttouch.advice.least import BOUNDED
from firsttouch.advice.traced_wording import (
    check_text,
    edit_texts,
    is_assumed_row,
    part_texts,
    sentences_of_traced,
    shown_name,
    unchecked_text,
)
from firsttouch.cli.output import text_width
from firsttouch.records.text import count, join_names, quantity

if TYPE_CHECKING:
    from firsttouch.advice.answer import Advice, StrategyRow

MOST_LINES = 25
_HEAD, _WORD = 11, 9
"""The widths of the first two columns of what is not a row of a strategy."""
_LONGEST = 400
_LEAST_ROWS = 5
"""The heads, the program as it is, the advised strategy, the next one, and how many more there are."""
_LEAST_PARTS = 12
"""The least columns that are left for what a row consists of."""


def lines(advice: Advice, stream: TextIO | None = None) -> list[str]:
    """The answer, a row for each strategy, and what to change, check and know."""
    traced, width = advice.traced, text_width(stream or sys.stdout)
    assert traced is not None
    first = _wrapped([_shortened_line(str(statement)) for statement in sentences_of_traced(advice, traced)], width, 2)
    level = f"From, to: in {advice.level} such estimates the time is in this range." + _same_text(advice)
    level += " Tried: the whole program, measured by firsttouch try." if traced.tried else ""
    changes = [*_wrapped([level], width, 2), *_wrapped([*_change_lines(advice)], width, _HEAD + _WORD)]
    rows = [*_table(advice, width)]
    least = min(len(rows), _LEAST_ROWS)
    for most in (MOST_LINES, 3, 2, 1):
        last = [*changes, *_wrapped([*_known_lines(advice)], width, _HEAD + _WORD, most)]
        room = MOST_LINES - len(first) - len(last)
        if room >= least:
            break
    room = max(room, least)
    if len(rows) > room:
        more = count(len(rows) - room + 1, "more strategy", "more strategies")
        rows = [*rows[: room - 1], f"{more}, which add more (--json)"]
    return [*first, *rows, *last][:MOST_LINES]


def _same_text(advice: Advice) -> str:
    """Of the strategies that have no row."""
    same = [row.strategy for row in advice.strategies if row.same_as]
    return f" Others add the same: {join_names(same)}." if same else ""


def _shortened_line(text: str) -> str:
    """A text of one line, and not of more than a few."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _wrapped(rows: Sequence[str], width: int, indent: int, most: int = MOST_LINES) -> list[str]:
    """The rows on lines, each on `most` lines at most."""
    wrapper = textwrap.TextWrapper(
        width,
        subsequent_indent=" " * indent,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" \N{HORIZONTAL ELLIPSIS}",
    )
    return [line for row in rows for line in (wrapper.wrap(row) if len(row) > width else [row])]


def _table(advice: Advice, width: int) -> Iterator[str]:
    traced = advice.traced
    assert traced is not None
    distinct = [row for row in advice.strategies if not row.same_as]
    rows = [*([traced.as_it_is] if traced.as_it_is is not None else ()), *distinct]
    bounded = [absent for absent in advice.unavailable if absent.most_ms is not None]
    names = max(len(shown_name(row.strategy)) for row in (*rows, *bounded))
    tried = {row.strategy: row.ms for row in traced.tried}
    head = f"  {'tried':>7}" if tried else ""
    yield _cut_to_width(f"{'':<{names}}  {'time':>7}  {'from':>7}  {'to':>7}{head}  use      largest parts", width)
    first = 1 + (traced.as_it_is is not None)  # the program as it is, and the advised strategy
    for row in [*rows[:first], *sorted([*rows[first:], *bounded], key=_least_time)]:
        if isinstance(row, Absent):
            times, word, parts = (None, row.least_ms, row.most_ms), "unseen", [BOUNDED]
        else:
            word = "assumed" if is_assumed_row(traced, row.strategy) else "known"
            times, parts = (row.ms, row.low, row.high), part_texts(row)
        measured = f"  {_times(tried.get(row.strategy))}" if tried else ""
        text = f"{shown_name(row.strategy):<{names}}  {_times(*times)}{measured}  {word:<7}  "
        yield _cut_to_width(text + _first_with_room(parts, width - len(text)), max(width, len(text))).rstrip()


def _least_time(row: StrategyRow | Absent) -> float:
    return (row.least_ms or 0.0) if isinstance(row, Absent) else row.ms


def _times(*times: float | None) -> str:
    return "  ".join(f"{'' if ms is None else quantity(ms, 'ms'):>7}" for ms in times)


def _cut_to_width(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}\N{HORIZONTAL ELLIPSIS}"


def _first_with_room(parts: Sequence[str], room: int) -> str:
    """The first of the parts, and the others as far as there is room."""
    text = "".join(parts[:1])
    for part in parts[1:]:
        if len(text) + len(part) + 2 > room:
            break
        text += f", {part}"
    return text


def _row(head: str, word: str, texts: Sequence[str]) -> Iterator[str]:
    """The first of the texts, as many as there is room for, and how many more there are."""
    if not texts:
        return
    whole = [" ".join(text.split()) for text in texts]
    most = len(whole)
    while most > 1 and len("; ".join(whole[:most])) > _LONGEST:
        most -= 1
    more = [f"{len(whole) - most} more (--json)"] if most < len(whole) else []
    yield f"{head:<{_HEAD}}{word:<{_WORD}}{'; '.join([_shortened_line(whole[0]), *whole[1:most], *more])}"


def _change_lines(advice: Advice) -> Iterator[str]:
    traced = advice.traced
    assert traced is not None
    if traced.check:
        yield from _row("check", "exact", [check_text(checked) for checked in traced.check])
    else:
        yield from _row("check", "unseen", [unchecked_text(advice)])
    yield from _row("edit", "exact", edit_texts(traced.edits))


def _known_lines(advice: Advice) -> Iterator[str]:
    traced = advice.traced
    assert traced is not None
    yield from _row("assumed", "assumed", traced.assumed)
    yield from _row("unseen", "unseen", traced.unseen)
    yield from _row("left out", "exact", traced.not_priced)
    yield from _row("no time", "", _absent_lines(advice))


def _absent_lines(advice: Advice) -> list[str]:
    """The strategies without a time: those of which the least is known or that an option would offer, by reason, and
    the rest.
    """
    with_reason: dict[str, list[str]] = {}
    rest = []
    for absent in advice.unavailable:
        if absent.least_ms is not None and absent.most_ms is None:
            at_least = f"{absent.strategy} (at least {quantity(absent.least_ms, 'ms')})"
            with_reason.setdefault(absent.reason, []).append(at_least)
        elif "--set " in absent.reason:
            with_reason.setdefault(absent.reason, []).append(absent.strategy)
        elif absent.least_ms is None:
            rest.append(absent.strategy)
    texts = [f"{join_names(names)}: {reason}" for reason, names in with_reason.items()]
    return [*texts, *([f"{join_names(rest)} (--json says why)"] if rest else ())]
