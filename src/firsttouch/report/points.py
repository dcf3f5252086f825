"""Selects the records that a figure shows, flags flawed ones, and writes the sentences of the caption."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firsttouch.records.figures import Figure
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import expand, group_by, value, varying
from firsttouch.records.text import count, meant, named
from firsttouch.report.roles import MOST_PANELS, MOST_SERIES, Roles

MOST_POINTS = 200
"""The most points of one line, and the most bars of a panel."""
OF_SERIES = ("series", "part")
"""Factors of the records of a series."""
FLAGS = {"wrong": "failed verification", "suspect": "suspect", "throttled": "throttled", "disturbed": "disturbed"}


def finite(v: Scalar) -> bool:
    return isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)


def flag(record: Record) -> str:
    """A key of FLAGS, or '' if the record has no flaw."""
    flaws = {"wrong": record.verified is False, "suspect": bool(record.suspect)}
    flaws |= {"throttled": bool(record.throttled), "disturbed": record.is_disturbed}
    return next((name for name, is_flawed in flaws.items() if is_flawed), "")


def flag_text(record: Record) -> str:
    """The flaw of a record in words, or '' if it has none."""
    kind = flag(record)
    if kind == "disturbed":
        return others_text(record)
    return f"suspect: {record.suspect}" if kind == "suspect" else FLAGS.get(kind, "")


def others_text(record: Record) -> str:
    return f"other programs used {100 * (record.others_share or 0):.0f} % of the processors"


def interval(records: Sequence[Record]) -> str:
    """What the interval of a value is: of a measurement, of a prediction, or of both."""
    predictions = sum(record.modelled is not None for record in records)
    kinds = [] if predictions == len(records) else ["the 95 % interval of the median of this run"]
    if predictions:
        kinds += ["the range that follows from the ranges of the platform's values (docs/model.md: how often it holds)"]
    return "; of predictions, ".join(kinds)


def select(figure: Figure, records: Sequence[Record]) -> list[Record]:
    """The records that the figure shows. For a series, there is one record for each of its counters."""
    expanded = expand(records, figure.series, figure.parts) if figure.series else records
    return matching(figure, expanded)


def matching(figure: Figure, records: Sequence[Record]) -> list[Record]:
    accepted = {name: wanted if isinstance(wanted, tuple) else (wanted,) for name, wanted in figure.where.items()}
    return [r for r in records if all(value(r, name) in values for name, values in accepted.items())]


def complete(records: Sequence[Record], amount: str, *names: str) -> list[Record]:
    """The records that can be drawn: `amount` is a finite number, and the others are not None."""
    return [r for r in records if finite(value(r, amount)) and all(value(r, n) is not None for n in names)]


def constants(figure: Figure, records: Sequence[Record]) -> list[str]:
    """A list with a sentence on the factors that are the same for all records, or an empty list."""
    names = [n for n in records[0].factors if n not in (*varying(records), *figure.where, *OF_SERIES)]
    held = {n: records[0].factors[n] for n in names if any(meant(r, n) is not None for r in records)}
    return ["Held constant: " + ", ".join(named(n, v) for n, v in held.items()) + "."] if held else []


def first_panels(roles: Roles, records: list[Record]) -> tuple[list[Record], list[str]]:
    """The records of the first MOST_PANELS panels, and a list with a sentence on the others, if there are any."""
    panels = list(group_by(records, *roles.panel)) if roles.panel else []
    if len(panels) <= MOST_PANELS:
        return records, []
    kept = {repr(p) for p in panels[:MOST_PANELS]}
    shown = [r for r in records if repr(tuple(value(r, n) for n in roles.panel)) in kept]
    return shown, [f"The first {MOST_PANELS} of {len(panels)} panels are drawn; the table has every point."]


def first_series(roles: Roles, records: list[Record]) -> tuple[list[Record], list[str]]:
    """The records of the MOST_SERIES series with the most points, and a list with a sentence on the others, if there
    are any.
    """
    names = [n for n in (roles.colour, roles.dash) if n]
    series = group_by(records, *names) if names else {}
    if len(series) <= MOST_SERIES:
        return records, []
    kept = {repr(key) for key, _ in sorted(series.items(), key=lambda item: -len(item[1]))[:MOST_SERIES]}
    shown = [r for r in records if repr(tuple(value(r, n) for n in names)) in kept]
    return shown, [f"{MOST_SERIES} of {len(series)} series are drawn; the table has every point."]


def thinned(roles: Roles, records: list[Record], *axes: str) -> tuple[list[Record], list[str]]:
    """At most about MOST_POINTS records of each line or panel, evenly, and a list with a sentence if any are left out.

    axes: names of which each line or panel has all values.
    """
    names = [n for n in (*roles.names, *axes) if n]
    shown: list[Record] = []
    for group in group_by(records, *names).values() if len(records) > MOST_POINTS else [records]:
        shown += group[:: -(-len(group) // MOST_POINTS)]
    left_out = len(records) - len(shown)
    return shown, [f"{left_out:,} of {len(records):,} points are left out evenly."] if left_out else []


def flaws(records: Sequence[Record]) -> list[str]:
    """A sentence on suspect points, one on points measured while throttled, and one on points that other programs
    disturbed, if there are any.
    """
    odd, hot, busy = ([r for r in records if flag(r) == name] for name in ("suspect", "throttled", "disturbed"))
    rules = ", ".join(dict.fromkeys(r.suspect for r in odd))
    sentences = [f"Hollow purple diamonds: {count(counted(odd), 'suspect point')} ({rules})."] if odd else []
    sentences += [f"Hollow brown triangles: {count(counted(hot), 'point')} taken while throttled."] if hot else []
    points = count(counted(busy), "point")
    return sentences + (
        [f"Hollow brown squares: {points} taken while other programs used the processors."] if busy else []
    )


def wrong(records: Sequence[Record]) -> int:
    """The number of measured points that failed verification."""
    return counted([r for r in records if flag(r) == "wrong"])


def counted(records: Sequence[Record]) -> int:
    """The number of measured points. All records of one series are one point."""
    of_series = [r for r in records if not r.factors.keys().isdisjoint(OF_SERIES)]
    return len(records) - len(of_series) + len({key_of(r, *OF_SERIES) for r in of_series})
