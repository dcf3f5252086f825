"""The answer of advise as data: the strategies with their times, those without, and what was asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from firsttouch.advice.settings import Settings
from firsttouch.model.costs import Ground
from firsttouch.model.terms import Term
from firsttouch.outputs import Output
from firsttouch.records.predicted import said_once
from firsttouch.workload.patterns import PatternSettings


@dataclass(frozen=True)
class StrategyRow:
    """One strategy.

    ms, low, high: what it adds to the work that all strategies have in common; or, if the application was measured, the
    whole time. estimated_ms: the estimate on the same scale, for a strategy that was measured; difference_ms: the
    measured time less the estimate.
    """

    strategy: str
    ms: float
    low: float
    high: float
    terms: list[Term]
    measured: bool = False
    estimated_ms: float | None = None
    grounds: tuple[Ground, ...] = ()
    difference_ms: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "difference_ms", None if self.estimated_ms is None else self.ms - self.estimated_ms)


@dataclass(frozen=True)
class Absent:
    """A strategy without a time.

    run: the command that measures what is missing, or ''. perhaps_faster: whether it may be faster than all that have a
    time. least_ms: its least time, on the scale of the others, if something is known about it.
    """

    strategy: str
    reason: str
    run: str = ""
    perhaps_faster: bool = False
    least_ms: float | None = None


@dataclass(frozen=True)
class PatternAsked:
    """The pattern that an advice is about."""

    name: str
    settings: PatternSettings


@dataclass
class Advice:
    """Strategies for one program on one device, fastest first.

    program: what the advice is about. scale: what the times mean. fastest_known: whether no strategy without a time may
    be faster than the first. sentences: the answer. turns: what would change it. take: the recommended strategy, which
    is the first, or the first that was measured. predicted: 'predicted for gh200' if the prices are a platform's,
    '' if they were measured.
    """

    device: str
    title: str
    program: str
    size: int
    scale: str
    strategies: list[StrategyRow]
    unavailable: list[Absent]
    fastest_known: bool = True
    sentences: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    take: str = ""
    pattern: PatternAsked | None = None
    predicted: str = ""

    def output(self) -> AdviceOutput:
        """The answer for --json and Python."""
        return AdviceOutput(summary=" ".join(said_once(self.sentences)), **vars(self))


class AdviceOutput(Output, frozen=True, kw_only=True, tag="firsttouch-advise/1"):
    """What `firsttouch advise --json` prints: the fields of Advice. take: the recommended strategy."""

    device: str
    title: str
    program: str
    size: int
    scale: str
    strategies: list[StrategyRow]
    unavailable: list[Absent]
    fastest_known: bool
    sentences: list[str]
    turns: list[str]
    assumptions: list[str]
    settings: Settings
    take: str
    pattern: PatternAsked | None
    predicted: str
