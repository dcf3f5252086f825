"""Selects what the one figure of a question shows: usual conditions in few panels. The whole figure is on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from firsttouch.machine.allocators.properties import is_common, variant
from firsttouch.records.figures import Bar, Figure, Line
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import distinct, value
from firsttouch.report import points
from firsttouch.report.roles import Roles, assign

MOST_PANELS = 2
FEW_ALLOCATORS = 3


def usual(figure: Figure, records: Sequence[Record]) -> list[Record]:
    """The records that a line or bar figure shows of a question at first: those in the usual memory; of a factor that
    the figure does not name and that would need panels of its own, the value that most points have; and the fullest
    panels.
    """
    shown = points.matching(figure, records) if not figure.series else list(records)
    if not isinstance(figure, Line | Bar):
        return shown
    shown = _in_usual_memory(shown)
    while extra := [n for n in _roles(figure, shown).panel if n != figure.facet and n in shown[0].factors]:
        wanted = _most_common(shown, extra[0])[0]
        shown = [r for r in shown if value(r, extra[0]) == wanted]
    if figure.facet and len(distinct(shown, figure.facet)) > MOST_PANELS:
        kept = _most_common(shown, figure.facet)[:MOST_PANELS]
        shown = [r for r in shown if value(r, figure.facet) in kept]
    return shown


def _in_usual_memory(records: Sequence[Record]) -> list[Record]:
    """Those of the usual allocators, if there are any. Of few allocators also those that differ from them in what is
    cached or coherent, since a call that measures few compares these.
    """
    names = {name: str(name) for name in distinct(records, "allocator")}
    few = len(names) <= FEW_ALLOCATORS
    kept = {
        name for name, text in names.items() if is_common(text) or (few and variant(text) in ("caching", "coherence"))
    }
    return [r for r in records if r.factors.get("allocator") in kept] or list(records)


def _roles(figure: Line | Bar, records: Sequence[Record]) -> Roles:
    drawn = points.complete(points.select(figure, records), figure.y, figure.x)
    if isinstance(figure, Bar):
        apart = (figure.x,)
        return assign(drawn, axes=(figure.x, figure.y), apart=apart, colour=figure.colour, facet=figure.facet)
    return assign(drawn, axes=(figure.x, figure.y), colour=figure.colour, dash=figure.dash, facet=figure.facet)


def _most_common(records: Sequence[Record], name: str) -> list[Scalar]:
    """The values of a factor, the most frequent first; of equally frequent ones, the first in the records."""
    return [v for v, _ in Counter(value(r, name) for r in records).most_common()]
