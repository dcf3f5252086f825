"""What a drawing module makes of a figure: a Vega-Lite specification, or the cells of a table.

Strings of a results file enter a specification only as data values, scale domains and titles, never as expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.report.palette import Palette

Spec: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A figure ready to be rendered: `columns` and `rows` for a table, else `spec`; notes caption it."""

    title: str
    spec: Spec | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    row_classes: list[str] = field(default_factory=list)
    """The CSS class of each row of a table."""
    wrong: int = 0
    """How many of the points shown failed verification."""


@dataclass(frozen=True)
class Context:
    """What a drawing module may know besides the figure and the records.

    device: whose records they are, None where that is unknown or they are of several.
    """

    device: DeviceInfo | None
    palette: Palette


Draw: TypeAlias = Callable[[Any, Sequence[Record], Context], Drawing | None]
"""Draws a figure of one kind over ok records; None where no record has what it shows."""
