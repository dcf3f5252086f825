"""Figures as data: one small class per kind. report/ has one drawing module for each.

Names of what is shown (x, y, z, colour, dash, facet, columns) are those of a factor, of a counter, of `median` (of the
samples), or of `device`. A factor that varies and that no field names gets a colour, a dash or a panel of its own, so
that no mark mixes different conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from firsttouch.records.schema import Scalar


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What all kinds have in common."""

    title: str = ""
    """What the figure shows; without it the caption is made of the names of what is shown."""
    where: Mapping[str, Scalar] = field(default_factory=dict)
    """Only records whose factors or counters have these values are shown."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What factors and counters are called on axes, legends and columns, where their own names say too little."""
    series: str = ""
    """A pattern of counter names with one {}, such as 'iteration_{}_ms': each counter that matches is shown as a point
    of its own, whose `series` is what {} stands for (a number where it reads as one) and whose `value` is the counter.
    """


@dataclass(frozen=True, kw_only=True)
class Line(Figure):
    """y over x, one line per colour and dash, with the 95 % interval of a median as a band."""

    x: str
    y: str = "median"
    colour: str = "allocator"
    dash: str = ""
    facet: str = ""
    log_x: bool = False
    log_y: bool = False
    x_title: str = ""
    y_title: str = ""
    order: Sequence[str] = ()
    """The values that `colour` may take, in an order that fixes the colour of each in every report."""
    levels: Literal["", "caches", "tlb"] = ""
    """Name the plateaus of one curve of each panel: as levels of caches, over bytes; or of translation caches, over
    pages.
    """


@dataclass(frozen=True, kw_only=True)
class Bar(Figure):
    """One horizontal bar of length y per x and colour, with the 95 % interval of a median as a whisker."""

    x: str
    y: str = "median"
    colour: str = "allocator"
    facet: str = ""
    log_y: bool = False
    x_title: str = ""
    y_title: str = ""


@dataclass(frozen=True, kw_only=True)
class Stack(Figure):
    """One bar per x: the counters of `series` end to end, in the order of the records, with their sum at its end."""

    x: str
    facet: str = ""
    x_title: str = ""
    y_title: str = ""
    without: Sequence[str] = ()
    """Segments to leave out, by what {} of `series` stands for."""


@dataclass(frozen=True, kw_only=True)
class Heat(Figure):
    """A cell per x and y, coloured by z and labelled with it."""

    x: str
    y: str
    z: str = "median"
    facet: str = ""
    x_title: str = ""
    y_title: str = ""
    z_title: str = ""
    """What a cell shows, with its unit; without it z's own name or the experiment's unit."""
    z_unit: str = ""
    """'B': cells read as bytes; '': as plain numbers."""
    centre: float | None = None
    """The value that is neither good nor bad, such as 1 for a ratio; colours diverge from it."""


@dataclass(frozen=True, kw_only=True)
class Table(Figure):
    """One row per point and one column per name; 'verified' is whether the data were right."""

    columns: Sequence[str]
