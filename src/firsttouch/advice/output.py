"""An advice as --json and Python have it: its data, and their words."""

from __future__ import annotations

from firsttouch.advice.answer import (
    Absent,
    Advice,
    AdviceVerdict,
    OftenAdvice,
    PatternAsked,
    StrategyRow,
    TracedAdvice,
    Turn,
)
from firsttouch.advice.settings import Settings
from firsttouch.advice.traced_wording import sentences_of_traced
from firsttouch.advice.wording import sentences_of, turn_text
from firsttouch.base.outputs import Output
from firsttouch.records.statements import Statement, paragraph


class AdviceOutput(Output, frozen=True, kw_only=True, tag="firsttouch-advise/1"):
    """What `firsttouch advise --json` prints. take: the recommended strategy. verdict: what the advice comes to, which
    `sentences` say. often: the same for many iterations, if their number is not given. level: how often a range from
    low to high holds. turning: what would change the advice, which `turns` say.
    """

    device: str
    title: str
    program: str
    size: int
    scale: str
    strategies: list[StrategyRow]
    unavailable: list[Absent]
    fastest_known: bool
    verdict: AdviceVerdict
    sentences: list[str]
    often: OftenAdvice | None
    iterations: int | None
    level: str
    turning: list[Turn]
    turns: list[str]
    assumptions: list[str]
    settings: Settings
    take: str
    pattern: PatternAsked | None
    predicted: str
    traced: TracedAdvice | None


def answer(advice: Advice) -> list[Statement]:
    """The answer in at most three sentences."""
    return sentences_of(advice) if advice.traced is None else sentences_of_traced(advice, advice.traced)


def output(advice: Advice) -> AdviceOutput:
    """The answer for --json and Python."""
    statements = answer(advice)
    return AdviceOutput(
        summary=" ".join(paragraph(statements)),
        device=advice.device,
        title=advice.title,
        program=advice.program,
        size=advice.size,
        scale=advice.scale,
        strategies=advice.strategies,
        unavailable=advice.unavailable,
        fastest_known=not any(turn.kind in ("no time", "bounds", "small blocks", "rounds") for turn in advice.turns),
        verdict=advice.verdict,
        sentences=list(map(str, statements)),
        often=advice.often,
        iterations=advice.iterations,
        level=advice.level,
        turning=advice.turns,
        turns=[turn_text(turn) for turn in advice.turns],
        assumptions=advice.assumptions,
        settings=advice.settings,
        take=advice.verdict.strategies[0],
        pattern=advice.pattern,
        predicted=advice.predicted,
        traced=advice.traced,
    )
