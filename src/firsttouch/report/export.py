"""Exports figures as files, and points as one table, for papers and other tools."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from firsttouch.errors import UsageError
from firsttouch.experiments.base import Experiment
from firsttouch.files import write_atomically
from firsttouch.records.schema import Record, Scalar, Summary
from firsttouch.report.page import chapters, drawings, load
from firsttouch.report.palette import Palette
from firsttouch.report.svg import to_png, to_svg

if TYPE_CHECKING:
    from firsttouch.records.reading import Results

Format = Literal["png", "svg", "csv"]

HEAD = ("host", "results", "experiment", "device", "status", "unit", "better", "metric_version")
TAIL = (
    *("verified", "verified_why", "reason", "suspect", "stopped_by", "stated_by"),
    *("throttled", "preset", "seed", "started", "seconds"),
)


def export(directories: Sequence[Path], form: Format, output: Path | None = None) -> list[Path]:
    """Writes one file per figure, or one table of all points, into `output` (default DIR/figures). Returns their paths.

    Raises:
        UsageError: a directory holds no results, or `output` cannot be written.
    """
    from firsttouch.work import reportable_experiments

    if output is None and len(directories) > 1:
        raise UsageError("several directories are exported together; name the output folder with -o DIR")
    folder = output or directories[0] / "figures"
    results = load(directories)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return export_results(results, reportable_experiments(), form, folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None


def export_results(
    results: Mapping[str, Results], experiments: Mapping[str, Experiment], form: Format, folder: Path
) -> list[Path]:
    """As `export`, for results that are already loaded and a folder that exists."""
    if form == "csv":
        return [_points(results, folder / "points.csv")]
    palette, paths = Palette(), []
    for chapter in chapters(results, experiments):
        for section in chapter.sections:
            for number, drawing in enumerate((d for d in drawings(section, palette) if d.spec), 1):
                parts = [chapter.anchor if len(results) > 1 else "", section.name, section.device, str(number)]
                path = folder / f"{_slug(parts)}.{form}"
                if path in paths:
                    path = folder / f"{_slug([*parts, section.anchor])}.{form}"
                assert drawing.spec is not None
                write_atomically(path, to_png(drawing.spec) if form == "png" else to_svg(drawing.spec).encode())
                paths.append(path)
    return paths


def _slug(parts: Sequence[str]) -> str:
    """A file name of letters, digits and dashes only. The parts may come from an untrusted file."""
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", p).strip("-")[:60] for p in parts)))


def _points(results: Mapping[str, Results], path: Path) -> Path:
    """One row per point: factors and summary as columns, counters as counter_NAME.

    A factor whose name is already a column is factor_NAME. Text that a spreadsheet would read as a formula gets a
    leading apostrophe.
    """
    records = [r for loaded in results.values() for r in loaded.records]
    summary = [f.name for f in msgspec.structs.fields(Summary)]
    taken = {*HEAD, *summary, *TAIL, "parties"}
    factors = {n: f"factor_{n}" if n in taken else n for r in records for n in r.factors}
    counters = list(dict.fromkeys(n for r in records for n in r.counters))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    heads = [*HEAD, *factors.values(), *summary, *TAIL, "parties", *(f"counter_{n}" for n in counters)]
    writer.writerow([_cell(h) for h in heads])
    for name, loaded in results.items():
        for r in loaded.records:
            cells = _cells(r, loaded.machine.host, name, list(factors), summary, counters)
            writer.writerow([_cell(c) for c in cells])
    write_atomically(path, text.getvalue().encode())
    return path


def _cells(
    r: Record, host: str, name: str, factors: Sequence[str], summary: Sequence[str], counters: Sequence[str]
) -> list[Scalar]:
    return [
        host,
        name,
        *(getattr(r, n) for n in HEAD[2:]),
        *(r.factors.get(n) for n in factors),
        *(getattr(r.summary, n, None) for n in summary),
        *(getattr(r, n) for n in TAIL),
        "; ".join(f"{p.device} (rank {p.rank}{f' on {p.host}' if p.host else ''})" for p in r.parties),
        *(r.counters.get(n) for n in counters),
    ]


def _cell(v: Scalar) -> Scalar:
    if not isinstance(v, str):
        return v
    text = v.replace("\0", "\N{REPLACEMENT CHARACTER}")  # csv before Python 3.11 can't write it
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
