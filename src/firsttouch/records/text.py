"""Formats the values of factors, counters and facts for the report and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from firsttouch.base.units import format_number, format_seconds, format_size
from firsttouch.records.codebook import codebook_of
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import distinct, value, varying

RATIO = "ratio"
"""The unit of a value relative to another, for `compact`."""
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def is_size(name: str) -> bool:
    """Whether numbers of this factor, counter or fact are bytes, by the project's naming."""
    plain = ("size", "chunk", "bytes", "stride", "budget", "padding")
    return name in plain or name.endswith(("_size", "_bytes", "_stride"))


ALL = "all"


def label(name: str, value: Scalar) -> str:
    """A factor's, counter's or fact's value: sizes in binary units, numbers with six digits, None as a dash; all
    threads, which the factor `threads` gives as 0, as ALL.
    """
    if value is None:
        return "–"  # noqa: RUF001
    if name == "threads" and value == 0 and not isinstance(value, bool):
        return ALL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if is_size(name):
        return format_size(value)
    return f"{value:,}" if isinstance(value, int) else format_number(value, 6)


def named(name: str, value: Scalar, word: str = "") -> str:
    """A value after its name, or after another word for it: 'size 4 KiB'; but 'all threads'."""
    text = label(name, value)
    return f"{ALL} {word or name}" if text == ALL and not isinstance(value, str) else f"{word or name} {text}"


def number(value: float) -> str:
    """Four significant digits, without an exponent where the number is readable without."""
    if not isfinite(value):
        return str(value)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else format_number(value, 4)


def quantity(value: float, unit: str) -> str:
    """A value with its unit; bytes and times in a suitable unit: 1500 'ns per load' is '1.5 us per load'."""
    head, _, rest = unit.partition(" ")
    if scale := SECONDS.get(head):
        return f"{format_seconds(value * scale)} {rest}".strip()
    return format_size(value) if unit == "B" else f"{number(value)} {unit}".strip()


def percent(share: float) -> str:
    """A share of one in percent with two digits: 0.123 is '12 %'."""
    return f"{format_number(100 * share, 2)} %"


def compact(value: float, unit: str) -> str:
    """A value in few characters: 'B' as signed bytes, RATIO with two decimals, '%' whole, times in a suitable unit.

    Other values have three digits, and large ones a suffix k, M, G or T.
    """
    sign, size = ("\N{MINUS SIGN}" if value < 0 else ""), abs(value)
    if value == 0:
        return "0"
    if unit == "B":
        return f"{sign or '+'}{_bytes(size)}"
    if unit == "%":
        return f"{value:.0f}"
    if unit == RATIO:
        return sign + (f"{size:.2f}" if 0.095 <= size < 9.995 else format_number(size, 2) if size < 1 else _plain(size))
    return sign + (format_seconds(size * SECONDS[unit]) if unit in SECONDS else _plain(size))


def _bytes(size: float) -> str:
    number, _, unit = format_size(size).partition(" ")
    return f"{_three_digits(float(number))} {unit}"


def _plain(size: float) -> str:
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if 1e15 > size >= scale * (10 if suffix == "k" else 1):
            return f"{_three_digits(size / scale)}{suffix}"
    return _three_digits(size)


def _three_digits(size: float) -> str:
    return f"{size:.0f}" if 1000 <= size < 1e4 else format_number(size)


def times_as(ratio: float, above: str, below: str, text: Callable[[float], str]) -> str:
    """A ratio in words: '1.6 times as ABOVE'; of one below 1 its inverse, '1.6 times as BELOW'. text: formats it."""
    return f"{text(ratio)} times as {above}" if ratio >= 1 else f"{text(1 / ratio)} times as {below}"


def count(n: int, noun: str, several: str = "") -> str:
    """'1 point', '2 points'. several: the plural, if it has not just an s."""
    return f"{n} {noun if n == 1 else several or f'{noun}s'}"


def join_names(names: Sequence[str], word: str = "and") -> str:
    """'a', 'a and b', 'a, b and c'."""
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def join_some(names: Sequence[str], most: int) -> str:
    """'a', 'a and b', 'a, b and 2 more'."""
    return join_names(names) if len(names) <= most else first_few(names, most)


def first_few(words: Sequence[str], most: int, comma: str = ", ") -> str:
    """The first words, and how many more there are."""
    more = len(words) - most
    return comma.join(words[:most]) + (f" and {more} more" if more > 0 else "")


def caption(text: str) -> str:
    """A title that begins with a capital letter, unless its first word contains capital letters, as dTLB does."""
    first = text.split(" ", 1)[0]
    return text if first != first.lower() else f"{text[:1].upper()}{text[1:]}"


_SPELLINGS = {
    "gpu0": "GPU 0",
    "pcie": "PCIe",
    "nvlinks": "NVLinks",
    "thp": "THP",
    "tlb": "TLB",
    "cpu": "CPU",
    "gpu": "GPU",
}
_SPELLINGS |= {"l1": "L1", "l2": "L2", "l3": "L3", "numa": "NUMA", "cuda": "CUDA", "nvidia": "NVIDIA", "uuid": "UUID"}


def fact_title(name: str) -> str:
    """The name of a fact or of a group of facts in words: 'l1_bytes' is 'L1'."""
    return " ".join(_SPELLINGS.get(word, word) for word in name.removesuffix("_bytes").split("_"))


def meant(record: Record, name: str) -> Scalar:
    """The value of a factor or a counter; None if it means nothing for this record, as the CPU's threads for a GPU."""
    return value(record, name) if _is_meant(record, name) else None


def condition(record: Record, names: Sequence[str]) -> str:
    """One point in words: 'allocator malloc, size 4 KiB', without factors that mean nothing for it."""
    return ", ".join(named(name, value(record, name)) for name in names if _is_meant(record, name))


def _is_meant(record: Record, name: str) -> bool:
    return codebook_of(record.experiment).applies(name, record.factors)


def distinguishing_factors(group: Sequence[Record], everyone: Sequence[Record], most: int = 6) -> str:
    """The factors of which a group of points has only some of the values that all points have, with these values."""
    parts = []
    for name in varying(everyone):
        mine, all_values = distinct(group, name), distinct(everyone, name)
        if len(mine) < len(all_values):
            labels = [label(name, v) for v in mine]
            numeric = len(mine) > 2 and ALL not in labels and all(isinstance(v, int | float) for v in mine)
            values_text = f"{labels[0]} to {labels[-1]}" if numeric else ", ".join(labels[:most])
            more = "" if numeric or len(mine) <= most else ", …"
            parts.append(named(name, mine[0]) if len(mine) == 1 else f"{name} {values_text}{more}")
    return "; ".join(parts)
