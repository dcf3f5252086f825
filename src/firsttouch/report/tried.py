"""The page of what `firsttouch try` found: the answer, times and peaks by strategy, what stayed apart, the edits, and
what is not seen. Every text is escaped by the template.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import msgspec

from firsttouch.advice.tried import wording
from firsttouch.advice.tried.findings import BASELINE, TryFindings
from firsttouch.advice.tried.results import records
from firsttouch.advice.tried.stored import PROFILE, read_findings
from firsttouch.base.encoding import encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically, write_output
from firsttouch.base.units import format_size
from firsttouch.profile.reading import is_profile
from firsttouch.records.figures import Bar, Figure
from firsttouch.records.schema import Record, Summary
from firsttouch.records.text import count
from firsttouch.report.advised import AdviceTable
from firsttouch.report.draw import KINDS, with_narrow
from firsttouch.report.drawing import DrawingContext, DrawnFigure
from firsttouch.report.palette import Palette
from firsttouch.report.ported import EDIT_HEADS, edit_rows
from firsttouch.report.profile import PAGE, write_profile
from firsttouch.report.profile_panels import plain
from firsttouch.report.profile_tables import DASH
from firsttouch.report.svg import to_svgs
from firsttouch.report.templates import filled_in

TIMES = Bar(x="strategy", colour="kind", title="Time of the program, from its start to its end", y_title="time, s")
PEAKS = Bar(x="strategy", y="peak_bytes", colour="side", title="Peak of memory", y_title="peak")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_KINDS = ("measured", "predicted")
_COMPARED = {"all": "all of it", "part": "what is the same in plain runs", "nothing": "nothing: plain runs differ"}
_LONGEST = 300


def render(findings: TryFindings, port: str = "") -> str:
    """One self-contained HTML page. port: the address of the page of the plain traced run, '' if there is none."""
    command = shlex.join(findings.command)
    on = f" on {findings.device}" if findings.device else ""
    tables = [make(findings) for make in (_times, _memory, _edits, _pairs, _apart, _outputs)]
    return filled_in(
        "advised.html.j2",
        title=plain(findings.summary, _LONGEST),
        where=plain(
            f"What would unified memory do to {command}? Tried{on} without editing the program, in "
            f"{count(findings.rounds, 'round')}.",
            _LONGEST,
        ),
        port=port,
        first="managed memory, whether tried or not",
        headlines=[plain(text, _LONGEST) for text in _headlines(findings)],
        figures=[*_figures(findings)],
        tables=[table for table in tables if table.rows or table.notes],
    )


def _headlines(findings: TryFindings) -> Iterator[str]:
    looks = wording.shadow_text(findings), wording.checked_text(findings)
    texts = [wording.memory_sentence(findings).removesuffix("."), wording.pairs_text(findings), *looks]
    texts += wording.output_lines(findings)
    yield from (f"{text[0].upper()}{text[1:]}." for text in texts if text)


def _figures(findings: TryFindings) -> Iterator[DrawnFigure]:
    figures: list[tuple[Figure, list[Record]]] = [
        (TIMES, [*_time_records(findings)]),
        (PEAKS, [*_peak_records(findings)]),
    ]
    for figure, shown in figures:
        drawing = with_narrow(KINDS[type(figure)], figure, shown, DrawingContext(None, Palette()))
        if drawing is not None and drawing.spec is not None:
            if figure is TIMES and any(row.predicted for row in findings.results):
                drawing.notes.append("Those of predictions are the range that holds whichever bytes kernels access.")
            yield DrawnFigure(drawing, *to_svgs([drawing.spec, drawing.narrow]))


def _time_records(findings: TryFindings) -> Iterator[Record]:
    for record in records(findings):
        if record.summary is None:
            continue
        strategy = record.text("strategy")
        measured, predicted = ({"strategy": strategy, "kind": kind} for kind in _KINDS)
        if not any(row.predicted for row in findings.results):
            del measured["kind"]
        yield msgspec.structs.replace(record, factors=measured)
        if (row := findings.result(strategy)) is not None and (time := row.predicted) is not None:
            seconds, low, high = time.seconds, time.low, time.high
            ends = Summary(2, seconds, low, high, low, high, low, high)
            yield msgspec.structs.replace(record, factors=predicted, samples=[], summary=ends)


def _peak_records(findings: TryFindings) -> Iterator[Record]:
    for row in findings.results:
        if not row.time:
            continue
        peaks = [("host", row.counts.host_peak or None)] if row.counts else []
        peaks += [("device", row.traced.device_peak)] if row.traced else []
        for side, peak in peaks:
            if peak is not None:
                factors = {"strategy": row.strategy, "side": side}
                yield Record("", "try", "", {**factors}, "B", "ok", counters={"peak_bytes": peak})


def _times(findings: TryFindings) -> AdviceTable:
    heads, rows = wording.times(findings)
    without = [
        [row.strategy, *[DASH] * (len(heads) - 2), wording.why_no_time(row)]
        for row in findings.results
        if row.time is None
    ]
    note = (
        f"Medians of the rounds, with 95 % intervals; {BASELINE}: the library changes nothing. A strategy whose output "
        "differs has no time."
    )
    notes = [note, *([f"Not predicted: {findings.not_predicted}."] if findings.not_predicted else [])]
    table = _table("times", "Times", heads, [*rows, *without], [plain(text, _LONGEST) for text in notes])
    timed = [[cell.replace(" ", _NO_BREAK) for cell in cells] for cells in table.rows[: len(rows)]]
    return replace(table, rows=[*timed, *table.rows[len(rows) :]])


def _memory(findings: TryFindings) -> AdviceTable:
    heads, rows = wording.memory(findings)
    notes = [f"{note[0].upper()}{note[1:]}." for note in wording.memory_notes(findings)] if rows else []
    return _table("memory", "Memory, and what moves", heads, rows, notes)


def _pairs(findings: TryFindings) -> AdviceTable:
    rows = [
        [
            f"{pair.count:,}",
            pair.allocated_at,
            pair.copied_at,
            *(format_size(value, 3) for value in (pair.array, pair.block, pair.copied_in, pair.copied_back)),
        ]
        for pair in findings.pairs
    ]
    heads = ["pairs", "block allocated at", "first copied at", "array", "block", "copied in", "copied back"]
    return _table("pairs", "Arrays and blocks that become one memory", heads, rows)


def _apart(findings: TryFindings) -> AdviceTable:
    rows = [
        [f"{row.count:,}", row.allocated_at, row.copied_at, format_size(row.copied, 3), row.text]
        for row in findings.apart
    ]
    heads = ["number", "block allocated at", "first copied at", "copied", "why"]
    return _table("apart", "Kept apart, with their copies", heads, rows)


def _edits(findings: TryFindings) -> AdviceTable:
    rows, notes = edit_rows(findings.edits), []
    if rows:
        notes = ["For the arrays and blocks that were tried as one memory, and no others. Lines are from the trace."]
    return _table("edits", f"What to change for {findings.edits_for}", EDIT_HEADS, rows, notes)


def _outputs(findings: TryFindings) -> AdviceTable:
    rows = [[row.name, _COMPARED[row.compared]] for row in findings.outputs]
    return _table("outputs", "Outputs, and what of them is compared", ["output", "compared"], rows)


def _table(
    anchor: str, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> AdviceTable:
    return AdviceTable(anchor, title, heads, [[plain(cell, _LONGEST) for cell in cells] for cells in rows], notes)


def write_tried(directories: Sequence[Path], output: Path | None = None) -> Path:
    """Writes the page of a directory of `firsttouch try`, by default into it, and that of its profile if there is none.
    Returns the path of the first.

    Raises:
        UsageError: There are several, nothing was tried there, or the file cannot be written.
    """
    if len(directories) > 1:
        raise UsageError("a page shows one directory of firsttouch try; firsttouch compare shows several")
    path = output or directories[0] / PAGE
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give -o a file name such as {path / PAGE}")
    findings, port = read_findings(directories[0]), directories[0] / PROFILE / PAGE
    if output is None and not port.is_file() and is_profile(port.parent):
        write_profile([port.parent])
    link = quote(os.path.relpath(port, path.parent)) if port.is_file() else ""
    try:
        (write_output if output else write_atomically)(path, encode_text(render(findings, link)))
    except OSError as error:
        raise UsageError(f"cannot write the report to {path}: {error.strerror}") from None
    return path
