"""What a paper states for points of a figure, drawn into it: diamonds, with a line over a stated range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.comparison.reproducing import beside_part, claims_of_part, points_of, shows, summary, values_of_part
from firsttouch.records.figures import Figure
from firsttouch.records.papers.rows import authors
from firsttouch.records.reading import Results, key_of
from firsttouch.records.schema import Record
from firsttouch.records.text import quantity
from firsttouch.report.chart import row
from firsttouch.report.drawing import DrawnStatement, DrawnStatements, Spec
from firsttouch.report.naming import unit
from firsttouch.report.palette import INK
from firsttouch.report.published import stated_text
from firsttouch.report.roles import Roles
from firsttouch.report.vega import layer

KIND = "stated"
"""Of the rows of data that are what a paper states."""
_LOOK: Spec = {
    "shape": "diamond", "filled": True, "color": "white", "stroke": INK, "strokeWidth": 1.8, "size": 95, "opacity": 1
}  # fmt: skip


def stated_values(results: Results) -> DrawnStatements:
    """Of a run that repeats a part of a paper; of another, none."""
    if results.reproduced is None:
        return DrawnStatements()
    found: dict[str, list[DrawnStatement]] = {}
    for stating, entry in beside_part(results, results.reproduced):
        assert stating.here is not None
        if not stating.here.relative_to:
            value = DrawnStatement(stating.here.metric, entry.unit, *entry.stated)
            for record in points_of(stating, entry, results.records):
                found.setdefault(key_of(record), []).append(value)
    return DrawnStatements(authors(results.reproduced.paper), found)


def stated_rows(
    stated: DrawnStatements, records: Iterable[Record], figure: Figure, roles: Roles, x: str, y: str
) -> list[Spec]:
    """A row of data for each value that a paper states of these points and that the figure has an axis for."""
    return [
        row(record, figure, roles, x, y)
        | {
            "kind": KIND,
            "flag": "",
            "y": (value.low + value.high) / 2,
            "low": value.low,
            "high": value.high,
            "text": "",
        }
        for record in records
        for value in stated.by_point.get(key_of(record), ())
        if value.metric == y and value.unit == unit(figure, y, record)
    ]


def _amounts(value: DrawnStatement) -> Spec:
    """What differs between the row of a point and that of what is stated of it."""
    middle = (value.low + value.high) / 2
    return {"kind": KIND, "flag": "", "y": middle, "low": value.low, "high": value.high, "text": "", "tip": []}


def stated_marks(place: Spec, value: str) -> list[Spec]:
    """The layers of these rows. place: the channels of position. value: that of the value, x or y."""
    end = {"x": "x2", "y": "y2"}[value]
    drawn = f"datum.kind == '{KIND}'"
    between = {**place, value: {**place[value], "field": "low"}, end: {"field": "high"}}
    return [
        layer("rule", between, drawn, color=INK, strokeWidth=2),
        layer(
            "point",
            place,
            drawn,
            shape="diamond",
            filled=True,
            color="white",
            stroke=INK,
            strokeWidth=1.8,
            size=95,
            opacity=1,
        ),
    ]


def note(stated: DrawnStatements, rows: Sequence[Spec]) -> list[str]:
    """What the diamonds are, in a sentence, if there are any."""
    return [f"Diamonds are what {stated.source} state."] if any(data["kind"] == KIND for data in rows) else []


@dataclass(frozen=True)
class RepeatedPart:
    """A part of a paper that a run repeats: its heading, what was found, and a table of what the paper states beside
    what is so here.
    """

    title: str
    summary: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def repeated_part(results: Results) -> RepeatedPart | None:
    """What a page says first of a run that repeats a part of a paper; None of another run."""
    reproduced = results.reproduced
    if reproduced is None:
        return None
    values, claims = values_of_part(results, reproduced), claims_of_part(results, reproduced)
    predicted = any(value.predicted for value in values)
    rows = [
        [
            "from the paper" if value.not_independent else "differs" if value.differs else "alike",
            value.says.rstrip("."),
            stated_text(value.stated, value.unit, value.qualifier),
            quantity(value.value, value.unit),
        ]
        for value in sorted(values, key=lambda v: (bool(v.not_independent), not v.differs))
    ]
    rows += [
        ["from the paper" if claim.not_independent else claim.verdict, claim.text, "", ""]
        for claim in sorted(claims, key=lambda c: (bool(c.not_independent), c.verdict == "holds"))
    ]
    title = f"{reproduced.part} of {authors(reproduced.paper)}"
    about = shows(reproduced.paper, reproduced.part)
    return RepeatedPart(
        f"{title}: {about}" if about else title,
        summary(reproduced, values, claims),
        ("", "the paper states", "published", "predicted" if predicted else "here"),
        rows,
    )
