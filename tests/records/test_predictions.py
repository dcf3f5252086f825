"""Two predictions differ clearly where no values of the platform, within their ranges, turn their order."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from firsttouch.records.findings import compare_medians, points_are_apart
from firsttouch.records.predictions import ratio_bounds
from firsttouch.records.schema import SCHEMA, Modelled, PredictedTerm, Record, Summary

GH200 = Modelled(platform="gh200", digest="a")


def predicted(*terms: tuple[str, float, float, float], modelled: Modelled = GH200) -> Record:
    """terms: the value that each rests on, and its time with its bounds in ms."""
    ms, low, high = (sum(term[i] for term in terms) for i in (1, 2, 3))
    summary = Summary(n=1, median=ms, p5=ms, p95=ms, min=ms, max=ms, ci_low=low, ci_high=high)
    rows = [
        PredictedTerm(phase="compute", what="w", bytes=1, count=1, ms=ms, low=low, high=high, values=[name])
        for name, ms, low, high in terms
    ]
    return Record(schema=SCHEMA, experiment="app", device="model:gh200", factors={"n": len(terms)}, unit="ms",
                  status="ok", better="lower", summary=summary, modelled=modelled, terms=rows)  # fmt: skip


LONG, SHORT = ("kernel", 100.0, 50.0, 200.0), ("kernel", 100.0, 50.0, 200.0)
COPY, FAULT = ("copy", 20.0, 10.0, 30.0), ("fault", 60.0, 50.0, 70.0)


def test_what_both_rest_on_is_at_one_place_of_its_range():
    faster, slower = predicted(LONG, COPY), predicted(SHORT, FAULT)
    assert faster.summary is not None
    assert slower.summary is not None
    assert faster.summary.ci_high > slower.summary.ci_low  # the intervals overlap
    assert points_are_apart(faster, slower)
    assert compare_medians(slower, faster).is_clear
    low, high = ratio_bounds(slower, faster) or (0.0, 0.0)
    assert (low, high) == pytest.approx(((200 + 50) / (200 + 30), (50 + 70) / (50 + 10)))


def test_the_bounds_are_the_extremes_over_all_ends():
    of, to = predicted(LONG, COPY, ("x", 7, 3, 19)), predicted(SHORT, FAULT, ("x", 70, 30, 190), ("y", 5, 1, 9))
    names = ("kernel", "copy", "fault", "x", "y")
    bounds = [{t.values[0]: (t.low, t.high) for t in r.terms} for r in (of, to)]
    ratios = []
    for ends in product((0, 1), repeat=len(names)):
        above, below = (sum(b[n][e] for n, e in zip(names, ends, strict=True) if n in b) for b in bounds)
        ratios.append(above / below)
    assert ratio_bounds(of, to) == pytest.approx((min(ratios), max(ratios)))


def test_predictions_for_two_platforms_have_nothing_in_common():
    of, other = predicted(LONG), predicted(SHORT, modelled=replace(GH200, digest="b"))
    assert ratio_bounds(of, other) is None
    assert not points_are_apart(of, other)


def test_terms_that_do_not_add_up_say_nothing():
    whole = predicted(LONG, COPY)
    assert ratio_bounds(whole, replace(whole, terms=whole.terms[:1])) is None
