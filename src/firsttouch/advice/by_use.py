"""What strategies add to a traced program by how much of it kernels use, and where their order turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firsttouch.advice.answer import OrderTurn, UsedBytes
from firsttouch.advice.verdict import SIMILAR
from firsttouch.model.as_it_is import NAME, terms_as_it_is
from firsttouch.model.costs import Unmeasured
from firsttouch.model.estimate import Impossible, NotEstimated, estimate
from firsttouch.model.platform import MissingValue
from firsttouch.model.prices import Prices
from firsttouch.model.ranges import range_of_traced
from firsttouch.model.terms import Term
from firsttouch.program.narrowed import is_assumed, widest, with_share
from firsttouch.program.program import Program
from firsttouch.program.strategies import STRATEGIES

STEPS, LEAST_SHARE = 5, 1 / 256
"""Steps in which the share is found at which the order turns. What turns nearer to none than the least is not said."""
ALL = 2.0
"""What stands for all of each block, beyond the share of what is assumed."""
NOT_PRICED = (Unmeasured, MissingValue, Impossible, NotEstimated)


def sums(terms: Sequence[Term]) -> tuple[float, float, float]:
    """ms of terms, with the range in which they lie as often as it says (model/ranges.py)."""
    ms = sum(t.ms for t in terms)
    return ms, *range_of_traced(ms, sum(t.low for t in terms), sum(t.high for t in terms))


class ByUse:
    """Times of strategies for one program and share; each is estimated once."""

    def __init__(self, program: Program, prices: Prices, assumed: Mapping[str, Sequence[Term]]) -> None:
        self._program, self._prices = program, prices
        self._known: dict[tuple[str, float], tuple[float, float, float] | None] = {
            (name, 1.0): sums(terms) for name, terms in assumed.items()
        }
        self._programs = {1.0: program}
        self._widest: Program | None = None

    def of(self, name: str, share: float) -> tuple[float, float, float] | None:
        """ms with bounds, if kernels use this share of what is assumed. What copies whole arrays, and the program as
        it is, do so whatever kernels use. None if it is not estimated.
        """
        if name == NAME or STRATEGIES[name].duplicated:
            share = 1.0
        return self._of(name, share, lambda: with_share(self._program, share))

    def most(self, name: str) -> tuple[float, float, float] | None:
        """ms with bounds, if they use all of each block."""
        if self._widest is None:
            self._widest = widest(self._program)
        if name == NAME or STRATEGIES[name].duplicated or self._widest == self._program:
            return self.of(name, 1.0)
        return self._of(name, ALL, lambda: self._widest or self._program)

    def _of(self, name: str, share: float, program: Callable[[], Program]) -> tuple[float, float, float] | None:
        if (name, share) not in self._known:
            if share not in self._programs:
                self._programs[share] = program()
            try:
                terms = estimate(self._programs[share], STRATEGIES[name], self._prices)
                self._known[name, share] = sums(terms)
            except NOT_PRICED:
                self._known[name, share] = None
        return self._known[name, share]


def bounds_by_use(times: ByUse, names: Sequence[str]) -> list[UsedBytes]:
    """The bounds of each strategy that has a time."""
    rows = []
    for name in names:
        times_by_use = times.of(name, 1.0), times.of(name, 0.0), times.most(name)
        assumed, least, most = times_by_use
        assert assumed is not None
        known_times = [time for time in times_by_use if time is not None]
        rows.append(
            UsedBytes(
                name,
                None if least is None else least[0],
                assumed[0],
                None if most is None else most[0],
                min(low for _, low, _ in known_times),
                max(high for _, _, high in known_times),
                least == assumed == most,
            )
        )
    return rows


def turns_by_use(program: Program, times: ByUse, names: Sequence[str]) -> list[OrderTurn]:
    """The share below which another than the fastest is faster, if it is clearly so where kernels use the least. The
    fastest comes first.
    """
    if not names or not is_assumed(program):
        return []
    best = names[0]
    other = _faster_strategy(times, best, names, 0.0)
    share = _turning_share(times, best, other) if other is not None else 0.0
    return [OrderTurn(share, best, other)] if other is not None and share else []


def _time_at_share(times: ByUse, name: str, share: float) -> float | None:
    time = times.of(name, share)
    return None if time is None else time[0]


def _faster_strategy(times: ByUse, best: str, names: Sequence[str], share: float) -> str | None:
    """The fastest at a share, if it is clearly faster than the best at all."""
    times_at_share = {name: ms for name in names if (ms := _time_at_share(times, name, share)) is not None}
    if best not in times_at_share:
        return None
    fastest = min(times_at_share, key=lambda name: times_at_share[name])
    return fastest if times_at_share[fastest] * SIMILAR < times_at_share[best] else None


def _turning_share(times: ByUse, best: str, other: str) -> float:
    """The share at which both add the same, by false position (Illinois): times are nearly straight lines of it.

    0 if the other adds less only below the least that is looked at.
    """

    def more(share: float) -> float:
        """How much more the other strategy adds at a share."""
        first, second = _time_at_share(times, best, share), _time_at_share(times, other, share)
        return (second or 0.0) - (first or 0.0)

    low, high = 0.0, 1.0
    below, above = more(low), more(high)
    share = high
    for _ in range(STEPS):
        if above <= below:
            break
        share = low + (high - low) * -below / (above - below)
        now = more(share)
        if now < 0:
            low, below, above = share, now, above / 2
        else:
            high, above, below = share, now, below / 2
    return share if share >= LEAST_SHARE else 0.0


def as_it_is(program: Program, prices: Prices) -> tuple[list[Term] | None, str]:
    """The terms of the program as it is; or None and why it has none."""
    try:
        return terms_as_it_is(program, prices), ""
    except NOT_PRICED as missing:
        return None, str(missing)
