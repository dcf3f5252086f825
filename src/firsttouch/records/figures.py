"""Descriptions of figures: one class for each kind of figure. report/ has a drawing module for each.

The fields x, y, z, colour, dash, facet and columns name a factor, a counter, `median` (of the samples) or `device`. A
factor that varies and that no field names gets separate colours, dashes or panels, so that no mark mixes different
conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from firsttouch.records.schema import Scalar


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The fields of all kinds of figures."""

    title: str = ""
    """The caption; without it the caption is composed of the names of the fields."""
    where: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    """Only records whose factors or counters have these values are shown; a tuple lists several."""
    note: str = ""
    """A sentence of the caption, in front of those that the figure's kind has."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of factors and counters on axes, legends and columns, if their names are not clear enough."""
    series: str = ""
    """A pattern of counter names with one {}, such as 'iteration_{}_ms'. Each matching counter is shown as a separate
    point: its `series` is the text that {} matches (converted to a number if possible), and its `value` is the counter.
    """
    parts: Mapping[str, str] = field(default_factory=dict)
    """What the last {} of `series` may match, each with the words for it, which are then the `part` of the point. What
    a {} before it matches is the `series`.
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
    mark: str = ""
    """A counter: a ring marks the points whose x is its value."""
    levels: Literal["", "caches", "tlb"] = ""
    """Label the plateaus of one curve in each panel: as levels of caches, over bytes, or of translation caches, over
    pages.
    """


@dataclass(frozen=True, kw_only=True)
class Bar(Figure):
    """One horizontal bar of length y per x and colour, from zero, with the 95 % interval of a median as a whisker; with
    log_y a dot.
    """

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
    """Segments to omit, by the text that {} of `series` matches."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What segments are called, by that text."""
    bounds: tuple[str, str] | None = None
    """The counters that are the range of the sum, which has a whisker then."""


@dataclass(frozen=True, kw_only=True)
class Heat(Figure):
    """A cell per x and y, coloured by z and labelled with it, after a ~ if its interval is wide."""

    x: str
    y: str
    z: str = "median"
    facet: str = ""
    x_title: str = ""
    y_title: str = ""
    z_title: str = ""
    """The title of the values with their unit; without it the name of z or the experiment's unit."""
    z_unit: str = ""
    """'B': values are formatted as bytes; '%': as whole numbers; '': as plain numbers."""
    centre: float | None = None
    """The value that is neither good nor bad, such as 1 for a ratio; colours diverge from it."""
    diagonal: str = ""
    """What the cells are whose x and y are the same, if those are not to be compared with the others: they are grey,
    with a scale of their own, and none of them is missed.
    """


@dataclass(frozen=True, kw_only=True)
class ByIteration(Figure):
    """For each iteration its time and, below, a line for each of `parts`: side by side for each value of `by`. Both {}
    of `series` are used; {} of `time` matches the same iterations.
    """

    by: str
    time: str
    y_title: str


@dataclass(frozen=True, kw_only=True)
class Timeline(Figure):
    """The bytes that unified memory moved over time, of points with events: one panel for each value of `by`, or the
    point that moved most. An experiment that declares none gets the latter.
    """

    by: str = ""


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline(Figure):
    """The memory in use on host and device over time, with phases as bands, of points that were sampled: side by side,
    one for each value of `by`. repeated: of each point the last repetition, which the title then says; a prediction has
    none.
    """

    by: str
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class Table(Figure):
    """One row per point and one column per name; 'verified' is whether the data were correct."""

    columns: Sequence[str]
