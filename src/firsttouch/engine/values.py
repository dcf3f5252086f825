"""The values of factors as --set has them: parsed, and checked against what a factor accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.units import parse_size
from firsttouch.experiments.contract.base import Factor
from firsttouch.records.schema import Scalar


def parse_sets(texts: Iterable[str]) -> dict[str, list[Scalar]]:
    """Turns ``["size=4KiB,1MiB"]`` into ``{"size": ["4KiB", "1MiB"]}``. A factor given twice gets all values."""
    sets: dict[str, list[Scalar]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not name.strip() or not all(words):
            raise UsageError(f"--set '{text}' is not factor=value or factor=value,value")
        sets.setdefault(name.strip(), []).extend(words)
    return sets


def _parse_count(text: str) -> int:
    """Parses a whole number, which may be written as 2^20."""
    if text.startswith("2^"):
        return parse_size(text)
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"'{text:.40}' is not a whole number, zero or more")
    if len(text) > 40 or int(text) >= 2**63:  # more than a record can hold
        raise ValueError(f"'{text:.40}' is not a whole number below 2^63")
    return int(text)


def _parse_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < float("inf"):
        raise ValueError(f"'{text}' is not a number above 0")
    return ratio


def _parse_fraction(factor: Factor, text: str) -> float:
    """Parses a number from 0 to 1; 0.50 and .5 are the same point."""
    with suppress(ValueError):
        if 0 <= (fraction := float(text)) <= 1:
            return fraction + 0.0  # -0 is 0
    raise ValueError(f"'{text:.40}' is no {factor.name}; accepted: {factor.accepted()}")


def _parse_number(factor: Factor, parse: Callable[[str], int], text: str) -> int:
    """Returns parse(text). Its message also names the words that the factor accepts."""
    try:
        return parse(text)
    except ValueError as error:
        words = f"; or one of {', '.join(factor.known)}" if factor.known else ""
        raise ValueError(f"{error}{words}") from None


def parse_value(factor: Factor, text: str) -> Scalar:
    """Parses a value of `factor`. Raises ValueError with a message that says what is accepted."""
    if text in factor.known:
        return factor.known[text]
    if factor.kind == "size":
        return _check_range(factor, parse_size(text), text)
    if factor.kind == "count":
        return _check_range(factor, _parse_number(factor, _parse_count, text), text)
    if factor.kind == "ratio":
        return _parse_ratio(text)
    if factor.kind == "fraction":
        return _parse_fraction(factor, text)
    if factor.kind == "name":
        if not re.fullmatch(factor.pattern, text):
            raise ValueError(f"'{text:.40}' is no such name; accepted: {factor.accepted()}")
        return text
    if factor.kind == "extent":
        return _parse_number(factor, parse_size, text)
    words = factor.words()
    if text not in words:
        raise ValueError(str(unknown(factor.name, text, words)))
    return words[text]


def _check_range(factor: Factor, number: int, text: str) -> int:
    """Returns `number`. Raises ValueError if it is outside the factor's range."""
    if number < factor.least:
        raise ValueError(f"'{text}' is less than can be measured; accepted: {factor.accepted()}")
    if factor.most is not None and number > factor.most:
        raise ValueError(f"'{text}' is more than can be measured; accepted: {factor.accepted()}")
    if number % factor.multiple:
        raise ValueError(f"'{text}' is not a multiple of {factor.multiple}; accepted: {factor.accepted()}")
    return number


def valid_values(factor: Factor, text: str) -> list[Scalar]:
    """A list with the value of `text`, or an empty list if `factor` does not accept it."""
    try:
        return [parse_value(factor, text)]
    except ValueError:
        return []
