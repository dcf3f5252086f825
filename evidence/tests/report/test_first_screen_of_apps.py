"""The first screen of runs of one application, and of searches: numbers, advice and one picture from what is there."""

from __future__ import annotations

import re

import pytest
from tests.kept_runs import stored_run

from firsttouch.harness.outcomes.placements import GAIN
from firsttouch.records.reading import key_of, load_results
from firsttouch.records.statistics import measured
from firsttouch.report.conclusions import conclusions
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette

SCALE = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def read(name):
    results = load_results(stored_run(name))
    return conclusions(results), {key_of(r): r for r in measured(results.records)}


def picture(screen):
    drawing = draw(screen.figure, screen.shown, DrawingContext(None, Palette()))
    assert drawing
    rows = [row for row in drawing.spec["datasets"]["rows"] if row["kind"] == "point"]
    return " ".join(str(row[name]) for row in rows for name in ("panel", "x", "y"))


def times(text):
    """The times of a sentence in ms, without those of intervals."""
    said = re.findall(r"([0-9][0-9,.]*) (us|ms|s)\b", re.sub(r"\([^()]* to [^()]*\)", "", text))
    return [float(value.replace(",", "")) * SCALE[unit] for value, unit in said]


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("h200-fdtd3d", {"explicit", "managed+prefetch", "managed+prefetch-overlap"}),
        ("h200-black-scholes", {"explicit", "managed+prefetch", "managed+prefetch-overlap"}),
        ("h200-placements", {"dwt2d", "fdtd3d", "fft_conv_fused", "gemm", "nn", "nw", "particlefilter", "pathfinder"}),
        ("h200-gpu-share", {"bfs_concurrent", "kmeans_concurrent"}),
        ("h200-gpu-share-2", {"cfd_concurrent", "gaussian_concurrent"}),
        ("h200-producer-consumer", {"managed"}),
    ],
)
def test_numbers_are_times_of_runs_and_the_picture_shows_the_same(name, heads):
    found, records = read(name)
    assert {number.head for number in found.screen.numbers} == heads
    for number in found.screen.numbers:
        point = records[number.finding.points[0]]
        assert number.head in (point.factors["app"], point.factors["strategy"])
        own, *others = times(number.text)
        assert own == pytest.approx(point.summary.median, rel=0.06)
        compared = number.finding.comparison
        assert others == ([pytest.approx(compared.value.value, rel=0.06)] if others else [])
    shown = picture(found.screen)
    assert all(head in shown for head in heads)


@pytest.mark.parametrize("name", ["h200-fdtd3d", "h200-black-scholes"])
def test_advice_for_one_application_names_what_is_not_clearly_slower_than_the_fastest(name):
    found, records = read(name)
    (advised,) = found.screen.advice
    best = min(records.values(), key=lambda r: r.summary.median)
    good = {r.factors["strategy"] for r in records.values() if r.summary.ci_low <= best.summary.ci_high}
    conditions = advised.finding.conditions
    assert set(conditions.get("equals", [conditions["best"]])) == good
    explicit = next(r for r in records.values() if r.factors["strategy"] == "explicit")
    taken = next(r for r in records.values() if r.factors["strategy"] == conditions["best"])
    values = [advised.finding.value, advised.finding.details["other"]]
    assert [value.value for value in values] == [r.summary.median for r in (taken, explicit)]


def test_advice_of_searches_says_what_they_found():
    found, records = read("h200-gpu-share")
    (advised,) = found.screen.advice
    assert advised.finding.claim.id == "advice.shares"
    assert advised.finding.conditions["app"] == ("bfs_concurrent", "kmeans_concurrent")
    assert all(r.counters["best_share"] == 1 for r in records.values())
    found, _ = read("h200-placements")
    gains = [f for part in found.answers for f in part.answer.findings if f.claim is GAIN]
    conditions = found.screen.advice[-1].finding.conditions
    assert (conditions["faster"], conditions["of"]) == (len(gains), 8)
