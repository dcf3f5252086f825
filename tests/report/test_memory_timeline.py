"""Memory over time: a column for each strategy, with its phases, the host and the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from drawn import domains_of, texts_of
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.harness.outcomes import report
from firsttouch.records.figures import MemoryTimeline
from firsttouch.records.schema import SCHEMA, Record, Summary
from firsttouch.records.timeline import MemoryCourse, Phase
from firsttouch.report.draw import draw
from firsttouch.report.drawing import Drawing, DrawingContext
from firsttouch.report.palette import Palette

MIB = 1 << 20
PHASES = [
    Phase("allocate", 0.0, 0.2),
    Phase("compute", 0.2, 0.9),
    *(Phase(f"iteration {i}", 0.3 + i / 10, 0.4 + i / 10, is_part=True) for i in range(6)),
    Phase("readback", 0.9, 1.0),
]


def course(host: float = 64, device: float = 32, seconds: float = 1.0, **more: Any) -> MemoryCourse:
    """Memory that rises to so many MiB on the host at a tenth, and on the device at half of its time."""
    facts = {"source": "NVML", "why": "", "apart": "", "interval": 0.01}
    return MemoryCourse(
        [Phase(p.name, p.start * seconds, p.end * seconds, p.is_part) for p in PHASES],
        [(0.0, 0.0), (0.1 * seconds, host * MIB)],
        [(0.0, 0.0), (0.5 * seconds, device * MIB)] if device else [],
        **{**facts, **more},
    )


def record(strategy: str, number: int, **factors: Any) -> Record:
    counters = {"timeline": f"timelines/{number:04}"}
    factors = {"app": "hotspot", "strategy": strategy, "timeline": "on", **factors}
    summary = Summary(3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    return Record(SCHEMA, "app", "cuda:0", factors, "ms", "ok", summary=summary, counters=counters, verified=True)


def draw_courses(courses: dict[str, MemoryCourse], records: Sequence[Record] = ()) -> Drawing:
    found = [record(name, number) for number, name in enumerate(courses, 1)]
    memory = {str(r.counters["timeline"]): courses[str(r.factors["strategy"])] for r in found}
    drawing = draw(MemoryTimeline(by="strategy"), records or found, DrawingContext(None, Palette(), memory=memory))
    assert drawing is not None
    return drawing


def rows_of(drawing: Drawing, **of: Any) -> list[dict[str, Any]]:
    assert drawing.spec is not None
    rows = drawing.spec["datasets"]["rows"]
    return [row for row in rows if all(row.get(name) == value for name, value in of.items())]


def test_strategies_are_side_by_side_with_common_scales() -> None:
    drawing = draw_courses({"explicit": course(host=128), "managed": course(device=64, seconds=2.0)})
    texts = texts_of(drawing)
    assert {"explicit, 1 s", "managed, 2 s", "Host", "Device", "compute", "peak 128 MiB", "peak 64 MiB"} <= {*texts}
    assert texts.count("Host") == texts.count("Device") == 2
    assert texts.count("128 MiB") == 2  # on the host's axis of both
    assert domains_of(drawing.spec, "x") == {(0, 2.0)}
    assert_states(drawing.notes, "All panels", "same scales")
    ends = [row["x"] for row in rows_of(drawing, part="line") if row["panel"] == "c0-host"]
    assert ends[-1] == 1.0  # the line ends with its phases


def test_phases_tell_their_time_and_by_how_much_memory_grew() -> None:
    apart = "a page may be in both counts."
    drawing = draw_courses({"managed": course(apart=apart)})
    assert drawing.spec is not None
    told = {text.split("\N{BROKEN BAR}")[0]: text for _, text, *_ in drawing.spec["usermeta"]["points"]}
    assert "200 ms to 900 ms, 700 ms" in told["compute"]
    assert "device +32 MiB" in told["compute"]
    assert "host +64 MiB" in told["allocate"]
    assert {"0", "1", "5"} <= {row["text"] for row in rows_of(drawing, part="band", row=1)}
    assert apart in drawing.notes
    assert_states(drawing.notes, "allocate, compute, readback")


def test_without_a_source_the_device_has_no_panel_but_a_reason() -> None:
    why = "the memory of opencl:0 is the host's"
    drawing = draw_courses({"explicit": course(device=0, source="", why=why)})
    assert "Device" not in texts_of(drawing)
    assert_states(drawing.notes, "not shown", why)
    assert not any("all programs" in note for note in drawing.notes)


def test_a_much_longer_strategy_does_not_squash_the_others() -> None:
    drawing = draw_courses({"explicit": course(seconds=0.8), "managed": course(seconds=20.0)})
    assert domains_of(drawing.spec, "x") == {(0, 800.0), (0, 20.0)}  # ms and s
    assert_states(drawing.notes, "Each panel", "own scale")
    assert "time in phases, ms" in texts_of(drawing)  # of the short one


def test_what_was_too_short_for_readings_is_named_and_not_drawn() -> None:
    drawing = draw_courses({"explicit": course(seconds=0.02), "managed": course()})
    assert_states(drawing.notes, "Not drawn", "10 ms", "explicit (20 ms)")
    assert not any("explicit" in text for text in texts_of(drawing))
    alone = draw_courses({"explicit": course(seconds=0.02)})
    assert (alone.spec, alone.rows) == (None, [["explicit", "20 ms"]])
    assert len(alone.notes) == 1
    assert_states(alone.notes, "Not drawn", "10 ms", "explicit (20 ms)")


def test_points_of_one_condition_are_drawn_and_it_is_named() -> None:
    records = [record("explicit", 1, size=MIB), record("explicit", 2, size=2 * MIB), record("managed", 3, size=2 * MIB)]
    memory = {f"timelines/{i:04}": course() for i in (1, 2, 3)}
    drawing = draw(MemoryTimeline(by="strategy"), records, DrawingContext(None, Palette(), memory=memory))
    assert drawing is not None
    assert any(note.startswith("Drawn: size 2 MiB. 1 other sampled point") for note in drawing.notes)


@pytest.mark.parametrize("columns", matrix([1, 2, 4, 14, 3, 7], 4))
def test_any_number_of_strategies_is_drawn(columns: int) -> None:
    drawing = draw_courses({f"strategy {i}": course() for i in range(columns)})
    assert texts_of(drawing).count("Host") == min(columns, 12)
    assert ("The first 12 of 14 are drawn." in drawing.notes) == (columns == 14)


def test_nothing_is_drawn_of_points_that_were_not_sampled() -> None:
    records = [record("explicit", 1)]
    assert draw(MemoryTimeline(by="strategy"), records, DrawingContext(None, Palette())) is None


def test_the_section_of_an_application_has_the_figure_if_points_were_sampled() -> None:
    (section,) = report.sections([record("explicit", 1)], {}, {})
    assert any(isinstance(figure, MemoryTimeline) for figure in section.figures)
    plain = record("explicit", 1)
    plain.counters = {}
    (section,) = report.sections([plain], {}, {})
    assert not any(isinstance(figure, MemoryTimeline) for figure in section.figures)
