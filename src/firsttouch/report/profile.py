"""The page of a profile, or of several over one another: the answer, memory over time, tables, what was not seen."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from firsttouch.advice.link import summary_of
from firsttouch.base.encoding import encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically, write_output
from firsttouch.profile.content import Profile
from firsttouch.profile.headline import headline, how_long, known_peak, title
from firsttouch.profile.reading import read
from firsttouch.profile.summary import ProfileSummary
from firsttouch.profile.views import SUMMARY
from firsttouch.records.text import count
from firsttouch.report import line_words as words_of_lines
from firsttouch.report import profile_tables as words
from firsttouch.report.cells import csv_cell
from firsttouch.report.drawing import Drawing, DrawnFigure
from firsttouch.report.parquet import parquet
from firsttouch.report.ported import ported_page
from firsttouch.report.profile_figure import figure_of, overlay
from firsttouch.report.profile_panels import MemoryFigure, narrow, plain, specification
from firsttouch.report.svg import to_png, to_svg, to_svgs
from firsttouch.report.templates import filled_in, template

PAGE, ADVICE_PAGE, TEMPLATE = "report.html", "advice.html", "profile.html.j2"


def render(
    profiles: Mapping[str, Profile], advice: str = "", numbers_of: Callable[[Profile], ProfileSummary] = summary_of
) -> str:
    """One self-contained HTML page. The keys of `profiles` are short names that tell them apart. advice: the address of
    the page of advice about the program, '' if there is none. numbers_of: adds up a profile, or waits for who does.
    """
    first = next(iter(profiles.values()))
    ported = ported_page(first, is_advised=bool(advice)) if len(profiles) == 1 else None
    summaries = {name: numbers_of(profile) for name, profile in profiles.items()}
    figure, notes = drawn(profiles, summaries)
    if ported is not None and ported.panel is not None:
        figure = replace(figure, panels=[*figure.panels, ported.panel])
    drawing = Drawing(_caption(figure), notes=notes)
    if figure.panels:
        drawing = replace(drawing, spec=specification(figure), narrow=narrow(figure))
    only = next(iter(summaries.values())) if len(summaries) == 1 else None
    tables = words.tables(only) if only else [words.peaks(summaries)]
    lines = words_of_lines.line_tables(only.by_line) if only else []
    leading, lines = [table for table in lines if not table.folded], [table for table in lines if table.folded]
    tables = [*lines, *(ported.tables if ported is not None else []), *tables]
    answer = [words_of_lines.answer(only.by_line), *words.answer(only)] if only else []
    template(TEMPLATE)  # before the wait for the figures
    return filled_in(
        TEMPLATE,
        title=plain(headline(only) if only else _comparison_title(summaries), 300),
        about=_about(only) if only else "",
        advice=advice,
        answer=[*filter(None, answer), *([ported.answer] if ported is not None else [])],
        memory=DrawnFigure(drawing, *to_svgs([drawing.spec, drawing.narrow])),
        leading=leading,
        tables=tables,
        unseen=_unseen_by_profile(summaries, ported.unseen if ported else ()),
        costs=_costs(summaries),
    )  # fmt: skip


def _costs(summaries: Mapping[str, ProfileSummary]) -> list[tuple[str, str]]:
    """What profiling cost: for the names of the profiles to which the same applies, '' of a single one, a sentence."""
    groups: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        groups.setdefault(words.cost(summary), []).append(plain(name))
    return [("" if len(summaries) == 1 else "; ".join(names), sentence) for sentence, names in groups.items()]


def _unseen_by_profile(
    summaries: Mapping[str, ProfileSummary], of_program: Sequence[str]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """What could not be seen: for the names of the profiles to which the same applies, '' for all, the sentences.
    of_program: those about what a single profile's program does.
    """
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, summary in summaries.items():
        unseen = [*words.unseen(summary), *((plain(text, 300), "") for text in of_program)]
        groups.setdefault(tuple(unseen), []).append(plain(name))
    return [("" if len(groups) == 1 else "; ".join(names), [*sentences]) for sentences, names in groups.items()]


def drawn(profiles: Mapping[str, Profile], summaries: Mapping[str, ProfileSummary]) -> tuple[MemoryFigure, list[str]]:
    """The figure of one profile or of several, and sentences on it."""
    if len(profiles) == 1:
        (name,) = profiles
        return figure_of(profiles[name], summaries[name])
    return overlay(profiles, summaries)


def _caption(figure: MemoryFigure) -> str:
    if not figure.panels:
        return "No memory was read"
    return "Memory over time, and the phases" if figure.bands else "Memory over time"


def _about(summary: ProfileSummary) -> str:
    """When and where the target ran, and how it ended."""
    rank = f", rank {summary.rank}" if summary.rank else ""
    ended = words.describe_end(summary)
    return plain(
        f"On {summary.host_name}{rank}, started {summary.started.partition('.')[0].replace('T', ' ')}, "
        f"{how_long(summary)}; {ended}.",
        300,
    )


def _comparison_title(summaries: Mapping[str, ProfileSummary]) -> str:
    """The title of several profiles: the largest and the least peak on the host."""
    peaks = {name: peak for name, s in summaries.items() if (peak := known_peak(s.host)) is not None}
    head = f"{count(len(summaries), 'profile')}"
    commands = {title(s) for s in summaries.values()}
    of_command = f" of {commands.pop()}" if len(commands) == 1 else ""
    if len(peaks) < max(2, sum(s.host.peak is not None for s in summaries.values())):
        return f"{head}{of_command}"
    most, least = max(peaks, key=peaks.__getitem__), min(peaks, key=peaks.__getitem__)
    if peaks[most] == peaks[least]:
        return f"{head}{of_command}: peak {words.size(peaks[most])} on the host in each"
    return (
        f"{head}{of_command}: host peak from {words.size(peaks[least])} ({plain(least, 60)}) to "
        f"{words.size(peaks[most])} "
        f"({plain(most, 60)})"
    )


def names_of(profiles: Sequence[Profile]) -> list[str]:
    """Short names that tell profiles apart: the end of the directory's path, and the rank if there is one."""
    parts = [profile.directory.absolute().parts for profile in profiles]
    depth = 1
    while depth < max(map(len, parts)) and len({part[-depth:] for part in parts}) < len(set(parts)):
        depth += 1
    names: list[str] = []
    for profile, part in zip(profiles, parts, strict=True):
        rank = f", rank {profile.header.rank}" if profile.header.rank else ""
        name = plain(f"{'/'.join(part[-depth:])}{rank}", 120)
        again = sum(earlier == name or earlier.startswith(f"{name} (") for earlier in names)
        names.append(f"{name} ({again + 1})" if again else name)
    return names


def read_all(directories: Sequence[Path], *, with_activities: bool = True) -> dict[str, Profile]:
    """The profiles of directories by short names. Raises UsageError if one cannot be read. with_activities: as `read`
    has them.
    """
    profiles = [read(directory, with_activities=with_activities) for directory in directories]
    return dict(zip(names_of(profiles), profiles, strict=True))


def _written_numbers(profile: Profile) -> ProfileSummary:
    """The numbers of a profile when another process has written them; if that has not, they are added up here."""
    if os.read(sys.stdin.fileno(), 1):
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((profile.directory / SUMMARY).read_bytes(), type=ProfileSummary)
    return summary_of(read(profile.directory))


def write_profile(directories: Sequence[Path], output: Path | None = None, is_added_up: bool = False) -> Path:
    """Writes the page of one or several profiles, by default to DIR/report.html. Returns its path. is_added_up: another
    process adds up the single profile, and writes a byte to stdin when its numbers are in the directory.

    Raises:
        UsageError: a directory holds no profile, or the file cannot be written.
    """
    if output is None and len(directories) > 1:
        raise UsageError("several directories make one report; name the output file with -o FILE")
    path = output or directories[0] / PAGE
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give -o a file name such as {path / PAGE}")
    advice = directories[0] / ADVICE_PAGE
    has_advice = len(directories) == 1 and path.parent == advice.parent and advice.is_file()
    profiles = read_all(directories, with_activities=not is_added_up)
    numbers_of = _written_numbers if is_added_up else summary_of
    page = render(profiles, ADVICE_PAGE if has_advice else "", numbers_of)
    try:
        (write_output if output else write_atomically)(path, encode_text(page))
    except OSError as error:
        raise UsageError(f"cannot write the report to {path}: {error.strerror}") from None
    return path


def export_profile(directories: Sequence[Path], form: str, output: Path | None = None) -> list[Path]:
    """Writes the figure ('svg', 'png') or a table of all curves ('csv', 'parquet') into a folder, by default
    DIR/figures.

    Raises:
        UsageError: a directory holds no profile, profiles have no such form, or the file cannot be written.
    """
    if output is None and len(directories) > 1:
        raise UsageError("several directories are exported together; name the output folder with -o DIR")
    folder = output or directories[0] / "figures"
    profiles = read_all(directories)
    if form == "csv":
        name, data = "curves.csv", encode_text(_curves(profiles))
    elif form == "parquet":
        heads, readings = _reading_table(profiles)
        rows = list(readings)
        columns = {head: [row[i] for row in rows] for i, head in enumerate(heads)}
        name, data = "curves.parquet", parquet(columns)
    elif form not in ("png", "svg"):
        raise UsageError(f"profiles are not written as {form}; give --format html, png, svg, csv or parquet")
    else:
        summaries = {name: summary_of(profile) for name, profile in profiles.items()}
        spec = specification(drawn(profiles, summaries)[0])
        name, data = f"profile.{form}", to_png(spec) if form == "png" else encode_text(to_svg(spec))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, data)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
    return [folder / name]


def _curves(profiles: Mapping[str, Profile]) -> str:
    """One row for each reading: of, column, t (s), value; of several profiles with their names first."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    heads, rows = _reading_table(profiles)
    writer.writerow(heads)
    for row in rows:
        writer.writerow(map(csv_cell, row))
    return text.getvalue()


def _reading_table(profiles: Mapping[str, Profile]) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """The columns of the table of all curves, and its rows."""
    several = len(profiles) > 1
    rows = (
        [*([name] if several else []), place, column, t, int(value) if value.is_integer() else value]
        for name, profile in profiles.items()
        for (place, column), curve in profile.curves.items()
        for t, value in curve
    )
    return [*(["profile"] if several else []), "of", "column", "t", "value"], rows
