"""Points and their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

LARGEST = 1e100
"""The largest magnitude of a number in a record, so that no sum or product of a few of them overflows."""
Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Scalar: TypeAlias = str | int | Number | bool | None


class Factors(dict[str, Scalar]):
    """The factors of a point by name. Each method returns a value of one type.

    They raise KeyError if there is no such factor, and TypeError if its value is of another type.
    """

    def text(self, name: str) -> str:
        """The value of a factor of kind "choice"."""
        value = self[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a word")
        return value

    def count(self, name: str) -> int:
        """The value of a factor that is a whole number."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}, not a whole number")
        return value

    def size(self, name: str) -> int:
        """The value of a factor that is a size, in bytes."""
        return self.count(name)

    def number(self, name: str) -> float:
        value = self[name]
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is {value!r}, not a number")
        return float(value)

    def __or__(self, other: Mapping[str, Scalar]) -> Factors:  # type: ignore[override]
        return Factors({**self, **other})


@dataclass(frozen=True)
class Point:
    """One combination of all factors on one device. Reads a factor like Factors does."""

    experiment: str
    device: str
    factors: Factors

    def __getitem__(self, factor: str) -> Scalar:
        return self.factors[factor]

    def text(self, factor: str) -> str:
        return self.factors.text(factor)

    def count(self, factor: str) -> int:
        return self.factors.count(factor)

    def size(self, factor: str) -> int:
        return self.factors.size(factor)


def decode_hook(kind: type, value: object) -> object:
    """For decoders of what has factors."""
    if kind is Factors:
        return Factors(msgspec.convert(value, dict[str, Scalar]))
    raise TypeError(f"{kind} is not decoded")
