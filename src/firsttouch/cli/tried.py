"""firsttouch try: runs a program as if it had been ported, without editing it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from firsttouch.base.errors import UsageError, unknown
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import AsJsonOption, ProgramCommand, path, program_of
from firsttouch.cli.output import print_failure, print_json, print_stdout, text_width
from firsttouch.cli.profile import signals_for_this_thread

if TYPE_CHECKING:
    from firsttouch.advice.tried.findings import TriedStrategy, TryFindings
    from firsttouch.advice.tried.wording import TriedTable

ROUNDS, MOST_ROUNDS = 5, 1000
_DEFAULT = "managed,managed+prefetch"
_MOST_APART = 6


def _rounds(text: str) -> int:
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    if not 1 <= value <= MOST_ROUNDS:
        raise UsageError(f"--rounds '{text:.40}' is not a whole number from 1 to {MOST_ROUNDS}")
    return value


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise UsageError(f"--tolerance '{text:.40}' is not a share from 0 to 1, such as 1e-6")
    return value


def _strategies(text: str) -> list[TriedStrategy]:
    from firsttouch.advice.tried.findings import BASELINE, TriedStrategy

    known = [name for name in get_args(TriedStrategy) if name != BASELINE]
    names = [*dict.fromkeys(filter(None, (name.strip() for name in text.split(","))))]
    if not names:
        raise UsageError(f"--strategy names none; name some of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise unknown("strategy", name, known)
    return names  # type: ignore[return-value]


@declare(
    "try",
    "Run a program as if it had been ported, without editing it.",
    {"try": "advice.tried.findings:TryFindings"},
    function=None,
    kind=ProgramCommand,
    prints=True,
)
def command(
    context: typer.Context,
    strategy: Annotated[str, typer.Option("--strategy", metavar="NAME[,NAME]...", help="What to try.")] = _DEFAULT,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", parser=_rounds, metavar="N", help="How often each strategy is timed; default: 5."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            parser=_tolerance,
            metavar="SHARE",
            help="By how much numbers in outputs may differ; default: 0.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices", parser=path, metavar="RUN", help="Predict the times, too, by the results of firsttouch run."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=path, metavar="DIR", help="Directory of what the runs leave; must not exist."),
    ] = None,
    as_json: AsJsonOption = False,
) -> None:
    """Measure what a program that uses CUDA or HIP would take with unified memory, without editing it.

    The program runs several times, in this directory and with an empty standard input. Two plain runs record what it
    allocates and copies. Then arrays of the host and blocks of the device that copies join become one memory, and the
    copies between them are left out. A strategy is timed only if its output (status, standard output, files that it
    writes in this directory) is that of the plain runs. A run that does not do what the plain runs did ends with
    status 96.

    \b
    managed           the array and the block are one managed block
    managed+advise    the same, with advice to the driver
    managed+prefetch  the same, with a prefetch where a copy was
    explicit+pinned   arrays that are copied are page-locked; copies stay
    pinned            the array and the block are one page-locked, mapped array
    system            the block is the array (HMM, ATS, XNACK)
    managed-device    blocks are managed; copies stay

    Managed memory stays below what the device has free, and below FIRSTTOUCH_MAX_MANAGED.

    Exit status: 0; 1 no strategy could be timed; 2 the call was wrong.

    Example: firsttouch try --strategy managed,managed+prefetch --rounds 5 -- ./app arg
    """
    words = program_of(context)
    if not words:
        raise UsageError("there is nothing to try; name a command, as in firsttouch try -- ./app arg")
    names = _strategies(strategy)
    with signals_for_this_thread():
        from firsttouch.advice.tried.trial import TryCall, try_program
        from firsttouch.cli.progress import Steps
        from firsttouch.profile.launch import NotStarted

    directory = _directory(words, out)
    try:
        with Steps() as steps:
            findings = try_program(
                TryCall(words, names, rounds or ROUNDS, directory, tolerance or 0.0, prices, tell=steps)
            )
            steps("the pages")
            files = _drawn(directory)
    except NotStarted as error:
        print_failure(str(error), error.status, as_json, "try")
        raise typer.Exit(error.status) from None
    if as_json:
        print_json(findings)
    else:
        print_stdout("\n".join(lines(findings, files)))
    if not any(row.ratio for row in findings.results):
        raise typer.Exit(1)


def _drawn(directory: Path) -> list[str]:
    """Draws the pages. Returns the paths of what was written, or why it was not."""
    from firsttouch.advice.tried.stored import RESULT
    from firsttouch.engine import reporting

    problem = reporting.write_report(directory)
    return [str(directory / RESULT), f"firsttouch: {problem}" if problem else str(directory / "report.html")]


def _directory(words: Sequence[str], out: Path | None) -> Path:
    from firsttouch.base.files import as_usage_error, make_new_directory
    from firsttouch.profile.program_names import program_name

    named = out or Path(f"try-{program_name(words)}-{time.strftime('%Y%m%d-%H%M%S')}")
    with as_usage_error("write", named, "a directory that can be written"):
        if out is None:
            return make_new_directory(named)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"{out} is not empty; name a directory that is not there")
        out.mkdir(parents=True, exist_ok=True)
        return out


def lines(findings: TryFindings, files: Sequence[str] = ()) -> list[str]:
    """The findings in words. files: the paths of what was written, named last."""
    from firsttouch.advice.tried import wording

    width = text_width()
    seen = {"shadow": wording.shadow_text(findings), "checked": wording.checked_text(findings)}
    looks = [f"  {name}: {text}" for name, text in seen.items() if text]
    return [
        *_wrapped([findings.summary, *_plan_lines(findings), *looks], width),
        "",
        *_table(wording.times(findings)),
        *_wrapped((f"  {text}" for text in wording.why_not_there(findings)), width),
        "",
        *_table(wording.memory(findings)),
        *_wrapped((f"  {text}" for text in wording.memory_notes(findings)), width),
        "",
        *_wrapped(_edit_lines(findings), width),
        *_wrapped((f"  {text}" for text in wording.output_lines(findings)), width),
        *files,
    ]


def _wrapped(rows: Iterable[str], width: int) -> Iterator[str]:
    """The rows, long ones on several lines, of which the further ones are indented."""
    for row in rows:
        indent = " " * (len(row) - len(row.lstrip()) + 2)
        yield from textwrap.wrap(row, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _plan_lines(findings: TryFindings) -> Iterator[str]:
    from firsttouch.advice.tried.wording import pairs_text
    from firsttouch.base.units import format_size

    yield f"  {pairs_text(findings)}"
    for pair in findings.pairs:
        times = f"{pair.count} times " if pair.count > 1 else ""
        size = format_size(max(pair.array, pair.block), 3)
        yield f"    one: {times}{size}, allocated at {pair.allocated_at}, copied at {pair.copied_at}"
    for row in findings.apart[:_MOST_APART]:
        size = format_size(row.copied, 3)
        yield f"    apart: {size} copied at {row.copied_at}, block of {row.allocated_at}: {row.text}"
    if (more := len(findings.apart) - _MOST_APART) > 0:
        yield f"    {more} more in the JSON (--json)"


def _table(table: TriedTable) -> Iterator[str]:
    rows = [["", *table.heads[1:]], *table.rows] if table.rows else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)).rstrip()


def _edit_lines(findings: TryFindings) -> Iterator[str]:
    from firsttouch.advice.traced_wording import edit_texts

    if findings.edits:
        yield f"  to change for {findings.edits_for}, for the pairs alone:"
        yield from (f"    {text}" for text in edit_texts(findings.edits))
