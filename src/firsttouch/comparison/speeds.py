"""Ratios for readers: how many times as fast or as slow something is as the base; of counts, as high or as low."""

from __future__ import annotations

from dataclasses import dataclass

from firsttouch.comparison.answers import PlaceRow
from firsttouch.comparison.differences import Difference, ExperimentDifference, is_speed, times_as_fast
from firsttouch.records.text import RATIO, compact, times_as

NONE = "–"  # noqa: RUF001


@dataclass(frozen=True)
class Speed:
    """How many times as fast something is as the base, with an interval; of a count, how many times as high.

    words: what is said of a value above 1, and of one below.
    """

    value: float
    low: float | None
    high: float | None
    words: tuple[str, str]

    @classmethod
    def of(cls, d: Difference | ExperimentDifference | PlaceRow) -> Speed | None:
        """None if there is no ratio."""
        if not d.ratio:
            return None
        if isinstance(d, Difference):
            unit, better = d.column.definition.unit, d.column.definition.better
        else:
            unit, better = d.unit, d.example.better if isinstance(d, PlaceRow) else d.better
        ratio = d.ratio, d.low, d.high
        if is_speed(unit, better):
            return cls(*times_as_fast(better, *ratio), ("fast", "slow"))
        return cls(*ratio, ("high", "low"))

    @property
    def text(self) -> str:
        """Such as '1.6 times as fast'."""
        text = times_as(self.value, *self.words, ratio_text)
        return "the same" if text.startswith("1.000 ") else text

    @property
    def interval(self) -> str:
        """The interval of the number in `text`."""
        if self.value < 1 and self.low and self.high:
            return interval_text(1 / self.high, 1 / self.low)
        return interval_text(self.low, self.high)


def speed_cells(d: Difference | ExperimentDifference | PlaceRow) -> tuple[str, str]:
    """'1.6 times as fast', and its interval."""
    speed = Speed.of(d)
    return (speed.text, speed.interval) if speed else (NONE, "")


def speed_text(d: Difference | ExperimentDifference | PlaceRow) -> str:
    """'1.6 times as fast (1.4 to 1.8)'."""
    text, interval = speed_cells(d)
    return f"{text} ({interval})" if interval else text


def ratio_text(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.9 < ratio < 1.1 else compact(ratio, RATIO)


def interval_text(low: float | None, high: float | None) -> str:
    return f"{ratio_text(low)} to {ratio_text(high)}" if low is not None and high is not None else ""
