"""Reasons of what is predicted wrong, and what predictions are to reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.comparison.validation.results import (
    RowRole,
    Shares,
    ValidatedClaim,
    ValidatedPlatform,
    ValidatedRow,
    ValidationOutcome,
    error_summary,
    independent_figures,
)
from firsttouch.comparison.validation.targets import judged_targets
from firsttouch.comparison.validation.validate import why_wrong
from firsttouch.comparison.validation.wording import entry_in_words, figure_sentences, target_sentences
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


def row(role: RowRole, ratio: float | None, outcome: ValidationOutcome = "right") -> ValidatedRow:
    return ValidatedRow(
        row="paper/row", says="", role=role, outcome=outcome, low=1, high=1, unit="", ratio=ratio
    )  # fmt: skip


def claim(role: RowRole, outcome: ValidationOutcome, **shares: float) -> ValidatedClaim:
    return ValidatedClaim(id="claim", rows=["paper/row"], text="", role=role, outcome=outcome, shares=Shares(**shares))


def platform(rows: list[ValidatedRow], claims: list[ValidatedClaim]) -> ValidatedPlatform:
    return ValidatedPlatform(
        platform="one", title="", digest="", figures=independent_figures(rows, claims), values=1, free=1, held=1,
        open=0, compared={"fitted": error_summary([])}, sentences=[], rows=rows, claims=claims,
    )  # fmt: skip


ROWS = [
    row("fitted", 0.5), row("input", 4), row("held", 1.2), row("held", 4, "wrong"), row("held", None, "not predicted")
]  # fmt: skip
CLAIMS = [
    claim("held", "wrong", right=0.375, wrong=0.5, tied=0.125),
    claim("held", "not predicted", refused=1),
    claim("held", "open", right=1),
    claim("input", "right", right=1),
]


def test_the_three_figures_count_what_is_independent_and_what_is_refused() -> None:
    figures = independent_figures(ROWS, CLAIMS)
    numbers, orders = figures.numbers, figures.orders
    assert (numbers.right, numbers.wrong, numbers.refused, numbers.total) == (1, 1, 1, 3)
    assert (numbers.within, numbers.median_factor) == (pytest.approx(1 / 3), pytest.approx(2.6))
    assert (orders.right, orders.wrong, orders.tied, orders.refused) == (0.375, 0.5, 0.125, 1)
    assert (figures.refused, figures.total) == (2, 5)
    assert [*figure_sentences(figures)] == [
        "Independent numbers: 1 of 3 within a factor of 1.5, 1 not, 1 not predicted; those predicted are off by a "
        "factor of 2.6 in the median.",
        "Independent orders: 0.4 of 2 right, 0.5 wrong, 0.1 predicted as equal, 1 not predicted.",
        "Refused: 2 of 5 independent numbers and orders.",
    ]
    assert [*figure_sentences(independent_figures([], []))] == []


@pytest.mark.parametrize(
    ("rows", "claims", "judged"),
    [
        ([row("fitted", 1.05)], [], {"fitted mean": (1.05, False)}),
        ([row("fitted", 0.5)], [], {"fitted mean": (2, True)}),
        (ROWS[2:3], [], {"numbers within": (1, False)}),
        (ROWS[1:], [], {"numbers within": (1 / 3, True)}),
        ([], [claim("held", "right", right=1)], {"orders right": (1, False)}),
        ([], CLAIMS, {"orders right": (0.1875, True)}),
        ([], [], {}),
    ],
)
def test_each_target_is_reached_or_missed(
    rows: list[ValidatedRow], claims: list[ValidatedClaim], judged: dict[str, tuple[float, bool]]
) -> None:
    found = {target.name: (target.value, target.is_missed) for target in judged_targets([platform(rows, claims)])}
    assert found == {name: (pytest.approx(value), missed) for name, (value, missed) in judged.items()}


def test_what_is_said_of_targets() -> None:
    assert [*target_sentences(judged_targets([platform(ROWS, CLAIMS)]))] == [
        "Independent numbers within a factor of 1.5: 33 % (target 60 %: missed).",
        "Independent orders right: 19 % (target 80 %: missed).",
        "Fitted numbers: mean error 100 % (target 10 %: missed).",
    ]
    assert [*target_sentences([])] == []


@pytest.mark.parametrize(
    ("low", "high", "qualifier", "predicted", "ratio", "said"),
    [
        (2.0, 2.0, "", 2.0, 1.0, "2 GB/s, published: 2 GB/s; equal"),
        (2.0, 4.0, "", 3.0, 1.0, "3 GB/s, published: 2 GB/s to 4 GB/s; within the published range"),
        (2.0, 2.0, "more-than", 3.0, 1.0, "3 GB/s, published: more than 2 GB/s; within the published range"),
        (2.0, 2.0, "", 6.0, 3.0, "6 GB/s, published: 2 GB/s; a factor of 3 too high"),
        (2.0, 2.0, "", 1.0, 0.5, "1 GB/s, published: 2 GB/s; a factor of 2 too low"),
        (2.0, 2.0, "", 0.0, 0.0, "0 GB/s, published: 2 GB/s; infinitely far off"),
    ],
)
def test_what_is_said_of_a_row(
    low: float, high: float, qualifier: str, predicted: float, ratio: float, said: str
) -> None:
    entry = row("held", ratio)
    entry.low, entry.high, entry.qualifier, entry.unit, entry.predicted = low, high, qualifier, "GB/s", predicted
    assert entry_in_words(entry) == f"paper/row (independent):  Predicted: {said}."
