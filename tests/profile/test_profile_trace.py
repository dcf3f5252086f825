"""`firsttouch profile --trace`, on the stand-in for CUPTI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.profile.calls import call
from tests.profile.test_trace_journal import driver  # noqa: F401  # a fixture

STANDIN_GPU = {"gpus": [{"name": "Stand-in", "total": 1 << 30, "used": [[0, 1 << 20], [0.2, 64 << 20]]}]}


@pytest.mark.slow
def test_of_a_program_that_knows_nothing(driver: Path, tmp_path: Path) -> None:  # noqa: F811
    standin = str(driver.with_name("libcupti.so"))
    environment = {**os.environ, "STANDIN": standin, "FIRSTTOUCH_LIB_CUPTI": standin, "STANDIN_CUPTI_REPEAT": "0"}
    out = tmp_path / "out"
    done = call("--trace", "--out", str(out), "--", str(driver), "1000", "return", env=environment, drawn=True)
    assert done.returncode == 0, done.stderr
    assert "h2d 1,0" in done.stderr
    summary = json.loads((out / "profile.json").read_text())
    trace = summary["trace"]
    assert trace["processes"] == 1
    assert trace["unified"]["h2d"]["records"] >= 1000
    sites = {row["place"]["function"]: row for row in trace["sites"]}
    assert "allocate_managed" in sites
    assert sites["allocate_managed"]["place"]["line"] > 0
    assert 'id="moves-by-allocation"' in (out / "report.html").read_text()
    names = {event["name"] for event in json.loads((out / "trace.json").read_text())}
    assert "host to device fault" in names
    assert len(done.stderr.splitlines()) <= 25


@pytest.mark.slow
def test_what_the_trace_takes_from_the_program_is_said_before_it_starts(driver: Path, tmp_path: Path) -> None:  # noqa: F811
    standin = str(driver.with_name("libcupti.so"))
    environment = {**os.environ, "STANDIN": standin, "FIRSTTOUCH_LIB_CUPTI": standin, "FIRSTTOUCH_LIB_CUDA": standin}
    program = ["--", "sh", "-c", f"echo started >&2; {driver} 0 return"]
    for options in (["--trace"], ["--check-copies"], []):
        done = call(*options, "--out", str(tmp_path / str(len(options)) / "".join(options)), *program, env=environment)
        before, _, _ = done.stderr.partition("started\n")
        assert ("torch.profiler" in before and "without --trace" in before) == bool(options)
