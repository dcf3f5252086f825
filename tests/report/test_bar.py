"""Bars: what they show, and that no bar mixes conditions."""

from __future__ import annotations

import pytest
import sample
from drawn import drawn, point
from tests.texts import assert_states

from firsttouch.records.figures import Bar, Line
from firsttouch.records.findings import quantity
from firsttouch.report.sentences import quantity_text


def test_each_counter_of_a_series_is_a_bar_with_its_time():
    records = [point({"allocator": "malloc"}, counters={"cost_read_us": 1500.0, "cost_write_us": 2.0})]
    _, texts = drawn(Bar(x="series", y="value", series="cost_{}_us"), records)
    assert {"read", "write", "1.5 ms", "2 us"} <= set(texts)


def test_a_bar_has_a_whisker_where_it_is_a_median():
    records = [point({"allocator": a}, median) for a, median in (("malloc", 40.0), ("pinned", 60.0))]
    drawing, texts = drawn(Bar(x="allocator", y_title="time, ns"), records)
    assert [(r["x"], r["low"], r["y"], r["high"]) for r in drawing.spec["datasets"]["rows"]] == [
        ("malloc", 40.0 * 0.988, 40.0, 40.0 * 1.012),
        ("pinned", 60.0 * 0.988, 60.0, 60.0 * 1.012),
    ]
    assert drawing.title == "Time by allocator"
    assert drawing.notes == ["Whiskers are the 95 % interval of the median of this run."]
    assert {"malloc", "pinned", "40 ns", "60 ns"} <= set(texts)


def test_other_conditions_get_colours_then_panels():
    records = [
        point({"allocator": a, "agent": g, "order": o}, 10.0 * n)
        for n, (a, g, o) in enumerate(((a, g, o) for a in "ab" for g in ("cpu", "gpu") for o in ("up", "down")), 1)
    ]
    drawing, texts = drawn(Bar(x="allocator", colour="agent"), records)
    assert {"order up", "order down", "cpu", "gpu"} <= set(texts)
    assert [texts.count(f"{10 * n} ns") for n in range(1, 9)] == [1] * 8
    assert_states(drawing.title, "allocator", "agent", "order")


def test_a_tuple_of_a_condition_lists_the_series_that_are_shown():
    records = [point({"pages": 1}, counters={"mean_ns": 900.0, "p50_ns": 800.0, "p95_ns": 1100.0})]
    figure = Bar(x="pages", y="value", colour="series", series="{}_ns", where={"series": ("mean", "p95")})
    drawing, _ = drawn(figure, records)
    assert {row["text"] for row in drawing.spec["datasets"]["rows"]} == {"900 ns", "1.1 us"}


@pytest.mark.parametrize(
    ("experiment", "name", "gpu"),
    [("bandwidth", "agent", "gpu"), ("pagefault", "scenario", "gpu-major"), ("p2p-copy", "engine", "copy-engine")],
)
def test_the_threads_of_the_cpu_are_not_told_of_the_gpu(experiment, name, gpu):
    records = [
        sample.point(
            experiment, "x", 10.0, factors={"allocator": a, "access": c, name: agent, "threads": n}, counters={}
        )
        for a in "ab"
        for c in "cd"
        for agent, n in (("cpu", 0), ("cpu", 1), (gpu, 0))
    ]
    _, texts = drawn(Bar(x="allocator", colour="access", facet=name), records)
    assert {f"{name} cpu, all threads", f"{name} cpu, threads 1", f"{name} {gpu}"} <= set(texts)
    _, texts = drawn(Line(x="allocator", colour=name, dash="threads"), records)
    assert {"all", "1", "–"} <= set(texts)  # noqa: RUF001


def marks_of(drawing):
    """The mark of each layer, and whether it reaches from a start."""
    return [(layer["mark"]["type"], "x2" in layer["encoding"]) for layer in drawing.spec["layer"]]


def test_bars_begin_at_zero_and_a_logarithmic_axis_has_dots():
    records = [point({"allocator": a}, median) for a, median in (("malloc", 40.0), ("pinned", 6000.0))]
    plain, _ = drawn(Bar(x="allocator"), records)
    assert ("bar", True) in marks_of(plain)
    assert {row["zero"] for row in plain.spec["datasets"]["rows"]} == {0.0}
    assert plain.spec["layer"][0]["encoding"]["x"]["scale"]["domain"][0] == 0
    log, texts = drawn(Bar(x="allocator", log_y=True), records)
    assert "bar" not in dict(marks_of(log))
    assert "point" in dict(marks_of(log))
    assert {"40 ns", "6 us"} <= set(texts)


def test_what_is_pointed_at_has_the_time_and_its_interval():
    records = [point({"allocator": "malloc"}, 40.0, counters={"faults": 7.0})]
    drawing, _ = drawn(Bar(x="allocator", y="faults"), records)
    ((_, tip, *_),) = drawing.spec["usermeta"]["points"]
    assert tip.split("\N{BROKEN BAR}")[:3] == ["7", "", "median of the point 40 ns (39.5 to 40.5 ns)"]


@pytest.mark.parametrize("bars", [2, 4, 12])
def test_a_title_beside_few_bars_is_broken_into_lines(bars):
    records = [point({"allocator": f"a{i}"}, 40.0) for i in range(bars)]
    long_title = "a title that is longer than few bars are high"
    drawing, texts = drawn(Bar(x="allocator", x_title=long_title), records)
    title = drawing.spec["layer"][0]["encoding"]["y"]["title"]
    assert long_title in texts
    lines = [title] if isinstance(title, str) else title
    assert all(len(line) <= max(8, 22 * bars / 7) for line in lines)
    assert len(lines) == {2: 6, 4: 5, 12: 2}[bars]


@pytest.mark.parametrize(("median", "half"), [(165.2, 60), (2151, 700), (2151, 1), (0.0123, 0.004), (1, 0.001)])
def test_the_number_at_a_bar_is_the_one_in_sentences(median, half):
    record = point({"allocator": "malloc"}, median, spread=half / median)
    _, texts = drawn(Bar(x="allocator"), [record])
    assert quantity_text(quantity(record)) in texts
