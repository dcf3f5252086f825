"""The time that a profile says it may have delayed the target for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.profile.calls import until

from firsttouch.machine.tree import Tree
from firsttouch.profile import process_memory, slow
from firsttouch.profile.records import Writer
from firsttouch.profile.sampler import Sampler


@dataclass
class Clock:
    """The clocks of the thread that reads, which only a test moves, and the kernel's count of what it waited."""

    now: float
    ran: float = 0.0
    waited: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.ran

    def schedstat(self) -> str:
        return f"0 {self.waited * 1e9:.0f} 0"

    def pass_by(self, *, running: float = 0.0, waiting: float = 0.0, blocked: float = 0.0) -> None:
        """Seconds in which the thread runs, waits for a processor, or waits for a lock."""
        self.now += running + waiting + blocked
        self.ran += running
        self.waited += waiting


def lock_seconds(folder: Path, patch: pytest.MonkeyPatch, read: Callable[[Clock, int], None]) -> float:
    """What is counted if `read`, of a process that sleeps, is the only read under its memory lock that takes time."""
    done: list[int] = []
    clock, text = Clock(time.monotonic()), Tree.text

    def once(tree: Tree, pid: int) -> None:
        if not done:
            read(clock, pid)
        done.append(pid)

    patch.setattr(process_memory, "rollup", once)
    patch.setattr(process_memory, "mappings", once)
    patch.setattr(slow, "time", clock)
    patch.setattr(Tree, "text", lambda tree, name: clock.schedstat() if "schedstat" in name else text(tree, name))
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
    """Also what it waits for a processor, in which it may hold the lock."""
    counted = lock_seconds(tmp_path, monkeypatch, lambda clock, pid: clock.pass_by(running=0.2, waiting=0.1))
    assert counted == pytest.approx(0.3)


def test_what_a_read_waits_for_the_lock_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_seconds(tmp_path, monkeypatch, lambda clock, pid: clock.pass_by(blocked=0.5)) == 0


def test_a_read_in_which_the_target_ended_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(clock: Clock, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT))
        clock.pass_by(running=0.2)

    assert lock_seconds(tmp_path, monkeypatch, read) == 0
