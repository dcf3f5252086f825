"""What predictions are to reach, over all platforms, and what they do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from firsttouch.comparison.validation.results import RowRole, ValidatedPlatform, error_summary

TargetUnit: TypeAlias = Literal["error", "factor", "part"]
"""error, factor: by what numbers may be off at most, said as a part of them or as it is. part: of the numbers or claims
that are right, at least.
"""
TARGETS: Mapping[str, tuple[TargetUnit, float]] = {
    "fitted mean": ("error", 1.1),
    "micro median": ("error", 1.15),
    "micro within": ("part", 0.9),
    "applications within": ("part", 0.7),
    "applications worst": ("factor", 3.0),
    "claims right": ("part", 0.9),
}
"""What is to be reached: of fitted numbers, of held ones of micro-measurements and of applications, where within means
by a factor of FAR_OFF, and of held claims.
"""


class JudgedTarget(NamedTuple):
    """A target and what is reached. right, decided: of claims, how many."""

    name: str
    value: float
    right: int = 0
    decided: int = 0

    @property
    def unit(self) -> TargetUnit:
        return TARGETS[self.name][0]

    @property
    def bound(self) -> float:
        return TARGETS[self.name][1]

    @property
    def is_missed(self) -> bool:
        return self.value < self.bound if self.unit == "part" else self.value > self.bound


def judged_targets(validated: Collection[ValidatedPlatform]) -> list[JudgedTarget]:
    """What is reached of each target; those without anything that they are about are left out."""
    judged = [JudgedTarget(name, value) for name, value in _values(validated) if value is not None]
    right, wrong = sum(p.right for p in validated), sum(p.wrong for p in validated)
    if decided := right + wrong:
        judged.append(JudgedTarget("claims right", right / decided, right, decided))
    return judged


def _values(validated: Collection[ValidatedPlatform]) -> Iterator[tuple[str, float | None]]:
    def errors(role: RowRole, *application: bool) -> list[float]:
        rows = (row for platform in validated for row in platform.rows if row.ratio is not None)
        return [row.factor for row in rows if row.role == role and row.application in application]

    yield "fitted mean", error_summary(errors("fitted", False, True)).mean
    micro = error_summary(errors("held", False))
    yield "micro median", micro.median
    yield "micro within", micro.within
    applications = error_summary(errors("held", True))
    yield "applications within", applications.within
    yield "applications worst", applications.worst
