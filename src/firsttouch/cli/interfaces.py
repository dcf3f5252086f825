"""firsttouch interfaces: by which interface data move fastest between devices, NUMA nodes and processes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli import commands
from firsttouch.cli.options import AsJsonOption, path
from firsttouch.cli.output import print_json, print_stdout, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firsttouch.report.interfaces import AnswersOfKind

LINES = 40
"""The lines that are printed without --all."""
_WIDEST = 44
_APART = re.compile(r"(?<=\d) (?=[KMG]?i?B\b|times)")
"""The space between a number and its unit, where no line ends."""


def command(
    directory: Annotated[Path, typer.Argument(parser=path, metavar="DIR", help="Results of `firsttouch run`.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="direct, copy, message or collective; may be repeated. Default: all."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every answer and every crossover.")] = False,
    as_json: AsJsonOption = False,
) -> None:
    """Show by which interface data move fastest, by how much, and between which sizes that changes.

    For direct access, copies, messages and collective operations: by time and by bandwidth, for each pair, memory and
    size. Only verified points count. An interface is the fastest where its interval is apart from all others and it
    wins by at least 2 %.

    Example: firsttouch interfaces results/h200-pairs
    """
    from firsttouch.report.interfaces import crossover_texts, parts, summary

    result = commands.interfaces(directory, kind or ())
    if as_json:
        print_json(result.output)
        return
    interfaces = result.value
    answers = parts(interfaces)
    most = max(len(part.open) for part in answers)
    lines = _lines(answers, most)
    while not everything and most > 1 and len(lines) > LINES - 2:
        most -= 1
        lines = _lines(answers, most)
    print_stdout("\n".join([*_filled(summary(interfaces), "", ""), *lines]))
    if everything and (texts := crossover_texts(interfaces)):
        print_stdout("\nCrossovers")
        for text in texts:
            print_stdout("\n".join(_filled(text, "  ")))


def _lines(of: Sequence[AnswersOfKind], most: int) -> list[str]:
    """The answers, at most `most` of each part, and what was measured by one interface only."""
    from firsttouch.records.text import caption
    from firsttouch.report.interfaces import alone

    lines = []
    for part in of:
        shown = part.open[:most]
        lines += ["", *_filled(part.heading, "")] if shown else []
        lines += _answers([(answer.what, answer.text) for answer in shown])
        if more := len(part.open) - len(shown):
            lines.append(f"  {more} more: --all")
    if single := alone(of):
        lines += ["", f"{caption(of[0].predicted or 'measured')} by one interface only"]
        lines += [line for text in single for line in _filled(text, "  ")]
    return lines


def _answers(of: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(what) for what, _ in of if len(what) <= _WIDEST), default=0)
    return [line for what, text in of for line in _answer(what, text, width)]


def _answer(what: str, text: str, width: int) -> list[str]:
    """What moves, and the answer beside it, or below it where it has no room beside it."""
    if not what:
        return _filled(text, "  ")
    if len(what) > width:
        return [*_filled(what, "  "), *_filled(text, " " * 6, " " * 6)]
    return _filled(text, f"  {what:{width}}  ", " " * (width + 4))


def _filled(text: str, first: str, rest: str | None = None) -> list[str]:
    indent = f"{first}  " if rest is None else rest
    lines = textwrap.wrap(
        _APART.sub("\N{NO-BREAK SPACE}", text), text_width(), initial_indent=first, subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
