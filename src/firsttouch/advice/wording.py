"""The words of an advice: the answer in at most three sentences, and what would turn it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from firsttouch.advice.answer import Advice, StrategyRow, Turn
from firsttouch.advice.verdict import SIMILAR, compared_with, is_single
from firsttouch.base.units import format_size
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.records.text import caption, count, join_names, quantity

MOST = 3
"""The most sentences of an answer."""


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


# ------------------------------------------------------------------------------------------------ the answer


def sentences_of(advice: Advice) -> list[str]:
    """The answer in at most three sentences."""
    best = advice.row(advice.verdict.strategies[0])
    where = on_processor(advice.device) if advice.on_processor else ""
    first = [] if advice.fastest_known else advice.turns[:1]
    texts = [f"{where}{_ANSWERS[advice.verdict.kind](advice, best)}.", *map(turn_text, first)]
    if advice.verdict.kind != "too little":
        if best.estimated_ms is not None:
            texts.append(f"Micro-measurements alone, put on the same scale, say {quantity(best.estimated_ms, 'ms')}.")
        elif text := _parts_sentence(advice, best):
            texts.append(text)
        texts += [turn_text(turn) for turn in advice.turns if turn not in first and (turn.kind != "alike" or turn.run)]
    return [with_prediction(advice, caption(text)) for text in texts[:MOST]]


def with_prediction(advice: Advice, text: str) -> str:
    """A sentence of an advice, which says for which machine it is predicted, if it is."""
    return f"{caption(advice.predicted)}: {text}" if advice.predicted else text


def _take(advice: Advice, best: StrategyRow) -> str:
    return f"take {best.strategy} for {_about(advice)}: it {_times(advice, best)}{_tied(advice)}"


def _alike(advice: Advice, best: StrategyRow) -> str:
    names = join_names(advice.verdict.strategies)
    return f"for {_about(advice)}, {names} are not told apart: {best.strategy} {_times(advice, best)}"


def _unclear(advice: Advice, best: StrategyRow) -> str:
    return (
        f"for {_about(advice)}, no strategy is clearly better than all others: {best.strategy} "
        f"{_times(advice, best)}{_tied(advice)}"
    )


def _fastest_with_a_time(advice: Advice, best: StrategyRow) -> str:
    verdict = advice.verdict
    only = "the only strategy" if verdict.of == 1 else f"the fastest of {verdict.of} strategies"
    only = "the fastest measured strategy" if verdict.measured_only else only
    return f"for {_about(advice)}, {best.strategy} is {only} with a time: it {_times(advice, best)}{_tied(advice)}"


def _too_little(advice: Advice, best: StrategyRow) -> str:
    other = compared_with(advice.strategies)
    return (
        f"for {_about(advice)}, there is too little data for the memory method to matter: {best.strategy} adds an "
        f"estimated {_format_time(best)}, {other.strategy} {_format_time(other)}{_tied(advice)}"
    )


_ANSWERS: Mapping[str, Callable[[Advice, StrategyRow], str]] = {
    "take": _take,
    "alike": _alike,
    "unclear": _unclear,
    "fastest with a time": _fastest_with_a_time,
    "too little": _too_little,
}
"""The first sentence of each kind of verdict, without its full stop."""


def _about(advice: Advice) -> str:
    return with_buffers(advice.program, advice.size)


def _tied(advice: Advice) -> str:
    alike = advice.verdict.strategies[1:]
    return f"; not told apart from it: {join_names(alike)}" if alike else ""


def _times(advice: Advice, best: StrategyRow) -> str:
    """What the best strategy takes or adds, and the baseline beside it."""
    any_measured = any(row.measured for row in advice.strategies)
    text = f"{_verb(best, any_measured)} {_format_time(best)}" if best.ms else "adds nothing that these results price"
    baseline = next((row for row in advice.strategies if row.strategy == BASELINE and row is not best), None)
    if baseline is None:
        return text
    verb = f" {_verb(baseline, any_measured)}" if baseline.measured != best.measured else ""
    return f"{text}, {BASELINE}{verb} {_format_time(baseline)}"


def _verb(row: StrategyRow, any_measured: bool) -> str:
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


# ------------------------------------------------------------------------------------------------ what would turn it


def turn_text(turn: Turn) -> str:
    """What would turn an advice, as a sentence."""
    return f"{_TURNS[turn.kind](turn)}{turn.run and f'; measure: {turn.run}'}."


def _no_time(turn: Turn) -> str:
    have = "has no time" if len(turn.others) == 1 else "have no time"
    return f"It is not known to be the fastest, since {join_names(turn.others)} {have}"


def _kept(turn: Turn) -> str:
    better, *alike = turn.others
    at_least = "at least " if turn.is_least else ""
    return (
        f"If the program keeps its buffers and repeats this work, {better} is better: it adds an estimated "
        f"{_ms(turn.other_ms)} each time, {turn.strategy} {at_least}{_ms(turn.ms)}"
        f"{f'; not told apart from it: {join_names(alike)}' if alike else ''}"
    )


def _not_apart(turn: Turn) -> str:
    return f"Not clearly apart from {turn.strategy}: {', '.join(turn.others)}"


def _small_blocks(turn: Turn) -> str:
    return (
        f"It is not known to be the fastest: what {count(turn.count, 'turn')} of kernels and the CPU over a small "
        f"block take is not in these results, and with up to {_ms(turn.ms)} {turn.others[0]} is faster"
    )


def _rounds(turn: Turn) -> str:
    return (
        f"It is not known to be the fastest: with {turn.count} rounds of each loop that data end, not the assumed "
        f"{turn.assumed}, {turn.others[0]} adds {_ms(turn.other_ms)} and {turn.strategy} {_ms(turn.ms)}"
    )


_TURNS: Mapping[str, Callable[[Turn], str]] = {
    "no time": _no_time,
    "kept": _kept,
    "alike": _not_apart,
    "small blocks": _small_blocks,
    "rounds": _rounds,
}


def _ms(ms: float | None) -> str:
    return quantity(ms or 0.0, "ms")
