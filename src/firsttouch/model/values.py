"""The values of a platform: read from a file or from the text of `--what-if`, checked, and written for a reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeAlias

import msgspec

from firsttouch.base.errors import did_you_mean
from firsttouch.base.units import format_number, format_seconds, format_size
from firsttouch.model.costs import PlatformValue, Price, Time
from firsttouch.model.documents import place_of
from firsttouch.model.parameters import PER_BYTE, Parameter, names_like, parameter, units_of

How: TypeAlias = Literal["stated", "measured", "derived", "fitted", "assumed"]
"""Where a value is from. stated: by a vendor, a study or the machine itself. measured: by an experiment. derived: from
other values. fitted: chosen so that published rows come out. assumed: by us, for the reason that its source gives.
"""
_RANGED = ("derived", "fitted", "assumed")
"""Values that have a range."""
WHAT_IF = "given with --what-if"
"""The source of a value that the call gives."""
ALWAYS = 2.0**62
"""Bytes beyond any memory."""


class WrongValue(Exception):
    """A value cannot be used. steps: which part of it is wrong."""

    def __init__(self, text: str, *steps: str | int) -> None:
        super().__init__(text)
        self.steps = steps


@dataclass(frozen=True)
class Magnitude:
    """A number in the program's units (ns, bytes, bytes/ns, 1/ns, 1), with its bounds and what it rests on."""

    value: float
    low: float
    high: float
    ground: PlatformValue

    @property
    def time(self) -> Time:
        """It as a time."""
        return Time(self.value, self.low, self.high)


class ValueEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A value as a file has it. points: [bytes, value] or [bytes, value, low, high] of a price, with rising sizes.
    source: where it is from, in words; of an assumed value, why. rows: the published rows that it rests on.
    """

    how: How
    source: str
    value: float | str | bool | None = None
    points: list[list[float]] = []
    unit: str = ""
    low: float | None = None
    high: float | None = None
    rows: list[str] = []
    note: str = ""


Content: TypeAlias = Magnitude | Price | str | bool


@dataclass(frozen=True)
class Value:
    """A value of a platform: as its file has it, and in the program's units."""

    name: str
    entry: ValueEntry
    content: Content
    ground: PlatformValue

    def has_content_of(self, other: Value) -> bool:
        """Whether another value is as large, or the same word."""
        values = [v.content.value if isinstance(v.content, Magnitude) else v.content for v in (self, other)]
        return values[0] == values[1]

    @property
    def text(self) -> str:
        """The value for a reader, with its unit and range."""
        definition = parameter(self.name)
        assert definition is not None
        return _text(definition, self.content)


def read_value(name: str, raw: Any, platform: str) -> Value:
    """A value of a file. Raises WrongValue."""
    definition = parameter(name)
    if definition is None:
        raise WrongValue(f"unknown value{names_like(name)}; `firsttouch platforms --values` has them")
    try:
        entry = msgspec.convert(raw, ValueEntry)
    except msgspec.ValidationError as error:
        steps, text = place_of(error, ValueEntry)
        raise WrongValue(text, *steps) from None
    if not entry.source.strip():
        raise WrongValue("empty; say where the value is from", "source")
    if entry.how == "fitted" and not entry.rows:
        raise WrongValue("a fitted value needs 'rows', the published rows that it is fitted to")
    check_rows(entry.rows)
    ground = PlatformValue(platform, name, entry.how, entry.source, tuple(entry.rows))
    return Value(name, entry, _content(definition, entry, ground), ground)


def check_rows(rows: Sequence[str]) -> None:
    """Raises WrongValue if one of the rows is not published."""
    for i, row in enumerate(rows):
        if row not in _rows():
            raise WrongValue(f"there is no published row '{row}'{did_you_mean(row, _rows())}", "rows", i)


def parse_value(name: str, text: str, platform: str) -> Value:
    """A value of --what-if, such as 64KiB, 128GB/s or off, which is taken to be exact. Raises WrongValue."""
    definition = parameter(name)
    assert definition is not None
    entry = ValueEntry("assumed", WHAT_IF)
    if definition.dimension == "flag":
        entry.value = {"on": True, "off": False}.get(text)
    elif definition.dimension == "word":
        entry.value = text
    elif match := _NUMBER.fullmatch(text.strip()):
        entry.value, entry.unit = float(match["number"]), match["unit"]
        entry.low = entry.high = entry.value
    if entry.value is None or (definition.words and text not in definition.words):
        raise WrongValue(f"'{text}' is not {definition.accepted}")
    ground = PlatformValue(platform, name, "assumed", WHAT_IF)
    return Value(name, entry, _content(definition, entry, ground), ground)


_NUMBER = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]{1,3})?)\s*(?P<unit>[A-Za-z%/]*)", re.ASCII)


@cache
def _rows() -> frozenset[str]:
    from firsttouch.records.papers.rows import papers

    return frozenset(f"{paper}/{row.id}" for paper, content in papers().items() for row in content.rows)


def _content(definition: Parameter, entry: ValueEntry, ground: PlatformValue) -> Content:
    if definition.dimension in ("word", "flag"):
        return _word(definition, entry)
    if entry.unit not in (units := units_of(definition.dimension)):
        accepted = ", ".join(filter(None, units))
        problem = f"unit '{entry.unit}' does not fit" if entry.unit else "the unit is missing"
        raise WrongValue(f"{problem}; accepted: {accepted or 'none, since it is a plain number'}", "unit")
    if entry.points:
        if definition.dimension != "price":
            raise WrongValue("it is one number and has no points", "points")
        return _points(definition, entry, ground)
    number = _number(definition, entry, ground)
    return _price(number, entry.unit) if definition.dimension == "price" else number


def _word(definition: Parameter, entry: ValueEntry) -> str | bool:
    for name in ("points", "unit", "low", "high"):
        if getattr(entry, name) not in (None, "", []):
            raise WrongValue("a value that is no number has none", name)
    if definition.dimension == "flag" and isinstance(entry.value, bool):
        return entry.value
    if definition.dimension == "word" and isinstance(entry.value, str):
        if definition.words and entry.value not in definition.words:
            near = did_you_mean(entry.value, definition.words)
            raise WrongValue(f"'{entry.value}' is not accepted{near}; accepted: {', '.join(definition.words)}", "value")
        return entry.value
    raise WrongValue(f"'value' must be {'true or false' if definition.dimension == 'flag' else 'a word'}")


def _number(definition: Parameter, entry: ValueEntry, ground: PlatformValue) -> Magnitude:
    if isinstance(entry.value, bool) or not isinstance(entry.value, int | float):
        raise WrongValue(f"'value' must be {definition.accepted}")
    if (entry.low is None) != (entry.high is None) or (entry.how in _RANGED and entry.low is None):
        raise WrongValue(f"a value that is {entry.how} has both 'low' and 'high'" + _or_neither(entry))
    low, high = (entry.value if bound is None else bound for bound in (entry.low, entry.high))
    if not low <= entry.value <= high:
        raise WrongValue(f"the value {entry.value:g} is not within its range, {low:g} to {high:g}")
    scale = units_of(definition.dimension)[entry.unit]
    for number in (entry.value, low, high):
        if definition.dimension != "price" and not definition.low <= number * scale <= definition.high:
            raise WrongValue(
                f"{number:g} {entry.unit}".rstrip() + f" is not possible; accepted: {possible(definition)}"
            )
    value, low, high = (number * scale for number in (entry.value, low, high))
    if definition.dimension in ("size", "count"):
        value, low, high = round(value), round(low), round(high)
    return Magnitude(value, low, high, ground)


def _or_neither(entry: ValueEntry) -> str:
    return "" if entry.how in _RANGED else " or neither"


def _price(number: Magnitude, unit: str) -> Price:
    """A price of one number: a rate, ns per byte, or the same time for any size."""
    if unit in units_of("rate"):
        if number.low <= 0:
            raise WrongValue("a rate must be above 0")
        return line(number)
    time = number.time
    if time.low < 0 or not isfinite(time.high):
        raise WrongValue("a time can't be negative")
    if unit == PER_BYTE:
        return Price((0.0, 1.0), (Time(), time), (number.ground,))
    return Price((1.0, ALWAYS), (time, time), (number.ground,))


def line(rate: Magnitude) -> Price:
    """The price in proportion to the bytes that a rate is."""
    return Price((0.0, 1.0), (Time(), Time(1 / rate.value, 1 / rate.high, 1 / rate.low)), (rate.ground,))


def _points(definition: Parameter, entry: ValueEntry, ground: PlatformValue) -> Price:
    """A price through points."""
    if entry.value is not None or entry.low is not None or entry.high is not None:
        raise WrongValue("a value has 'points' or 'value', 'low' and 'high', not both", "points")
    scale = units_of(definition.dimension)[entry.unit]
    sizes, times = list[float](), list[Time]()
    for i, point in enumerate(entry.points):
        if len(point) not in (2, 4) or not all(isfinite(number) and number >= 0 for number in point):
            raise WrongValue("a point is [bytes, value] or [bytes, value, low, high], none below 0", "points", i)
        if len(point) == 2 and entry.how in _RANGED:
            raise WrongValue(f"a point of a value that is {entry.how} is [bytes, value, low, high]", "points", i)
        size, value, low, high = point if len(point) == 4 else (*point, point[1], point[1])
        if not low <= value <= high:
            raise WrongValue(f"the value {value:g} is not within its range, {low:g} to {high:g}", "points", i)
        if sizes and size <= sizes[-1]:
            raise WrongValue("the sizes of points must rise", "points", i)
        if entry.unit in units_of("rate"):
            if low <= 0 or size <= 0:
                raise WrongValue("a rate must be above 0, and its size too", "points", i)
            times.append(Time(*(size / (number * scale) for number in (value, high, low))))
        else:
            amount = size if entry.unit == PER_BYTE else 1.0
            times.append(Time(*(number * scale * amount for number in (value, low, high))))
        sizes.append(size)
    return Price(tuple(sizes), tuple(times), (ground,))


# ---------------------------------------------------------------------------------------------------- for a reader


def possible(definition: Parameter) -> str:
    """The numbers that a value may be, in words."""
    return f"{_number_text(definition, definition.low)} to {_number_text(definition, definition.high)}"


def _text(definition: Parameter, content: Content) -> str:
    if isinstance(content, bool):
        return "on" if content else "off"
    if isinstance(content, str):
        return content
    if isinstance(content, Magnitude):
        ranged = content.low < content.high
        bounds = (
            f" ({_number_text(definition, content.low)} to {_number_text(definition, content.high)})" if ranged else ""
        )
        return _number_text(definition, content.value) + bounds
    return _price_text(content)


def _number_text(definition: Parameter, number: float) -> str:
    if definition.dimension == "size":
        return format_size(number)
    if definition.dimension == "time":
        return format_seconds(number / 1e9)
    if definition.dimension == "frequency":
        return f"{format_number(number * 1e9)} /s"
    if definition.dimension == "clock":
        return f"{format_number(number)} GHz"
    return f"{format_number(number)} GB/s" if definition.dimension == "rate" else format_number(number, 6)


def _price_text(price: Price) -> str:
    """A price in proportion to the bytes as its rate, with its range; any other as its first and last time."""
    time = price.times[-1]
    if price.sizes == (0.0, 1.0):
        if not time.value:
            return "nothing"
        bounds = (
            f" ({format_number(1 / time.high)} to {format_number(1 / time.low)})" if 0 < time.low < time.high else ""
        )
        return f"{format_number(1 / time.value)} GB/s{bounds}"
    if price.sizes[-1] == ALWAYS:
        ranged = time.low < time.high
        bounds = f" ({format_seconds(time.low / 1e9)} to {format_seconds(time.high / 1e9)})" if ranged else ""
        return f"{format_seconds(time.value / 1e9)}{bounds} for any size"
    first, last = (
        f"{format_seconds(price.times[index].value / 1e9)} at {format_size(price.sizes[index])}" for index in (0, -1)
    )
    return first if len(price.sizes) == 1 else f"{first} to {last}, {len(price.sizes)} points"
