"""Sizes and times as people write them, and back.

Sizes read ``4KiB``, ``1.5GiB``, ``64MB``, ``2^30`` or a plain number of bytes. Everything inside the program
is bytes (int) and seconds (float).
"""

from __future__ import annotations

import re

_BINARY = {"": 1, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FACTOR = _BINARY | _DECIMAL
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>(?:[KMGT]I?)?)B?", re.IGNORECASE)
_POWER = re.compile(r"2\^(?P<exponent>\d{1,2})")

ACCEPTED_SIZES = "a size such as 4096, 4KiB, 1.5GiB, 64MB or 2^30"


def parse_size(text: str) -> int:
    """Bytes meant by ``text``.

    Raises:
        ValueError: the text is no size, or is not a whole, positive number of bytes.
    """
    stripped = text.strip()
    if power := _POWER.fullmatch(stripped):
        return 1 << int(power["exponent"])
    match = _SIZE.fullmatch(stripped)
    if match is None:
        raise ValueError(f"'{text}' is not {ACCEPTED_SIZES}")
    exact = float(match["number"]) * _FACTOR[match["unit"].upper()]
    if exact < 1:
        raise ValueError(f"'{text}' is zero bytes; give {ACCEPTED_SIZES}")
    if exact != int(exact):
        raise ValueError(f"'{text}' is not a whole number of bytes")
    return int(exact)


def format_size(size: int | float) -> str:
    """``size`` bytes in the largest binary unit that keeps it at or above one: 1536 is ``1.5 KiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def format_seconds(seconds: float) -> str:
    """A duration with three significant digits: ``1.25 us``, ``300 ms``, ``2.5 min``."""
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
