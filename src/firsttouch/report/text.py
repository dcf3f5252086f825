"""How values read in the report: one place for factors, quantities and facts."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.analysis.statistics import distinct, varying
from firsttouch.schema import Record, Scalar
from firsttouch.units import format_seconds, format_size

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def is_size(name: str) -> bool:
    """Whether numbers of this factor, counter or fact are bytes, by the project's naming."""
    return name in ("size", "chunk", "bytes", "stride", "budget") or name.endswith(("_size", "_bytes", "_stride"))


def label(name: str, value: Scalar) -> str:
    """A factor's, counter's or fact's value: sizes in binary units, numbers with six digits, None as a dash."""
    if value is None:
        return "–"  # noqa: RUF001
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if is_size(name):
        return format_size(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def number(value: float) -> str:
    """Four significant digits, without an exponent where the number is readable without."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def quantity(value: float, unit: str) -> str:
    """A value with its unit; bytes and times in the unit that suits them: 1500 'ns per load' is '1.5 us per load'."""
    head, _, rest = unit.partition(" ")
    if scale := SECONDS.get(head):
        sign, scaled = ("-" if value < 0 else ""), abs(value) * scale
        return f"{sign}{format_seconds(scaled)} {rest}".strip()
    return format_size(value) if unit == "B" else f"{number(value)} {unit}".strip()


def count(n: int, noun: str) -> str:
    """'1 point', '2 points'."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def condition(record: Record, names: Sequence[str]) -> str:
    """One point in words: 'allocator malloc, size 4 KiB'."""
    return ", ".join(f"{name} {label(name, record.factors.get(name))}" for name in names)


def what_they_share(group: Sequence[Record], everyone: Sequence[Record], most: int = 6) -> str:
    """What sets a group of points apart: the factors of which it takes only some of the values taken by everyone."""
    told = []
    for name in varying(everyone):
        mine, all_of_them = distinct(group, name), distinct(everyone, name)
        if len(mine) < len(all_of_them):
            some = ", ".join(label(name, v) for v in mine[:most])
            numeric = len(mine) > 2 and all(isinstance(v, int | float) for v in mine)
            span = f"{label(name, mine[0])} to {label(name, mine[-1])}"
            told.append(f"{name} {span if numeric else some}{'' if numeric or len(mine) <= most else ', …'}")
    return "; ".join(told)
