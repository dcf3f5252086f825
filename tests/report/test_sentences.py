"""Numbers in sentences have the digits that their intervals support, and no exponents."""

from __future__ import annotations

import pytest

from firsttouch.records.findings import Claim, Finding, Quantity
from firsttouch.records.reading import point_key
from firsttouch.report.sentences import quantity_text, sentences


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(332.417, "ns", 331, 334), "332 ns"),
        (Quantity(332.417, "ns", 280, 390), "330 ns"),
        (Quantity(47_713.2, "ns", 47_000, 48_000), "47.7 us"),
        (Quantity(36.6e6, "ns"), "36.6 ms"),
        (Quantity(999.7, "ns"), "1 us"),
        (Quantity(105_969, "M/s", 105_000, 106_500), "106,000 M/s"),
        (Quantity(1030, "GB/s"), "1,030 GB/s"),
        (Quantity(48 * 2**10, "B"), "48 KiB"),
        (Quantity(1.5, "", 1.5, 1.5), "1.5"),
        (Quantity(0.6344, ""), "0.63"),
        (Quantity(91.93, "%"), "92 %"),
        (Quantity(1536, "pages", 1536, 2048), "1,536 pages"),
        (Quantity(-3.2, "ns", -9, 2), "-3.2 ns"),
        (Quantity(0, "faults/MiB", 0, 0), "0 faults/MiB"),
    ],
)
def test_digits_follow_the_interval(quantity: Quantity, text: str) -> None:
    assert quantity_text(quantity) == text


def test_a_wide_interval_is_printed() -> None:
    assert quantity_text(Quantity(1000, "ns", 830, 1250), interval=True) == "1 us (830 ns to 1.3 us)"
    assert quantity_text(Quantity(100, "ns", 80, 130), interval=True) == "100 ns (80 to 130 ns)"


def test_adjacent_findings_of_one_claim_are_one_sentence() -> None:
    claim = Claim("x.y", "{name} {value}", "times on {where}:")
    made = [
        Finding(claim, Quantity(n, "ns"), {"name": name, "where": where}, ())
        for name, n, where in [("a", 1.0, "here"), ("b", 2.0, "here"), ("c", 3.0, "there")]
    ]
    assert sentences(made) == ["Times on here: a 1 ns; b 2 ns.", "Times on there: c 3 ns."]


def test_braces_in_a_condition_are_only_text() -> None:
    claim = Claim("x.y", "at {name}")
    assert sentences([Finding(claim, "", {"name": "{value.__class__}"}, ())]) == ["At {value.__class__}."]


@pytest.mark.parametrize(
    ("threads", "text"),
    [(1, "It takes 5 ns with 1 thread."), (21, "It takes 5 ns with 21 threads.")],
)
def test_one_thread_is_singular(threads: int, text: str) -> None:
    claim = Claim("x.y", "it takes {value} with {threads} threads")
    found = Finding(claim, Quantity(5, "ns"), {"threads": threads}, ["p"])
    assert sentences([found]) == [text]


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("cuda:0", "The one pair measured of 3 takes 5 ns."),
        ("model:gh200", "Predicted for gh200: the one pair predicted of 3 takes 5 ns."),
    ],
)
def test_a_claim_says_whether_its_points_were_measured(device: str, text: str) -> None:
    claim = Claim("x.y", "the one pair {measured} of 3 takes {value}")
    found = Finding(claim, Quantity(5, "ns"), {}, (point_key("x", device, {}),))
    assert sentences([found]) == [text]
