"""Reasons of what is predicted wrong, and what predictions are to reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.comparison.validation.results import RowRole, ValidatedPlatform, ValidatedRow, error_summary
from firsttouch.comparison.validation.targets import judged_targets
from firsttouch.comparison.validation.validate import why_wrong
from firsttouch.comparison.validation.wording import entry_in_words, target_sentences
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
    ("rows", "claims", "judged"),
    [
        ([row("fitted", 1.05)], (0, 0), {"fitted mean": (1.05, False)}),
        ([row("fitted", 0.5)], (0, 0), {"fitted mean": (2, True)}),
        ([row("held", 1.2), row("held", 1)], (0, 0), {"micro median": (1.1, False), "micro within": (1, False)}),
        (
            [row("held", 4, application=True)],
            (0, 0),
            {"applications within": (0, True), "applications worst": (4, True)},
        ),
        ([row("input", 4)], (8, 2), {"claims right": (0.8, True)}),
        ([], (0, 0), {}),
    ],
)
def test_each_target_is_reached_or_missed(
    rows: list[ValidatedRow], claims: tuple[int, int], judged: dict[str, tuple[float, bool]]
) -> None:
    found = {target.name: (target.value, target.is_missed) for target in judged_targets([platform(rows, *claims)])}
    assert found == {name: (pytest.approx(value), missed) for name, (value, missed) in judged.items()}


def test_what_is_said_of_targets() -> None:
    rows = [row("fitted", 0.5), row("held", 1.2), row("held", 1), row("held", 4, application=True)]
    assert [*target_sentences(judged_targets([platform(rows, 8, 2)]))] == [
        "Fitted numbers: mean error 100 %, target 10 %: missed.",
        "Held-out micro-measurements: median error 10 %, target 15 %, 100 % (target 90 %) within a factor of 1.5.",
        "Held-out numbers of applications: 0 % (target 70 %: missed) within a factor of 1.5, the worst off by a factor "
        "of 4, target 3: missed.",
        "Held-out claims: 80 % (target 90 %: missed) right, 8 of 10.",
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
    assert entry_in_words(entry) == f"paper/row (held out):  Predicted: {said}."
