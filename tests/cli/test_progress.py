"""Progress of a run whose stderr is not a terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.texts import assert_states

from firsttouch.cli import progress
from firsttouch.engine.planned import Planned
from firsttouch.experiments.contract.base import Point
from firsttouch.records.schema import SCHEMA, DeviceInfo, Factors, Metric, Record, Summary


def test_a_log_gets_the_state_of_a_run_without_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.01)
    metric, device = Metric("ms", "lower"), DeviceInfo("opencl:0", "opencl", "PoCL")
    todo = [
        Planned(Point("hotspot", "opencl:0", Factors({"strategy": strategy})), metric, device, name="hotspot")
        for strategy in ("explicit", "svm-fine")
    ]
    record = Record(schema=SCHEMA, experiment="hotspot", device="opencl:0", factors={}, unit="ms", status="ok",
                    samples=[1.0], summary=Summary(1, 1, 1, 1, 1, 1, 1, 1))  # fmt: skip
    shown = progress.RunProgress()
    shown.begin(Path("out"), todo, held=0)
    shown.point(todo[0])
    shown.recorded(todo[0], record)
    shown.point(todo[1])
    text = ""
    while (current := "hotspot on opencl:0 strategy=svm-fine") not in text:
        time.sleep(0.01)
        text += capsys.readouterr().err
    shown.end()
    assert_states(text.splitlines(), "1 of 2 points in ", " left", current)


def test_the_time_of_an_experiment_is_that_of_its_own_points(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a pair of devices have a worker of their own, so points of other experiments come between them."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    device = DeviceInfo("cuda:0", "cuda", "a GPU")
    points = [
        Planned(Point(name, "cuda:0", Factors({"n": n})), Metric("GB/s", "higher"), device, name=name)
        for name, n in (("p2p-copy", 1), ("bandwidth", 1), ("bandwidth", 2), ("p2p-copy", 2), ("p2p-copy", 3))
    ]
    shown = progress.RunProgress()
    monkeypatch.setattr(shown, "_screen", progress._PlainProgress())
    shown._screen.begin = lambda total: None  # type: ignore[method-assign]
    shown.begin(Path("out"), points, held=0)
    for seconds, planned in zip((2.0, 20.0, 40.0, 3.0, 0.0), points, strict=True):
        if seconds:
            shown.point(planned)
        clock[0] += seconds
        status = "ok" if seconds else "skipped"
        record = Record(schema=SCHEMA, experiment=planned.name, device="cuda:0", factors={}, unit="GB/s", status=status)
        shown.recorded(planned, record)
    text = capsys.readouterr().err
    assert "bandwidth on cuda:0: 2 ok, 60 s" in text
    assert "p2p-copy on cuda:0: 2 ok, 1 skipped, 5 s" in text


def test_a_log_gets_each_step_with_its_time_and_which_one_is_under_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.01)
    text = ""
    with progress.Steps() as steps:
        steps("plain")
        while "plain: under way for" not in text:
            time.sleep(0.01)
            text += capsys.readouterr().err
        steps("timed")
    lines = (text + capsys.readouterr().err).splitlines()
    ended = [line for line in lines if "under way" not in line]
    assert [line.split(": ")[1] for line in ended] == ["plain", "timed"]
