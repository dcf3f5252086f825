"""Stacks: segments, totals, and that no bar mixes conditions."""

from __future__ import annotations

import sample
from drawn import drawing_of, drawn
from tests.texts import assert_states

from firsttouch.harness.outcomes.report import STACK, WITHOUT_CONTEXT
from firsttouch.records.figures import Stack
from firsttouch.report import stack
from firsttouch.report.svg import to_png, to_svg


def test_a_stack_has_segments_in_the_order_of_the_counters_and_a_total():
    drawing, texts = drawn(STACK, [sample.app("a", "explicit")])
    assert to_png(drawing.spec).startswith(b"\x89PNG")
    rows = [r for r in drawing.spec["datasets"]["rows"] if r["kind"] == "segment"]
    assert [r["segment"] for r in rows] == [*sample.PHASES]
    assert [r["start"] for r in rows][:3] == [0, 240, 240.9]
    assert [r["segment"] for r in rows if r["thin"]] == ["free"]
    assert {"explicit", "303 ms", "240 ms", *sample.PHASES, "phase"} <= set(texts)
    assert drawing.title == "Time of each phase"


def test_a_stack_without_a_segment():
    drawing, texts = drawn(WITHOUT_CONTEXT, [sample.app("a", "explicit")])
    assert "62.9 ms" in texts
    assert "context" not in texts
    assert "Left out: context." in drawing.notes


def test_conditions_never_share_a_bar():
    records = [sample.app("a", s, factors={"budget": b}) for s in ("explicit", "managed") for b in (50, 80)]
    drawing, texts = drawn(STACK, [*records, records[0]])
    assert {"budget 50 B", "budget 80 B"} <= set(texts)
    assert drawing.title.endswith("for each budget")
    assert_states(drawing.notes, "1 more point", "same conditions")
    assert sum(r["kind"] == "point" for r in drawing.spec["datasets"]["rows"]) == 4


def test_the_range_of_a_sum_is_a_whisker_and_its_text_stands_behind_it():
    counters = {"p_a_ms": 3.0, "p_b_ms": 5.0, "from": 6.0, "to": 40.0}
    record = sample.point("advice", "cpu", 8.0, factors={"strategy": "a"}, counters=counters)
    plain = Stack(x="strategy", series="p_{}_ms")
    ranged = Stack(x="strategy", series="p_{}_ms", bounds=("from", "to"))
    drawing, texts = drawn(ranged, [record])
    (bar,) = (r for r in drawing.spec["datasets"]["rows"] if r["kind"] == "point")
    assert (bar["low"], bar["y"], bar["high"]) == (6.0, 8.0, 40.0)
    assert "8 ms" in texts
    assert to_svg(drawing.spec) != to_svg(drawn(plain, [record])[0].spec)


def test_wrong_bars_are_crossed_out():
    drawing, _ = drawn(STACK, [sample.app("a", "explicit"), sample.app("a", "managed", verified=False)])
    assert drawing.wrong == 1
    assert to_svg(drawing.spec).count('stroke="#B00020"') == 1


def test_many_segments_are_combined():
    record = sample.point("app", "cpu", 1.0, factors={"strategy": "a"}, counters={f"p_{i}_ms": 1.0 for i in range(90)})
    parts = stack.segments(record, Stack(x="strategy", series="p_{}_ms"))
    assert len(parts) == stack.MOST_SEGMENTS + 1
    assert parts[stack.REST] == 90 - stack.MOST_SEGMENTS


def test_no_figure_without_segments():
    assert drawing_of(STACK, [sample.point("app", "cpu", 1.0, factors={"strategy": "a"})]) is None


def test_neighbouring_segments_have_a_gap_between_them_whatever_their_colours():
    counters = {"p_a_ms": 3.0, "p_b_ms": 5.0, "p_c_ms": 0.001, "p_d_ms": 4.0, "p_e_ms": 2.0}
    record = sample.point("advice", "cpu", 14.0, factors={"strategy": "a"}, counters=counters)
    drawing, _ = drawn(Stack(x="strategy", series="p_{}_ms"), [record])
    gaps = {r["segment"]: r["gap"] for r in drawing.spec["datasets"]["rows"] if r["kind"] == "segment"}
    assert gaps == {"a": False, "b": True, "c": False, "d": False, "e": True}
