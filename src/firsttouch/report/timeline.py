"""Draws a TransferTimeline: the bytes that one point moved over time, one line per direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firsttouch.report.axes import byte_ticks, size_label, time_label
from firsttouch.report.chart import finish, numbers
from firsttouch.report.drawing import Drawing, Spec
from firsttouch.report.palette import COLOURS
from firsttouch.report.points import finite
from firsttouch.text import named

if TYPE_CHECKING:
    from firsttouch.records.timeline import TransferTimeline

MOST_STEPS = 1000


def draw_timeline(timeline: TransferTimeline) -> Drawing:
    import altair as alt

    rows: list[Spec] = []
    for way, steps in timeline.steps.items():
        every = -(-len(steps) // MOST_STEPS)
        kept = [*steps[:-1:every], steps[-1]]
        drawn = [(when, total) for when, total in kept if finite(when) and finite(total)]
        rows += [{"kind": "point", "x": when, "y": total, "colour": way} for when, total in drawn]
    most, until = max([*numbers(rows, "y"), 1.0]), max([*numbers(rows, "x"), 0.0])
    ticks = byte_ticks(most)
    ways = list(timeline.steps)
    x = alt.X("x:Q", title="time since the point began", scale=alt.Scale(domain=[0, until]))
    y = alt.Y("y:Q", title="bytes moved", scale=alt.Scale(domain=[0, ticks[-1]]))
    chart = (
        alt.Chart()
        .mark_line(strokeWidth=1.6, interpolate="step-after")
        .encode(
            x=x.axis(grid=False, labelExpr=time_label(1.0)),
            y=y.axis(values=ticks, labelExpr=size_label()),
            color=alt.Color("colour:N", title="", scale=alt.Scale(domain=ways, range=COLOURS[: len(ways)])),
        )
        .properties(width=560, height=240)
    )
    which = ", ".join(named(name, v) for name, v in timeline.factors.items()) or "the only one"
    notes = [f"The point that moved most: {which}.", "events.json has every point, for Perfetto."]
    return Drawing("Bytes moved by the driver over time", finish(chart, rows), notes=notes)
