"""Starts a worker process, sends it tasks one at a time, limits its time and memory, and ends it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from firsttouch.units import format_size
from firsttouch.workers.protocol import Reply, Task, WorkerState, one_line

TICK = 0.05
"""Seconds between two checks of a worker's memory and time."""
START_TIMEOUT = 60.0
STOP_TIMEOUT = 2.0
_TAIL = 4096
_LONGEST_REPLY = 2**28
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Answer:
    """How one task ended. last_state: the last state before that; "" or "opening" mean that measuring never began."""

    outcome: Literal["done", "timeout", "crashed", "failed"]
    last_state: WorkerState | Literal[""]
    reply: Reply | None = None
    reason: str = ""
    seconds: float = 0.0


class Worker:
    """One worker process in a separate process group. Create it in the main thread: it is killed when the thread that
    created it ends.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "firsttouch.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin = self._process.stdin
        self._pipes = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        self._read = dict.fromkeys(self._pipes, b"")
        self._selector = selectors.DefaultSelector()
        for name, pipe in self._pipes.items():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, name)
        self._state: WorkerState | Literal[""] = ""

    def ask(self, task: Task, *, timeout: float, memory: int | None = None) -> Answer:
        """Send one task and wait until it ends. Kills the worker if it exceeds `timeout` seconds or `memory` bytes.

        The start of the worker and the opening of the device may each take a further START_TIMEOUT.
        """
        with suppress(BrokenPipeError):
            self._stdin.write(msgspec.json.encode(task) + b"\n")
        asked = since = time.monotonic()
        allowed = timeout if self._state == "done" else START_TIMEOUT + timeout
        outcome: Literal["timeout", "crashed", "failed"] | None = None
        while outcome is None:
            ended = self._wait_for_output()
            try:
                replies = self._replies()
            except ValueError as error:
                outcome, reason = "failed", one_line(f"the worker's reply is not valid: {error}")
                break
            for reply in replies:
                before, self._state = self._state, reply.state
                if reply.state == "done":
                    return Answer("done", before, reply)
                since = time.monotonic()
                allowed = timeout + START_TIMEOUT * (reply.state == "opening")
            if ended:
                outcome, reason = "crashed", self._exit_reason()
            elif memory is not None and (used := self._resident()) > memory:
                outcome, reason = (
                    "failed",
                    f"took {format_size(used)} of host memory; the limit is {format_size(memory)}",
                )
            elif time.monotonic() - since > allowed:
                outcome, reason = "timeout", f"did not finish within {allowed:.3g} s"
        self.kill()
        return Answer(outcome, self._state, reason=reason, seconds=time.monotonic() - asked)

    def _wait_for_output(self) -> bool:
        """Read what the worker writes within one tick. Returns True if the worker has ended."""
        dead = self._process.poll() is not None
        ready = self._selector.select(0 if dead else TICK)
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
            self._read[key.data] += data
        self._read["stderr"] = self._read["stderr"][-_TAIL:]
        return (dead and not ready) or self._pipes["stdout"] not in (k.fileobj for k in self._open_pipes())

    def _open_pipes(self) -> list[selectors.SelectorKey]:
        return list(self._selector.get_map().values())

    def _replies(self) -> list[Reply]:
        """The replies since the last call. Raises ValueError if a line is not a reply."""
        if len(self._read["stdout"]) > _LONGEST_REPLY:
            raise ValueError(f"a line of more than {format_size(_LONGEST_REPLY)}")
        *lines, self._read["stdout"] = self._read["stdout"].split(b"\n")
        return [msgspec.json.decode(line, type=Reply) for line in lines]

    def _resident(self) -> int:
        try:
            with open(f"/proc/{self._process.pid}/statm") as file:
                return int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0

    def _exit_reason(self) -> str:
        """How a worker ended, and the last lines that it wrote to stderr."""
        try:
            status = self._process.wait(START_TIMEOUT)
        except subprocess.TimeoutExpired:
            status = 0
        with suppress(BlockingIOError):
            while data := os.read(self._pipes["stderr"].fileno(), 1 << 16):
                self._read["stderr"] = (self._read["stderr"] + data)[-_TAIL:]
        how = f"ended by {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
        words = self._read["stderr"].decode(errors="replace").splitlines()[-3:]
        return one_line(f"worker {how}: {' | '.join(words)}" if words else f"worker {how}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End a worker that waits for a task. Its libraries have STOP_TIMEOUT to clean up."""
        self._stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Kill the worker and all processes that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a process stuck in a driver can't be waited for
            self._process.wait(10)
        self._selector.close()
        for pipe in (self._stdin, *self._pipes.values()):
            pipe.close()


def signal_name(number: int) -> str:
    return next((s.name for s in signal.Signals if s == number), f"signal {number}")
