"""Why predicted times are what they are, as data."""

from __future__ import annotations

import msgspec

from firsttouch.records.schema import PredictedTerm, Scalar


class ValueEffect(msgspec.Struct, kw_only=True):
    """How a value of the platform moves a predicted time.

    says: what the value is. value: as the platform has it, with its range. is_price: what it prices takes time, however
    it is written. low_ms, high_ms: the shortest and the longest time over its range. tenth_ms: the time if the value is
    a tenth more, or what it prices takes a tenth longer.
    """

    name: str
    says: str
    value: str
    is_price: bool
    low_ms: float
    high_ms: float
    tenth_ms: float

    def moves(self, ms: float) -> float:
        """The ms by which the answer moves, over its range or with a tenth more."""
        return max(self.high_ms - self.low_ms, abs(self.tenth_ms - ms))


class ExplainedPoint(msgspec.Struct, kw_only=True):
    """A strategy's predicted ms with its range, the terms of which it is the sum, and the values that move it most.

    exact_low, exact_high: the range that is left if every value of the platform is exact. widest: the term that has
    most of that range; '' if none is left.
    """

    strategy: str
    ms: float
    low: float
    high: float
    terms: list[PredictedTerm]
    values: list[ValueEffect]
    exact_low: float
    exact_high: float
    widest: str


class FastestPart(msgspec.Struct, kw_only=True):
    """A range of one condition in which a strategy is the fastest. first, last: the values of the condition there."""

    first: float
    last: float
    strategy: str
    ms: float
    """Of that strategy, at `first`."""


class Overtaking(msgspec.Struct, kw_only=True):
    """A strategy that is faster than another from a value of a condition on, but not at a smaller one."""

    strategy: str
    other: str
    first: float


class Crossing(msgspec.Struct, kw_only=True):
    """Which strategy is the fastest, along one condition while all others stay. text: in a sentence."""

    along: str
    parts: list[FastestPart]
    overtakings: list[Overtaking]
    text: str


class Decision(msgspec.Struct, kw_only=True):
    """Another strategy would be the fastest if a value were at one end of its range. text: in a sentence."""

    name: str
    strategy: str
    ms: float
    text: str


class Explanation(msgspec.Struct, kw_only=True):
    """One application at one size on one modelled machine."""

    app: str
    device: str
    platform: str
    size: Scalar
    strategies: list[ExplainedPoint]
    decisions: list[Decision]
    crossings: list[Crossing]
