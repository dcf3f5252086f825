"""Draws TransferTimelines: the bytes that points moved over time, one line per direction, with phases as bands. All
panels have the same scales, so that a steeper line is a faster transfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firsttouch.records.figures import Timeline
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct
from firsttouch.records.text import count, label, named
from firsttouch.report.axes import byte_ticks, size_label, time_label
from firsttouch.report.chart import BESIDE_AXIS, EDGES, finish, numbers, side_by_side
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.lettering import TEXT
from firsttouch.report.palette import COLOURS, PHASES
from firsttouch.report.points import finite
from firsttouch.report.roles import MOST_PANELS
from firsttouch.report.vega import field, layer

if TYPE_CHECKING:
    from firsttouch.records.timeline import NamedInterval, TransferTimeline

MOST_STEPS = 1000


def draw(figure: Timeline, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    if not context.timelines:
        return None
    groups: dict[str, list[TransferTimeline]] = {}
    for value in distinct(records, figure.by) if figure.by else []:  # their order is that of other figures
        groups[label(figure.by, value)] = []
    for timeline in context.timelines:
        groups.setdefault(label(figure.by, timeline.factors.get(figure.by)) if figure.by else "", []).append(timeline)
    largest = {title: max(some, key=lambda t: t.moved) for title, some in groups.items() if some}
    shown = dict(list(largest.items())[:MOST_PANELS])
    if not any(t.moved for t in shown.values()):
        return None
    notes = [_which(figure, list(shown.values()))]
    if len(shown) < len(largest):
        notes.append(f"The first {MOST_PANELS} of {count(len(largest), 'panel')} are drawn.")
    notes.append("events.json has every point, for Perfetto.")
    title = figure.title or "Bytes moved by the driver over time"
    return Drawing(title, _panels(shown, context, titled=bool(figure.by)), notes=notes)


def _which(figure: Timeline, shown: Sequence[TransferTimeline]) -> str:
    """The sentence on the points that are drawn."""
    phases = dict.fromkeys(name for timeline in shown for name, _, _ in _phases(timeline))
    bands = f" Bands from left to right: {', '.join(phases)}." if phases else ""
    if len(shown) > 1:
        return f"Of each {figure.by}, the point that moved most; all panels have the same scales.{bands}"
    which = ", ".join(named(name, v) for name, v in shown[0].factors.items()) or "the only one"
    return f"The point that moved most: {which}.{bands}"


def _phases(timeline: TransferTimeline) -> list[NamedInterval]:
    """The phases that are drawn: those within the recording."""
    drawn = {*PHASES} - {"free"}
    return [(name, start, end) for name, start, end in timeline.phases if name in drawn and finite(start + end)]


def _end(timeline: TransferTimeline) -> float:
    """Until when a panel shows its point."""
    return max((end for _, _, end in _phases(timeline)), default=timeline.end)


def _panels(shown: dict[str, TransferTimeline], context: DrawingContext, *, titled: bool) -> Spec:
    ways = list(dict.fromkeys(way for timeline in shown.values() for way in timeline.steps))
    colour = field("colour:N", title="", scale={"domain": ways, "range": [*COLOURS[: len(ways)]]})
    names = list(dict.fromkeys(name for timeline in shown.values() for name, _, _ in _phases(timeline)))
    fills = dict(zip(names, context.palette.styles("phase", names)[0], strict=True))
    lines = {title: [{**row, "panel": title} for row in _rows(timeline)] for title, timeline in shown.items()}
    most = max(numbers([row for drawn in lines.values() for row in drawn], "y") or [1.0])
    until = max((end for timeline in shown.values() if finite(end := _end(timeline))), default=0.0)
    rows: list[Spec] = []
    charts = []
    for title, timeline in shown.items():
        bands = [
            {"kind": "band", "panel": title, "phase": name, "x": start, "x2": end}
            for name, start, end in _phases(timeline)
        ]
        drawn = [*bands, *lines[title]]
        header = {"title": {"text": title, "anchor": "start", "fontSize": TEXT}} if titled else {}
        size = {"width": 560, "height": 240} if len(shown) == 1 else {"width": 270, "height": 150}
        size |= {"width": context.width - EDGES - BESIDE_AXIS} if context.is_narrow else {}
        inside = [{"filter": {"field": "panel", "equal": title}}]
        layers = [*_bands(bands, fills), _line(most, until, colour)]
        charts.append({"layer": layers, "transform": inside, **size, **header})
        rows += drawn
    return finish(side_by_side(charts, 1 if context.is_narrow else 2), rows, context.width)


def _bands(bands: list[Spec], fills: Mapping[str, str]) -> list[Spec]:
    """A rectangle behind the lines for each phase."""
    place = {"x": field("x:Q"), "x2": field("x2")}
    names = dict.fromkeys(band["phase"] for band in bands)
    return [
        layer("rect", place, f"datum.kind == 'band' && datum.phase == '{name}'", fill=fills[name], opacity=0.16)
        for name in names
    ]


def _rows(timeline: TransferTimeline) -> list[Spec]:
    """The points of all lines of a panel, which end with it."""
    rows: list[Spec] = []
    end = _end(timeline)
    for way, all_steps in timeline.steps.items():
        steps = [*((t, v) for t, v in all_steps[:-1] if t <= end), (min(end, all_steps[-1][0]), all_steps[-1][1])]
        every = -(-len(steps) // MOST_STEPS)
        kept = [*steps[:-1:every], steps[-1]]
        drawn = [(when, total) for when, total in kept if finite(when) and finite(total)]
        rows += [{"kind": "point", "x": when, "y": total, "colour": way} for when, total in drawn]
    return rows


def _line(most: float, until: float, colour: Spec) -> Spec:
    ticks = byte_ticks(max(most, 1.0))
    x_axis = {"grid": False, "labelExpr": time_label(1.0), "tickCount": 5}
    x = field("x:Q", title="time since recording began", scale={"domain": [0, until]}, axis=x_axis)
    y_axis = {"values": ticks, "labelExpr": size_label()}
    y = field("y:Q", title="bytes moved", scale={"domain": [0, ticks[-1]]}, axis=y_axis)
    test = "datum.kind == 'point'"
    return layer("line", {"x": x, "y": y, "color": colour}, test, strokeWidth=1.6, interpolate="step-after")
