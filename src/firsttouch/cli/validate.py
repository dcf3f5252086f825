"""firsttouch validate: how right the predictions for machines of platform files are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import NOT_JUDGED
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_stdout, text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firsttouch.comparison.validation.results import (
        MeasuredJudgement,
        ValidatedClaim,
        ValidatedPlatform,
        ValidatedRow,
        Validation,
    )

MOST = 12
"""The most strategies of applications that are printed without --all."""
_MOST_REASONS = 5


@declare(
    "validate",
    "How accurate predictions for other machines are.",
    {"validate": "comparison.validation.results:Validation"},
)
def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Platforms by name or file, or with a changed value, gh200@host.page=4KiB; default: "
            "all that papers report on.",
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            parser=path,
            metavar="FILE",
            help="Your own file of published numbers, JSON or YAML, instead of the papers'.",
        ),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measured", parser=path, metavar="DIR", help="Compare with applications that were measured."),
    ] = None,
    tried: Annotated[
        list[Path] | None,
        typer.Option(
            "--tried",
            parser=path,
            metavar="DIR",
            help="Judge advice about programs by what firsttouch try measured of them.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            parser=path,
            metavar="RUN",
            help="With --tried, predict by the results of this run, not as try did.",
        ),
    ] = None,
) -> Validation:
    """Show how accurate predictions are: each published number and claim beside its prediction.

    Three figures say how good predictions are: independent numbers within a factor of 1.5, independent orders that are
    right, and how much of either is refused. A row is independent unless something in the platform's file, in the rules
    or in the call came from it; the others are compared, but judge nothing. A prediction has no noise: an order is
    right or wrong, and equal values are wrong where the paper says that they differ.

    With --tried, `advise --profile` is judged by directories of `firsttouch try`: the order of strategies, how far
    predicted times are off, and whether the measured ones are within their range.

    Exit status: 0 validated; 2 the call was wrong; 4 the platform has no independent rows to validate it with.

    Example: firsttouch validate gh200
    """
    from firsttouch.comparison.validation.validate import validation

    return validation(names or [], rows, measured or [], tried or [], prices)


@command.finished
def _finish(found: Validation) -> int:
    return 0 if found.measured or any(platform.held for platform in found.platforms) else NOT_JUDGED


@command.shown
def _show(
    found: Validation,
    everything: Annotated[bool, typer.Option("--all", help="Print every row and claim.")] = False,
) -> None:
    for judged in found.measured:
        _show_measured(judged, everything)
    for platform in found.platforms:
        _show_platform(platform, everything)
    print_stdout(found.summary)


def _show_platform(platform: ValidatedPlatform, everything: bool) -> None:
    print_stdout(f"{platform.platform}: {platform.title}")
    for sentence in platform.sentences:
        _print(sentence, "  ")
    every: list[ValidatedRow | ValidatedClaim] = [*platform.rows, *platform.claims]
    held = [entry for entry in every if entry.role == "held"]
    for heading, outcome in (("Predicted wrong", "wrong"), ("Not decided by the paper", "open"), ("Right", "right")):
        entries = [entry for entry in held if entry.outcome == outcome]
        _group(heading, entries, everything or outcome == "wrong")
    compared = [entry for entry in every if entry.role != "held" and entry.outcome != "not predicted"]
    _group("Not independent, wrong all the same", [e for e in compared if e.outcome == "wrong"], True)
    _group("Not independent", [e for e in compared if e.outcome != "wrong"], everything)
    _print_not_predicted([entry for entry in held if entry.outcome == "not predicted"], everything)
    print_stdout("")


def _group(heading: str, entries: Sequence[ValidatedRow | ValidatedClaim], listed: bool) -> None:
    if not entries:
        return
    print_stdout(f"  {heading}{'' if listed else f': {len(entries)} (--all lists them)'}")
    from firsttouch.comparison.validation.wording import entry_in_words

    for entry in entries if listed else ():
        _print(entry_in_words(entry), "    ")
        if entry.reason:
            _print(f"Why: {entry.reason}", "      ")


def _print_not_predicted(entries: Sequence[ValidatedRow | ValidatedClaim], everything: bool) -> None:
    if not entries:
        return
    print_stdout("  Not predicted")
    if everything:
        for entry in entries:
            name = getattr(entry, "row", "") or getattr(entry, "id", "")
            _print(f"{name}: {entry.why}", "    ")
        return
    for reason, n in _most(entry.why for entry in entries):
        _print(f"{n:3} {reason}", "    ")


def _most(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """The most frequent reasons; the others together."""
    counts = Counter(reasons)
    first = counts.most_common(_MOST_REASONS)
    rest = sum(counts.values()) - sum(n for _, n in first)
    return [*first, *([("for other reasons; --all lists them", rest)] if rest else [])]


def _show_measured(judged: MeasuredJudgement, everything: bool) -> None:
    from rich.table import Table

    from firsttouch.cli.console import Console
    from firsttouch.records.text import percent, quantity

    print_stdout(f"{judged.platform or 'advise --profile'}, compared with {', '.join(judged.directories)}")
    for sentence in judged.sentences:
        _print(sentence, "  ")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("application", "size", "strategy", "measured", "estimated", "error"):
        table.add_column(heading, justify="left" if heading in ("application", "strategy") else "right")
    for row in judged.strategies if everything else judged.strategies[:MOST]:
        times = (quantity(ms, "ms") for ms in (row.measured_ms, row.estimated_ms))
        table.add_row(row.application, row.size, row.strategy, *times, percent(row.error))
    Console().print(table)
    if (more := len(judged.strategies) - MOST) > 0 and not everything:
        print_stdout(f"{more} more: --all")
    print_stdout("")


def _print(text: str, indent: str) -> None:
    import textwrap

    width = text_width()
    print_stdout(
        textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False)
    )
