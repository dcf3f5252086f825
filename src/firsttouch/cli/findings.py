"""Prints the first screen of a run, and the first findings of each experiment on each device where there is room."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firsttouch.cli.output import print_stdout, text_width

if TYPE_CHECKING:
    from firsttouch.commands import Conclusions
    from firsttouch.report.answers import AnsweredSection
    from firsttouch.report.first_screen import FirstScreen

MOST = 4
"""The most sentences for each experiment on each device. The report has all of them."""
LINES = 25
"""The lines of a first screen with the findings that follow it."""


def show(conclusions: Conclusions) -> None:
    """Prints the first screen, and the most important findings of every section if there is room for all of them."""
    lines = _first_screen(conclusions.screen)
    room = LINES - len(lines)
    lines += _conditions(conclusions.screen)
    lines += _findings(conclusions.answers, room) if room > 0 else []
    print_stdout("\n".join(lines))


def show_first_screen(conclusions: Conclusions) -> None:
    print_stdout("\n".join([*_first_screen(conclusions.screen), *_conditions(conclusions.screen)]))


def _first_screen(screen: FirstScreen) -> list[str]:
    """Title, advice and numbers; each part ends with an empty line."""
    lines = [screen.title, ""]
    for heading, texts in screen.advice_by_ground:
        lines += [*_filled(f"{heading}: {' '.join(texts)}"), ""]
    width = max((len(number.head) for number in screen.numbers), default=0) + 2
    for number in screen.numbers:
        lines += _filled(number.text, f"{number.head:{width}}", " " * width)
    lines += [""] if screen.numbers else []
    for text in screen.left_out:
        lines += [*_filled(text), ""]
    return lines


def _conditions(screen: FirstScreen) -> list[str]:
    """What distorts the values, which leaves the findings the room that they have without it."""
    return [*_filled(screen.conditions_text), ""] if screen.conditions_text else []


def _findings(answers: Sequence[AnsweredSection], room: int) -> list[str]:
    """As many sentences of every section as there is room for, but at most MOST. Sections whose points were all skipped
    are only in the report.
    """
    shown = [part for part in answers if any(r.status != "skipped" for r in part.section.records)]
    lines: list[str] = []
    for most in range(MOST, 0, -1):
        lines = [line for part in shown for line in _section(part, most)]
        if len(lines) <= room:
            return lines
    return lines if len(shown) == 1 else []


def _section(part: AnsweredSection, most: int) -> list[str]:
    sentences = part.answer.sentences
    lines = [f"{part.title} on {', '.join(part.devices)}"]
    for sentence in sentences[:most]:
        lines += _filled(sentence, "  ", "    ")
    if (more := len(sentences) - most) > 0:
        lines.append(f"  ({more} more in the report)")
    return [*lines, ""]


def show_suspect(points_by_rule: Mapping[str, int]) -> None:
    """Prints how many points are suspect, and the rules that they break."""
    from firsttouch.records.plausibility import explain
    from firsttouch.text import count

    if points_by_rule:
        print_stdout(f"{count(sum(points_by_rule.values()), 'suspect point')}, left out of the findings")
        for rule, n in points_by_rule.items():
            _print_indented(f"{n} against the rule {explain(rule)}")
        print_stdout("")


def _print_indented(sentence: str) -> None:
    print_stdout("\n".join(_filled(sentence, "  ", "    ")))


def _filled(text: str, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        text_width(),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )
