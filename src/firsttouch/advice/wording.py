"""The words of an advice: the answer in at most three sentences, and what would turn it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from firsttouch.advice.answer import Absent, Advice, StrategyRow
from firsttouch.base.units import format_size
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.costs import PlatformValue
from firsttouch.model.terms import Term
from firsttouch.records.predictions import Share, bounds_of_sums, is_one_less
from firsttouch.records.text import caption, join_names, quantity

FIRST_TOUCH = "first touch"
"""What the terms of first touches begin with."""
SIMILAR = 1.05
"""Strategies whose times differ by less than this are called alike."""
MOST = 3
"""The most sentences of an answer."""
LITTLE, LITTLE_MS = 64 << 10, 1.0
"""Bytes of buffers below which copies and faults take no longer than the calls that start them, and the most ms that a
choice may save there and still not matter."""
CALL_MS = 0.01
"""ms that a call may take more or less."""
_ALIKE = "Not clearly apart from"
_ONCE = ("allocate", "free")
_NEW_PAGES = ("copy back into new pages", "first touch of host pages by the copy")
"""What the terms of copies begin with that take another time once the pages are there."""


# ------------------------------------------------------------------------------------------------ which are apart


def chosen(rows: Sequence[StrategyRow]) -> StrategyRow:
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


def parts_of(row: StrategyRow) -> dict[str, float]:
    """What a strategy adds, over all phases, in ms, the most first."""
    parts: dict[str, float] = defaultdict(float)
    for term in row.terms:
        parts[term.what] += term.ms
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


# ------------------------------------------------------------------------------------------------ what would turn it


def turns_of(rows: Sequence[StrategyRow], measure: str, absent: Sequence[Absent]) -> list[str]:
    """What would turn the advice. measure: the command that measures the program, or ''."""
    best, turns = chosen(rows), list[str]()
    if unknown := [a for a in absent if a.perhaps_faster]:
        names = [a.strategy for a in unknown]
        commands = [measure] if measure else [*dict.fromkeys(a.run for a in unknown if a.run)]
        command = f"; measure: {commands[0]}" if commands else ""
        have = "has no time" if len(names) == 1 else "have no time"
        turns.append(f"It is not known to be the fastest, since {join_names(names)} {have}{command}.")
    if kept := _advice_if_kept(rows, best):
        turns.append(kept)
    if alike := not_apart(rows, best):
        unmeasured = "".join(f" --strategy {row.strategy}" for row in alike if not row.measured and best.measured)
        command = f"; measure: {measure}{unmeasured}" if measure and (unmeasured or not best.measured) else ""
        text = f"{_ALIKE} {best.strategy}: {', '.join(row.strategy for row in alike)}{command}."
        turns.insert(0 if best is not rows[0] else len(turns), text)
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


def _advice_if_kept(rows: Sequence[StrategyRow], best: StrategyRow) -> str:
    """Which strategies are better if a program keeps its buffers, or ''."""
    if not best.terms:
        return ""
    kept_rows = [_repeated_row(row) for row in rows if row.terms and not _copies_into_new(row)]
    mine, least = _repeated_row(best), min(kept_rows, key=lambda row: row.ms, default=None)
    if least is None or least.ms * SIMILAR + CALL_MS >= mine.ms or least.high >= mine.low:
        return ""
    alike_strategies = [row.strategy for row in kept_rows if row is not least and row.low <= least.high]
    alike = f"; not told apart from it: {join_names(alike_strategies)}" if alike_strategies else ""
    at_least = "at least " if _copies_into_new(best) else ""
    return (
        f"If the program keeps its buffers and repeats this work, {least.strategy} is better: it adds an estimated "
        f"{quantity(least.ms, 'ms')} each time, {best.strategy} {at_least}{quantity(mine.ms, 'ms')}{alike}."
    )


# ------------------------------------------------------------------------------------------------ the answer


def with_buffers(program: str, size: int) -> str:
    """The name of an application, or 'a program that ...', with the size of its buffers."""
    noun, that, does = program.partition(" that ")
    return f"{noun} with {format_size(size, 3)} of buffers{that}{does}"


def sentences_of(advice: Advice, where: str) -> list[str]:
    """The answer in at most three sentences. where: what the first begins with."""
    best = chosen(advice.strategies)
    texts = [caption(f"{where}{_answer_sentence(advice, best)}.")]
    if not advice.fastest_known:
        texts += advice.turns[:1]
    if _is_little(advice):
        return texts
    if best.estimated_ms is not None:
        texts.append(f"Micro-measurements alone, put on the same scale, say {quantity(best.estimated_ms, 'ms')}.")
    elif text := _parts_sentence(advice, best):
        texts.append(text)
    turns = [turn for turn in advice.turns if not turn.startswith(_ALIKE) or "; measure: " in turn]
    return [*dict.fromkeys([*texts, *turns])][:MOST]


def _answer_sentence(advice: Advice, best: StrategyRow) -> str:
    """The first sentence: the strategy to take with those that are not told apart from it, and what it takes."""
    rows, about = advice.strategies, with_buffers(advice.program, advice.size)
    alike = not_apart(rows, best)
    names = [row.strategy for row in (best, *alike)]
    tied = f"; not told apart from it: {join_names(names[1:])}" if alike else ""
    any_measured = any(row.measured for row in rows)
    took = (
        f"{_took_words(best, any_measured)} {_format_time(best)}"
        if best.ms
        else "adds nothing that these results price"
    )
    baseline = next((row for row in rows if row.strategy == BASELINE and row is not best), None)
    if baseline is not None:
        verb = f" {_took_words(baseline, any_measured)}" if baseline.measured != best.measured else ""
        took += f", {BASELINE}{verb} {_format_time(baseline)}"
    if _is_little(advice):
        other = _reference(rows)
        return (
            f"for {about}, there is too little data for the memory method to matter: {best.strategy} adds an estimated "
            f"{_format_time(best)}, {other.strategy} {_format_time(other)}{tied}"
        )
    if not advice.fastest_known:
        only = "the only strategy" if len(rows) == 1 else f"the fastest of {len(rows)} strategies"
        if best is not rows[0]:
            only = "the fastest measured strategy"
        return f"for {about}, {best.strategy} is {only} with a time: it {took}{tied}"
    if len(names) == len(rows) > 1:
        return f"for {about}, {join_names(names)} are not told apart: {best.strategy} {took}"
    if advice.predicted and any(row.ms > SIMILAR * best.ms for row in alike):
        return f"for {about}, no strategy is clearly better than all others: {best.strategy} {took}{tied}"
    return f"take {best.strategy} for {about}: it {took}{tied}"


def _is_little(advice: Advice) -> bool:
    """Whether so few bytes are used that the estimates are those of calls, and the choice saves next to nothing."""
    rows = advice.strategies
    if advice.size >= LITTLE or len(rows) == 1 or any(row.measured for row in rows):
        return False
    return _reference(rows).ms - rows[0].ms < LITTLE_MS


def _reference(rows: Sequence[StrategyRow]) -> StrategyRow:
    """What the least of a few bytes is compared with: the baseline, or else the next."""
    return next((row for row in rows[1:] if row.strategy == BASELINE), rows[1])


def _took_words(row: StrategyRow, any_measured: bool) -> str:
    return "took" if row.measured else "is estimated to take" if any_measured else "adds an estimated"


def _format_time(row: StrategyRow) -> str:
    return f"{quantity(row.ms, 'ms')} (one run)" if is_single(row) else quantity(row.ms, "ms")


def _parts_sentence(advice: Advice, best: StrategyRow) -> str:
    """What most of the time is, of the best and of the baseline: 'the largest part' if that is not above half, with
    the next if that is as large.
    """
    baseline = [row for row in advice.strategies if row.strategy == BASELINE and row is not best]
    texts = []
    for row in (best, *baseline):
        (part_name, ms), *other_parts = [*parts_of(row).items(), ("", 0.0)]
        if not ms:
            break
        alike = [(name, also) for name, also in other_parts if also * SIMILAR >= ms]
        part = "the largest parts" if alike else "most" if ms > row.ms / 2 else "the largest part"
        subject = f"{BASELINE}:" if row is not best else "it are" if alike else "it is"
        named = join_names([f"{name} ({quantity(its, 'ms')})" for name, its in [(part_name, ms), *alike]])
        texts.append(f"{part} of {subject} {named}")
    return f"{caption('; '.join(texts))}." if texts else ""
