"""The figures of one kind of pair: those that its points support, each with the memory and the size that it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from firsttouch.experiments.views.pairs import BETWEEN, BY, MEMORY, OWNER, SIDES, is_own, kind_of, matrix
from firsttouch.records.figures import Bar, Figure, Heat, Line
from firsttouch.records.findings import number
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import distinct, group_by, measured, value
from firsttouch.records.text import label


def pair_figures(declared: Sequence[Figure], records: Sequence[Record]) -> list[Figure]:
    """The figures for these points, of which `derive` made OWNER, BY and BETWEEN known.

    The matrix of pairs, a Heat, is of their usual memory and size, and is left out for a single pair. Where one pair
    was measured with several allocators, bars and a matrix of source and target follow. Lines are of the pairs that
    have curves; allocators have the colours where there are more of them than of what the figure colours.
    """
    rows = measured(records)
    figures = [new for figure in declared for new in _figures_of_kind(figure, rows)] if rows else list(declared)
    has_curves = len(distinct(rows, "size")) > 1
    return [f for f in figures if has_curves or not isinstance(f, Line)] or figures


def _figures_of_kind(figure: Figure, rows: Sequence[Record]) -> list[Figure]:
    if isinstance(figure, Heat):
        # NUMA nodes are compared with their own memory.
        figure = replace(figure, diagonal="") if kind_of(rows[0]) == "node" else figure
        usual, where = _fullest(figure, matrix(_records_of_figure(figure, rows)))
        between = [r for r in usual if not is_own(r)] or usual
        several = len(group_by(between, BY, OWNER)) > 1
        pairs = [_figure_at_record(replace(figure, where={**figure.where, **where}), usual[0])] if several else []
        return [*pairs, *_by_memory(figure, rows)]
    with_curves = [name for (name,), some in group_by(rows, BY).items() if len(distinct(some, "size")) > 1]
    drawn = {BY: tuple(map(str, with_curves))} if with_curves else {}
    figure = replace(figure, where={**figure.where, **drawn})
    if not isinstance(figure, Line) or len(_distinct_names(rows, BETWEEN)) <= len(_distinct_names(rows, figure.colour)):
        return [figure]
    return [replace(figure, colour=BETWEEN, dash="" if figure.dash in (BETWEEN, *MEMORY) else figure.colour)]


def _fullest(
    figure: Heat, rows: Sequence[Record]
) -> tuple[Sequence[Record], Mapping[str, Scalar | tuple[Scalar, ...]]]:
    """The panels that have more than half as many pairs as the fullest, and what they have in common."""
    panels = group_by(rows, figure.facet) if figure.facet else {}
    pairs = {name: len(group_by(some, BY, OWNER)) for (name,), some in panels.items()}
    kept = tuple(name for name, n in pairs.items() if 2 * n > max(pairs.values()))
    if len(kept) == len(pairs):
        return rows, {}
    return [r for r in rows if value(r, figure.facet) in kept], {figure.facet: kept}


def _by_memory(figure: Heat, rows: Sequence[Record]) -> list[Figure]:
    """Bars and a matrix of the memory of one pair, at the size at which most allocators were measured."""
    found: list[Figure] = []
    pairs = group_by(_records_of_figure(figure, rows), BY, OWNER, "size").values()
    fullest = max(pairs, key=lambda some: (len(_distinct_names(some, BETWEEN)), number(some[0], "size")), default=[])
    alike = [r for r in fullest if " to " not in str(value(r, BETWEEN))]
    if len(_distinct_names(alike, BETWEEN)) > 1:
        colour = next((n for n in ("first_touch", "sdma", figure.facet) if len(_distinct_names(alike, n)) > 1), "")
        where = {BETWEEN: tuple(_distinct_names(alike, BETWEEN))}
        facet = figure.facet if figure.facet != colour else ""
        bars = Bar(x=BETWEEN, colour=colour, facet=facet, title=figure.title, y_title=figure.z_title, where=where)
        found.append(_figure_at_record(replace(bars, where={**figure.where, **where}), alike[0], pair=True))
    if len(alike) < len(fullest) and all(name in fullest[0].factors for name in SIDES):
        sides = replace(figure, x=SIDES[1], y=SIDES[0], x_title="target memory", y_title="source memory", diagonal="")
        found.append(_figure_at_record(sides, fullest[0], pair=True))
    return found


def _figure_at_record(figure: Figure, record: Record, *, pair: bool = False) -> Figure:
    """The figure at the size of a record, and of its pair, or of its memory. The title says so."""
    names = (BY, OWNER) if pair else tuple(name for name in MEMORY if name in record.factors)
    conditions: Mapping[str, Scalar | tuple[Scalar, ...]] = {name: value(record, name) for name in (*names, "size")}
    subject = f"{value(record, BY)} to {value(record, OWNER)}" if pair else f"{value(record, BETWEEN)} memory"
    title = f"{figure.title} ({subject}, {label('size', value(record, 'size'))})"
    return replace(figure, title=title, where={**figure.where, **conditions})


def _records_of_figure(figure: Figure, rows: Sequence[Record]) -> list[Record]:
    return [r for r in rows if all(value(r, name) == wanted for name, wanted in figure.where.items())]


def _distinct_names(rows: Sequence[Record], name: str) -> list[Scalar]:
    return distinct(rows, name) if name else []
