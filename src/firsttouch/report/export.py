"""Exports figures as files, and points as one table, for papers and other tools."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from firsttouch.base.encoding import encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records.reading import flat_rows
from firsttouch.report.cells import csv_cell
from firsttouch.report.chapters import chapters
from firsttouch.report.interfaces_picture import pictures
from firsttouch.report.page import load
from firsttouch.report.palette import Palette
from firsttouch.report.sections import drawings
from firsttouch.report.svg import to_png, to_svg

if TYPE_CHECKING:
    from firsttouch.records.reading import Results

Format = Literal["png", "svg", "csv", "parquet", "openmetrics"]


def export(directories: Sequence[Path], form: Format, output: Path | None = None) -> list[Path]:
    """Writes one file per figure, one table of all points, or one of metrics, into `output` (default DIR/figures).
    Returns their paths.

    Raises:
        UsageError: a directory holds no results, or `output` cannot be written.
    """
    from firsttouch.engine.work_kinds import reportable_experiments

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
    """Exports results that are already loaded to a folder that exists, as `export` does."""
    if form in _FILES:
        name, content = _FILES[form]
        write_atomically(folder / name, content(results, experiments))
        return [folder / name]
    palette, paths = Palette(), []
    for chapter in chapters(results, experiments):
        first = chapter.anchor if len(results) > 1 else ""
        by_interface = pictures(chapter.interfaces, palette) if chapter.interfaces else []
        drawn = [("interfaces", "", f"{chapter.anchor}-interfaces", by_interface)]
        drawn += [(s.name, s.device, s.anchor, drawings(s, palette)) for s in chapter.sections]
        for name, device, anchor, figures in drawn:
            for number, spec in enumerate((d.spec for d in figures if d.spec), 1):
                parts = [first, name, device, str(number)]
                path = folder / f"{_slug(parts)}.{form}"
                if path in paths:
                    path = folder / f"{_slug([*parts, anchor])}.{form}"
                write_atomically(path, to_png(spec) if form == "png" else encode_text(to_svg(spec)))
                paths.append(path)
    return paths


def _slug(parts: Sequence[str]) -> str:
    """A file name of letters, digits and dashes only. The parts may come from an untrusted file."""
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", p).strip("-")[:60] for p in parts)))


def _points(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> bytes:
    """One row per point with the columns of firsttouch.load. Lists are written as JSON. Text that a spreadsheet would
    read as a formula gets a leading apostrophe.
    """
    rows = flat_rows(results)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for cells in ([*rows[0]] if rows else [], *(row.values() for row in rows)):
        writer.writerow([csv_cell(cell) for cell in cells])
    return encode_text(text.getvalue())


def _parquet(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> bytes:
    """The rows of the CSV file as a Parquet table, with types."""
    from firsttouch.report.parquet import parquet

    rows = flat_rows(results)
    return parquet({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})


def _metrics(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> bytes:
    from firsttouch.report.openmetrics import openmetrics

    return encode_text(openmetrics(results, experiments))


_FILES: Mapping[str, tuple[str, Callable[[Mapping[str, Results], Mapping[str, Experiment]], bytes]]] = {
    "csv": ("points.csv", _points),
    "parquet": ("points.parquet", _parquet),
    "openmetrics": ("headlines.prom", _metrics),
}
"""The formats of one file: its name, and what makes its content."""
