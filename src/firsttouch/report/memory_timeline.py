"""Draws a MemoryTimeline: for each strategy a column with its phases, the host's memory and the device's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile.timelines import folder_of
from firsttouch.records.figures import MemoryTimeline
from firsttouch.records.schema import Record
from firsttouch.records.statistics import group_by, value, varying
from firsttouch.records.text import condition, count, join_names, label
from firsttouch.records.timeline import MemoryCourse, Phase, Readings, peak
from firsttouch.report import points
from firsttouch.report.chart import BESIDE_AXIS, EDGES, finish
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import TEXT
from firsttouch.report.palette import COLOURS
from firsttouch.report.profile_panels import Band, MemoryFigure, Panel, Series, plain, stacked, when

MOST_COLUMNS = 12
MOST_NAMED = 8
HOST, DEVICE = COLOURS[0], COLOURS[1]
_PARTS = ("#5b6770", "#a9b4bd")
"""The colours of parts of phases in turn, so that they are told apart."""
_SQUASHED = 8.0
"""How many times as long the longest may be as the shortest for all to have one scale of time."""
_LAYOUTS = ((1, 1, 560), (2, 2, 325), (3, 3, 188), (4, 2, 325), (MOST_COLUMNS, 3, 188))
"""By the most columns: how many are beside each other, and their width in pixels."""

Courses = Mapping[str, MemoryCourse]


def draw(figure: MemoryTimeline, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    sampled = [r for r in points.matching(figure, records) if folder_of(r) in context.memory]
    if not sampled:
        return None
    chosen, notes = _choose_records(figure, sampled)
    courses = {label(figure.by, value(r, figure.by)): context.memory[folder_of(r)] for r in chosen}
    shown = {name: course for name, course in courses.items() if course.is_seen and course.host}
    unseen = {name: course for name, course in courses.items() if name not in shown}
    if len(shown) > MOST_COLUMNS:
        notes.append(f"The first {MOST_COLUMNS} of {len(shown)} are drawn.")
        shown = dict([*shown.items()][:MOST_COLUMNS])
    title = figure.title or "Memory in use over time"
    if figure.repeated and any(course.interval for course in courses.values()):
        title += ", in the last repetition"
    notes = [*_left_out(unseen), *notes, *points.flaws(chosen)]
    if not shown:
        rows = [[name, format_seconds(course.seconds)] for name, course in unseen.items()]
        return Drawing(title, columns=[figure.by, "time of its phases"], rows=rows, notes=notes)
    spec, one_scale = _chart(shown, context)
    return Drawing(title, spec, notes=[*_caption_notes(shown, one_scale=one_scale), *notes], wrong=points.wrong(chosen))


def _choose_records(figure: MemoryTimeline, records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """A record for each value of `by`, all of the same conditions: those under which most values were sampled."""
    names = [name for name in varying(records) if name != figure.by]
    groups = [
        [by_value[0] for by_value in group_by(group, figure.by).values()]
        for group in group_by(records, *names).values()
    ]
    chosen = max(groups, key=len)
    if len(groups) == 1:
        return chosen, []
    other_points = count(len(records) - len(chosen), "other sampled point")
    return chosen, [f"Drawn: {condition(chosen[0], names)}. {other_points}: firsttouch report DIR/timelines/NNNN."]


# ------------------------------------------------------------------------------------------------------------ notes


def _caption_notes(shown: Courses, *, one_scale: bool) -> list[str]:
    """The sentences of the caption on what is counted."""
    courses = [*shown.values()]
    if not any(course.interval for course in courses):
        return _about_predictions(courses, one_scale=one_scale)
    every = format_seconds(max(course.interval for course in courses))
    notes = [
        f"Resident memory of the process, and memory of the device in use by all programs, read every {every}: rises "
        "over what was in use before the first allocation. Time is that of the phases, without what is between them."
        if any(course.device for course in courses)
        else f"Resident memory of the process, read every {every}: its increase over what was in use before the first "
        "allocation. Time is that of the phases, without what is between them."
    ]
    names = dict.fromkeys(phase.name for course in courses for phase in course.phases if not phase.is_part)
    more = ", \N{HORIZONTAL ELLIPSIS}" * (len(names) > MOST_NAMED)
    notes.append(f"Bands from left to right: {', '.join(plain(name, 40) for name in [*names][:MOST_NAMED])}{more}.")
    if any(phase.is_part for course in courses for phase in course.phases):
        notes.append("Grey: iterations, timed by the device's clock.")
    if sources := dict.fromkeys(course.source for course in courses if course.source):
        notes.append(f"The device's memory is read from {join_names([plain(source, 80) for source in sources])}.")
    reasons = dict.fromkeys(course.why for course in courses if course.why)
    notes += [f"The device's memory is not shown: {plain(reason, 300)}." for reason in reasons]
    notes += [plain(apart, 300) for apart in dict.fromkeys(course.apart for course in courses if course.apart)]
    if len(courses) > 1:
        notes.append("All panels have the same scales." if one_scale else "Each panel has its own scale of time.")
    return notes


def _about_predictions(courses: Sequence[MemoryCourse], *, one_scale: bool) -> list[str]:
    """What is shown of courses that nobody read."""
    notes = [
        "The program's pages on the host, and its device memory. During a launch or a copy they are assumed to grow "
        "evenly, and a host array counts as a whole from its first use. Time is that of the phases."
    ]
    if len(courses) > 1:
        notes.append("All panels have the same scales." if one_scale else "Each panel has its own scale of time.")
    return notes


def _left_out(unseen: Courses) -> list[str]:
    names = [f"{name} ({format_seconds(course.seconds)})" for name, course in unseen.items()]
    if not names:
        return []
    every = format_seconds(max(course.interval for course in unseen.values()))
    return [f"Not drawn, as memory was read every {every} and the phases were too short: {', '.join(names)}."]


# ------------------------------------------------------------------------------------------------------------ chart


def _chart(shown: Courses, context: DrawingContext) -> tuple[Spec, bool]:
    """The columns, and whether they have one scale of time."""
    seconds = [course.seconds for course in shown.values()]
    one_scale = max(seconds) <= _SQUASHED * min(seconds)
    beside, width = next((beside, width) for most, beside, width in _LAYOUTS if len(shown) <= most)
    if context.is_narrow:
        beside, width = 1, context.width - EDGES - BESIDE_AXIS
    names = list(dict.fromkeys(p.name for c in shown.values() for p in c.phases if not p.is_part))
    colours = dict(zip(names, context.palette.styles("phase", names)[0], strict=True))
    spans = [_span(c.host for c in shown.values()), _span(c.device for c in shown.values())]
    rows: list[Spec] = []
    charts: list[Spec] = []
    for i, (name, course) in enumerate(shown.items()):
        figure = MemoryFigure(
            list(_panels(f"c{i}", course, spans)),
            max(seconds) if one_scale else course.seconds,
            list(_bands(f"c{i}", course, colours)),
            width=width,
            time="time in phases",
        )
        of_column: list[Spec] = []
        chart = stacked(figure, of_column)
        rows += [{**row, "column": i} for row in of_column]
        title = {"text": f"{name}, {format_seconds(course.seconds)}", "anchor": "start", "fontSize": TEXT, "offset": 8}
        charts.append({**chart, "transform": [{"filter": {"field": "column", "equal": i}}], "title": title})
    spec = charts[0] if len(charts) == 1 else {"concat": charts, "columns": beside}
    return finish(spec, rows, context.width), one_scale


def _span(lines: Iterator[Readings]) -> tuple[float, float]:
    """The least and the most of several lines."""
    values = [value for readings in lines for _, value in readings]
    return min(values, default=0.0), max(values, default=0.0)


def _panels(key: str, course: MemoryCourse, spans: Sequence[tuple[float, float]]) -> Iterator[Panel]:
    sides = (("host", "Host", course.host, HOST), ("device", "Device", course.device, DEVICE))
    for (side, title, readings, colour), span in zip(sides, spans, strict=True):
        if readings:
            line = Series(
                side,
                [*readings, (course.seconds, readings[-1][1])],
                colour,
                width=2.0,
                peak=max(readings, key=lambda reading: reading[1]),
                label=f"peak {format_size(peak(readings) or 0, 3)}",
                ended=True,
            )
            yield Panel(f"{key}-{side}", title, [line], height=110, span=span, names=False)


def _bands(key: str, course: MemoryCourse, colours: Mapping[str, str]) -> Iterator[Band]:
    for i, phase in enumerate(course.phases):
        colour = _PARTS[i % 2] if phase.is_part else colours[phase.name]
        place = (phase.start, phase.end, int(phase.is_part), colour, f"{key}-{i}")
        yield Band(phase.name, *place, _details(course, phase), phase.name.rpartition(" ")[2] if phase.is_part else "")


def _details(course: MemoryCourse, phase: Phase) -> list[str]:
    """What is said about a phase where it is pointed at: when it was, and by how much memory grew in it."""
    lines = [f"{when(phase.start)} to {when(phase.end)}, {format_seconds(phase.end - phase.start)}"]
    for side, readings in (("host", course.host), ("device", course.device)):
        if readings:
            growth = round(_at(readings, phase.end) - _at(readings, phase.start))
            sign = "\N{MINUS SIGN}" if growth < 0 else "+"
            lines.append(f"{side} {sign}{format_size(abs(growth), 3)}")
    return lines


def _at(readings: Readings, t: float) -> float:
    """The value at a time, before the readings of a phase that begins then."""
    place = bisect_left(readings, t, key=lambda reading: reading[0])
    return readings[max(0, place - 1)][1]
