"""--explain: which values decide a predicted time, and where another strategy becomes the fastest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec import structs

from firsttouch.base.errors import NotModelled, UsageError
from firsttouch.cli.measured import check_explained
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement
from firsttouch.experiments.contract.rules import Preset
from firsttouch.harness.explaining import explain
from firsttouch.harness.outcomes.explanations import Explanation
from firsttouch.harness.outcomes.predicted_terms import figures, with_terms
from firsttouch.model.platform import Platform, platform_of
from firsttouch.model.terms import Term
from firsttouch.profile.events.predicted_trace import write_predicted_trace
from firsttouch.records.schema import SCHEMA, DeviceInfo, Factors, Point, PredictedTerm, Record, Summary

DEVICE = "model:gh200"
GB = 10**9


class Passing(Experiment):
    """Copies at first, or uses data over the link in each iteration, if pages of the host are large more slowly."""

    name: ClassVar[str] = "app"

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [Factor("iterations", (10,), "count")]

    def predict(self, point: Point, platform: Any) -> Measurement:
        n, size = point.count("iterations"), point.factors.size("size")
        if size > 150e9:
            raise NotModelled("buffers that the device has no room for")
        link = size / platform.quantity("link.h2d").value * 1e-6
        own = size / platform.quantity("device.bandwidth").value * 1e-6
        large = platform.quantity("host.page").value > 4096
        if point["strategy"] == "explicit":
            return Measurement.predicted(3 * link + n * own)
        return Measurement.predicted(n * link * (2 if large else 1))


def records(**factors: Any) -> list[Record]:
    """Both strategies, in records as a run stores them."""
    rows = []
    platform = platform_of(DEVICE)
    for strategy in ("explicit", "pinned"):
        chosen = {"app": "passing", "strategy": strategy, "size": GB, "iterations": 10, **factors}
        (ms,) = Passing().predict(Point("app", DEVICE, Factors(chosen)), platform).samples
        names = ["link.h2d", "device.bandwidth", "host.page"]
        term = PredictedTerm(phase="compute", what="passes", bytes=GB, count=10, ms=ms, low=ms, high=ms, values=names)
        summary = Summary(n=1, median=ms, p5=ms, p95=ms, min=ms, max=ms, ci_low=ms, ci_high=ms)
        kept = Record(schema=SCHEMA, experiment="app", device=DEVICE, factors=Factors(chosen), unit="ms",
                      better="lower", status="ok", preset="quick", seed=1, started="")  # fmt: skip
        kept.samples, kept.summary, kept.terms, kept.modelled = [ms], summary, [term], platform.device.modelled
        kept.counters = {"phase_allocate_ms": 0.0, "phase_compute_ms": ms, "iteration_0_ms": ms}
        rows.append(kept)
    return rows


def records_of(times: dict[str, float]) -> list[Record]:
    """Records of strategies with other times."""
    first = records()[0]
    rows = []
    for strategy, ms in times.items():
        factors = Factors({**first.factors, "strategy": strategy})
        rows.append(structs.replace(first, factors=factors, summary=structs.replace(first.summary, median=ms)))
    return rows


def explained(**factors: Any) -> Explanation:
    (explanation,) = explain(records(**factors), lambda record: Passing())
    return explanation


def test_the_fastest_comes_first_with_the_values_that_move_it_most() -> None:
    explanation = explained()
    assert [point.strategy for point in explanation.strategies] == ["explicit", "pinned"]
    explicit, pinned = explanation.strategies
    assert [value.name for value in explicit.values] == ["link.h2d", "device.bandwidth"]
    link = explicit.values[0]
    assert link.low_ms == link.high_ms == explicit.ms, "a stated value has no range"
    assert link.tenth_ms == pytest.approx(explicit.ms - 3 / 375 * 1e3 * (1 - 1 / 1.1))
    assert [value.name for value in pinned.values] == ["link.h2d"]


def test_the_number_of_iterations_from_which_another_strategy_is_the_fastest() -> None:
    by_iterations = explained().crossings[0]
    assert [(p.strategy, p.first, p.last) for p in by_iterations.parts] == [("pinned", 1, 1), ("explicit", 2, 64)]
    for part in ("fastest by iterations", "pinned at 1", "explicit from 2 to 64"):
        assert part in by_iterations.text


@pytest.mark.parametrize(
    ("iterations", "along", "text"),
    [
        (3, "host.page", "pinned at 4 KiB, explicit from 16 KiB to 64 KiB"),
        (10, "share", "explicit from 1.6 % to 110 %"),
    ],
)
def test_the_page_and_the_size_at_which_another_is_the_fastest(iterations: int, along: str, text: str) -> None:
    crossing = next(c for c in explained(iterations=iterations).crossings if c.along == along)
    assert crossing.text.endswith(f": {text}")


def test_a_single_strategy_has_no_rival() -> None:
    (explanation,) = explain(records()[:1], lambda record: Passing())
    assert explanation.crossings == []


def test_measured_points_are_not_explained() -> None:
    rows = records()
    for row in rows:
        row.modelled = None
    assert explain(rows, lambda record: Passing()) == []
    for devices in ([], ["cuda:0"], ["model:gh200", "cpu"]):
        with pytest.raises(UsageError, match="--explain"):
            check_explained(devices)


def test_a_trace_has_points_phases_iterations_and_terms(tmp_path: Path) -> None:
    path = write_predicted_trace(tmp_path, records())
    assert path is not None
    events = json.loads(path.read_text())
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["name"] for e in slices} >= {"compute", "passes", "iteration 0"}
    points = [e for e in slices if "strategy" in e.get("args", {})]
    assert points[0].get("ts", 0) + points[0]["dur"] == pytest.approx(points[1]["ts"])
    assert any("predicted" in e["args"].get("name", "") for e in events if e["ph"] == "M")
    assert write_predicted_trace(tmp_path, []) is None
    again = write_predicted_trace(tmp_path, records())
    assert again is not None
    assert json.loads(again.read_text()) == events


def test_what_is_left_open_if_every_value_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(self: Passing, point: Point, platform: Any) -> Measurement:
        link = platform.quantity("link.h2d")
        terms = [Term("compute", "copy", 0, 1, 10.0, 10.0, 10.0 * link.high / link.low, ()),
                 Term("compute", "kernels", 0, 1, 90.0, 80.0, 120.0, ())]  # fmt: skip
        return Measurement.predicted(100.0, 90.0, sum(t.high for t in terms), terms=terms)

    rows = records_of({"explicit": 100.0})
    monkeypatch.setattr(Passing, "predict", predict)
    (explanation,) = explain(rows, lambda record: Passing())
    (point,) = explanation.strategies
    assert (point.exact_low, point.exact_high, point.widest) == (90.0, 130.0, "kernels")


def test_the_report_has_a_figure_of_the_largest_terms() -> None:
    (row, _) = records()
    (term,) = row.terms
    row.terms = [structs.replace(term, what=f"term {n}", ms=float(n)) for n in range(12)]
    (shown,) = with_terms([row])
    takes = {name: value for name, value in shown.counters.items() if name.startswith("takes_")}
    assert takes["takes_term 11_ms"] == 11
    assert takes["takes_all others_ms"] == sum(range(5))
    assert len(takes) == 8
    assert figures([row])
    row.terms = []
    assert not figures(with_terms([row]))


def test_strategies_that_cross_behind_the_fastest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(self: Passing, point: Point, platform: Any) -> Measurement:
        n = point.count("iterations")
        return Measurement.predicted({"explicit": 50 + n, "pinned": 2.0 * n, "managed": 1.0}[point.text("strategy")])

    rows = records()
    rows.append(structs.replace(rows[0], factors=Factors({**rows[0].factors, "strategy": "managed"})))
    monkeypatch.setattr(Passing, "predict", predict)
    (explanation,) = explain(rows, lambda record: Passing())
    by_iterations = explanation.crossings[0]
    assert [(o.strategy, o.other, o.first) for o in by_iterations.overtakings] == [("explicit", "pinned", 51)]
    assert "managed from 1 to 64" in by_iterations.text
    assert "than pinned from 51" in by_iterations.text


def test_a_value_within_whose_range_another_is_the_fastest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (link,) = [v for v in platform_of(DEVICE).values() if v.name == "link.h2d"]
    wide = dataclasses.replace(platform_of(DEVICE).quantity("link.h2d"), low=30.0)
    monkeypatch.setattr(Platform, "values", lambda self: [dataclasses.replace(link, content=wide)])
    rows = records(iterations=4)

    def predict(self: Passing, point: Point, platform: Any) -> Measurement:
        link = platform.given["link.h2d"][1].content.value if "link.h2d" in platform.given else 375.0
        return Measurement.predicted(10.0 if point["strategy"] == "explicit" else 375.0 * 8 / link)

    for row, ms in zip(rows, (10.0, 8.0), strict=True):
        row.summary = structs.replace(row.summary, median=ms)
    monkeypatch.setattr(Passing, "predict", predict)
    (explanation,) = explain(rows, lambda record: Passing())
    (decision,) = explanation.decisions
    assert (decision.strategy, decision.name) == ("explicit", "link.h2d")
    assert decision.text.endswith("if link.h2d were 30 GB/s")
