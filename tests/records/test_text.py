"""Formatting of values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import firsttouch
from firsttouch.records.text import RATIO, caption, compact, fact_title, join_names, label, named, percent

MIB = 2**20


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (256 * MIB, "B", "+256 MiB"),
        (-1000 * MIB, "B", "−1000 MiB"),  # noqa: RUF001
        (1.5 * 2**30, "B", "+1.5 GiB"),
        (0, "B", "0"),
        (0.97, RATIO, "0.97"),
        (1, RATIO, "1.00"),
        (0.0123, RATIO, "0.012"),
        (12.34, RATIO, "12.3"),
        (0, "", "0"),
        (3.14159, "", "3.14"),
        (1234, "", "1234"),
        (12345, "", "12.3k"),
        (-2.5e9, "", "−2.5G"),  # noqa: RUF001
        (1e300, "", "1e+300"),
        (1500, "ns", "1.5 us"),
    ],
)
def test_values_in_few_characters(value, unit, text):
    assert compact(value, unit) == text


def test_zero_threads_are_all_threads():
    assert [label("threads", n) for n in (0, 1, 12, "best")] == ["all", "1", "12", "best"]
    assert [named("threads", n) for n in (0, 12)] == ["all threads", "threads 12"]
    assert [named("cpu_threads", 0), named("size", 4096), named("scope", "all")] == [
        "cpu_threads 0",
        "size 4 KiB",
        "scope all",
    ]


def test_titles_begin_with_a_capital_letter_unless_the_first_word_has_one():
    assert caption("time per load") == "Time per load"
    assert caption("dTLB load misses") == "dTLB load misses"
    assert caption("CPU faults") == "CPU faults"


def test_facts_are_spelled_as_the_field_does():
    names = ("l1_bytes", "gpu0_pcie_width", "huge_pages")
    assert [fact_title(n) for n in names] == ["L1", "GPU 0 PCIe width", "huge pages"]


def test_names_in_a_row():
    assert [join_names(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("share", "written"), [(0.123, "12 %"), (13.0, "1,300 %"), (0.00042, "0.042 %"), (1e-6, "0.0001 %"), (0, "0 %")]
)
def test_a_percentage_has_no_exponent(share: float, written: str) -> None:
    assert percent(share) == written


SIGNIFICANT = re.compile(r"\{[^{}]*:\.\dg\}")
"""A format of Python that writes 1300 as 1.3e+03."""
NOT_SHOWN = re.compile(r'float\(f"[^"]*"\)|digits = f".*')
ERRORS = ("apps/", "harness/shapes.py", "machine/cores.py", "share/")
"""Where such formats are of errors of a computation, or of frequencies, or in examples."""


def test_numbers_that_are_shown_have_one_format() -> None:
    source = Path(firsttouch.__file__).parent
    found = {
        str(path.relative_to(source)): formats
        for path in source.rglob("*.py")
        if not str(path.relative_to(source)).startswith(ERRORS)
        and (formats := SIGNIFICANT.findall(NOT_SHOWN.sub("", path.read_text())))
    }
    assert not found, "firsttouch.base.units.format_number writes numbers"
