"""What predictions are to reach, over all platforms, and what they do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from firsttouch.comparison.validation.results import (
    IndependentFigures,
    ValidatedPlatform,
    error_summary,
    independent_figures,
)

TargetUnit: TypeAlias = Literal["error", "part"]
"""error: by what numbers may be off at most, as a part of them. part: of what is right, at least."""
TARGETS: Mapping[str, tuple[TargetUnit, float]] = {
    "numbers within": ("part", 0.6),
    "orders right": ("part", 0.8),
    "fitted mean": ("error", 1.1),
}
"""What is to be reached: of independent numbers and orders, those that are refused counted as not right; and of fitted
numbers.
"""


class JudgedTarget(NamedTuple):
    """A target and what is reached."""

    name: str
    value: float

    @property
    def unit(self) -> TargetUnit:
        return TARGETS[self.name][0]

    @property
    def bound(self) -> float:
        return TARGETS[self.name][1]

    @property
    def is_missed(self) -> bool:
        return self.value < self.bound if self.unit == "part" else self.value > self.bound


def figures_of(validated: Collection[ValidatedPlatform]) -> IndependentFigures:
    """The three figures over several platforms."""
    return independent_figures(
        (row for platform in validated for row in platform.rows),
        (claim for platform in validated for claim in platform.claims),
    )


def judged_targets(validated: Collection[ValidatedPlatform]) -> list[JudgedTarget]:
    """What is reached of each target; those without anything that they are about are left out."""
    return [JudgedTarget(name, value) for name, value in _values(validated) if value is not None]


def _values(validated: Collection[ValidatedPlatform]) -> Iterator[tuple[str, float | None]]:
    figures = figures_of(validated)
    yield "numbers within", figures.numbers.within
    yield "orders right", figures.orders.right / figures.orders.total if figures.orders.total else None
    fitted = (row for platform in validated for row in platform.rows if row.role == "fitted" and row.ratio is not None)
    yield "fitted mean", error_summary(row.factor for row in fitted).mean
