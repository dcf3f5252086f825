"""`firsttouch compare`: its output, its page, its exit status."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from tests.calls import call
from tests.comparison.runs import CPU, copy, slower
from tests.texts import assert_states

from firsttouch.base.errors import NOT_JUDGED


@pytest.fixture(scope="module")
def slow(tmp_path_factory) -> str:
    """Three runs."""
    folder = tmp_path_factory.mktemp("slow")
    return ",".join(copy(folder / f"slow{i}", slower("latency", 1.1)) for i in range(3))


def test_one_run_a_side_is_not_judged_by_a_limit(slow):
    words = ("compare", CPU, slow.partition(",")[0], "--fail-over", "5%")
    done, found = call(*words), json.loads(call(*words, "--json").stdout)
    assert done.returncode == NOT_JUDGED
    assert ([Path(side).name for side in found["cannot_tell"]], found["regressions"]) == (["slow0"], [])
    assert_states(done.stdout.splitlines(), "limit", "slow0")
    assert "clearly worse" not in done.stdout
    assert f"  for i in 2 3; do firsttouch run --device cpu --device opencl:0 --out {CPU}" in done.stdout


def test_a_regression_ends_with_status_1_and_is_named(slow):
    done = call("compare", CPU, slow, "--fail-over", "5%")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert lines[:3] == ["Conditions that differ", "runs  1 (xeon-vm-quick), 3 (slow0)".ljust(len(lines[1])), ""]
    assert lines[3].startswith("slow0 (3 runs) against xeon-vm-quick")
    named = lines[next(i for i, line in enumerate(lines) if line.endswith("regressions of more than 5 %")) + 1 :]
    assert all("latency on " in line for line in named[:4])
    assert call("compare", CPU, slow, "--fail-over", "20%").returncode == 0


def test_json_is_the_only_output_on_stdout_and_the_page_escapes_all_text(tmp_path):
    def fewer(record):
        if record["experiment"] != "faultcount":
            record |= {"status": "skipped", "summary": None, "samples": []}

    hostile = copy(tmp_path / "<img src=x>", slower("faultcount", 2), fewer)
    done = call("compare", CPU, hostile, "--json", "--out", tmp_path / "page")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["report"] == str(tmp_path / "page" / "compare.html")
    page = Path(found["report"]).read_text()
    assert "faultcount on cpu" in page
    assert "<svg" in page
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "y", "--fail-over", "much"], "--fail-over 'much' is not a percentage such as 5%"),
        ([CPU], "name a second directory"),
    ],
)
def test_a_wrong_call_is_one_sentence(arguments, message):
    done = call("compare", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("firsttouch: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_directory_that_is_being_written_is_refused(tmp_path):
    running = Path(copy(tmp_path / "running"))
    with (running / "results.jsonl").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = call("compare", CPU, running)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert_states(done.stderr, str(running), "being written", "wait")
