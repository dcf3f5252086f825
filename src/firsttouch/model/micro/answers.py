"""What the model answers for one point of an experiment: a value with its range, counters and terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from firsttouch.base.errors import Unsupported
from firsttouch.model.costs import Ground, Price, Time, Unmeasured
from firsttouch.model.terms import Term
from firsttouch.records.schema import Scalar

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """value, low, high: in the unit of the experiment's metric. terms: empty where the value is no time."""

    value: float
    low: float
    high: float
    counters: dict[str, Scalar] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()
    grounds: tuple[Ground, ...] = ()
    """The grounds of a value that is no time."""


def rate(nbytes: float, time: Time) -> tuple[float, float, float]:
    """GB/s, with bounds, of bytes that take so long. Raises ValueError if they take no time."""
    if min(time.value, time.low, time.high) <= 0:
        raise ValueError("a price is no time, so there is no rate")
    return nbytes / time.value, nbytes / time.high, nbytes / time.low


def optional(ask: Callable[[], T]) -> T | None:
    """The result of a call, or None if it is not known: for counters, which a record may lack."""
    with suppress(Unmeasured, Unsupported):
        return ask()
    return None


@dataclass
class Sum:
    """Adds up terms, and keeps the milliseconds of each as a counter."""

    terms: list[Term] = field(default_factory=list)

    def add(self, phase: str, what: str, price: Price | None, nbytes: float, time: Time, count: int = 1) -> float:
        """Adds a term. time: of all of it. Returns its ms."""
        ms = time.times(1e-6)
        grounds = price.grounds if price is not None else ()
        self.terms.append(Term(phase, what, int(nbytes), count, ms.value, ms.low, ms.high, grounds))
        return ms.value

    def total(self) -> tuple[float, float, float]:
        """The ms of all terms, with bounds."""
        return tuple_of(self.terms)


def tuple_of(terms: Iterable[Term]) -> tuple[float, float, float]:
    kept = list(terms)
    return sum(t.ms for t in kept), sum(t.low for t in kept), sum(t.high for t in kept)
