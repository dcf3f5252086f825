"""Sentences about predictions say for which machine, once in a paragraph."""

from __future__ import annotations

from firsttouch.records.statements import Statement, paragraph


def test_a_paragraph_names_each_platform_once() -> None:
    predicted = [Statement(text, "predicted for a") for text in ("a load takes 3 ns.", "the slowest is managed.")]
    statements = [*predicted, Statement("copies take 5 ns.", "predicted for b"), Statement("dTLB misses are few.")]
    assert paragraph(statements) == [
        "Predicted for a: a load takes 3 ns.", "The slowest is managed.", "Predicted for b: copies take 5 ns.",
        "dTLB misses are few.",
    ]  # fmt: skip


def test_what_is_said_between_two_predictions_does_not_pass_for_one() -> None:
    statements = [Statement("x.", "predicted for a"), Statement("y."), Statement("z.", "predicted for a")]
    assert paragraph(statements) == ["Predicted for a: x.", "Y.", "Predicted for a: z."]
