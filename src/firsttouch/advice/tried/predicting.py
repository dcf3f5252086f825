"""What a program that was tried is predicted to take, by the prices of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firsttouch.advice.profiled import advise_profile
from firsttouch.advice.tried.findings import PredictedTime


def differences(profile: Path, prices: Path) -> Mapping[str, PredictedTime]:
    """By how many seconds strategies are predicted to take longer than the program as it is.

    Nothing if the program as it is has no estimate.

    Raises:
        UsageError: There is no advice about the program.
    """
    advice = advise_profile(profile, [prices])
    if advice.traced is None or (mine := advice.traced.as_it_is) is None:
        return {}
    return {
        row.strategy: PredictedTime(
            seconds=(row.ms - mine.ms) / 1e3, low=(row.low - mine.ms) / 1e3, high=(row.high - mine.ms) / 1e3
        )
        for row in advice.strategies
    }


def beside(seconds: float, difference: PredictedTime) -> PredictedTime:
    """seconds: of the program as it is."""
    return PredictedTime(
        seconds=max(0.0, seconds + difference.seconds),
        low=max(0.0, seconds + difference.low),
        high=max(0.0, seconds + difference.high),
    )
