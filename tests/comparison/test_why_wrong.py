"""Reasons of what is predicted wrong, and what predictions are to reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.comparison.validation.results import RowRole, ValidatedPlatform, ValidatedRow, error_summary
from firsttouch.comparison.validation.targets import of_all_platforms
from firsttouch.comparison.validation.validate import why_wrong
from firsttouch.model.platform import platform_names
from firsttouch.records.papers.claims import all_claims
from firsttouch.records.papers.rows import all_rows

MODEL = Path(__file__).resolve().parents[2] / "docs/model.md"


def test_reasons_are_short_and_about_what_is_published() -> None:
    known = {row.name for row in all_rows()} | {claim.id for claim in all_claims()}
    assert set(why_wrong()) <= set(platform_names())
    for reasons in why_wrong().values():
        assert set(reasons) <= known
        assert all(0 < len(reason.split()) <= 25 for reason in reasons.values())


def test_nothing_is_wrong_without_a_reason() -> None:
    text = MODEL.read_text()
    assert "no reason is known" not in text
    for platform, reasons in why_wrong().items():
        for name, reason in reasons.items():
            line = next(
                part for part in text.splitlines() if part.startswith(f"| `{platform}` | `{name.split('/')[-1]}`")
            )
            assert line.endswith(f"| {reason} |")


def row(role: RowRole, ratio: float, *, application: bool = False) -> ValidatedRow:
    return ValidatedRow(
        row="paper/row",
        says="",
        role=role,
        outcome="right",
        low=1,
        high=1,
        unit="",
        ratio=ratio,
        application=application,
    )


def platform(rows: list[ValidatedRow], right: int, wrong: int) -> ValidatedPlatform:
    return ValidatedPlatform(
        platform="one", title="", digest="", values=1, free=1, fitted=1, held=1, numbers={"fitted": error_summary([])},
        right=right, wrong=wrong, open=0, sentences=[], rows=rows, claims=[],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "claims", "says"),
    [
        ([row("fitted", 1.05)], (0, 0), ["Fitted numbers: mean error 5 %, target 10 %."]),
        ([row("fitted", 0.5)], (0, 0), ["Fitted numbers: mean error 100 %, target 10 %: missed."]),
        (
            [row("held", 1.2), row("held", 1)],
            (0, 0),
            ["median error 10 %, target 15 %, 100 % (target 90 %) within 1.5."],
        ),
        ([row("held", 4, application=True)], (0, 0), ["0 % (target 70 %: missed)", "4 times, target 3: missed."]),
        ([row("input", 4)], (8, 2), ["Held claims: 80 % (target 90 %: missed) right, 8 of 10."]),
        ([], (0, 0), []),
    ],
)
def test_each_target_says_whether_it_holds(rows: list[ValidatedRow], claims: tuple[int, int], says: list[str]) -> None:
    said = of_all_platforms([platform(rows, *claims)])
    assert all(part in said for part in says)
    assert bool(said) == bool(says)
