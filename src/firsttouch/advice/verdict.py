"""The verdict of an advice, and what would turn it, as data: which strategies are apart by their times."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.advice.answer import Absent, StrategyRow, Turn, AdviceVerdict
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.costs import PlatformValue
from firsttouch.model.terms import Term
from firsttouch.records.predictions import Share, bounds_of_sums, is_one_less

FIRST_TOUCH = "first touch"
"""What the terms of first touches begin with."""
SIMILAR = 1.05
"""Strategies whose times differ by less than this are called alike."""
LITTLE, LITTLE_MS = 64 << 10, 1.0
"""Bytes of buffers below which copies and faults take no longer than the calls that start them, and the most ms that a
choice may save there and still not matter."""
CALL_MS = 0.01
"""ms that a call may take more or less."""
_ONCE = ("allocate", "free")
_NEW_PAGES = ("copy back into new pages", "first touch of host pages by the copy")
"""What the terms of copies begin with that take another time once the pages are there."""


def verdict_of(rows: Sequence[StrategyRow], size: int, *, fastest_known: bool, predicted: bool) -> AdviceVerdict:
    """What an advice comes to. size: bytes of all buffers."""
    best = fastest_of(rows)
    alike = not_apart(rows, best)
    names = tuple(row.strategy for row in (best, *alike))
    if _is_little(rows, size):
        return AdviceVerdict("too little", names, len(rows))
    if not fastest_known:
        return AdviceVerdict("fastest with a time", names, len(rows), measured_only=best is not rows[0])
    if len(names) == len(rows) > 1:
        return AdviceVerdict("alike", names, len(rows))
    if predicted and any(row.ms > SIMILAR * best.ms for row in alike):
        return AdviceVerdict("unclear", names, len(rows))
    return AdviceVerdict("take", names, len(rows), measured_only=best is not rows[0])


def fastest_of(rows: Sequence[StrategyRow]) -> StrategyRow:
    """The fastest; but the fastest that was measured, unless the other is faster beyond the error of its estimate."""
    fastest, measured_row = rows[0], next((row for row in rows if row.measured), None)
    return fastest if measured_row is None or fastest.high < measured_row.low else measured_row


def not_apart(rows: Sequence[StrategyRow], best: StrategyRow) -> list[StrategyRow]:
    """The other rows whose intervals overlap with that of the best, or that do not differ more than single runs do."""
    return [row for row in rows if row is not best and not _is_slower(row, best)]


def _is_slower(row: StrategyRow, best: StrategyRow) -> bool:
    """Of predictions, whether it is not alike, and slower whatever the values are that both rest on."""
    if _rests_on_a_platform(row) and _rests_on_a_platform(best):
        return row.ms > SIMILAR * best.ms and is_one_less(
            bounds_of_sums(map(_share_of_term, row.terms), map(_share_of_term, best.terms))
        )
    single = is_single(row) or is_single(best)
    return row.low > best.high * (SIMILAR if single else 1)


def _rests_on_a_platform(row: StrategyRow) -> bool:
    return not row.measured and any(isinstance(g, PlatformValue) for term in row.terms for g in term.grounds)


def _share_of_term(term: Term) -> Share:
    values = tuple(dict.fromkeys(g.name for g in term.grounds if isinstance(g, PlatformValue)))
    return values or ("", term.what), term.low, term.high


def is_single(row: StrategyRow) -> bool:
    """Whether the time is that of a single run, which has no interval."""
    return row.measured and row.low == row.high


def compared_with(rows: Sequence[StrategyRow]) -> StrategyRow:
    """What the least of a few bytes is compared with: the baseline, or else the next."""
    return next((row for row in rows[1:] if row.strategy == BASELINE), rows[1])


def _is_little(rows: Sequence[StrategyRow], size: int) -> bool:
    """Whether so few bytes are used that the estimates are those of calls, and the choice saves next to nothing."""
    if size >= LITTLE or len(rows) == 1 or any(row.measured for row in rows):
        return False
    return compared_with(rows).ms - rows[0].ms < LITTLE_MS


# ------------------------------------------------------------------------------------------------ what would turn it


def turns_of(rows: Sequence[StrategyRow], measure: str, absent: Sequence[Absent]) -> list[Turn]:
    """What would turn the advice. measure: the command that measures the program, or ''."""
    best, turns = fastest_of(rows), list[Turn]()
    if unknown := [a for a in absent if a.perhaps_faster]:
        commands = [measure] if measure else [*dict.fromkeys(a.run for a in unknown if a.run)]
        names = tuple(a.strategy for a in unknown)
        turns.append(Turn("no time", best.strategy, names, run=commands[0] if commands else ""))
    if kept := _turn_if_kept(rows, best):
        turns.append(kept)
    if alike := not_apart(rows, best):
        unmeasured = "".join(f" --strategy {row.strategy}" for row in alike if not row.measured and best.measured)
        run = f"{measure}{unmeasured}" if measure and (unmeasured or not best.measured) else ""
        turn = Turn("alike", best.strategy, tuple(row.strategy for row in alike), run=run)
        turns.insert(0 if best is not rows[0] else len(turns), turn)
    return turns


def _repeated_row(row: StrategyRow) -> StrategyRow:
    """What a strategy adds if a program keeps its memory and repeats the work."""
    terms = [
        t for t in row.terms if t.phase not in _ONCE and not t.what.startswith((FIRST_TOUCH, *_NEW_PAGES))
    ]  # fmt: skip
    ms, low, high = (sum(getattr(t, part) for t in terms) for part in ("ms", "low", "high"))
    return StrategyRow(row.strategy, ms, low, high, terms)


def _copies_into_new(row: StrategyRow) -> bool:
    """Whether copies into new pages were priced, of which it is not known what they take once the pages are there."""
    return any(t.what.startswith(_NEW_PAGES) for t in row.terms)


def _turn_if_kept(rows: Sequence[StrategyRow], best: StrategyRow) -> Turn | None:
    """Which strategies are better if a program keeps its buffers; None if none is."""
    if not best.terms:
        return None
    kept_rows = [_repeated_row(row) for row in rows if row.terms and not _copies_into_new(row)]
    mine, least = _repeated_row(best), min(kept_rows, key=lambda row: row.ms, default=None)
    if least is None or least.ms * SIMILAR + CALL_MS >= mine.ms or least.high >= mine.low:
        return None
    alike = [row.strategy for row in kept_rows if row is not least and row.low <= least.high]
    return Turn("kept", best.strategy, (least.strategy, *alike), mine.ms, least.ms, is_least=_copies_into_new(best))
