"""Parses sizes, and formats sizes, numbers and times.

Accepted sizes are ``4KiB``, ``1.5GiB``, ``64MB``, ``2^30`` or a plain number of bytes. The program uses bytes (int)
and seconds (float).
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import floor, isfinite, log10

KiB, MiB, GiB = 2**10, 2**20, 2**30

_BINARY = {"": 1, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FACTOR = _BINARY | _DECIMAL
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>(?:[KMGT]I?)?)B?", re.IGNORECASE | re.ASCII)
_POWER = re.compile(r"2\^(?P<exponent>[0-9]{1,2})")
_LONGEST = 40
"""Most characters of a size."""
_MOST = 2**63

ACCEPTED_SIZES = "a size such as 4096, 4KiB, 1.5GiB, 64MB or 2^30"


def parse_size(text: str) -> int:
    """The size in bytes that ``text`` states. The native guard reads the limits of the environment in the same way.

    Raises:
        ValueError: the text is not a size, or not a whole, positive number of bytes.
    """
    stripped = text.strip(" \t\n\r\f\v")
    if len(stripped) > _LONGEST:
        raise ValueError(f"'{stripped[:_LONGEST]}...' is not {ACCEPTED_SIZES}")
    if power := _POWER.fullmatch(stripped):
        return _checked(1 << int(power["exponent"]), text)
    match = _SIZE.fullmatch(stripped)
    if match is None:
        raise ValueError(f"'{text}' is not {ACCEPTED_SIZES}")
    exact = Fraction(match["number"]) * _FACTOR[match["unit"].upper()]
    if exact < 1:
        raise ValueError(f"'{text}' is zero bytes; give {ACCEPTED_SIZES}")
    if exact != int(exact):
        raise ValueError(f"'{text}' is not a whole number of bytes")
    return _checked(int(exact), text)


def _checked(size: int, text: str) -> int:
    if size >= _MOST:
        raise ValueError(f"'{text}' is more than any memory; give {ACCEPTED_SIZES}")
    return size


def format_size(size: int | float, digits: int = 4) -> str:
    """``size`` bytes in the largest binary unit that keeps it at or above one: 1536 is ``1.5 KiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{format_number(value, max(digits, 4 if abs(value) >= 999.5 else 0)).replace(',', '')} {unit}"
        value /= 1024
    return f"{format_number(value, digits).replace(',', '')} TiB"


def size_option(size: int) -> str:
    """``size`` bytes, exactly, as options take it: ``2GiB``, ``1536KiB``, or the bytes where no unit divides them."""
    for unit, scale in (("TiB", 2**40), ("GiB", GiB), ("MiB", MiB), ("KiB", KiB)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size)


def significant_digits(value: float, low: float | None, high: float | None) -> int:
    """The number of significant digits of a measured value: three, or two if its interval is wide.

    The last digit's unit is at most a quarter of the interval's width: 332.4 is shown as 332 if the interval is 320 to
    345, and as 330 if it is 280 to 390.
    """
    if low is None or high is None or not value or high <= low:
        return 3
    unit = floor(log10((high - low) / 4))
    return min(3, max(2, floor(log10(abs(value))) - unit + 1))


def format_number(value: float, digits: int = 3) -> str:
    """A number with at most `digits` significant digits and no exponent: 47713.2 is ``47,700``, 0.0120 ``0.012``."""
    if not isfinite(value) or value == 0:
        return f"{value or 0:g}"  # no sign of a zero
    rounded = float(f"{value:.{digits - 1}e}")
    magnitude = floor(log10(abs(rounded)))
    if magnitude >= 15 or magnitude < -6:
        return f"{rounded:g}"
    text = f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_seconds(seconds: float, digits: int = 3) -> str:
    """A duration with at most `digits` significant digits: ``1.25 us``, ``300 ms``, ``2.5 min``."""
    unit, scale = _unit_of_time(seconds, digits)
    return f"{format_number(seconds / scale, digits)} {unit}"


def format_interval(seconds: float, low: float, high: float) -> str:
    """A duration with the ends of its interval, in the same unit: ``1.05 s (0.98 to 1.2)``."""
    _, scale = _unit_of_time(seconds, 3)
    return f"{format_seconds(seconds)} ({format_number(low / scale)} to {format_number(high / scale)})"


def _unit_of_time(seconds: float, digits: int) -> tuple[str, float]:
    """The unit in which a duration is written, and its seconds."""
    rounded = float(f"{seconds:.{digits - 1}e}")
    if abs(rounded) >= 120:
        return "min", 60.0
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    return next((unit for unit in units if abs(rounded) >= unit[1]), ("ns", 1e-9))
