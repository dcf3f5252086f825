"""The time that a profile says it may have delayed the target for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.profile.calls import until

from firsttouch.machine.tree import Tree
from firsttouch.profile import process_memory
from firsttouch.profile.records import Writer
from firsttouch.profile.sampler import Sampler


def lock_seconds(folder: Path, patch: pytest.MonkeyPatch, read: Callable[[int], None]) -> float:
    """What is counted if `read`, of a process that sleeps, is the only read under its memory lock."""
    done: list[int] = []

    def once(tree: Tree, pid: int) -> None:
        if not done:
            read(pid)
        done.append(pid)

    patch.setattr(process_memory, "rollup", once)
    patch.setattr(process_memory, "mappings", once)
    with subprocess.Popen(["sleep", "60"]) as target:
        writer = Writer(folder / "out")
        sampler = Sampler(Tree(), writer, time.monotonic(), 0.01)
        sampler.begin(target.pid)
        until(lambda: sampler.step() or done)
        sampler.processes.stop()
        writer.close()
        target.kill()
    return sampler.slow.lock_seconds


def test_what_a_read_takes_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(pid: int) -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    assert lock_seconds(tmp_path, monkeypatch, read) > 0.15


def test_what_a_read_waits_for_the_lock_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/thread-self/schedstat").is_file():
        pytest.skip("this kernel does not state how long a thread waits for a processor")
    assert lock_seconds(tmp_path, monkeypatch, lambda pid: time.sleep(0.5)) < 0.25


def test_a_read_in_which_the_target_ended_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 0.2
        while time.monotonic() < end or not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT):
            pass

    assert lock_seconds(tmp_path, monkeypatch, read) == 0
