"""The table of drawing modules. A new kind of figure is a class in firsttouch/records/figures.py, a module, and a row
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from firsttouch.records import figures
from firsttouch.records.predicted import predicted_for
from firsttouch.records.schema import Record
from firsttouch.records.text import caption
from firsttouch.report import bar, by_iteration, heat, line, memory_timeline, stack, table, timeline
from firsttouch.report.drawing import Draw, Drawing, DrawingContext, marked
from firsttouch.report.lettering import PHONE

KINDS: Mapping[type[figures.Figure], Draw] = {
    figures.Line: line.draw,
    figures.Bar: bar.draw,
    figures.Stack: stack.draw,
    figures.Heat: heat.draw,
    figures.Table: table.draw,
    figures.ByIteration: by_iteration.draw,
    figures.Timeline: timeline.draw,
    figures.MemoryTimeline: memory_timeline.draw,
}


def with_narrow(
    draw_one: Draw,
    figure: figures.Figure,
    records: Sequence[Record],
    context: DrawingContext,
) -> Drawing | None:
    """A figure in the form for a page, and in that for a phone. draw_one: draws one of them."""
    drawing = draw_one(figure, records, context)
    if drawing is None or drawing.spec is None:
        return drawing
    narrow = draw_one(figure, records, replace(context, width=PHONE))
    return replace(drawing, narrow=narrow.spec if narrow else None)


def draw(figure: figures.Figure, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    """Draws a figure of ok records. Returns None if no record has what it shows."""
    drawing = KINDS[type(figure)](figure, records, context)
    notes = [figure.note] if figure.note else []
    if drawing is None:
        return None
    drawing = replace(drawing, title=caption(drawing.title), notes=[*notes, *drawing.notes])
    predictions = [record.modelled.device_name for record in records if record.modelled]
    return marked(drawing, predicted_for(predictions), in_part=len(predictions) < len(records))
