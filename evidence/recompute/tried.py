"""Tables of what `firsttouch try` measured, and how right advice about the same programs was; and what it printed.

Of the directories that a page names, those of `try` are tried programs; another one has the results of the run by whose
prices times are predicted.
"""

from __future__ import annotations

import json
import os
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from firsttouch.advice.tried.findings import BASELINE, TriedResult, TryFindings
from firsttouch.advice.tried.stored import is_tried, read_findings
from firsttouch.advice.tried.wording import name_of, output_word, ratio_text, seconds_text, why_no_time
from firsttouch.base.errors import UsageError
from firsttouch.cli.tried import lines
from firsttouch.comparison.validation.tried import TriedProgram, judged_by_tries, tried_program
from firsttouch.comparison.validation.wording import measured_sentences
from profiled import WIDTH
from records import ROOT, table


def _sides(paths: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """The directories of `try`, and the one with prices."""
    prices = [path for path in paths if not is_tried(path)]
    if len(prices) > 1:
        raise SystemExit(f"{prices[0]} and {prices[1]} hold nothing that was tried; name one run for its prices")
    return [path for path in paths if is_tried(path)], prices[0] if prices else None


def times(paths: Sequence[Path]) -> str:
    """A row for each program: the time of the baseline, and of each strategy its multiple."""
    tried = [read_findings(path) for path in _sides(paths)[0]]
    strategies = [*dict.fromkeys(row.strategy for found in tried for row in found.results if row.strategy != BASELINE)]
    rows = []
    for found in tried:
        none = found.result(BASELINE)
        cells = [_cell(found.result(name)) for name in strategies]
        time = seconds_text(none.time) if none else ""
        rows.append(
            [
                _program(found),
                f"{found.rounds}",
                time,
                *cells,
                _left_out(found),
                output_word(found),
            ]
        )
    heads = ["program", "rounds", f"`{BASELINE}`", *(f"`{name}`" for name in strategies), "copies left out", "output"]
    return table(heads, rows)


def _program(found: TryFindings) -> str:
    return f"`{shlex.join([name_of(found), *found.command[1:]])}`"


def _cell(row: TriedResult | None) -> str:
    if row is None:
        return ""
    return ratio_text(row) if row.time else why_no_time(row)


def _left_out(found: TryFindings) -> str:
    """The most that a strategy left out."""
    counts = [row.counts for row in found.results if row.counts]
    most = max(counts, key=lambda count: count.left_out, default=None)
    return f"{most.left_out:,} of {most.left_out + most.made:,}" if most else ""


def beside(paths: Sequence[Path]) -> str:
    """Multiples of the baseline, measured and predicted."""
    tried, prices = _sides(paths)
    rows = [row for path in tried for row in _rows_beside(tried_program(path, prices))]
    return table(["program", "strategy", "measured", "predicted", "in the range"], rows)


def _rows_beside(program: TriedProgram) -> list[list[str]]:
    rows = []
    for strategy in program.strategies():
        row = program.findings.result(strategy.strategy)
        none = strategy.whole_ms - strategy.measured_ms
        ends = (1 + ms / none for ms in (strategy.estimated_ms, strategy.low_ms, strategy.high_ms))
        predicted = "{:.2f} ({:.2f} to {:.2f})".format(*ends)
        inside = "yes" if strategy.is_inside else "no"
        rows.append(
            [_program(program.findings), f"`{strategy.strategy}`", ratio_text(row) if row else "", predicted, inside]
        )
    return rows


def judged(paths: Sequence[Path]) -> str:
    try:
        sentences = measured_sentences(judged_by_tries(*_sides(paths)))
    except UsageError as error:
        raise SystemExit(str(error)) from None
    return textwrap.fill(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def printed(paths: Sequence[Path]) -> str:
    """What `firsttouch report` prints of a directory, without the lines on where numbers are from."""
    os.environ["COLUMNS"] = str(WIDTH)
    (path,) = paths
    shown = [f"    {line}".rstrip() for line in lines(read_findings(path))]
    return "\n".join(["", f"    $ firsttouch report {path.relative_to(ROOT)}", *shown, "", ""])


def versions(paths: Sequence[Path]) -> str:
    """Beside what others wrote: multiples of the program as it is, of whole processes."""
    tried = {name_of(found): found for found in map(read_findings, _sides(paths)[0])}
    rows = []
    for name, seconds in _versions(paths).items():
        own = median(seconds[_ALONE])
        for strategy in (strategy for strategy in seconds if strategy not in (_ALONE, BASELINE)):
            row = tried[name].result(strategy)
            rows.append([f"`{name}`", f"`{strategy}`", f"{median(seconds[strategy]) / own:.2f}", _cell(row)])
    return table(["program", "strategy", "version of others", "tried"], rows)


_ALONE = "explicit"
"""In a file of versions: the program as it is, without the library."""


def _versions(paths: Sequence[Path]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """The seconds of each version of each program, by round."""
    (stored,) = (path for path in paths if not is_tried(path))
    found: Mapping[str, Mapping[str, Sequence[float]]] = json.loads((stored / "versions.json").read_text())
    return found


def unchanged(paths: Sequence[Path]) -> str:
    """The program under the library that changes nothing, beside the program alone in the same rounds."""
    by_program = [
        [none / alone for none, alone in zip(seconds[BASELINE], seconds[_ALONE], strict=True)]
        for seconds in _versions(paths).values()
        if BASELINE in seconds
    ]
    ratios = [ratio for each in by_program for ratio in each]
    return (
        f"In {len(ratios)} rounds of {len(by_program)} programs, in which both alternated, it took "
        f"{median(ratios):.2f} times as long in the median.\n"
    )


OF_TRIES: Mapping[str, Callable[[Sequence[Path]], str]] = {
    "tried-times": times,
    "tried-beside": beside,
    "tried-judged": judged,
    "tried-lines": printed,
    "tried-versions": versions,
    "tried-unchanged": unchanged,
}
