"""Times of applications over less and less device memory, and over sizes and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sample
from drawn import drawing_of, texts_of

from firsttouch.harness.outcomes import report
from firsttouch.harness.outcomes.derive import derive
from firsttouch.records.figures import Heat, Line
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


def test_an_application_with_several_values_of_its_parameter_is_several_rows_of_the_overview() -> None:
    """The studies' inputs: each application has parameters of its own, which say nothing about the others."""
    records = [
        sample.app(app, strategy, factors=own, counters={f"param_{name}": v for name, v in own.items()})
        for app, own in (("nw", {"n": 32}), ("hotspot", {"n": 16}), ("qv", {"qubits": 17}), ("qv", {"qubits": 19}))
        for strategy in ("explicit", "managed")
    ]
    section = report.sections(derive(records), {}, {})[0]
    figure = next(f for f in section.figures if isinstance(f, Heat) and f.z == "relative_time")
    drawn = texts_of(drawing_of(figure, section.records))
    assert {"nw", "hotspot", "qv, qubits 17", "qv, qubits 19"} <= set(drawn)
    assert not {"qubits 17", "no qubits and n"} & set(drawn)


def test_a_panel_of_points_without_its_factor_has_them() -> None:
    records = [
        sample.app("nw", strategy, factors=pages, counters={"relative_time": time})
        for strategy, time in (("explicit", 1.0), ("managed", 1.75), ("pinned", 1.6))
        for pages in ({}, {"pages": "huge"})
    ]
    drawn = texts_of(drawing_of(Heat(x="strategy", y="app", z="relative_time", centre=1), records))
    assert {"no pages", "pages huge"} <= set(drawn)
    assert drawn.count("1.60") == 2
