"""The answer of advise as data: the verdict, the strategies with their times, those without, and what would turn it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from firsttouch.advice.settings import Settings
from firsttouch.model.costs import Ground
from firsttouch.model.terms import Term
from firsttouch.program.patterns import PatternSettings


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
class AdviceVerdict:
    """What an advice comes to.

    kind: "take" the first strategy; "alike": no strategy is told apart from it; "unclear": none is clearly better than
    all others; "fastest with a time": others, which may be faster, have none; "too little": there are so few bytes that
    the choice saves next to nothing. strategies: the best, and those that are not told apart from it. of: how many
    strategies have a time. measured_only: the first is the fastest of those that were measured, an estimate is less.
    """

    kind: Literal["take", "alike", "unclear", "fastest with a time", "too little"]
    strategies: tuple[str, ...]
    of: int
    measured_only: bool = False


@dataclass(frozen=True)
class Turn:
    """Something that would turn the advice, or of which it is not known whether it would.

    kind: "no time": `others` have no time and may be faster; "kept": if the program keeps its buffers and repeats the
    work, the first of `others` adds less, and the rest of them as much; "alike": `others` are not clearly apart;
    "small blocks": turns over small blocks, whose price is not known, may make the first of `others` faster; "rounds":
    with another number of rounds of loops that data end, the first of `others` is faster. strategy: the advised one.
    ms, other_ms: what it and the first of `others` add then. is_least: `ms` is the least that it may be. count: of
    turns or rounds; assumed: the rounds of the advice. run: the command that measures what is not known, or ''.
    """

    kind: Literal["no time", "kept", "alike", "small blocks", "rounds"]
    strategy: str
    others: tuple[str, ...]
    ms: float | None = None
    other_ms: float | None = None
    is_least: bool = False
    count: int = 0
    assumed: int = 0
    run: str = ""


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
class Edit:
    """A change of the source that the recommended strategy needs.

    what: allocate, drop, omit, prefetch, advise, lock or keep. lines: of the calls that change, as 'file:line'
    each, in order; text: in words. count: of the calls, bytes: of their blocks or copies.
    """

    what: str
    text: str
    lines: list[str]
    count: int
    bytes: int


@dataclass(frozen=True)
class KernelEstimate:
    """ms of all kernels of a program, with bounds."""

    ms: float
    low: float
    high: float


@dataclass(frozen=True)
class TracedAdvice:
    """profile: its directory. process: the number of the process in it. as_it_is: what memory adds to the program as it
    is; None if that is not priced. saved_bytes: of memory at the peak, at most, in a unified version; None if no
    block has a partner. bounds: by strategy. title: of the GPU on which it was traced. kernel_ms: of its kernels in the
    trace; kernels: on the machine of a platform, as the rates of both devices have it.
    """

    profile: str
    process: int
    command: str
    title: str
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


@dataclass
class Advice:
    """Strategies for one program on one device, fastest first.

    program: what the advice is about. scale: what the times mean. verdict: what it comes to; its first strategy is the
    fastest, or the fastest that was measured. fastest_known: whether no strategy without a time may be faster than
    that. turns: what would change it. predicted: 'predicted for gh200' if the prices are a platform's, '' if they were
    measured. on_processor: the device is the host's processor under another name. traced: what there is besides of a
    program that was traced; its rows have the bounds of all that kernels may use, and the prices' intervals.
    """

    device: str
    title: str
    program: str
    size: int
    scale: str
    strategies: list[StrategyRow]
    unavailable: list[Absent]
    verdict: AdviceVerdict
    fastest_known: bool = True
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
