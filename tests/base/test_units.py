"""Parsing of sizes."""

from __future__ import annotations

import pytest

from firsttouch.base.units import format_interval, format_seconds, parse_size, size_option


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        (" 4KiB ", 4096),
        ("4 kib", 4096),
        ("1.5GiB", 3 * 2**29),
        ("64MB", 64_000_000),
        ("2^30", 2**30),
        ("9007199254740993", 2**53 + 1),
        ("0.1MB", 100_000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "KiB", "-1", "0x10", "1e9", "4K\u212aB", "4\u212aiB", "\u0664KiB", "1XiB", "inf", "1.2.3", "9" * 400]
)
def test_text_that_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        parse_size(text)


@pytest.mark.parametrize(("text", "message"), [("0", "zero bytes"), ("0.3KiB", "whole number"), ("2^63", "any memory")])
def test_invalid_sizes(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(2**31, "2GiB"), (3 * 2**19, "1536KiB"), (5000, "5000"), (2**40, "1TiB"), (0, "0")]
)
def test_a_size_as_an_option_is_exact(size: int, text: str) -> None:
    assert size_option(size) == text
    assert size == 0 or parse_size(text) == size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.25e-6, "1.25 us"), (0.3, "300 ms"), (0.9999, "1 s"), (150, "2.5 min"), (5e-9, "5 ns"), (0, "0 ns")],
)
def test_a_duration_has_the_unit_that_fits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "low", "high", "text"),
    [
        (1.05, 0.98, 1.2, "1.05 s (0.98 to 1.2)"),
        (0.0064, 0.0061, 1.5, "6.4 ms (6.1 to 1,500)"),
        (150, 60, 600, "2.5 min (1 to 10)"),
    ],
)
def test_an_interval_has_the_unit_of_what_it_is_of(seconds: float, low: float, high: float, text: str) -> None:
    assert format_interval(seconds, low, high) == text
