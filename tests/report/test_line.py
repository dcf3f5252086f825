"""Lines: their points, dots and axes."""

from __future__ import annotations

import sample
from drawn import drawing_of, drawn, point
from tests.texts import assert_states

from firsttouch.harness.outcomes.report import ITERATIONS, SHARES
from firsttouch.records.figures import Line
from firsttouch.records.text import distinguishing_factors
from firsttouch.report.svg import to_svg


def iterations(advice, **more):
    counters = {f"iteration_{i}_ms": 10.0 * i + len(advice) for i in range(1, 13)}
    return point({"advice": advice}, counters={**counters, "passes": 12}, **more)


TIMES = Line(x="series", y="value", series="iteration_{}_ms", colour="advice", x_title="iteration")


def test_each_matching_counter_is_a_point():
    drawing, texts = drawn(TIMES, [iterations("none"), iterations("read-mostly")])
    assert {"iteration", "iteration ms", "none", "read-mostly", "2", "12"} <= set(texts)
    rows = drawing.spec["datasets"]["rows"]
    assert [(r["x"], r["y"]) for r in rows if r["colour"] == "none"] == [(i, 10.0 * i + 4) for i in range(1, 13)]
    assert not any("interval" in note for note in drawing.notes)
    assert 'fill-opacity="0.18"' not in to_svg(drawing.spec)
    assert "mark_area" not in str(drawing.spec)


def test_a_legend_and_a_caption_say_all_threads():
    figure = Line(x="pages", colour="threads")
    records = [point({"pages": n, "threads": threads}) for n in (1, 8) for threads in (0, 1)]
    drawing, texts = drawn(figure, records)
    assert {"threads", "all", "1"} <= set(texts)
    assert {r["colour"] for r in drawing.spec["datasets"]["rows"]} == {"all", "1"}
    assert "Held constant: all threads." in drawn(figure, [r for r in records if r.factors["threads"] == 0])[0].notes
    panels = drawn(Line(x="pages", facet="threads"), records)[0].spec["datasets"]["rows"]
    assert {r["panel"] for r in panels} == {"all threads", "threads 1"}


def test_points_of_all_threads_are_told_apart():
    records = [point({"threads": n}) for n in (0, 1, 2, 4)]
    assert distinguishing_factors(records[:1], records) == "all threads"
    assert distinguishing_factors(records[:3], records) == "threads all, 1, 2"
    assert distinguishing_factors(records[1:], records) == "threads 1 to 4"


def test_a_record_without_such_counters_contributes_nothing():
    drawing, _ = drawn(TIMES, [iterations("none"), point({"advice": "other"}, counters={"iteration__ms": 3, "x": 1})])
    assert len(drawing.spec["datasets"]["rows"]) == 12
    assert drawing_of(TIMES, [point({"advice": "other"})]) is None


def test_a_wrong_point_counts_once_however_long_its_series():
    drawing, _ = drawn(TIMES, [iterations("none", verified=False), iterations("other")])
    assert drawing.wrong == 1


def test_a_logarithmic_axis_with_a_zero_names_its_points():
    records = [point({"outside": n}, 50.0 + n) for n in (0, 100, 10_000)]
    _, texts = drawn(Line(x="outside", log_x=True, log_y=True), records)
    assert [text for text in texts if text in ("0", "100", "10,000")] == ["0", "100", "10,000"]
    assert "1,000" not in texts


def test_long_series_have_few_dots():
    drawing, texts = drawn(ITERATIONS, [sample.app("a", s, iterations=200) for s in sample.STRATEGIES])
    rows = drawing.spec["datasets"]["rows"]
    assert len(rows) == 1600  # of eight strategies
    assert any(note.startswith("8 of 10 series are drawn") for note in drawing.notes)
    assert sum(r["dot"] for r in rows) == 320
    assert rows[0]["dot"]
    assert {"iteration", "ms per iteration", "strategy", *list(sample.STRATEGIES)[:8]} <= set(texts)


def test_a_counter_per_second_is_a_rate_and_not_a_time():
    records = [point({"pages": n}, counters={"pages_per_s": n * 1e6}) for n in (1, 2, 4)]
    _, texts = drawn(Line(x="pages", y="pages_per_s", y_title="pages per second", log_y=True), records)
    assert not any(text.endswith(" s") for text in texts)


def test_small_times_have_their_unit_in_the_title_and_large_ones_at_the_ticks():
    figure = Line(x="size", y_title="time per load")
    _, small = drawn(figure, [point({"size": n}, 50.0 + n) for n in (1, 2)])
    assert "time per load, ns" in small
    _, large = drawn(figure, [point({"size": n}, 50_000.0 + n) for n in (1, 2)])
    assert "time per load" in large
    assert any(text.endswith(" us") for text in large)


def test_a_ring_marks_the_best_share_of_each_strategy():
    def searched(strategy, best, times):
        curve = {f"share_{share:g}_ms": ms for share, ms in times.items()}
        factors = {"app": "a", "strategy": strategy, "gpu_share": "best"}
        return point(factors, counters={**curve, "best_share": best, "best_speedup": 2.0})

    records = [searched("explicit", 0.5, {0: 3, 0.5: 1, 1: 2}), searched("pinned", 1, {0: 3.0, 0.5: 2.0, 1: 1.0})]
    drawing, texts = drawn(SHARES, [*records, point({"app": "a", "strategy": "managed", "gpu_share": 0.5})])
    rows = drawing.spec["datasets"]["rows"]
    assert {(r["colour"], r["x"]) for r in rows if r["marked"]} == {("explicit", 0.5), ("pinned", 1)}
    assert len(rows) == 6
    assert {"explicit", "pinned", SHARES.x_title} <= set(texts)
    assert "managed" not in texts
    assert "datum.marked" in str(drawing.spec)
    assert "datum.marked" not in str(drawn(TIMES, [iterations("none")])[0].spec)


def test_a_line_that_another_one_hides_is_named():
    figure = Line(x="size", colour="allocator")
    times = {"device": (1.0, 2.0), "pinned": (3.0, 4.0), "managed": (3.0, 4.0)}
    records = [point({"allocator": a, "size": 4096 * i}, t) for a, ts in times.items() for i, t in enumerate(ts, 1)]
    assert_states(drawn(figure, records)[0].notes, "pinned", "hidden", "managed")
    assert not any("hidden" in note for note in drawn(figure, records[:4])[0].notes)
    assert not any("hidden" in note for note in drawn(figure, records[2:5])[0].notes)  # a single common point
