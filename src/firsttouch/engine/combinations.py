"""Whether something holds for any of many combinations of factors, without asking for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from firsttouch.records.schema import Factors, Scalar

_Path: TypeAlias = tuple[tuple[str, Scalar], ...]
"""Factors in the order in which a predicate reads them, with their values."""


class AnyCombination:
    """Whether a predicate holds for any combination of values of factors.

    The predicate must depend on the factors alone, and read them each time. Which factors it reads is noted: its answer
    holds for all combinations that agree in these, so that what the first ones decide is asked once, not for every
    combination of the others.
    """

    def __init__(self, predicate: Callable[[Factors], bool]) -> None:
        self._predicate = predicate
        self._next: dict[_Path, str | bool] = {}
        """The factor that the predicate reads next, or its answer."""

    def holds(self, values: Mapping[str, Sequence[Scalar]], path: _Path = ()) -> bool:
        """Whether it holds for any combination. values: those of every factor. path: what is read already."""
        if path not in self._next:
            self._ask(values, path)
        following = self._next[path]
        if isinstance(following, bool):
            return following
        return any(self.holds(values, (*path, (following, value))) for value in values[following])

    def _ask(self, values: Mapping[str, Sequence[Scalar]], path: _Path) -> None:
        """Asks the predicate about one of the combinations that begin with a path."""
        factors = _ReadFactors({name: choices[0] for name, choices in values.items()} | dict(path))
        answer = self._predicate(factors)
        full_path = tuple(factors.read.items())
        for length in range(len(path), len(full_path)):
            self._next[full_path[:length]] = full_path[length][0]
        self._next[full_path] = answer


class _ReadFactors(Factors):
    """Factors that note which of them are read, in this order.

    Python copies a dict without calling its methods unless it has an __iter__ of its own.
    """

    def __init__(self, factors: Mapping[str, Scalar]) -> None:
        super().__init__(factors)
        self.read: dict[str, Scalar] = {}

    def __getitem__(self, name: str) -> Scalar:
        value = self.read[name] = super().__getitem__(name)
        return value

    def __iter__(self) -> Any:
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        return {**self}.items()

    def values(self) -> Any:
        return {**self}.values()

    def copy(self) -> Any:
        return Factors(self)

    def __eq__(self, other: object) -> bool:
        return {**self} == other

    def __repr__(self) -> str:
        return repr({**self})
