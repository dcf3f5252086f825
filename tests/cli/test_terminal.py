"""The terminal: one width, errors of at most a screen, what to type next, and that a page is being drawn."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests import node_of_gpus
from tests.calls import call
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.cli import first_findings, output
from firsttouch.cli.console import Console
from firsttouch.cli.measured import Measured, next_command
from firsttouch.cli.progress import Waiting
from firsttouch.engine.runner import RunOutcome
from firsttouch.engine.work_kinds import APP, RUN
from firsttouch.records.reading import load_results
from firsttouch.report.conclusions import conclusions


@pytest.mark.parametrize(("columns", "width"), [("", 100), ("72", 72), ("400", 100), ("x", 100), ("0", 100)])
def test_the_width_is_that_of_the_terminal_but_not_more_than_one(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert output.text_width(io.StringIO()) == width


def test_without_a_terminal_tables_and_sentences_have_one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Console(file=io.StringIO()).width == output.text_width(io.StringIO()) == output.WIDTH


@pytest.mark.parametrize("words", [
    ["run", "x" * 5000], ["report", "x" * 5000], ["machine", "--" + "x" * 5000], ["compare", "a" * 200, "b" * 5000],
    ["run", "--set", f"size={'9' * 5000}"],
])  # fmt: skip
def test_no_error_is_longer_than_a_screen(words: list[str]) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert len(done.stderr) < 20 * 80


@pytest.mark.parametrize(
    ("name", "counts", "words"),
    [
        ("h200-quick", {}, "advise DIR"),
        ("xeon-vm-quick", {}, "compare DIR OTHER"),
        ("h200-quick", {"failed": 2}, "run --resume --retry --out DIR --module 'my own.py'"),
        ("h200-fdtd3d", {}, "advise DIR --app fdtd3d --module 'my own.py'"),
        ("h200-pagefault", {}, "compare DIR OTHER"),
        ("xeon-vm-quick on cpu", {}, "compare DIR OTHER"),
    ],
)
def test_the_next_command_is_one_that_can_be_typed(name: str, counts: dict[str, int], words: str) -> None:
    name, _, device = name.partition(" on ")
    results = load_results(stored_run(name))
    results.records = [r for r in results.records if device in ("", r.device)]
    outcome = RunOutcome(stored_run(name), results, counts, 0, {}, 0, 1.0)
    work = APP if name == "h200-fdtd3d" else RUN
    typed = next_command(work, Measured(outcome, conclusions(results)), ["my own.py"])
    assert typed == f"firsttouch {words}".replace("DIR", str(stored_run(name)))
    if words == "advise DIR":
        assert call(*typed.split()[1:]).returncode == 0


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_that_a_page_is_being_drawn(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    here, there = pty.openpty() if terminal else os.pipe()
    with os.fdopen(there, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        with Waiting("drawing the report"):
            pass
        stream.write("END")
        stream.flush()
        shown = b""
        while not shown.endswith(b"END"):
            shown += os.read(here, 4096)
    os.close(here)
    assert (b"drawing the report" in shown) == terminal


def _printed(capsys: pytest.CaptureFixture[str], *experiments: str, with_numbers: bool) -> str:
    results = node_of_gpus.results(node_of_gpus.Node(gpus=2, ranks=(2,)))
    results.records = [r for r in results.records if r.experiment in experiments]
    said = conclusions(results)
    first_findings.show(said if with_numbers else replace(said, screen=replace(said.screen, numbers=[])))
    return capsys.readouterr().out


PAIRS = ("p2p-latency", "p2p-direct", "p2p-copy", "p2p-message")


@pytest.mark.parametrize(
    ("experiments", "with_numbers", "is_shown"),
    [
        (("p2p-message", "collective"), True, ("All-reduce of 2 GPUs", "p2p-message on", "collective on")),
        (("p2p-message", "collective"), False, ("p2p-message on", "collective on")),
        ((*PAIRS, "collective"), True, ("All-reduce of 2 GPUs", "report ... findings of p2p-latency")),
        ((*PAIRS, "collective"), False, ("p2p-latency on", "more in the report", "report also has ... findings of")),
    ],
)
def test_findings_that_have_no_room_are_said_to_be_in_the_report(
    capsys: pytest.CaptureFixture[str], experiments: Sequence[str], with_numbers: bool, is_shown: Sequence[str]
) -> None:
    out = _printed(capsys, *experiments, with_numbers=with_numbers)
    assert len(out.splitlines()) <= first_findings.LINES + 1
    assert_states(out, *is_shown)
