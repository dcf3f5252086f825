"""The report: the first screen, then one section for each question, then the machine.

A question shows one answer with one figure; its other figures and devices, its method and its points are opened on
demand. chapters.py and sections.py turn results into what is shown. page.html.j2 lays it out and escapes every string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firsttouch.base.encoding import encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically, write_output
from firsttouch.experiments.contract.base import Experiment
from firsttouch.harness.outcomes.report import STACK, WITHOUT_CONTEXT
from firsttouch.model.scope import NOT_MODELLED
from firsttouch.records.text import caption, join_names
from firsttouch.report import redrawing
from firsttouch.report.chapters import Chapter, chapters
from firsttouch.report.draw import draw, with_narrow
from firsttouch.report.drawing import Drawing, DrawingContext, DrawnFigure
from firsttouch.report.events import have_moves
from firsttouch.report.first_screen import FirstScreen
from firsttouch.report.interfaces_picture import pictures
from firsttouch.report.palette import Palette
from firsttouch.report.said_once import of_several, unmarked
from firsttouch.report.sections import PageSection, drawings, lead_drawings
from firsttouch.report.svg import to_svgs
from firsttouch.report.templates import filled_in

if TYPE_CHECKING:
    from firsttouch.records.reading import Results


MOST_TILES, FIRST_TILES = 9, 6
"""The most numbers of a first screen that are shown at once, and how many are if there are more."""
MOST_FIGURES = 150
"""The most figures of a page, but for those that questions show at first."""
_POINT_LINK = re.compile(r'(?<= data-p=")p-[0-9a-f]+')


def render(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> str:
    """The report as one self-contained HTML page."""
    parts = chapters(results, experiments)
    _draw(parts)
    _set_row_ids(parts)
    wrong = sum(s.tally["wrong"] for c in parts for s in c.sections)
    known_names = {"name": redrawing.NAME, "names": redrawing.known_names(results.values(), experiments)}
    predicted = _predicted(results)
    return filled_in(
        "page.html.j2",
        chapters=parts,
        title="; ".join(dict.fromkeys(map(_page_title, parts))),
        wrong=wrong,
        known=known_names,
        not_modelled=caption("; ".join(NOT_MODELLED)),
        predicted=predicted,
        most_tiles=MOST_TILES,
        first_tiles=FIRST_TILES,
        plain=unmarked if predicted else str,
    )


def _page_title(chapter: Chapter) -> str:
    """The part of a paper that a run repeats; else the hardware, and what was measured."""
    if chapter.repeated is not None:
        return f"{chapter.repeated.title}. {chapter.screen.title}"
    return f"{chapter.screen.title}{f': {chapter.about}' if chapter.about else ''}"


def _predicted(results: Mapping[str, Results]) -> bool:
    """Whether all of a page is predicted for one machine, which its head then says once."""
    devices = [device for one in results.values() for device in one.machine.devices if device.available]
    machines = {device.modelled.device_name if device.modelled else "" for device in devices}
    return len(results) == len(machines) == 1 and "" not in machines


def _draw(parts: Sequence[Chapter]) -> None:
    """Draws all figures: the pictures first, then those that questions show, then the others."""
    palette = Palette()
    figures: list[tuple[list[DrawnFigure], Drawing]] = []
    at_once: list[Drawing] = []
    for chapter in parts:
        first = [(chapter.picture, drawing) for drawing in filter(None, [_picture(chapter, palette)])]
        if chapter.interfaces:
            first += [(chapter.interfaces.drawings, drawing) for drawing in pictures(chapter.interfaces, palette)]
        figures += first
        at_once += [drawing for _, drawing in first]
        leads = {id(q.lead) for q in chapter.questions if not q.collapsed}
        for q in chapter.questions:
            q.is_above = bool(first) and _is_above(q.lead, chapter.screen)
        above = {id(q.lead) for q in chapter.questions if q.is_above}
        for section in sorted(chapter.sections, key=lambda s: id(s) not in leads):
            section.undrawn = id(section) not in leads and len(figures) >= MOST_FIGURES
            if not section.undrawn:
                is_lead, picture = id(section) in leads, chapter.screen.figure
                drawn = lead_drawings(section, palette, picture) if is_lead else drawings(section, palette)
                figures += [(section.drawings, drawing) for drawing in drawn]
                section.is_open = is_lead and id(section) not in above
                at_once += drawn[:1] if section.is_open else []
    if parts:
        sections = [section for chapter in parts for section in chapter.sections]
        general = {note for section in sections for note in section.notes}
        shared = of_several(at_once, [drawing for _, drawing in figures], general)
        parts[0].of_figures = [_with_experiments(note, sections) for note in shared]
    images = iter(to_svgs([spec for _, drawing in figures for spec in (drawing.spec, drawing.narrow)]))
    for place, drawing in figures:
        place.append(DrawnFigure(drawing, next(images), next(images)))


def _is_above(lead: PageSection, screen: FirstScreen) -> bool:
    """Whether the first screen shows what a question would show at first."""
    figures = [WITHOUT_CONTEXT if figure is STACK else figure for figure in lead.figures]
    return any(figure is screen.figure for figure in figures) and lead.records[:1] == list(screen.shown[:1])


def _with_experiments(note: str, sections: Sequence[PageSection]) -> str:
    """A note with the experiments that it is about, if it is about some only."""
    names = dict.fromkeys(section.experiment for section in sections if note in section.notes)
    return f"{note.removesuffix('.')}: {join_names([*names])}." if names else note


def _picture(chapter: Chapter, palette: Palette) -> Drawing | None:
    """The picture of the first screen."""
    screen = chapter.screen
    context = DrawingContext(None, palette, memory=chapter.results.memory, stated=chapter.stated)
    return with_narrow(draw, screen.figure, screen.shown, context) if screen.figure else None


def _set_row_ids(parts: Sequence[Chapter]) -> None:
    """Makes the ids of rows unique. Those of a further directory, and the links of its figures, get its number."""
    taken: set[str] = set()
    for i, chapter in enumerate(parts, 1):
        suffix = "" if i == 1 else f".{i}"
        for section in chapter.sections:
            rows = []
            for kind, name, cells in section.rows:
                row_id = f"{name}{suffix}"
                rows.append((kind, "" if row_id in taken else row_id, cells))
                taken.add(row_id)
            section.rows = rows
        places = [section.drawings for section in chapter.sections]
        places += [chapter.interfaces.drawings] if chapter.interfaces else []
        for place in places if suffix else ():
            place[:] = [
                DrawnFigure(drawn.drawing, *(_POINT_LINK.sub(rf"\g<0>{suffix}", svg) for svg in drawn[1:]))
                for drawn in place
            ]


def load(directories: Sequence[Path]) -> dict[str, Results]:
    """Results by directory, in the order given. Raises UsageError if one holds no results."""
    return {str(d): _load(d) for d in directories}


def _load(directory: Path) -> Results:
    """The results of a directory with what happened over time. If files of that are missing or invalid, there are only
    warnings.
    """
    from firsttouch.profile.events.trace import TRACE, read_timelines
    from firsttouch.profile.timelines import read_courses
    from firsttouch.records.reading import load_results

    results = load_results(directory)
    try:
        results.timelines = read_timelines(directory)
    except UsageError as error:
        results.warnings.append(str(error))
    results.memory, problems = read_courses(directory, results.records, results.machine.devices)
    results.warnings += problems
    if have_moves(results.records) and not (directory / TRACE).exists():
        results.warnings.append(
            f"{directory} has no {TRACE}, so the figures of bytes over time are missing; copy it from where the run "
            "wrote it, and draw the report again"
        )
    return results


def write_report(directories: Sequence[Path], output: Path | None = None) -> Path:
    """Writes the report of one or several results directories, by default to DIR/report.html. Returns its path.

    Raises:
        UsageError: a directory holds no results, the file cannot be written, or it has sections of experiments that
            this call does not know.
    """
    from firsttouch.engine.work_kinds import reportable_experiments

    if output is None and len(directories) > 1:
        raise UsageError("several directories make one report; name the output file with -o FILE")
    path = output or directories[0] / "report.html"
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give -o a file name such as {path / 'report.html'}")
    results, experiments = load(directories), reportable_experiments()
    known_names = redrawing.known_names(results.values(), experiments)
    redrawing.check_replacement(path, directories, results.values(), known_names)
    page = render(results, experiments)
    try:
        (write_output if output else write_atomically)(path, encode_text(page))
    except OSError as error:
        raise UsageError(f"cannot write the report to {path}: {error.strerror}") from None
    return path
