"""The answer of advise as data: the verdict, the strategies with their times, those without, and what would turn it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from firsttouch.advice.edit import Edit
from firsttouch.advice.settings import Settings
from firsttouch.model.costs import Ground
from firsttouch.model.terms import Term
from firsttouch.program.patterns import PatternSettings


@dataclass(frozen=True)
class StrategyRow:
    """One strategy.

    ms: what it adds to the work that all strategies have in common, once or in all iterations that were asked for; or,
    if the application was measured, the whole time. low, high: where that lies, if that of the best is as it is
    (model/ranges.py); of a measured time, the bounds of its interval. estimated_ms: the estimate on the same scale, for
    a strategy that was measured; difference_ms: the measured time less the estimate. further_ms: what each further
    iteration on the same buffers adds; None if it is not estimated. same_as: a strategy that adds the same, and is
    simpler to write; or ''.
    """

    strategy: str
    ms: float
    low: float
    high: float
    terms: list[Term]
    measured: bool = False
    estimated_ms: float | None = None
    grounds: tuple[Ground, ...] = ()
    further_ms: float | None = None
    same_as: str = ""
    difference_ms: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "difference_ms", None if self.estimated_ms is None else self.ms - self.estimated_ms)


@dataclass(frozen=True)
class Absent:
    """A strategy without a time.

    run: the command that measures what is missing, or ''. perhaps_faster: whether it may be faster than all that have a
    time. least_ms, most_ms: its least and its longest time, on the scale of the others; None if that is not known.
    """

    strategy: str
    reason: str
    run: str = ""
    perhaps_faster: bool = False
    least_ms: float | None = None
    most_ms: float | None = None


@dataclass(frozen=True)
class AdviceVerdict:
    """What an advice comes to.

    kind: "take" the first strategy, which is better than all others by a tenth or more; "any": of the strategies, which
    are not told apart or differ by less, the first is the simplest to write; "not known": a strategy without a time may
    be faster, or one whose estimate is far longer but has a range that reaches to the best; "too little": there are so
    few bytes that the choice saves next to nothing. strategies: the best, or the equals; those that are the same as one
    of them are not named. of: how many strategies have a time. next: the fastest of the others that are told apart;
    next_ms: how much more it adds at least.
    """

    kind: Literal["take", "any", "not known", "too little"]
    strategies: tuple[str, ...]
    of: int
    next: str = ""
    next_ms: float | None = None


@dataclass(frozen=True)
class OftenAdvice:
    """What an advice comes to for a program that does its work often on the same buffers. strategies: as of a verdict.
    iterations: from how many on the first of these adds less than the one that is advised for one; 0: for any number.
    """

    strategies: tuple[str, ...]
    iterations: int


@dataclass(frozen=True)
class Turn:
    """Something that would turn the advice, or of which it is not known whether it would.

    kind: "no time": `others` have no time and may be faster; "bounds": only the least and the longest time of
    `others` are known, and they may be faster; "ranges": their estimates are longer, but not told apart; "small
    blocks": turns over small blocks, whose price is not known, may make the first of `others` faster; "rounds":
    with another number of rounds of loops that data end, the first of `others` is faster; "estimates": `others` are
    only estimated, and not told apart from what was measured. strategy: the advised one. ms, other_ms: what it and
    the first of `others` add then; for bounds, the least and the longest time of that one. count: of turns or
    rounds; assumed: the rounds of the advice. run: the command that measures what is not known, or ''; elsewhere:
    on a machine like the predicted one.
    """

    kind: Literal["no time", "bounds", "ranges", "small blocks", "rounds", "estimates"]
    strategy: str
    others: tuple[str, ...]
    ms: float | None = None
    other_ms: float | None = None
    count: int = 0
    assumed: int = 0
    run: str = ""
    elsewhere: bool = False


@dataclass(frozen=True)
class PatternAsked:
    """The pattern that an advice is about."""

    name: str
    settings: PatternSettings


@dataclass(frozen=True)
class UsedBytes:
    """What a strategy adds by what kernels use, in ms: of the bytes that they certainly use alone, of those that are
    assumed, and of whole blocks. low, high: over all of these, with the intervals of the prices. exact: it does not
    depend on what is assumed. A None is a time that is not estimated.
    """

    strategy: str
    least_ms: float | None
    assumed_ms: float
    most_ms: float | None
    low: float
    high: float
    exact: bool


@dataclass(frozen=True)
class OrderTurn:
    """Where the order of two strategies turns: `first` adds less if kernels use more than this share of the bytes that
    are assumed, `second` if they use less.
    """

    share: float
    first: str
    second: str


@dataclass(frozen=True)
class CopyCheck:
    """Copies of the program in one direction: ms that the trace has of them, and that the prices say. bytes: of copies
    whose times were recorded. fits: the two are no more than FITTING times apart.
    """

    direction: str
    bytes: int
    count: int
    traced_ms: float
    priced_ms: float
    fits: bool


@dataclass(frozen=True)
class KernelEstimate:
    """ms of all kernels of a program, with bounds."""

    ms: float
    low: float
    high: float


@dataclass(frozen=True)
class TriedRow:
    """What `firsttouch try` measured of a strategy, or of the program as it is: ms of the whole program, from its start
    to its end, with their interval; None if it has no time, for a `reason`.
    """

    strategy: str
    ms: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class TracedAdvice:
    """profile: its directory. process: the number of the process in it. as_it_is: what memory adds to the program as it
    is; None if that is not priced. saved_bytes: of memory at the peak, at most, in a unified version; None if no
    block has a partner. bounds: by strategy. title: of the device on which it was traced. apis: those by
    which it asked for memory. kernel_ms: of its kernels in the
    trace; kernels: on the machine of a platform, as the rates of both devices have it. tried: if the profile is of
    `firsttouch try`.
    """

    profile: str
    process: int
    command: str
    title: str
    apis: list[str]
    as_it_is: StrategyRow | None
    saved_bytes: int | None
    bounds: list[UsedBytes]
    turns: list[OrderTurn]
    check: list[CopyCheck]
    edits: list[Edit]
    assumed: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    not_priced: list[str] = field(default_factory=list)
    kernel_ms: float = 0.0
    kernels: KernelEstimate | None = None
    tried: list[TriedRow] = field(default_factory=list)


@dataclass
class Advice:
    """Strategies for one program on one device, fastest first.

    program: what the advice is about. scale: what the times mean. verdict: what it comes to. iterations: how often the
    program does its work on the same buffers, if that was given; often: the advice for many, if not. level: how often
    ranges hold, in words. turns: what would change the advice. predicted: 'predicted for gh200' if the prices are a
    platform's, '' if they were measured. on_processor: the device is the host's processor under another name. traced:
    what there is besides of a program that was traced; its rows have the bounds of all that kernels may use, and the
    prices' intervals.
    """

    device: str
    title: str
    program: str
    size: int
    scale: str
    strategies: list[StrategyRow]
    unavailable: list[Absent]
    verdict: AdviceVerdict
    often: OftenAdvice | None = None
    iterations: int | None = None
    level: str = ""
    turns: list[Turn] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    pattern: PatternAsked | None = None
    predicted: str = ""
    on_processor: bool = False
    traced: TracedAdvice | None = None

    def row(self, strategy: str) -> StrategyRow:
        """The row of a strategy that has a time."""
        return next(row for row in self.strategies if row.strategy == strategy)
