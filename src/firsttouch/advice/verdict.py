"""The verdict of an advice, and what would turn it, as data: which strategies are apart by their times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from firsttouch.advice.answer import Absent, AdviceVerdict, OftenAdvice, StrategyRow, Turn
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.ranges import difference, differing_ms
from firsttouch.model.terms import Term
from firsttouch.program.strategies import STRATEGIES

FIRST_TOUCH = "first touch"
"""What the terms of first touches begin with."""
SIMILAR = 1.05
"""Single runs whose times differ by less than this are called alike, and estimates that are nearly the same."""
A_TENTH, EQUAL = 1.1, 1.25
"""A strategy is taken if all others are slower by this; no other is called its equal that is slower than that."""
LITTLE, LITTLE_MS = 64 << 10, 1.0
"""Bytes of buffers below which copies and faults take no longer than the calls that start them, and the most ms that a
choice may save there and still not matter."""
HARDLY = 0.01
"""Estimates of which less than this part differs are one."""
CALL_MS = 0.01
"""ms that a call may take more or less."""


# ------------------------------------------------------------------------------------------------ which are apart


def verdict_of(rows: Sequence[StrategyRow], size: int, turns: Sequence[Turn]) -> AdviceVerdict:
    """What an advice comes to. size: bytes of all buffers. turns: what would change it."""
    best, distinct = fastest_of(rows), [row for row in rows if not row.same_as]
    equals = equals_of(distinct, best)
    names = tuple(row.strategy for row in equals)
    if _is_little(rows, size):
        return AdviceVerdict("too little", names, len(rows))
    if any(turn.kind != "estimates" for turn in turns):
        return AdviceVerdict("not known", names, len(rows))
    others = [row for row in distinct if row not in equals and row.terms and is_slower(row, best)]
    least = [(difference(row.terms, best.terms).low, row.strategy) for row in others if not row.measured]
    next_ms, next_one = min((pair for pair in least if pair[0] > 0), default=(None, ""))
    return AdviceVerdict("take" if len(equals) == 1 else "any", names, len(rows), next_one, next_ms)


def equals_of(rows: Sequence[StrategyRow], best: StrategyRow) -> list[StrategyRow]:
    """The best row and those that are as good, the simplest to write first."""
    comparable = [row for row in rows if row.measured == best.measured]
    equals = [row for row in comparable if row is best or _is_equal(row, best)]
    return sorted(equals, key=lambda row: (STRATEGIES[row.strategy].effort, row.ms))


def _is_equal(row: StrategyRow, best: StrategyRow) -> bool:
    return row.ms <= A_TENTH * best.ms + CALL_MS or (row.ms <= EQUAL * best.ms and not is_slower(row, best))


def fastest_of(rows: Sequence[StrategyRow]) -> StrategyRow:
    """The fastest; but the fastest that was measured, unless the other is faster beyond the error of its estimate."""
    fastest, measured_row = rows[0], next((row for row in rows if row.measured), None)
    return fastest if measured_row is None or fastest.high < measured_row.low else measured_row


def not_apart(rows: Sequence[StrategyRow], best: StrategyRow) -> list[StrategyRow]:
    """The other rows that are not told apart from the best."""
    return [row for row in rows if row is not best and not is_slower(row, best)]


def is_slower(row: StrategyRow, best: StrategyRow) -> bool:
    """Whether a row is told apart from a faster one: estimates by their difference, measured times by their intervals,
    and by more than single runs differ.
    """
    if row.measured or best.measured:
        single = is_single(row) or is_single(best)
        return row.low > best.high * (SIMILAR if single else 1)
    apart = difference(row.terms, best.terms)
    return apart.is_told and apart.ms > 0


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


def with_same(rows: Sequence[StrategyRow]) -> list[StrategyRow]:
    """The rows, of which those say so that add the same as a simpler one, the first time and further times."""
    simplest: dict[str, str] = {}
    leaders = list[StrategyRow]()
    for row in sorted(rows, key=lambda row: STRATEGIES[row.strategy].effort):
        leader = next((other for other in leaders if _adds_the_same(row, other)), None)
        if leader is None:
            leaders.append(row)
        else:
            simplest[row.strategy] = leader.strategy
    return [replace(row, same_as=simplest.get(row.strategy, "")) for row in rows]


def _adds_the_same(row: StrategyRow, other: StrategyRow) -> bool:
    """Whether two estimates are the same, but for what is less than a hundredth of them."""
    if row.measured or other.measured or not row.terms or not other.terms:
        return False
    further = (row.further_ms or 0.0), (other.further_ms or 0.0)
    alike = max(further) - min(further) <= HARDLY * max(further)
    return alike and differing_ms(row.terms, other.terms) <= HARDLY * other.ms


# ------------------------------------------------------------------------------------------------ often


def often_of(rows: Sequence[StrategyRow], each: dict[str, list[Term]]) -> OftenAdvice | None:
    """The advice for many iterations. each: the terms that an iteration adds, by strategy. None if the advised strategy
    has none.
    """
    best = fastest_of(rows)
    if best.strategy not in each:
        return None
    by_name = {row.strategy: row for row in rows}
    again = [
        StrategyRow(name, sum(t.ms for t in terms), 0.0, 0.0, terms, same_as=by_name[name].same_as)
        for name, terms in each.items()
        if name in by_name
    ]
    distinct = [row for row in again if not row.same_as] or again
    least = min(distinct, key=lambda row: row.ms)
    equals = equals_of(distinct, least)
    names = tuple(row.strategy for row in equals)
    if best.strategy in names or best.same_as in names:
        return OftenAdvice(tuple(sorted(names, key=lambda name: name != best.strategy)), 0)
    return OftenAdvice(names, _crossing(best, by_name[names[0]]))


def _crossing(best: StrategyRow, other: StrategyRow) -> int:
    """From how many iterations on another strategy adds less in all."""
    saved = (best.further_ms or 0.0) - (other.further_ms or 0.0)
    first = sum(t.ms for t in other.terms) - sum(t.ms for t in best.terms)
    return max(2, math.floor(first / saved) + 2) if saved > 0 else 0


# ------------------------------------------------------------------------------------------------ what would turn it


def turns_of(
    rows: Sequence[StrategyRow], measure: str, absent: Sequence[Absent], *, elsewhere: bool = False
) -> list[Turn]:
    """What would turn the advice. measure: the command that measures the program, or ''; elsewhere: not here."""
    best, turns = fastest_of(rows), list[Turn]()
    perhaps = [a for a in absent if a.perhaps_faster]
    if bounded := [a for a in perhaps if a.most_ms is not None]:
        first, names = bounded[0], tuple(a.strategy for a in bounded)
        turns.append(Turn("bounds", best.strategy, names, first.least_ms, first.most_ms, elsewhere=elsewhere))
    if unknown := [a for a in perhaps if a.most_ms is None]:
        commands = [measure] if measure else [*dict.fromkeys(a.run for a in unknown if a.run)]
        names = tuple(a.strategy for a in unknown)
        turns.append(Turn("no time", best.strategy, names, run=commands[0] if commands else "", elsewhere=elsewhere))
    unsure = [row for row in not_apart(rows, best) if not row.same_as and not _is_equal(row, best)]
    if ranges := [row.strategy for row in unsure if not best.measured]:
        turns.append(Turn("ranges", best.strategy, tuple(ranges), run=measure, elsewhere=elsewhere))
    estimated = [row.strategy for row in not_apart(rows, best) if best.measured and not row.measured]
    if estimated and measure:
        options = "".join(f" --strategy {name}" for name in estimated)
        turns.append(Turn("estimates", best.strategy, tuple(estimated), run=f"{measure}{options}"))
    return turns
