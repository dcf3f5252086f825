"""firsttouch published: prints what five papers state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firsttouch.comparison.papers.figures import PaperFigure, PaperFigures
    from firsttouch.records.papers.rows import PaperRow, Published

MOST = 40
"""The most rows that are printed without --all: those that firsttouch measures first, settings of the studies last."""


@declare(
    "published",
    "The results of five papers.",
    {"published": "records.papers.rows:Published", "published-figures": "comparison.papers.figures:PaperFigures"},
)
def command(
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="WORD", help="Only rows that contain these words, such as 'triad gpu'."),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="List the figures and tables of the papers instead of the rows.")
    ] = False,
) -> Published | PaperFigures:
    """Show the published results of the field: what five papers state, each with its section.

    If firsttouch can measure the same, the row names the experiment. `firsttouch claims DIR` shows which claims of the
    papers hold in your results.

    Example: firsttouch published --search "latency gpu"
    """
    if figures:
        from firsttouch.comparison.papers.figures import figures as figures_with

        return figures_with(search)
    from firsttouch.records.papers.rows import published

    return published(search)


@command.shown
def _show(
    found: Any,
    search: str | None,
    figures: bool,
    everything: Annotated[bool, typer.Option("--all", help="Print every row, not only the first 40.")] = False,
) -> None:
    if figures:
        _show_figures(found.figures)
    elif search is None and not everything:
        _show_papers(found.rows)
    else:
        _show_rows(found.rows, len(found.rows) if everything else MOST)


def _show_figures(figures: Sequence[PaperFigure]) -> None:
    """A table for each paper."""
    from rich.table import Table

    from firsttouch.cli.console import Console
    from firsttouch.records.papers.rows import authors

    console = Console()
    for paper in dict.fromkeys(figure.paper for figure in figures):
        console.print(f"{paper}: {authors(paper)}", style="bold")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for figure in (figure for figure in figures if figure.paper == paper):
            table.add_row(figure.id, figure.shows + ("" if figure.measured else " (not a result)"))
        console.print(table)
        console.print()
    print_stdout("firsttouch reproduce PAPER FIGURE repeats one, or predicts it.")


def _show_papers(rows: Sequence[PaperRow]) -> None:
    """One line a paper."""
    from rich.table import Table

    from firsttouch.cli.console import Console
    from firsttouch.records.papers.rows import authors, papers

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("paper", "rows", "comparable", "what"):
        table.add_column(heading, justify="right" if heading in ("rows", "comparable") else "left", overflow="fold")
    for name, paper in papers().items():
        paper_rows = [row for row in rows if row.paper == name]
        title = f"{paper.source.title} ({authors(name)})"
        table.add_row(name, str(len(paper_rows)), str(sum(row.here is not None for row in paper_rows)), title)
    Console().print(table)
    print_stdout("")
    print_stdout("comparable: rows whose values firsttouch measures too; they stand beside those of a run")
    print_stdout("--search WORD prints rows; --json prints all of them with their conditions.")


def _show_rows(rows: Sequence[PaperRow], most: int) -> None:
    from firsttouch.cli.console import Console
    from firsttouch.records.papers.rows import authors
    from firsttouch.records.text import count

    console = Console()
    first = sorted(rows, key=lambda row: (row.here is None, row.kind == "configuration"))[:most]
    for paper, machine in dict.fromkeys((row.paper, row.machine) for row in first):
        console.print(f"{machine}: {authors(paper)} ({paper})", style="bold")
        console.print(_table([row for row in first if (row.paper, row.machine) == (paper, machine)]))
        console.print()
    more = len(rows) - most
    print_stdout(f"{count(len(rows), 'row')}{f', {more} not shown: add a word, --all or --json' if more > 0 else ''}.")


def _table(rows: Sequence[PaperRow]) -> object:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(overflow="fold", max_width=24)
    table.add_column(overflow="fold", ratio=1)
    for row in rows:
        table.add_row(row.section, _stated(row))
    return table


def _stated(row: PaperRow) -> str:
    """What a row says, what measures it, and what to beware of."""
    parts = [row.says]
    if row.here is not None:
        parts.append(f"Measured by {measured_by(row)}")
    if row.claims:
        parts.append(f"Tested by the claim{'s' if len(row.claims) > 1 else ''} {', '.join(row.claims)}")
    if row.note:
        parts.append(f"Note: {row.note}")
    return "\n".join(parts)


def measured_by(row: PaperRow) -> str:
    """The measurement that a row corresponds to: 'latency: agent gpu; size 1 KiB'."""
    from firsttouch.records.text import named

    assert row.here is not None
    words = []
    for name, value in row.here.factors.items():
        values = value if isinstance(value, list) else [value]
        words.append(
            ", ".join([named(name, values[0]), *(named(name, v).removeprefix(f"{name} ") for v in values[1:])])
        )
    return f"{row.here.experiment}: {'; '.join(words)}"
