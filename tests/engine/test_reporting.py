"""A report that can't be drawn costs one sentence; the run has ended well all the same."""

from __future__ import annotations

import json
import os
import resource
import subprocess

import pytest
from tests.calls import COMMAND, call
from tests.matrix import matrix
from tests.texts import assert_states

GiB = 2**30
SMALL = ("latency", "--device", "cpu", "--set", "size=4KiB", "--set", "allocator=malloc")
ABORT = "import os, sys\nif 'firsttouch.report' in sys.orig_argv: os.kill(os.getpid(), 6)\n"


def limit(which, most):
    return lambda: resource.setrlimit(which, (most, most))


def close_stdin():
    os.close(0)


def report_of(out, prepare):
    """Runs a minimal experiment in a process that `prepare` has limited."""
    return subprocess.run(
        [*COMMAND, "run", *SMALL, "--out", str(out)],
        capture_output=True, text=True, check=False, timeout=100, preexec_fn=prepare,
    )  # fmt: skip


@pytest.mark.parametrize("most", matrix([4 * GiB, 16 * GiB]))
@pytest.mark.slow
def test_too_little_address_space_for_the_renderer(tmp_path, most):
    out = tmp_path / "out"
    done = report_of(out, limit(resource.RLIMIT_AS, most))
    assert done.returncode == 0, done.stderr
    assert (out / "results.jsonl").read_text().count("\n") == 1
    if not (out / "report.html").exists():  # what the renderer needs depends on its version
        (line,) = [line for line in done.stderr.splitlines() if "not drawn" in line]
        assert_states(line, "warning: ", f"firsttouch report {out} ")


def test_a_renderer_that_aborts_leaves_the_old_report_and_the_exit_status(tmp_path):
    """A module that ends its process while the report is drawn, as the JavaScript engine may."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("old")
    (tmp_path / "sitecustomize.py").write_text(ABORT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = call("run", *SMALL, "--out", out, drawn=True, drawn_by_process=True, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "SIGABRT" in line]
    assert_states(line, "warning: ", "not drawn", f"firsttouch report {out} ")
    assert (out / "report.html").read_text() == "old"
    assert sorted(p.name for p in out.iterdir()) == ["machine.json", "report.html", "results.jsonl", "run.json"]


@pytest.mark.parametrize(
    "prepare", matrix([close_stdin, limit(resource.RLIMIT_NOFILE, 64)], 1), ids=["stdin", "descriptors"]
)
@pytest.mark.slow
def test_closed_stdin_and_few_descriptors(tmp_path, prepare):
    out = tmp_path / "out"
    done = report_of(out, prepare)
    assert done.returncode == 0, done.stderr
    assert (out / "report.html").read_text().rstrip().endswith("</html>")


def test_json_says_that_there_is_no_report(tmp_path):
    """A directory where the page should be: the child's own sentence is passed on."""
    out = tmp_path / "out"
    (out / "report.html").mkdir(parents=True)
    done = call("run", *SMALL, "--out", out, "--json", drawn=True, drawn_by_process=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] is None
    assert_states(done.stderr, "report was not drawn", f"{out}/report.html is a directory")


def test_the_report_command_says_that_the_renderer_failed(tmp_path):
    out = tmp_path / "out"
    assert call("run", *SMALL, "--out", out).returncode == 0
    (out / "report.html").write_text("old")
    (tmp_path / "sitecustomize.py").write_text(ABORT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = call("report", out, "--json", drawn_by_process=True, PYTHONPATH=path)
    assert done.returncode == json.loads(done.stdout)["error"]["exit_status"] == 1
    (line,) = done.stderr.splitlines()
    assert_states(line, "firsttouch: ", "report was not drawn", "SIGABRT")
    assert (out / "report.html").read_text() == "old"
