"""Draws TransferTimelines: the bytes that points moved over time, one line per direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firsttouch.analysis.statistics import distinct
from firsttouch.figures import Timeline
from firsttouch.records.schema import Record
from firsttouch.report.axes import byte_ticks, size_label, time_label
from firsttouch.report.chart import finish, numbers, side_by_side
from firsttouch.report.drawing import Drawing, DrawingContext, Spec
from firsttouch.report.palette import COLOURS
from firsttouch.report.points import MOST_PANELS, finite
from firsttouch.report.vega import field, layer
from firsttouch.text import count, label, named

if TYPE_CHECKING:
    from firsttouch.records.timeline import TransferTimeline

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
    return Drawing(title, _panels(shown, titled=bool(figure.by)), notes=notes)


def _which(figure: Timeline, shown: Sequence[TransferTimeline]) -> str:
    """The sentence on the points that are drawn."""
    if len(shown) > 1:
        return f"Of each {figure.by}, the point that moved most; each panel has its own axes."
    which = ", ".join(named(name, v) for name, v in shown[0].factors.items()) or "the only one"
    return f"The point that moved most: {which}."


def _panels(shown: dict[str, TransferTimeline], *, titled: bool) -> Spec:
    ways = list(dict.fromkeys(way for timeline in shown.values() for way in timeline.steps))
    colour = field("colour:N", title="", scale={"domain": ways, "range": [*COLOURS[: len(ways)]]})
    rows: list[Spec] = []
    charts = []
    for title, timeline in shown.items():
        drawn = [{**row, "panel": title} for row in _rows(timeline)]
        header = {"title": {"text": title, "anchor": "start", "fontSize": 11}} if titled else {}
        size = {"width": 560, "height": 240} if len(shown) == 1 else {"width": 270, "height": 150}
        inside = [{"filter": {"field": "panel", "equal": title}}]
        charts.append({"layer": [_line(drawn, colour)], "transform": inside, **size, **header})
        rows += drawn
    return finish(side_by_side(charts), rows)


def _rows(timeline: TransferTimeline) -> list[Spec]:
    """The points of all lines of a panel."""
    rows: list[Spec] = []
    for way, steps in timeline.steps.items():
        every = -(-len(steps) // MOST_STEPS)
        kept = [*steps[:-1:every], steps[-1]]
        drawn = [(when, total) for when, total in kept if finite(when) and finite(total)]
        rows += [{"kind": "point", "x": when, "y": total, "colour": way} for when, total in drawn]
    return rows


def _line(rows: list[Spec], colour: Spec) -> Spec:
    most, until = max([*numbers(rows, "y"), 1.0]), max([*numbers(rows, "x"), 0.0])
    ticks = byte_ticks(most)
    x_axis = {"grid": False, "labelExpr": time_label(1.0), "tickCount": 5}
    x = field("x:Q", title="time since recording began", scale={"domain": [0, until]}, axis=x_axis)
    y_axis = {"values": ticks, "labelExpr": size_label()}
    y = field("y:Q", title="bytes moved", scale={"domain": [0, ticks[-1]]}, axis=y_axis)
    return layer("line", {"x": x, "y": y, "color": colour}, strokeWidth=1.6, interpolate="step-after")
