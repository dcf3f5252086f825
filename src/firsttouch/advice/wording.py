"""The words of an advice: the answer in at most three sentences, and what would turn it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from firsttouch.advice.answer import Advice, StrategyRow, Turn
from firsttouch.advice.verdict import compared_with, is_single
from firsttouch.base.units import format_size
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.records.statements import Statement
from firsttouch.records.text import caption, count, join_names, quantity

MOST = 3
"""The most sentences of an answer."""
AGAIN = "inputs, kernels and results again, on the same buffers"
"""What a further iteration is."""


def with_buffers(program: str, size: int) -> str:
    """The name of an application, or 'a program that ...', with the size of its buffers."""
    noun, that, does = program.partition(" that ")
    return f"{noun} with {format_size(size, 3)} of buffers{that}{does}"


def on_processor(device: str) -> str:
    """The beginning of a sentence about a device that is the host's processor under another name."""
    return f"on {device}, which is the processor itself, "


def parts_of(row: StrategyRow) -> dict[str, float]:
    """What a strategy adds, over all phases, in ms, the most first."""
    parts: dict[str, float] = defaultdict(float)
    for term in row.terms:
        parts[term.what] += term.ms
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def in_few_words(names: Sequence[str], word: str = "and", most: int = MOST) -> str:
    """Strategies in a sentence; of many, the first and how many more."""
    shown = [*names] if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"]
    return join_names(shown, word)


def alike_names(row: StrategyRow, rows: Sequence[StrategyRow]) -> str:
    """The name of a row with those that are the same: 'managed, also +advise, pinned'."""
    base = row.strategy.partition("+")[0]
    same = [r.strategy for r in rows if r.same_as == row.strategy]
    return f"{row.strategy}, also {', '.join(name.removeprefix(base) for name in same)}" if same else row.strategy


# ------------------------------------------------------------------------------------------------ the answer


def sentences_of(advice: Advice) -> list[Statement]:
    """The answer in at most three sentences."""
    verdict, best = advice.verdict, advice.row(advice.verdict.strategies[0])
    texts, turns = [f"{_ANSWERS[verdict.kind](advice, best)}."], advice.turns
    if verdict.kind == "not known":
        choice = _take if len(verdict.strategies) == 1 else _any
        texts, turns = [texts[0], f"By the estimates alone: {choice(advice, best)}."], turns[1:]
    if verdict.kind != "too little":
        texts += [text for text in (_by_iteration(advice, best), _next(advice)) if text]
        texts += [caption(turn_text(turn)) for turn in turns]
    where = on_processor(advice.device) if advice.on_processor else ""
    return [Statement(caption(text), advice.predicted) for text in (where + texts[0], *texts[1:MOST])]


def _take(advice: Advice, best: StrategyRow) -> str:
    if later := _later(advice):
        return f"for {_about(advice)}, use {best.strategy} {later}"
    return f"use {best.strategy} for {_about(advice)}: it {_times(advice, best)}"


def _any(advice: Advice, best: StrategyRow) -> str:
    names = in_few_words(advice.verdict.strategies, "or")
    simpler = f"{best.strategy} is {'the simplest' if len(advice.verdict.strategies) > 2 else 'simpler'} to write"
    if later := _later(advice):
        return f"for {_about(advice)}, use {names} {later}; {simpler}"
    return f"use {names} for {_about(advice)}; {simpler}, and {_times(advice, best)}"


def _not_known(advice: Advice, best: StrategyRow) -> str:
    return f"no clear answer for {_about(advice)}: {turn_text(advice.turns[0]).removesuffix('.')}"


def _later(advice: Advice) -> str:
    """Up to how many iterations the verdict holds, and which other strategy is better from there on; '' if none is."""
    often = advice.often
    if often is None or not often.iterations:
        return ""
    up_to = count(often.iterations - 1, "iteration")
    return f"for up to {up_to}, and {in_few_words(often.strategies, 'or')} for {often.iterations:,} or more"


def _too_little(advice: Advice, best: StrategyRow) -> str:
    other = compared_with(advice.strategies)
    return (
        f"for {_about(advice)}, there is too little data for the memory method to matter: {best.strategy} adds an "
        f"estimated {_format_time(best)}, {other.strategy} {_format_time(other)}"
    )


_ANSWERS: Mapping[str, Callable[[Advice, StrategyRow], str]] = {
    "take": _take,
    "any": _any,
    "not known": _not_known,
    "too little": _too_little,
}
"""The first sentence of each kind of verdict, without its full stop."""


def _about(advice: Advice) -> str:
    about = with_buffers(advice.program, advice.size)
    return f"{advice.iterations:,} iterations of {about}" if (advice.iterations or 1) > 1 else about


def _times(advice: Advice, best: StrategyRow) -> str:
    """What the best strategy takes or adds, and the baseline beside it."""
    any_measured = any(row.measured for row in advice.strategies)
    text = (
        f"{_verb(best, any_measured)} {_format_time(best)}"
        if best.ms
        else "adds nothing that these results have a cost for"
    )
    baseline = _baseline(advice, best)
    if baseline is None:
        return text
    verb = f" {_verb(baseline, any_measured)}" if baseline.measured != best.measured else ""
    return f"{text}, {BASELINE}{verb} {_format_time(baseline)}"


def _baseline(advice: Advice, best: StrategyRow) -> StrategyRow | None:
    return next((row for row in advice.strategies if row.strategy == BASELINE and row is not best), None)


def _verb(row: StrategyRow, any_measured: bool) -> str:
    return "took" if row.measured else "is estimated to take" if any_measured else "adds an estimated"


def _format_time(row: StrategyRow) -> str:
    return f"{quantity(row.ms, 'ms')} (one run)" if is_single(row) else quantity(row.ms, "ms")


def _by_iteration(advice: Advice, best: StrategyRow) -> str:
    """What the first iteration adds, and each further one: of the best strategy, of that which is better for many
    iterations, and of the baseline.
    """
    if advice.often is None:
        return ""
    baseline, rows = _baseline(advice, best), [best]
    rows += [advice.row(advice.often.strategies[0])] if advice.often.iterations else []
    rows += [baseline] if baseline is not None and baseline not in rows else []
    rows = [row for row in rows if row.further_ms is not None]
    further = join_names([f"{_ms(row.further_ms)} under {row.strategy}" for row in rows])
    if not advice.often.iterations:
        return f"Each further iteration ({AGAIN}) adds {further}."
    any_measured = any(row.measured for row in advice.strategies)
    verbs = [_verb(row, any_measured) for row in rows]
    first = [
        f"{row.strategy} {f'{verb} ' if verb != before else ''}{_format_time(row)}"
        for row, verb, before in zip(rows, verbs, ["", *verbs], strict=False)
    ]
    return f"First iteration: {', '.join(first)}. Each further one ({AGAIN}) adds {further}."


def _next(advice: Advice) -> str:
    verdict = advice.verdict
    if verdict.next_ms is None or verdict.kind != "take" or advice.row(verdict.strategies[0]).measured:
        return ""
    return f"The next best, {verdict.next}, adds at least {_ms(verdict.next_ms)} more in {advice.level} such estimates."


# ------------------------------------------------------------------------------------------------ what would turn it


def turn_text(turn: Turn) -> str:
    """What would turn an advice, as a sentence."""
    where = " on such a machine" if turn.elsewhere else ""
    return f"{_TURNS[turn.kind](turn)}{turn.run and f'; measure{where}: {turn.run}'}."


def _no_time(turn: Turn) -> str:
    kind, have = ("strategy", "has") if len(turn.others) == 1 else ("strategies", "have")
    return f"the {kind} {join_names(turn.others)} {have} no estimate and may be faster"


def _bounds(turn: Turn) -> str:
    return (
        f"{turn.others[0]} adds {_ms(turn.ms)} if kernels use each byte once across the link, and at most "
        f"{_ms(turn.other_ms)} if as often as their times allow; the trace does not tell"
    )


def _ranges(turn: Turn) -> str:
    return (
        f"{in_few_words(turn.others)} may be as fast as {turn.strategy}, since their estimates differ by less than the "
        "error of the estimates"
    )


def _small_blocks(turn: Turn) -> str:
    return (
        f"the time of {count(turn.count, 'round trip')} between kernels and the CPU through a small buffer is not in "
        f"these results; with it, {turn.strategy} may add up to {_ms(turn.ms)}, more than {turn.others[0]}"
    )


def _rounds(turn: Turn) -> str:
    return (
        f"with {turn.count} rounds of each loop whose length depends on data, instead of the assumed {turn.assumed}, "
        f"{turn.others[0]} adds {_ms(turn.other_ms)} and {turn.strategy} {_ms(turn.ms)}"
    )


def _estimates(turn: Turn) -> str:
    are = "is only estimated, and may be" if len(turn.others) == 1 else "are only estimated, and may be"
    return f"{join_names(turn.others)} {are} faster than {turn.strategy}"


_TURNS: Mapping[str, Callable[[Turn], str]] = {
    "no time": _no_time,
    "bounds": _bounds,
    "ranges": _ranges,
    "small blocks": _small_blocks,
    "rounds": _rounds,
    "estimates": _estimates,
}


def _ms(ms: float | None) -> str:
    return quantity(ms, "ms") if ms else "nothing"
