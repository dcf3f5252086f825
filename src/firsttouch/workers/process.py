"""Starts a worker process, sends it tasks one at a time, limits its time and memory, and ends it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.processes import die_with, python_module
from firsttouch.base.units import format_number, format_size
from firsttouch.workers.protocol import Reply, Task, WorkerState, one_line, split_replies
from firsttouch.workers.relay import STOP_TIMEOUT, resident

TICK = 0.05
"""Seconds between two checks of a worker's memory and time."""
START_TIMEOUT = 60.0
_TAIL = 4096


@dataclass(frozen=True)
class TaskResult:
    """How one task ended. last_state: the last state before that; "" or "opening" mean that measuring never began.
    replies: those of the ranks, if the task had several, as far as they came.
    """

    outcome: Literal["done", "timeout", "crashed", "failed"]
    last_state: WorkerState | Literal[""]
    reply: Reply | None = None
    replies: Sequence[Reply | None] = ()
    reason: str = ""
    seconds: float = 0.0


class Worker:
    """One worker process in a separate process group. Create it in the main thread: it is killed when the thread that
    created it ends.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            python_module("firsttouch.engine.worker", str(os.getpid())),
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

    def ask(self, task: Task, *, timeout: float, memory: int | None = None) -> TaskResult:
        """Send one task and wait until it ends. Kills the worker if it exceeds `timeout` seconds or `memory` bytes.

        The start of the worker and the opening of the device may each take a further START_TIMEOUT.
        """
        with suppress(BrokenPipeError):
            self._stdin.write(encode_json(task) + b"\n")
        begin = since = time.monotonic()
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
                    return TaskResult("done", before, reply)
                since = time.monotonic()
                allowed = timeout + START_TIMEOUT * (reply.state == "opening")
            if ended:
                outcome, reason = "crashed", self._exit_reason()
            elif memory is not None and (used := resident(self.pid)) > memory:
                outcome, reason = "failed", took_too_much(used, memory)
            elif time.monotonic() - since > allowed:
                outcome, reason = "timeout", f"did not finish within {format_number(allowed)} s"
        self.kill()
        return TaskResult(outcome, self._state, reason=reason, seconds=time.monotonic() - begin)

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
        replies, self._read["stdout"] = split_replies(self._read["stdout"])
        return replies

    def _exit_reason(self) -> str:
        """How a worker ended, and the last lines that it wrote to stderr."""
        try:
            status = self._process.wait(START_TIMEOUT)
        except subprocess.TimeoutExpired:
            status = 0
        with suppress(BlockingIOError):
            while data := os.read(self._pipes["stderr"].fileno(), 1 << 16):
                self._read["stderr"] = (self._read["stderr"] + data)[-_TAIL:]
        return describe_exit("worker", status, self._read["stderr"].decode(errors="replace"))

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


def took_too_much(used: int, memory: int) -> str:
    return f"took {format_size(used)} of host memory; the limit is {format_size(memory)}"


def describe_exit(subject: str, status: int, printed: str) -> str:
    ending = f"ended by {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
    words = printed.splitlines()[-3:]
    return one_line(f"{subject} {ending}: {' | '.join(words)}" if words else f"{subject} {ending}")


@dataclass(frozen=True)
class ToolRun:
    """How a task ended that a worker carried out under a tool.

    reply: the worker's last reply to it, or None. reason: why there is none. output: the last of what the tool and the
    worker printed.
    """

    reply: Reply | None
    reason: str
    output: str


def run_under(
    command: Callable[[Sequence[str]], Sequence[str]],
    task: Task,
    folder: Path,
    *,
    timeout: float,
    environment: Mapping[str, str],
) -> ToolRun:
    """Carries out one task in a worker that a tool starts, perhaps several times. The last time counts.

    command: returns the tool's command line, given that of the worker. folder: an empty folder for the task and the
    reply.
    """
    task_file, reply_file = folder / "task.json", folder / "replies.jsonl"
    task_file.write_bytes(encode_json(task))
    worker = python_module("firsttouch.engine.worker", str(task_file), str(reply_file))
    status, output = _run(list(command(worker)), timeout, environment)
    lines = reply_file.read_bytes().splitlines() if reply_file.is_file() else []
    with suppress(msgspec.DecodeError):
        if lines and (reply := msgspec.json.decode(lines[-1], type=Reply)).state == "done":
            return ToolRun(reply, "", output)
    if status is None:
        return ToolRun(None, f"the point did not finish within {format_number(timeout)} s", output)
    return ToolRun(None, describe_exit("the point", status, output), output)


def run_program(command: Sequence[str], timeout: float) -> str:
    """What a program printed on stdout; '' if it failed or did not end in time."""
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode(errors="replace") if result.returncode == 0 else ""


def _run(command: Sequence[str], timeout: float, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Runs a program in a process group that ends with it. Returns its exit status, None if it was killed after
    `timeout` seconds, and the last of its output.
    """
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=lambda: die_with(parent),
        )
    except OSError as error:
        return 127, f"{command[0]}: {error.strerror}"
    status: int | None = None
    try:
        printed, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return status, printed[-_TAIL:].decode(errors="replace")


def signal_name(number: int) -> str:
    return next((s.name for s in signal.Signals if s == number), f"signal {number}")
