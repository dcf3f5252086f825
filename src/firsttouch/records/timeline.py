"""The bytes that unified memory moved over time while one point was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from firsttouch.records.schema import Scalar


@dataclass
class TransferTimeline:
    """The bytes that one point moved. steps: by direction, pairs of seconds since the point began and bytes so far."""

    factors: dict[str, Scalar]
    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def moved(self) -> float:
        return sum(steps[-1][1] for steps in self.steps.values())
