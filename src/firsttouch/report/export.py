"""Figures as files and points as one tidy table, for papers and for other tools."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from firsttouch.errors import UsageError
from firsttouch.experiments.base import Experiment
from firsttouch.report.figures import Palette, to_png, to_svg
from firsttouch.report.page import chapters, drawings, load
from firsttouch.schema import Record, Scalar, Summary

if TYPE_CHECKING:
    from firsttouch.run.store import Results

Format = Literal["png", "svg", "csv"]

HEAD = ("host", "results", "experiment", "device", "status", "unit")
TAIL = ("verified", "verified_why", "reason", "stopped_by", "throttled", "preset", "seed", "started", "seconds")


def export(directories: Sequence[Path], form: Format, output: Path | None = None) -> list[Path]:
    """Write one file per figure, or one table of all points, into `output` (default DIR/figures); their paths.

    Raises:
        UsageError: a directory holds no results, or `output` can't be written.
    """
    from firsttouch.run.catalogue import reported

    if output is None and len(directories) > 1:
        raise UsageError("several directories are exported together; say where to with -o DIR")
    folder = output or directories[0] / "figures"
    results = load(directories)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return export_results(results, reported(), form, folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None


def export_results(
    results: Mapping[str, Results], experiments: Mapping[str, Experiment], form: Format, folder: Path
) -> list[Path]:
    """As `export`, of results already loaded into a folder that exists."""
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
                path.write_bytes(to_png(drawing.spec) if form == "png" else to_svg(drawing.spec).encode())
                paths.append(path)
    return paths


def _slug(parts: Sequence[str]) -> str:
    """A file name that holds nothing but letters, digits and dashes, whatever the results file says."""
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", p).strip("-")[:60] for p in parts)))


def _points(results: Mapping[str, Results], path: Path) -> Path:
    """One row per point: factors and summary as columns, counters as counter_NAME.

    A factor whose name is a column already is factor_NAME. Text that a spreadsheet would take for a formula gets a
    leading apostrophe.
    """
    records = [r for one in results.values() for r in one.records]
    summary = [f.name for f in msgspec.structs.fields(Summary)]
    taken = {*HEAD, *summary, *TAIL}
    factors = {n: f"factor_{n}" if n in taken else n for r in records for n in r.factors}
    counters = list(dict.fromkeys(n for r in records for n in r.counters))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        heads = [*HEAD, *factors.values(), *summary, *TAIL, *(f"counter_{n}" for n in counters)]
        writer.writerow([_cell(h) for h in heads])
        for name, one in results.items():
            for r in one.records:
                cells = _cells(r, one.machine.host, name, list(factors), summary, counters)
                writer.writerow([_cell(c) for c in cells])
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
        *(r.counters.get(n) for n in counters),
    ]


def _cell(v: Scalar) -> Scalar:
    if not isinstance(v, str):
        return v
    text = v.replace("\0", "\N{REPLACEMENT CHARACTER}")  # csv before Python 3.11 can't write it
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
