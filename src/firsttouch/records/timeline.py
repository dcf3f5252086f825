"""What unified memory moved while one point was measured, over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from firsttouch.records.schema import Scalar


@dataclass
class TransferTimeline:
    """What one point moved over time: by direction, seconds since it began and bytes so far."""

    factors: dict[str, Scalar]
    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def moved(self) -> float:
        return sum(steps[-1][1] for steps in self.steps.values())
