"""What validation finds, as data: published rows and claims, predicted, and how far the predictions are off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Literal, TypeAlias

from firsttouch.base.outputs import Output, Unbounded
from firsttouch.records.schema import Struct

RowRole: TypeAlias = Literal["input", "fitted", "held"]
"""input: a value of the platform that is stated or measured names a row, which is its source. fitted: a value that is
fitted, derived or assumed does. held: none does.
"""
ValidationOutcome: TypeAlias = Literal["right", "wrong", "open", "not predicted"]
"""right, wrong: of a number, whether it is within a factor of FAR_OFF. open: values that a claim compares are within
LEAST of each other. not predicted: no model covers it, or a value is missing.
"""
FAR_OFF = 1.5
"""The factor by which a predicted number may differ from what is published before it counts as wrong."""


class ValidatedEntry(Struct, kw_only=True):
    """What is judged. application: whether it is about an application. why: what decides, or why there is no
    prediction. reason: why a prediction is wrong, as far as that is known.
    """

    role: RowRole
    outcome: ValidationOutcome
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


class ValidatedClaim(ValidatedEntry, kw_only=True):
    """A claim of a paper, and whether it is predicted to hold. id, rows, text: as in `firsttouch claims`."""

    id: str
    rows: list[str]
    text: str


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


class ValidatedPlatform(Struct, kw_only=True):
    """A platform, judged. values, free: how many values it has, and how many of these are fitted or assumed. fitted,
    held: the rows that are judged, by a number or by a claim; inputs are counted as fitted. numbers: how far inputs,
    fitted numbers, and held ones of micro-measurements and of applications, are off. right, wrong, open: the held
    claims. sentences: the first is about free values and rows. rows, claims: those that are wrong first.
    """

    platform: str
    title: str
    digest: str
    values: int
    free: int
    fitted: int
    held: int
    numbers: dict[str, ErrorSummary]
    right: int
    wrong: int
    open: int
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


class Validation(Output, frozen=True, kw_only=True, tag="firsttouch-validate/1"):
    """What `firsttouch validate --json` prints."""

    platforms: list[ValidatedPlatform]
    measured: list[MeasuredJudgement] = []


@dataclass(frozen=True)
class Judged:
    """The rows and claims of a platform."""

    rows: Sequence[ValidatedRow]
    claims: Sequence[ValidatedClaim]

    @cached_property
    def numbers(self) -> dict[str, ErrorSummary]:
        predicted_rows = [row for row in self.rows if row.ratio is not None]
        held_rows = [row for row in predicted_rows if row.role == "held"]
        return {
            "inputs": error_summary(row.factor for row in predicted_rows if row.role == "input"),
            "fitted": error_summary(row.factor for row in predicted_rows if row.role == "fitted"),
            "micro-measurements": error_summary(row.factor for row in held_rows if not row.application),
            "applications": error_summary(row.factor for row in held_rows if row.application),
        }

    def names(self, *roles: RowRole) -> set[str]:
        """The rows of some roles that are judged, by a number or by a claim."""
        names = {row.row for row in self.rows if row.role in roles and row.outcome != "not predicted"}
        names |= {n for c in self.claims if c.role in roles and c.outcome != "not predicted" for n in c.rows}
        return names

    def count(self, outcome: ValidationOutcome) -> int:
        """The held claims of an outcome."""
        return sum(claim.outcome == outcome and claim.role == "held" for claim in self.claims)


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
