"""Workers of other tests are forks (tests/forked.py), and stand for those that are started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from tests import forked

from firsttouch.engine.discover import Discover
from firsttouch.workers import process


@contextmanager
def worker(**environment: str) -> Iterator[process.Worker]:
    if forked._forker() is None:
        pytest.skip("no forks beside a process here")
    with patch.object(process.subprocess, "Popen", forked.ForkedWorker):
        made = process.Worker(environment)
    yield made
    made.kill()


def is_fork(made: process.Worker) -> bool:
    return forked.__file__.encode() in Path(f"/proc/{made.pid}/cmdline").read_bytes()


def test_a_fork_is_a_child_with_a_session_of_its_own_and_carries_out_tasks() -> None:
    with worker(MINE="1") as made:
        done = made.ask(Discover(kind="cpu"), timeout=60)
        assert done.outcome == "done"
        parent = Path(f"/proc/{made.pid}/stat").read_text().rpartition(")")[2].split()[1]
        assert (is_fork(made), int(parent), os.getsid(made.pid)) == (True, os.getpid(), made.pid)
        made.stop()
        assert not made.alive()


def test_a_worker_with_an_environment_that_is_read_at_the_start_is_started() -> None:
    with worker(LD_LIBRARY_PATH="/somewhere") as made:
        assert made.ask(Discover(kind="cpu"), timeout=60).outcome == "done"
        assert not is_fork(made)
