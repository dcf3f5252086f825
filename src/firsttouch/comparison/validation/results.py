"""What validation finds, as data: published rows and claims, predicted, and how far the predictions are off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, median
from typing import Literal, TypeAlias

from firsttouch.base.outputs import Output, Unbounded
from firsttouch.records.schema import Struct

RowRole: TypeAlias = Literal["input", "fitted", "held"]
"""held: independent; nothing in the platform's file, in the rules or in the call came from it. fitted: a value that is
fitted to or derived from a row names it. input: another value, a statement about devices or a rule is from it, or the
call sets its value; or it is about points of which the study states numbers that the file has.
"""
ValidationOutcome: TypeAlias = Literal["right", "wrong", "open", "not predicted"]
"""right: of a number, that it is within a factor of FAR_OFF and on the side of a bound, or of 1, that is stated; of a
claim, that it is predicted to hold. wrong: otherwise, also where values are predicted equal that a claim says differ.
open: the paper does not decide it. not predicted: no model covers it, or a value is missing.
"""
FAR_OFF = 1.5
"""The factor by which a predicted number may differ from what is published before it counts as wrong."""


class ValidatedEntry(Struct, kw_only=True):
    """What is judged. role_reason: why it is not held. application: whether it is about an application. why: what
    decides, or why there is no prediction. reason: why a prediction is wrong, as far as that is known.
    """

    role: RowRole
    outcome: ValidationOutcome
    role_reason: str = ""
    application: bool = False
    why: str = ""
    reason: str = ""


class ValidatedRow(ValidatedEntry, kw_only=True):
    """A published number, and what is predicted for it.

    row: PAPER/ID. low, high: the ends of what is published, in `unit`. qualifier: how the text hedges it. predicted,
    predicted_low, predicted_high: the prediction, and the range that follows from those of the platform's values.
    ratio: predicted to published, 1 within what is published. experiment, point: what was predicted.
    """

    row: str
    says: str
    low: float
    high: float
    unit: str
    qualifier: str = ""
    experiment: str = ""
    point: str = ""
    predicted: float | None = None
    predicted_low: float | None = None
    predicted_high: float | None = None
    ratio: Unbounded | None = None

    @property
    def factor(self) -> float:
        """How many times too large or too small the prediction is, 1 or more."""
        if self.ratio is None:
            return math.nan
        return max(self.ratio, 1 / self.ratio) if self.ratio > 0 else math.inf


class Shares(Struct, kw_only=True):
    """How much of a claim, or how many claims, are predicted right, wrong, tied (equal where the paper says that values
    differ), and refused. Of a claim about eight programs, three that agree are 3/8.
    """

    right: float = 0
    wrong: float = 0
    tied: float = 0
    refused: float = 0

    @property
    def total(self) -> float:
        return self.right + self.wrong + self.tied + self.refused

    def plus(self, other: Shares) -> Shares:
        return Shares(
            right=self.right + other.right,
            wrong=self.wrong + other.wrong,
            tied=self.tied + other.tied,
            refused=self.refused + other.refused,
        )


class ValidatedClaim(ValidatedEntry, kw_only=True):
    """A claim of a paper, and whether it is predicted to hold. id, rows, text: as in `firsttouch claims`. shares: how
    much of it is.
    """

    id: str
    rows: list[str]
    text: str
    shares: Shares


class ErrorSummary(Struct, kw_only=True):
    """How far predicted numbers are off. numbers: how many. mean, median, most, worst: the factors by which they are
    off: the geometric mean, and those of half of them, nine tenths and all at most; None without numbers. within: the
    part that is within a factor of FAR_OFF.
    """

    numbers: int
    mean: Unbounded | None = None
    median: float | None = None
    most: float | None = None
    worst: Unbounded | None = None
    within: float | None = None


class NumberFigures(Struct, kw_only=True):
    """How right independent numbers are. right: how many are. wrong: how many are predicted otherwise. refused: how
    many are not predicted. within: the part that is right, of all of them. median_factor: by how much half of those
    that are predicted are off at most.
    """

    right: int
    wrong: int
    refused: int
    within: float | None
    median_factor: Unbounded | None

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.refused


class IndependentFigures(Struct, kw_only=True):
    """The three figures of a platform, or of several, by what is independent alone. orders: the number of claims that
    are right, wrong, tied and refused; parts of claims count as such. refused, total: of numbers and orders together.
    """

    numbers: NumberFigures
    orders: Shares
    refused: float
    total: float


class ValidatedPlatform(Struct, kw_only=True):
    """A platform, judged. figures: the three that say how right it is. values, free: how many values it has, and how
    many of these are fitted or assumed. held: the rows that judge it, by a number or by a claim. open: the claims that
    the papers do not decide. compared: how far inputs and fitted numbers, which judge nothing, are off. rows, claims:
    those that are wrong first.
    """

    platform: str
    title: str
    digest: str
    figures: IndependentFigures
    values: int
    free: int
    held: int
    open: int
    compared: dict[RowRole, ErrorSummary]
    sentences: list[str]
    rows: list[ValidatedRow]
    claims: list[ValidatedClaim]

    def entries(self, outcome: ValidationOutcome) -> list[ValidatedRow | ValidatedClaim]:
        """The rows and claims of an outcome."""
        each: list[ValidatedRow | ValidatedClaim] = [*self.rows, *self.claims]
        return [entry for entry in each if entry.outcome == outcome]


class ValidatedStrategy(Struct, kw_only=True):
    """The error of one strategy of a measured application. whole_ms: the measured time. measured_ms, estimated_ms: its
    difference to the baseline; low_ms, high_ms: the range of the estimate. error: of the difference, as a part of the
    whole time.
    """

    application: str
    size: str
    strategy: str
    whole_ms: float
    measured_ms: float
    estimated_ms: float
    low_ms: float
    high_ms: float
    error: float

    @property
    def factor(self) -> float:
        """How many times too long or too short the whole time is, 1 or more, if the baseline's is as measured."""
        estimated = self.whole_ms - self.measured_ms + self.estimated_ms
        return max(estimated / self.whole_ms, self.whole_ms / estimated) if estimated > 0 else math.inf

    @property
    def is_inside(self) -> bool:
        """Whether the measured difference is in the range of the estimate."""
        return self.low_ms <= self.measured_ms <= self.high_ms


class MeasuredJudgement(Struct, kw_only=True):
    """A platform judged by applications that were measured, in differences to the baseline strategy; or advice about
    traced programs, by what `firsttouch try` measured of them.

    platform: of the estimates; '' of traced programs. directories: of the applications. baseline: the strategy. cases:
    applications at one size. factors: by how much whole times are off, if the baseline's is as measured. median_error,
    most_error: half of the errors and nine tenths are at most these parts of the measured time. pairs, in_order: the
    pairs of strategies whose measured times differ clearly, and the part of them whose estimates have the same order.
    not_estimated: why strategies have no estimate. inside: the part of points whose measured difference is in the range
    of the estimate. half_width: of these ranges, the median, as a part of the measured time. repeated: pairs of
    measurements of one point in different directories. repeated_median, repeated_most: as median_error and most_error,
    of one of them as a prediction of the other. strategies: the worst first.
    """

    platform: str
    directories: list[str]
    baseline: str
    cases: int
    points: int
    factors: ErrorSummary
    median_error: float | None
    most_error: float | None
    inside: float | None
    half_width: float | None
    repeated: int
    repeated_median: float | None
    repeated_most: float | None
    pairs: int
    in_order: float | None
    not_estimated: str
    sentences: list[str]
    strategies: list[ValidatedStrategy]


class Validation(Output, frozen=True, kw_only=True, tag="firsttouch-validate/2"):
    """What `firsttouch validate --json` prints. figures: of all platforms together."""

    figures: IndependentFigures | None = None
    platforms: list[ValidatedPlatform]
    measured: list[MeasuredJudgement] = []


def independent_figures(rows: Iterable[ValidatedRow], claims: Iterable[ValidatedClaim]) -> IndependentFigures:
    """The figures over what is held; claims that the papers do not decide are left out."""
    held_rows = [row for row in rows if row.role == "held"]
    predicted = [row for row in held_rows if row.outcome != "not predicted"]
    right = sum(row.outcome == "right" for row in held_rows)
    numbers = NumberFigures(
        right=right,
        wrong=len(predicted) - right,
        refused=len(held_rows) - len(predicted),
        within=right / len(held_rows) if held_rows else None,
        median_factor=median(row.factor for row in predicted) if predicted else None,
    )
    orders = Shares()
    for claim in claims:
        if claim.role == "held" and claim.outcome != "open":
            orders = orders.plus(claim.shares)
    return IndependentFigures(
        numbers=numbers,
        orders=orders,
        refused=numbers.refused + orders.refused,
        total=numbers.total + orders.total,
    )


def held_names(rows: Iterable[ValidatedRow], claims: Iterable[ValidatedClaim]) -> set[str]:
    """The rows that are held and predicted, by a number or by a claim."""
    names = {row.row for row in rows if row.role == "held" and row.outcome != "not predicted"}
    return names | {n for c in claims if c.role == "held" and c.outcome != "not predicted" for n in c.rows}


def error_summary(factors: Iterable[float]) -> ErrorSummary:
    ordered = sorted(factors)
    if not ordered:
        return ErrorSummary(numbers=0)
    return ErrorSummary(
        numbers=len(ordered),
        mean=math.exp(fmean(map(math.log, ordered))),
        median=median(ordered),
        most=ordered[math.ceil(0.9 * len(ordered)) - 1],
        worst=ordered[-1],
        within=sum(factor <= FAR_OFF for factor in ordered) / len(ordered),
    )
