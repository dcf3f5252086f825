"""Sentences that say for which machine they are predicted, if they are about predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firsttouch.records.text import caption


@dataclass(frozen=True)
class Statement:
    """A sentence. predicted: 'predicted for gh200' if it is about predictions, which the text itself does not say; ''
    otherwise.
    """

    text: str
    predicted: str = ""

    def __str__(self) -> str:
        return headed(self.text, self.predicted)


def headed(text: str, predicted: str) -> str:
    """'Predicted for gh200: text'; the text alone, with a capital letter, if nothing is predicted."""
    return caption(f"{predicted}: {text}" if predicted else text)


def paragraph(statements: Iterable[Statement]) -> list[str]:
    """The sentences of a paragraph. Of those in a row about one platform only the first has that head."""
    shown, before = list[str](), ""
    for statement in statements:
        shown.append(caption(statement.text) if statement.predicted == before else str(statement))
        before = statement.predicted
    return shown
