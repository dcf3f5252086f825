"""The output of a drawing module: a Vega-Lite specification, or the cells of a table.

Strings from a results file enter a specification only as data values, scale domains and titles, never as expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statements import headed
from firsttouch.records.text import caption
from firsttouch.records.timeline import MemoryCourse, TransferTimeline
from firsttouch.report.lettering import COLUMN, TEXT
from firsttouch.report.palette import Palette

Spec: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A figure ready to be rendered: `columns` and `rows` of a table, or `spec`. notes: the caption's sentences."""

    title: str
    spec: Spec | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    message: str = ""
    """What it shows, in one sentence with numbers; '' if no finding says that."""
    row_classes: list[str] = field(default_factory=list)
    """The CSS class of each row of a table."""
    wrong: int = 0
    """The number of points shown that failed verification."""
    predicted: str = ""
    """'predicted for gh200' if it shows predictions; '' otherwise."""
    narrow: Spec | None = None
    """The same figure as a phone shows it; None if it has one form."""


class DrawnFigure(NamedTuple):
    """A drawing with its SVG; '' if it has none. narrow: the one for a phone; '' if there is only one."""

    drawing: Drawing
    image: str
    narrow: str = ""


@dataclass(frozen=True)
class DrawnStatement:
    """A value that a paper states of a point. metric: of a record."""

    metric: str
    unit: str
    low: float
    high: float


@dataclass(frozen=True)
class DrawnStatements:
    """The values that a paper states of the part that a run repeats, by the keys of points. source: the paper."""

    source: str = ""
    by_point: Mapping[str, Sequence[DrawnStatement]] = field(default_factory=dict)


@dataclass(frozen=True)
class DrawingContext:
    """What a drawing module may use besides the figure and the records.

    device: the device of the records; None if it is unknown or if there are several. timelines: the bytes that their
    points moved over time. memory: the memory in use over time, by the folders that records name.
    """

    device: DeviceInfo | None
    palette: Palette
    timelines: Sequence[TransferTimeline] = ()
    memory: Mapping[str, MemoryCourse] = field(default_factory=dict)
    stated: DrawnStatements = field(default_factory=DrawnStatements)
    """What a paper states of the points."""
    width: int = COLUMN
    """The width in pixels that a figure may have: COLUMN or PHONE."""

    @property
    def is_narrow(self) -> bool:
        return self.width < COLUMN


def marked(drawing: Drawing, predicted: str, *, in_part: bool = False) -> Drawing:
    """A drawing of predictions, which its title, and the image itself, say. predicted: 'predicted for gh200'. in_part:
    other values of it were measured.
    """
    if not predicted:
        return drawing
    head = f"in part {predicted}" if in_part else predicted
    title, prediction = headed(drawing.title, head), caption(head)
    spec = drawing.spec
    if spec is not None:
        title_spec = spec.get("title") or {}
        texts = (
            {"text": title_spec}
            if isinstance(title_spec, str | list)
            else {"anchor": "start", "fontSize": TEXT, **title_spec}
        )
        first = {"text": texts["text"], "subtitle": prediction} if texts.get("text") else {"text": prediction}
        spec = {**spec, "title": {**texts, **first}}
    return replace(drawing, title=title, spec=spec, predicted=predicted)


Draw: TypeAlias = Callable[[Any, Sequence[Record], DrawingContext], Drawing | None]
"""Draws a figure of one kind, given ok records. Returns None if no record has what it shows."""
