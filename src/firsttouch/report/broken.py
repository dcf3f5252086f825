"""Finds the few records on which a computation fails, so that the others are not lost with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from firsttouch.base.modules import describe_error, error_location
from firsttouch.records.schema import Record
from firsttouch.records.statistics import varying
from firsttouch.records.text import condition

T = TypeVar("T")
FEW = 32
"""Of so few records, each is left out in turn. Of more, the first that fails is found by halves."""
MOST = 3
"""The most records that are left out. If the computation fails without them too, its cause is not in single records."""


@dataclass(frozen=True)
class Spared(Generic[T]):
    """value: of the computation on `kept`. broken: the others, on each of which it failed with the error beside it."""

    value: T
    kept: Sequence[Record]
    broken: Sequence[tuple[Record, BaseException]] = ()

    @property
    def sentence(self) -> str:
        """Names the records that were left out, with the reasons; '' if there are none."""
        if not self.broken:
            return ""
        names = varying([*self.kept, *(record for record, _ in self.broken)])
        texts = [f"{condition(r, names) or 'the only point'} ({cause(error)})" for r, error in self.broken]
        return f"Left out, since the computation fails on {'it' if len(texts) == 1 else 'them'}: {'; '.join(texts)}."


def cause(error: BaseException) -> str:
    """The type of an error; for an error in a module, also its message and location."""
    return describe_error(error) if error_location(error) else type(error).__name__


def without_broken(records: Sequence[Record], compute: Callable[[Sequence[Record]], T]) -> Spared[T]:
    """What `compute` makes of the records, but for at most MOST on which it fails. Raises what it raises on all of
    them if leaving out so few does not help.
    """
    try:
        return Spared(compute(records), records)
    except (Exception, SystemExit) as error:
        first = error
    for i, record in enumerate(records) if len(records) <= FEW else ():
        without = [*records[:i], *records[i + 1 :]]
        if without and not isinstance(value := _try_compute(compute, without), _Failure):
            return Spared(value, without, ((record, first),))
    kept, blamed = list(records), list[tuple[Record, BaseException]]()
    while isinstance(value := _try_compute(compute, kept), _Failure):
        if len(blamed) == MOST or len(kept) < 2:
            raise first
        place, why = _first_broken(kept, compute, value.error)
        blamed.append((kept.pop(place), why))
    broken = []
    for record, why in blamed:  # one that was blamed since few records alone fail too is taken back
        with_it = [r for r in records if r is record or any(r is kept_record for kept_record in kept)]
        if isinstance(again := _try_compute(compute, with_it), _Failure):
            broken.append((record, why))
        else:
            value, kept = again, with_it
    return Spared(value, kept, tuple(broken))


@dataclass(frozen=True)
class _Failure:
    error: BaseException


def _try_compute(compute: Callable[[Sequence[Record]], T], records: Sequence[Record]) -> T | _Failure:
    try:
        return compute(records)
    except (Exception, SystemExit) as error:
        return _Failure(error)


def _first_broken(
    records: Sequence[Record], compute: Callable[[Sequence[Record]], T], error: BaseException
) -> tuple[int, BaseException]:
    """The place of the last record of the shortest beginning of the list that fails, found by halves, and its error."""
    working, failing = 0, len(records)
    while failing - working > 1:
        middle = (failing + working) // 2
        if isinstance(result := _try_compute(compute, records[:middle]), _Failure):
            failing, error = middle, result.error
        else:
            working = middle
    return failing - 1, error
