"""Progress of a run where nobody watches."""

from __future__ import annotations

import time

import pytest

from firsttouch.cli import progress


def test_a_log_hears_of_a_run_that_has_nothing_to_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_QUIET", 0.01)
    lines = progress._Lines()
    lines.begin(4)
    lines.point("hotspot on opencl:0 strategy=explicit")
    lines.advance()
    told, end = "", time.monotonic() + 60
    while "1 of 4 points in " not in told and time.monotonic() < end:
        time.sleep(0.01)
        told += capsys.readouterr().err
    lines.end()
    assert "1 of 4 points in " in told
    assert " left; now hotspot on opencl:0 strategy=explicit" in told
