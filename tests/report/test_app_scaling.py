"""Times of applications over less and less device memory, and over sizes and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sample

from firsttouch.figures import Line
from firsttouch.outcomes import report
from firsttouch.records.schema import Record


def lines(records: Sequence[Record]) -> list[tuple[str, str, str]]:
    """x, y and panels of the lines in the first section."""
    figures = report.sections(records, {}, {})[0].figures
    return [(f.x, f.y, f.facet) for f in figures if isinstance(f, Line) and not f.series]


def runs(app: str, factor: str, values: Sequence[Any], **counters: Any) -> list[Record]:
    return [
        sample.app(app, strategy, factors={factor: value}, counters={**counters, f"param_{factor}": value})
        for strategy in ("managed", "system")
        for value in values
    ]


def test_less_and_less_memory_is_an_axis_of_every_application() -> None:
    ratios = [0.5, 1.25, 2.0]
    one, other = (runs(app, "oversubscribe", ratios, without_initialise_ms=50) for app in ("nw", "bfs"))
    assert ("oversubscribe", "without_initialise_ms", "") in lines(one)
    assert lines([*one, *other])[0] == ("oversubscribe", "without_initialise_ms", "app")


@pytest.mark.parametrize(
    ("factor", "values", "drawn"),
    [
        ("qubits", (17, 19, 33), True),
        ("size", (2**20, 2**25, 2**30), True),
        ("rows", (100, 200), False),
        ("size", ("tiny", "default", 2**20), False),
        ("circuit", ("volume", "mirror", "other"), False),
    ],
)
def test_a_size_or_a_parameter_with_several_values_is_an_axis(factor: str, values: Sequence[Any], drawn: bool) -> None:
    assert lines(runs("quantum_volume", factor, values)) == ([(factor, "median", "")] if drawn else [])
