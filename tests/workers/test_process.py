"""Worker processes answer tasks, and leave no process behind."""

from __future__ import annotations

import os

import pytest

from firsttouch.engine.discover import Discover
from firsttouch.workers.process import Worker


def test_a_worker_answers_several_tasks() -> None:
    worker = Worker()
    try:
        for _ in range(2):
            answer = worker.ask(Discover(kind="cpu"), timeout=60)
            assert (answer.outcome, answer.reason) == ("done", "")
            assert answer.reply is not None
            assert [device.name for device in answer.reply.devices] == ["cpu"]
        assert worker.alive()
    finally:
        worker.kill()


def test_a_killed_worker_leaves_no_process() -> None:
    worker = Worker()
    pid = worker.pid
    worker.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_that_exceeds_its_memory_limit_is_killed() -> None:
    worker = Worker()
    answer = worker.ask(Discover(kind="cpu"), timeout=60, memory=1)
    assert answer.outcome == "failed"
    assert answer.reason.endswith("limit is 1 B")
    assert "host memory" in answer.reason
    assert not worker.alive()
