"""firsttouch claims: which claims of the field hold in a run."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import NOT_JUDGED
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_stdout, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firsttouch.comparison.papers.evaluate import Claims, Verdict

MOST = 6
"""The most claims of a verdict that are printed without --all."""
_MOST_REASONS = 5
PREDICTED = {
    "does not hold": "Predicted not to hold",
    "no clear difference": "No clear difference predicted",
    "holds": "Predicted to hold",
}
"""The headings for claims that are tested on predictions, by the verdict."""


@declare("claims", "Which published claims hold in your results.", {"claims": "comparison.papers.evaluate:Claims"})
def command(
    directories: Annotated[
        list[Path],
        typer.Argument(parser=path, metavar="DIR...", help="Results of `firsttouch run` or `app`, all of one machine."),
    ],
) -> Claims:
    """Show which claims of published studies hold in your results, which do not, and which can't be tested here.

    A claim is an ordering, a ratio or a trend that one of five papers states (`firsttouch published`). The verdict is
    that it holds or does not hold where the intervals do not overlap, and otherwise that there is no clear difference.

    Several directories of one machine are read together, for example experiments and applications, or runs with page
    sizes of 4 KiB and of 64 KiB, which some claims compare.

    Exit status: 0 at least one claim could be tested; 2 the call was wrong; 4 none could be tested.

    Example: firsttouch claims results/h200-standard results/h200-apps
    """
    from firsttouch.comparison.papers.evaluate import claims

    return claims(directories)


@command.finished
def _finish(found: Claims) -> int:
    return 0 if any(verdict.verdict in ("holds", "does not hold") for verdict in found.claims) else NOT_JUDGED


@command.shown
def _show(
    found: Claims,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every claim, and the commands that measure what is missing.")
    ] = False,
) -> None:
    verdicts = found.claims
    most = len(verdicts) if everything else MOST
    predicted = any(verdict.predicted for verdict in verdicts)
    print_stdout(found.summary.replace("difference, ", "difference,\n"))
    for heading, verdict in (
        ("Does not hold here", "does not hold"),
        ("No clear difference", "no clear difference"),
        ("Holds here", "holds"),
    ):
        _group(PREDICTED[verdict] if predicted else heading, [v for v in verdicts if v.verdict == verdict], most)
    _untestable([v for v in verdicts if v.verdict == "not testable"], most)


def _group(heading: str, verdicts: Sequence[Verdict], most: int) -> None:
    if not verdicts:
        return
    print_stdout(f"\n{heading}")
    for verdict in verdicts[:most]:
        _print(_claim_title(verdict), "  ", "    ")
        _print(verdict.why, "    ", "    ")
    if (more := len(verdicts) - most) > 0:
        print_stdout(f"  {more} more: --all")


def _untestable(verdicts: Sequence[Verdict], most: int) -> None:
    if not verdicts:
        return
    predicted = any(verdict.predicted for verdict in verdicts)
    print_stdout("\nCan't be tested on these predictions" if predicted else "\nCan't be tested here")
    if len(verdicts) <= most:
        for verdict in verdicts:
            _print(_claim_title(verdict), "  ", "    ")
            _print(verdict.why, "    ", "    ")
            if verdict.command:
                print_stdout(f"    {verdict.command}")
        return
    reasons = Counter(verdict.bare_why.partition(": no two")[0] for verdict in verdicts)
    for reason, n in reasons.most_common(_MOST_REASONS):
        _print(f"{n:3} {reason}", "  ", "      ")
    if (more := sum(reasons.values()) - sum(n for _, n in reasons.most_common(_MOST_REASONS))) > 0:
        print_stdout(f"  {more:3} for other reasons")
    print_stdout("  --all names them, with the commands that measure what is missing.")


def _claim_title(verdict: Verdict) -> str:
    return f"{verdict.text} ({verdict.paper}, {verdict.section}; {verdict.id})"


def _print(text: str, first: str, rest: str) -> None:
    width = text_width()
    print_stdout(textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False))
