"""What a page says once instead of below each figure or number, and what a figure need not say again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from firsttouch.records.text import caption
from firsttouch.report.drawing import Drawing

OF_ONE_FIGURE = ("Held constant:",)
"""How notes begin that tell what one figure shows, though another one may share it."""
_INTERVALS = re.compile(r"(Whiskers|Bands) are (.*)\.")
_PREDICTED = re.compile(r"(?:in part )?predicted(?: for [^:]*)?: ", re.IGNORECASE)


def of_several(at_once: Sequence[Drawing], every: Iterable[Drawing], general: Collection[str]) -> list[str]:
    """The notes on intervals, and those in `general`, that several of the figures shown at once share, as sentences.
    Takes them from the notes of `every` figure. Of notes that differ in what they say of the same thing, the most
    frequent one is taken. Of other notes that several of the figures shown at once share, the first figure keeps them.
    """
    counted = Counter(note for drawing in at_once for note in drawing.notes if not note.startswith(OF_ONE_FIGURE))
    by_subject: dict[str, str] = {}
    for note, number in counted.most_common():
        if number > 1 and (note in general or _INTERVALS.fullmatch(note)):
            by_subject.setdefault(_subject(note), note)
    shared = [*by_subject.values()]
    for drawing in every:
        drawing.notes[:] = [note for note in drawing.notes if note not in shared]
    said: set[str] = set()
    for drawing in at_once:
        drawing.notes[:] = [note for note in drawing.notes if note not in said]
        said |= {note for note in drawing.notes if not note.startswith(OF_ONE_FIGURE)}
    return _joined([note for note in counted if note in shared], [*counted])


def _subject(note: str) -> str:
    found = _INTERVALS.fullmatch(note)
    return found[1] if found else note


def _joined(notes: Sequence[str], of_all: Sequence[str]) -> list[str]:
    """The notes; those on whiskers and on bands are one sentence if they say the same."""
    ends = {found[1]: found[2] for note in notes if (found := _INTERVALS.fullmatch(note))}
    others = {found[2] for note in of_all if (found := _INTERVALS.fullmatch(note))} - {*ends.values()}
    unless = ", unless a caption says otherwise" if others else ""
    texts = [
        f"{' and '.join(names).capitalize()} are {end}{unless}."
        for end in dict.fromkeys(ends.values())
        if (names := [name for name, same in ends.items() if same == end])
    ]
    return [*texts, *(note for note in notes if not _INTERVALS.fullmatch(note))]


def unmarked(text: str) -> str:
    """A text without the head that says for which machine it is predicted, where something near it says that."""
    head = _PREDICTED.match(text)
    return caption(text[head.end() :]) if head else text


def is_said(title: str, text: str) -> bool:
    """Whether a text says what a figure's title says: all of it, or as the first of a list."""
    plain_title, plain_text = (_PREDICTED.sub("", part).casefold() for part in (title, text))
    head, colon, _ = plain_title.partition(": ")
    return plain_title in plain_text or (bool(colon) and f"{head}: " in plain_text)
