"""Prints the first screen of a run, and the first findings of each experiment on each device where there is room."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firsttouch.cli.output import print_stdout, text_width

if TYPE_CHECKING:
    from firsttouch.records.statements import Statement
    from firsttouch.report.answers import AnsweredSection, SectionAnswer
    from firsttouch.report.conclusions import Conclusions
    from firsttouch.report.first_screen import FirstScreen
    from firsttouch.report.machines import MachinesTable

MOST = 4
"""The most sentences for each experiment on each device, and the most names of sections without any. The report has all
of them.
"""
LINES = 25
"""The lines of a first screen with the findings that follow it."""
_MOST_LACKING = 2
"""The most sentences on what predicted times lack."""
_MOST_ROWS = 12
"""The most points that are shown on several machines beside each other."""
_ROOM_FOR_REST = 3
"""The lines that name the sections whose findings only the report has."""


def show(conclusions: Conclusions) -> None:
    """Prints the first screen, and the most important findings of every section, as far as there is room."""
    lines = _first_screen(conclusions.screen)
    room = LINES - len(lines)
    lines += _conditions(conclusions.screen)
    partly = not conclusions.screen.numbers
    print_stdout("\n".join(lines + _findings(conclusions.answers, room, partly=partly)))


def show_first_screen(conclusions: Conclusions) -> None:
    print_stdout("\n".join([*_first_screen(conclusions.screen), *_conditions(conclusions.screen)]))


def _first_screen(screen: FirstScreen) -> list[str]:
    """Title, absent devices, advice and numbers; each part ends with an empty line."""
    listed = "The report lists what is not modelled."
    predicted = [f"{screen.predicted} {listed}"] if screen.predicted else []
    texts_below_title = (*filter(None, [screen.disturbed]), *screen.absent, *predicted, *_first_of(screen.lacking))
    lines = [screen.title, *(line for text in texts_below_title for line in _wrap_text(text)), ""]
    for heading, texts in screen.advice_by_ground:
        lines += [*_wrap_text(f"{heading}: {' '.join(texts)}"), ""]
    width = max((len(number.head) for number in screen.numbers), default=0) + 2
    for number in screen.numbers:
        lines += _wrap_text(number.text, f"{number.head:{width}}", " " * width)
    lines += [""] if screen.numbers else []
    lines += _machine_lines(screen.machines) if screen.machines else []
    for text in screen.left_out:
        lines += [*_wrap_text(text), ""]
    return lines


def _machine_lines(table: MachinesTable) -> list[str]:
    """The same points on each machine, as far as there is room."""
    rows = [table.columns, *table.rows[:_MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    more = len(table.rows) - _MOST_ROWS
    rest = [f"The report has {more} more of these rows."] if more > 0 else []
    return [*lines, *_wrap_text(" ".join([*rest, *table.notes])), ""]


def _first_of(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - _MOST_LACKING
    return [*sentences[:_MOST_LACKING], *([f"The report has {more} more of these."] if more > 0 else [])]


def _conditions(screen: FirstScreen) -> list[str]:
    """What distorts the values, and what they hold for, which leaves the findings the room that they have without."""
    texts = filter(None, (screen.measured_on, screen.conditions_text))
    return [line for text in texts for line in (*_wrap_text(text), "")]


def _findings(answers: Sequence[AnsweredSection], room: int, *, partly: bool) -> list[str]:
    """As much of every section as there is room for; where there is too little for all, of the first ones if `partly`,
    and the names of the others. Sections whose points were all skipped are only in the report, unless all of them were.
    """
    from firsttouch.records.text import first_few

    shown = [part for part in answers if any(r.status != "skipped" for r in part.section.records)] or list(answers)
    sections: list[list[str]] = []
    for cut in (_by_sentence, _by_finding):
        for most in range(MOST, 0, -1):
            sections = [_section_lines(part, *cut(part.answer, most)) for part in shown]
            if sum(map(len, sections)) <= room or len(sections) == most == 1:
                return [line for lines in sections for line in lines]
    ends = [sum(map(len, sections[:n])) for n in range(1, len(sections) + 1)]
    kept = sum(end + _ROOM_FOR_REST <= room for end in ends) if partly else 0
    rest = list(dict.fromkeys(part.title for part in shown[kept:]))
    lines = [line for lines in sections[:kept] for line in lines]
    return [*lines, *_wrap_text(f"The report also has the findings of {first_few(rest, MOST)}."), ""] if rest else lines


def _by_sentence(answer: SectionAnswer, most: int) -> tuple[Sequence[Statement], int]:
    """The first sentences of an answer, and how many more there are."""
    return answer.statements[:most], len(answer.statements) - most


def _by_finding(answer: SectionAnswer, most: int) -> tuple[Sequence[Statement], int]:
    """The first findings of an answer, of which several may be one sentence, and how many more there are."""
    from firsttouch.report.sentences import statements

    return statements(answer.findings[:most]) or answer.statements[:1], len(answer.findings) - most


def _section_lines(part: AnsweredSection, statements: Sequence[Statement], more: int) -> list[str]:
    from firsttouch.records.equal_places import measured_on

    measured = measured_on(part.section.records)
    lines = _wrap_text(f"{part.title} on {', '.join(part.devices)}{measured and f' ({measured})'}")
    for statement in statements:
        lines += _wrap_text(str(statement), "  ", "    ")
    if more > 0:
        lines.append(f"  ({more} more in the report)")
    return [*lines, ""]


def show_suspect(points_by_rule: Mapping[str, int]) -> None:
    """Prints how many points are suspect, and the rules that they break."""
    from firsttouch.records.plausibility import explain
    from firsttouch.records.text import count

    if points_by_rule:
        print_stdout(f"{count(sum(points_by_rule.values()), 'suspect point')}, left out of the findings")
        for rule, n in points_by_rule.items():
            _print_indented(f"{n} against the rule {explain(rule)}")
        print_stdout("")


def _print_indented(sentence: str) -> None:
    print_stdout("\n".join(_wrap_text(sentence, "  ", "    ")))


def _wrap_text(text: str, first: str = "", later_indent: str = "") -> list[str]:
    """Lines of text, none of which ends between a number and its %."""
    lines = textwrap.wrap(
        text.replace(" %", "\N{NO-BREAK SPACE}%"),
        text_width(),
        initial_indent=first,
        subsequent_indent=later_indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]
