"""Progress of a run whose stderr is not a terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from firsttouch.cli import progress
from firsttouch.engine.planned import Planned
from firsttouch.experiment.base import Point
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
    text, end = "", time.monotonic() + 60
    while "; now hotspot on opencl:0 strategy=svm-fine" not in text and time.monotonic() < end:
        time.sleep(0.01)
        text += capsys.readouterr().err
    shown.end()
    assert "1 of 2 points in " in text
    assert " left; now hotspot on opencl:0 strategy=svm-fine" in text
