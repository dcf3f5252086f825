"""Limits that the environment sets: the native guard, which enforces them, reads each text as the program does."""

from __future__ import annotations

import pytest

from firsttouch import _core
from firsttouch.base.units import parse_size
from firsttouch.machine.limits import VARIABLES

SIZES = [
    *("4096", "4KiB", "1.5GiB", "64MB", "2^30", "2^0", "2^62", "1", "007", "0000.5KiB", "24g", "3 tib", " 4 kb ", "5B"),
    *("1.0", "1.50MiB", "0.1MB", "0.0009765625KiB", "0.00000095367431640625TiB", "\t8 Mi\n"),
    *("9007199254740993", "9223372036854775807", "8388607.5TiB", "0.000000000001T"),
]
NOT_SIZES = [
    *("1.7", "0.3KiB", "0.0001K", "0", "0.0GiB", "2^63", "2^64", "2^100", "2^", "2^ 3", "2^3.0", "2^3B", "3^2"),
    *(
        "lots",
        "GiB",
        ".5GiB",
        "5.GiB",
        "1.2.3",
        "-1",
        "+1",
        "1e9",
        "0x10",
        "inf",
        "nan",
        "1,5",
        "4K B",
        "4 K iB",
        "4BB",
    ),
    *(
        "4XiB",
        "4iB",
        "9223372036854775808",
        "8388608TiB",
        "9" * 40,
        "0" * 40 + "1",
        "4\u212aiB",
        "\u0664KiB",
        " ",
        "\x1f4",
    ),
]


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_size_means_the_same_to_the_guard(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for text in SIZES:
        monkeypatch.setenv(variable, text)
        assert _core.guard_limits()[variable] == parse_size(text), repr(text)


def test_every_text_that_is_not_a_size_is_none_to_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in NOT_SIZES:
        monkeypatch.setenv("FIRSTTOUCH_MAX_MANAGED", text)
        with pytest.raises(ValueError, match=r"is not a|is zero bytes|more than any memory"):
            parse_size(text)
        with pytest.raises(ValueError, match=r"FIRSTTOUCH_MAX_MANAGED='.* is not a size such as 24GiB"):
            _core.guard_limits()
