"""firsttouch compare: compares results directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_error, print_stdout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firsttouch.base.outputs import Output
    from firsttouch.cli.console import Console
    from firsttouch.comparison.compare import ResultsComparison
    from firsttouch.comparison.tables import ComparisonTable

MOST_EXPERIMENTS = 16
MOST_TABLES = 5
"""The most experiments of which points are printed."""
MOST_POINTS = 3
"""The most points of one experiment that are printed."""
MOST_LISTED = 10
MOST_CONDITIONS = 6


def percentage(text: str) -> float:
    """Parses the value of --fail-over."""
    from firsttouch.comparison.compare import limit_of

    try:
        return limit_of(text)
    except UsageError as error:
        raise UsageError(f"--fail-over {error}") from None


@dataclass(frozen=True)
class Compared:
    """page: the path of the page, if one was asked for and could be drawn. not_drawn: why not."""

    comparison: ResultsComparison
    page: Path | None = None
    not_drawn: str = ""

    def output(self) -> Output:
        from firsttouch.comparison.plain import output

        return output(self.comparison, str(self.page) if self.page else None)


@declare(
    "compare",
    "Compare results: what is faster or slower, and by how much.",
    {"compare": "comparison.plain:ComparisonOutput"},
)
def command(
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SIDE",
            help="A results directory, several runs of one machine joined by commas, or published:NAME.",
        ),
    ] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            "--fail-over",
            parser=percentage,
            metavar="PERCENT",
            help="List what is worse by more than this, such as 5%, and exit with status 1 if anything is.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=path, metavar="PATH", help="Write a page with figures: an HTML file, or a folder."
        ),
    ] = None,
) -> Compared:
    """Compare results directories: what is faster or slower, by how much, and which conditions differ.

    Give three runs per side if you can: with one run per side, a change can't be distinguished from run-to-run
    variation.

    All sides are compared with the first. With five or more sides, each is compared with the median of all, and
    outliers are named. One directory alone is compared device by device.

    Exit status: 0 compared; 1 something is worse than --fail-over allows, or a side could not be read and the others
    were compared; 2 the call was wrong; 4 --fail-over could not be checked: too few runs, or disturbed ones.

    Example: firsttouch compare before1,before2,before3 after1,after2,after3 --fail-over 5%
    """
    from firsttouch.comparison.compare import compare_results
    from firsttouch.engine.reporting import draw_comparison, page_or_reason

    sides = sides or []
    comparison = compare_results(sides, fail_over)
    if out is None:
        return Compared(comparison)
    return Compared(comparison, *page_or_reason(lambda: draw_comparison(sides, out, fail_over)))


@command.shown
def _show_compared(found: Compared) -> None:
    _show(found.comparison)
    if found.page:
        print_stdout(str(found.page))


@command.finished
def _finish(found: Compared) -> int:
    if found.not_drawn:
        print_error(f"the page was not drawn: {found.not_drawn}")
    for bad in found.comparison.unreadable:
        print_error(f"left out: {bad.reason}")
    return 1 if found.not_drawn else found.comparison.exit_status


def _show(comparison: ResultsComparison) -> None:
    from firsttouch.cli.console import Console
    from firsttouch.comparison.answers import answers, phase_answers
    from firsttouch.comparison.words import notes, sentences, what_to_type

    console = Console(soft_wrap=False)
    _print_conditions(console, comparison)
    texts = sentences(answers(comparison), comparison)
    for text in texts[: MOST_LISTED + 1]:
        console.print(text)
    _print_more(console, len(texts) - MOST_LISTED - 1, "side")
    for text in sentences(phase_answers(comparison)[:MOST_LISTED], comparison):
        console.print(text)
    if calls := what_to_type(comparison):
        console.print(f"To find out, measure three times{'' if comparison.of_devices else ' per side'}:")
        for call in calls:
            console.print(f"  {call}", soft_wrap=True)
    _print_regressions(console, comparison)
    for table in _tables(comparison):
        _print_table(console, table)
    if remarks := notes(comparison):
        console.print()
    for text in remarks:
        console.print(f"- {text}")


def _print_conditions(console: Console, comparison: ResultsComparison) -> None:
    from rich.table import Table as Grid

    from firsttouch.comparison.words import condition_rows

    if not (rows := condition_rows(comparison)):
        return
    console.print("Conditions that differ", style="bold")
    grid = Grid.grid(padding=(0, 2))
    for _ in range(2):
        grid.add_column(overflow="fold")
    for row in rows[:MOST_CONDITIONS]:
        grid.add_row(*row)
    console.print(grid)
    _print_more(console, len(rows) - MOST_CONDITIONS, "condition")
    console.print()


def _print_regressions(console: Console, comparison: ResultsComparison) -> None:
    from firsttouch.comparison.words import not_judged, regression_lines
    from firsttouch.records.text import count

    if comparison.limit is None:
        return
    limit = f"{100 * comparison.limit:g} %"
    if reason := not_judged(comparison):
        console.print(reason)
    if not comparison.regressions and not comparison.few:
        console.print(f"Nothing is clearly worse by more than {limit}.")
    if not comparison.regressions:
        return
    lines = regression_lines(comparison)
    console.print(f"\n{count(len(lines), 'regression')} of more than {limit}", style="bold")
    for line in lines[:MOST_LISTED]:
        console.print(f"- {line}")
    _print_more(console, len(lines) - MOST_LISTED, "regression")


def _tables(comparison: ResultsComparison) -> Iterator[ComparisonTable]:
    """The places that differ, or the experiments, with a few points of each; and the phases of applications."""
    from firsttouch.comparison.tables import table_of_experiments, table_of_place, table_of_places, table_of_points
    from firsttouch.comparison.words import conditions_by_column

    conditions = conditions_by_column(comparison.table.columns)
    if comparison.places:
        yield table_of_places(comparison, MOST_EXPERIMENTS)
    for place in comparison.places[:MOST_TABLES]:
        yield table_of_place(comparison, place, conditions, MOST_POINTS)
    if comparison.of_devices or not comparison.places:
        shown = [group for group in comparison.groups if comparison.is_shown(group)]
        yield table_of_experiments(comparison, shown, MOST_EXPERIMENTS)
        apart = [(group, [d for d in comparison.points_of(group) if d.is_apart]) for group in shown]
        for group, points in [(group, points) for group, points in apart if points][:MOST_TABLES]:
            yield table_of_points(comparison, group, points, conditions, MOST_POINTS)
    if comparison.phases is not None:
        shown = [group for group in comparison.phases.groups if comparison.phases.is_shown(group)]
        yield table_of_experiments(comparison.phases, shown, MOST_EXPERIMENTS, "phase")


def _print_table(console: Console, table: ComparisonTable) -> None:
    from rich.table import Table as Drawn

    if not table.rows:
        return
    drawn = Drawn(box=None, padding=(0, 2, 0, 0), header_style="bold")
    first, *heads = table.heads
    for head in (table.title or first, *heads):
        drawn.add_column(head, overflow="fold")
    for cells in table.rows:
        drawn.add_row(*cells)
    console.print()
    console.print(drawn)
    _print_more(console, table.more, table.noun)


def _print_more(console: Console, n: int, noun: str) -> None:
    from firsttouch.records.text import count

    if n > 0:
        console.print(f"  ({count(n, f'more {noun}')} with --json)")
