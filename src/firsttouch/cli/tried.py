"""firsttouch try: runs a program as if it had been ported, without editing it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from firsttouch.base.errors import UsageError, unknown
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import AsJsonOption, ProgramCommand, path, program_of
from firsttouch.cli.output import print_failure, print_json, print_stderr, print_stdout
from firsttouch.cli.profile import signals_for_this_thread

if TYPE_CHECKING:
    from firsttouch.advice.tried.findings import TriedResult, TriedStrategy, TriedTime, TryFindings

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
        from firsttouch.profile.launch import NotStarted

    call = TryCall(words, names, rounds or ROUNDS, _directory(words, out), tolerance or 0.0, prices, tell=_told())
    try:
        findings = try_program(call)
    except NotStarted as error:
        print_failure(str(error), error.status, as_json, "try")
        raise typer.Exit(error.status) from None
    if as_json:
        print_json(findings)
    else:
        print_stdout("\n".join(lines(findings)))
    if not any(row.ratio for row in findings.results):
        raise typer.Exit(1)


def _told() -> Any:
    began = time.monotonic()

    def tell(text: str) -> None:
        from firsttouch.base.units import format_seconds

        print_stderr(f"firsttouch: {format_seconds(time.monotonic() - began)}: {text}")

    return tell


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


def lines(findings: TryFindings) -> list[str]:
    """The findings in words."""
    return [
        findings.summary,
        *_plan_lines(findings),
        *_checked_lines(findings),
        "",
        *_table(findings),
        "",
        *_last(findings),
    ]


def _plan_lines(findings: TryFindings) -> Iterator[str]:
    from firsttouch.base.units import format_size

    pairs = sum(row.count for row in findings.pairs)
    apart = sum(row.count for row in findings.apart)
    yield f"  {pairs} {'pair' if pairs == 1 else 'pairs'} of an array and a block, {apart} kept apart"
    for pair in findings.pairs:
        times = f"{pair.count} times " if pair.count > 1 else ""
        size = format_size(max(pair.array, pair.block), 3)
        yield f"    one: {times}{size}, allocated at {pair.allocated_at}, copied at {pair.copied_at}"
    for row in findings.apart[:_MOST_APART]:
        size = format_size(row.copied, 3)
        yield f"    apart: {size} copied at {row.copied_at}, block of {row.allocated_at}: {row.text}"
    if (more := len(findings.apart) - _MOST_APART) > 0:
        yield f"    {more} more in the JSON (--json)"


def _checked_lines(findings: TryFindings) -> Iterator[str]:
    from firsttouch.advice.port.wording import shadow_words

    if findings.shadow is not None:
        yield f"  shadow: {shadow_words(findings.shadow)}"
    if (checked := findings.checked) is not None:
        unsure = f"; {checked.unsure} differ between plain runs, too" if checked.unsure else ""
        all_copies = checked.equal + checked.different
        yield f"  checked: {checked.equal} of {all_copies} copies carry the plain run's bytes{unsure}"


def _table(findings: TryFindings) -> Iterator[str]:
    from firsttouch.base.units import format_size

    is_predicted = any(row.predicted is not None for row in findings.results)
    heads = ["", "time", "to none", "", *(["predicted"] if is_predicted else []), "host peak", "copies left out"]
    rows = [heads]
    for row in findings.results:
        if row.time is None:
            continue
        counts = row.counts
        left_out = f"{counts.left_out:,} of {counts.left_out + counts.made:,}" if counts else "unknown"
        peak = format_size(counts.host_peak, 3) if counts and counts.host_peak else "unknown"
        predicted = "" if row.predicted is None else f"{row.predicted:.3f} s"
        words = [row.strategy, _time_text(row.time), _ratio_text(row), row.compared or ""]
        rows.append([*words, *([predicted] if is_predicted else []), peak, left_out])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for cells in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)).rstrip()
    for result in findings.results:
        if result.time is None:
            yield f"  {result.strategy}: no time: {_status_text(result)}"


def _status_text(row: TriedResult) -> str:
    words = {"left the plan": "the run left the plan: ", "differs": "the output differs: "}
    return f"{words.get(row.status, '')}{row.reason}"


def _time_text(value: TriedTime) -> str:
    return f"{value.median:.3f} s ({value.low:.3f} to {value.high:.3f})"


def _ratio_text(row: TriedResult) -> str:
    return f"{row.ratio.median:.2f} ({row.ratio.low:.2f} to {row.ratio.high:.2f})" if row.ratio else "1"


def _last(findings: TryFindings) -> Iterator[str]:
    if any(row.ratio for row in findings.results):
        parts = {"all": "{}", "part": "{}, but for what differs from plain run to plain run"}
        compared = [parts[row.compared].format(row.name) for row in findings.outputs if row.compared in parts]
        yield f"  equal in all timed runs: {'; '.join(compared)}" if compared else "  no output could be compared"
    if varying := [row.name for row in findings.outputs if row.compared == "nothing"]:
        yield f"  not compared, as plain runs differ: {', '.join(varying)}"
    yield f"  {findings.directory}/try.json has this; firsttouch port {findings.directory}/profile says what to change"
