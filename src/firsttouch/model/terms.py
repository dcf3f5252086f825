"""The terms of an estimate: what a strategy adds, by phase and kind, with its time and what the time rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field

from firsttouch.model.costs import Ground, Price, Time


@dataclass(frozen=True)
class Term:
    """One thing that a strategy adds in a phase: how much of it, its time in ms, and the grounds of its price."""

    phase: str
    what: str
    bytes: int
    count: int
    ms: float
    low: float
    high: float
    grounds: tuple[Ground, ...]


@dataclass
class _TermSum:
    price: Price
    bytes: int = 0
    count: int = 0
    time: Time = field(default_factory=Time)

    def add(self, nbytes: int, count: int, time: Time) -> None:
        self.bytes, self.count, self.time = self.bytes + nbytes, self.count + count, self.time + time


class Terms:
    """Adds up what is priced, by phase and kind, and what is only counted."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], _TermSum] = {}
        self.counts: Counter[Hashable] = Counter()
        self._rounds: list[tuple[dict[tuple[str, str], _TermSum], Counter[Hashable]]] = []
        self._last = self._copy()

    def add(self, phase: str, what: str, price: Price, nbytes: float, time: Time | None = None, count: int = 1) -> None:
        """Add so many bytes at a price; time: replaces what the price says for them; count: how often it happens."""
        if nbytes > 0:
            key = (phase, what)
            if key not in self._sums:
                self._sums[key] = _TermSum(price)
            self._sums[key].add(int(nbytes), count, price.of(nbytes) if time is None else time)

    def time_of(self, phase: str) -> float:
        """The ns of a phase so far."""
        return sum(total.time.value for (term_phase, _), total in self._sums.items() if term_phase == phase)

    def begin_round(self) -> None:
        self._rounds.append(self._copy())

    def end_round(self) -> None:
        self._last = self._rounds.pop()

    def add_again(self, times: int) -> None:
        """Add what was added between begin_round and end_round, so many times more."""
        sums, counts = self._last
        for key, now in self._sums.items():
            was = sums.get(key) or _TermSum(now.price)
            now.add(
                times * (now.bytes - was.bytes),
                times * (now.count - was.count),
                (now.time + was.time.times(-1)).times(times),
            )
        for name, count in (+(self.counts - counts)).items():
            self.counts[name] += times * count

    def _copy(self) -> tuple[dict[tuple[str, str], _TermSum], Counter[Hashable]]:
        return {key: copy(term_sum) for key, term_sum in self._sums.items()}, Counter(self.counts)

    def terms(self) -> list[Term]:
        terms = []
        for (phase, what), s in self._sums.items():
            ms = s.time.times(1e-6)
            terms.append(Term(phase, what, s.bytes, s.count, ms.value, ms.low, ms.high, s.price.grounds))
        return terms


def more_of(terms: Sequence[Term], others: Sequence[Term]) -> list[Term]:
    """What terms of the same kinds have more than others, of a program that does less."""
    before = {(term.phase, term.what): term for term in others}
    rest = []
    for term in terms:
        if (less := before.get((term.phase, term.what))) is None:
            rest.append(term)
        elif term.count > less.count or term.ms - less.ms > 1e-9:
            nbytes, count = term.bytes - less.bytes, term.count - less.count
            ms, low, high = (max(0.0, getattr(term, part) - getattr(less, part)) for part in ("ms", "low", "high"))
            rest.append(Term(term.phase, term.what, nbytes, count, ms, low, high, term.grounds))
    return rest
