"""One task carried out in a worker that another program starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from firsttouch.engine.discover import Discover
from firsttouch.workers import launch, relay
from firsttouch.workers.process import run_under


def test_the_worker_of_a_tool_answers_and_the_last_time_counts(tmp_path: Path) -> None:
    def twice(worker: Sequence[str]) -> list[str]:
        return ["sh", "-c", '"$@" && echo between && "$@"', "tool", *worker]

    run = run_under(twice, Discover(kind="cpu"), tmp_path, timeout=60, environment={"LC_ALL": "C"})
    assert run.reply is not None
    assert [device.name for device in run.reply.devices] == ["cpu"]
    assert (run.reason, run.output) == ("", "between\n")


def test_a_tool_that_fails_or_hangs_or_is_no_program_is_a_reason(tmp_path: Path) -> None:
    def run(*command: str, timeout: float = 30.0) -> str:
        done = run_under(lambda worker: command, Discover(kind="cpu"), tmp_path, timeout=timeout, environment={})
        assert done.reply is None
        return done.reason

    failed = run("sh", "-c", "echo no such counter; exit 3")
    assert "exit status 3" in failed
    assert failed.endswith(": no such counter")
    assert "SIGSEGV" in run("sh", "-c", "kill -SEGV $$")
    assert "No such file" in run(str(tmp_path / "absent"))
    assert run("sh", "-c", "sleep 1000 & wait", timeout=0.1).endswith("finish within 0.1 s")


def test_a_launcher_that_is_a_script_without_an_interpreter_is_started(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text('exec "$@"\n')
    launcher.chmod(0o755)
    assert launch._start([str(launcher), "sh", "-c", "exit 7"]).wait() == 7


def test_processes_are_neither_ended_nor_measured_by_the_numbers_of_another_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, relay.CHANNEL: "a group"}) as process:
        assert launch.group("a group") == [process.pid]
        assert relay.resident(process.pid) > 0
        for module in (launch, relay):
            monkeypatch.setattr(module, "why_foreign", lambda: "/proc is another's")
        assert launch.group("a group") == []
        assert relay.resident(process.pid) == 0
        process.kill()
