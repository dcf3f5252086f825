"""firsttouch interfaces: by which interface data move fastest between devices, NUMA nodes and processes."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_stdout, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firsttouch.base.outputs import Output
    from firsttouch.experiments.analysis.fastest_interfaces import Interfaces
    from firsttouch.report.interface_answers import AnswersOfKind

LINES = 40
"""The lines that are printed without --all."""
_WIDEST = 44
_APART = re.compile(r"(?<=\d) (?=[KMG]?i?B\b|times)")
"""The space between a number and its unit, where no line ends."""


@dataclass(frozen=True)
class InterfacesOfRun:
    directory: Path
    interfaces: Interfaces

    def output(self) -> Output:
        from firsttouch.report.interface_answers import output

        return output(self.interfaces, str(self.directory))


@declare(
    "interfaces",
    "Which interface moves data fastest between devices.",
    {"interfaces": "report.interface_answers:InterfacesOutput"},
)
def command(
    directory: Annotated[Path, typer.Argument(parser=path, metavar="DIR", help="Results of `firsttouch run`.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="direct, copy, message or collective; may be repeated. Default: all."
        ),
    ] = None,
) -> InterfacesOfRun:
    """Show which interface moves data fastest, by how much, and at which sizes that changes.

    For direct access, copies, messages and collective operations: by time and by bandwidth, for each pair, memory and
    size. Only verified points count. An interface is the fastest where its interval is apart from all others and it
    wins by at least 2 %.

    Example: firsttouch interfaces results/h200-pairs
    """
    from firsttouch.report.interface_answers import read

    return InterfacesOfRun(directory, read(directory, kind or ()))


@command.shown
def _show(
    found: InterfacesOfRun,
    everything: Annotated[
        bool, typer.Option("--all", help="Print all pairs and all sizes at which the fastest interface changes.")
    ] = False,
) -> None:
    from firsttouch.report.interface_answers import crossover_texts, parts, summary

    interfaces = found.interfaces
    answers = parts(interfaces)
    most = max(len(part.open) for part in answers)
    lines = _answer_lines(answers, most)
    while not everything and most > 1 and len(lines) > LINES - 2:
        most -= 1
        lines = _answer_lines(answers, most)
    print_stdout("\n".join([*_wrap_text(summary(interfaces), "", ""), *lines]))
    if everything and (texts := crossover_texts(interfaces)):
        print_stdout("\nCrossovers")
        for text in texts:
            print_stdout("\n".join(_wrap_text(text, "  ")))


def _answer_lines(parts: Sequence[AnswersOfKind], most: int) -> list[str]:
    """The answers, at most `most` of each part, and what was measured by one interface only."""
    from firsttouch.records.text import caption
    from firsttouch.report.interface_answers import alone

    lines = []
    for part in parts:
        shown = part.open[:most]
        lines += ["", *_wrap_text(part.heading, "")] if shown else []
        lines += _table_lines([(answer.what, answer.text) for answer in shown])
        if more := len(part.open) - len(shown):
            lines.append(f"  {more} more: --all")
    if single := alone(parts):
        lines += ["", f"{caption(parts[0].predicted or 'measured')} by one interface only"]
        lines += [line for text in single for line in _wrap_text(text, "  ")]
    return lines


def _table_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(movement) for movement, _ in rows if len(movement) <= _WIDEST), default=0)
    return [line for movement, text in rows for line in _one_answer_lines(movement, text, width)]


def _one_answer_lines(movement: str, text: str, width: int) -> list[str]:
    """What moves, and the answer beside it, or below it where it has no room beside it."""
    if not movement:
        return _wrap_text(text, "  ")
    if len(movement) > width:
        return [*_wrap_text(movement, "  "), *_wrap_text(text, " " * 6, " " * 6)]
    return _wrap_text(text, f"  {movement:{width}}  ", " " * (width + 4))


def _wrap_text(text: str, first: str, rest: str | None = None) -> list[str]:
    indent = f"{first}  " if rest is None else rest
    lines = textwrap.wrap(
        _APART.sub("\N{NO-BREAK SPACE}", text), text_width(), initial_indent=first, subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
