"""What a stacked bar is made of: its segments, the text within them and the sum at its end.

Nothing here draws; figures.py does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from firsttouch.analysis.statistics import series
from firsttouch.experiments.base import Figure
from firsttouch.report import heat
from firsttouch.report.text import count, label, quantity
from firsttouch.schema import Record

MOST_SEGMENTS = 12
"""Of one bar; what follows is one segment together."""
REST = "others"
CHARACTER, THIN = 4.6, 1.2
"""Pixels of one character within a segment, and below which a segment is drawn as a hairline."""


def segments(record: Record, figure: Figure) -> dict[str, float]:
    """The values of one bar by what they are called, in the order of the counters. What is no amount is left out."""
    found: dict[str, float] = {}
    for which, v in series(record, figure.series).items():
        name = label("series", which)
        if name in figure.without or isinstance(v, bool | str | None) or not 0 <= v < heat.HUGE:
            continue
        name = name if len(found) < MOST_SEGMENTS or name in found else REST
        found[name] = found.get(name, 0.0) + v
    return found


def with_sums(records: Sequence[Record], figure: Figure) -> list[Record]:
    """The records that have segments, with their sum as the counter 'value'."""
    made = []
    for record in records:
        if parts := segments(record, figure):
            factors = {name: v for name, v in record.factors.items() if name != "value"}
            counters = {**record.counters, "value": math.fsum(parts.values())}
            made.append(msgspec.structs.replace(record, factors=factors, counters=counters))
    return made


def rows(parts: Mapping[str, float], fills: Mapping[str, str], scale: float, unit: str) -> list[dict[str, Any]]:
    """One row per segment that is not zero. scale: pixels per unit of the values."""
    made, start = [], 0.0
    for name, v in parts.items():
        if v > 0:
            text = quantity(v, unit)
            fits = v * scale >= CHARACTER * len(text) + 6
            made.append({
                "kind": "segment",
                "segment": name,
                "start": start,
                "end": start + v,
                "middle": start + v / 2,
                "thin": v * scale < THIN,
                "text": text if fits else "",
                "ink": heat.ink_on(fills[name]) if fits else "",
            })  # fmt: skip
        start += v
    return made


def notes(figure: Figure, hidden: int) -> list[str]:
    """What the caption says of the bars."""
    said = ["The figure at the end of a bar is the sum of its segments; hairlines are segments too thin to draw."]
    if figure.without:
        said.append(f"Left out: {', '.join(figure.without)}.")
    if hidden:
        said.append(f"{count(hidden, 'more point')} of the same conditions only in the table.")
    return said
