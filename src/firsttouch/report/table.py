"""Draws a Table: one row per point, equal rows only once."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.records.figures import Table
from firsttouch.records.schema import Record
from firsttouch.records.statistics import value
from firsttouch.records.text import RATIO, SECONDS, compact, label, quantity
from firsttouch.report.drawing import Drawing, DrawingContext
from firsttouch.report.naming import heading, unit
from firsttouch.report.points import FLAGS, finite, flag_text, select, wrong


def draw(figure: Table, records: Sequence[Record], _context: DrawingContext) -> Drawing | None:
    records = select(figure, records)
    if not records:
        return None
    marked = [(*(_cell(figure, n, r) for n in figure.columns), flag_text(r)) for r in records]
    rows = list(dict.fromkeys(marked))
    heads = [heading(figure, n) for n in figure.columns]
    title = figure.title or ", ".join(heads)
    classes = ["wrong" if row[-1] == FLAGS["wrong"] else "" for row in rows]
    if any(row[-1] for row in rows):
        heads.append("mark")
    return Drawing(
        title,
        columns=heads,
        rows=[list(row[: len(heads)]) for row in rows],
        row_classes=classes,
        wrong=wrong(records),
    )


def _cell(figure: Table, name: str, record: Record) -> str:
    """The text of one cell. A ratio, whose name begins with 'relative', has two decimals."""
    if name == "verified":
        return "not checked" if record.verified is None else label(name, record.verified)
    v = value(record, name)
    if not finite(v) or isinstance(v, str | None):
        return label(name, v)
    if name.startswith("relative"):
        return compact(v, RATIO)
    unit_name = unit(figure, name, record)
    with_unit = name in ("median", "value") or (unit_name in SECONDS and name in figure.titles)
    return quantity(v, unit_name) if with_unit else label(name, v)
