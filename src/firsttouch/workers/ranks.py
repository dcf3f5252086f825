"""A group of ranks: several workers that carry out a task together, behind the interface of one worker.

A launcher (mpirun, or one that the user names) starts a relay for each rank (workers/relay.py), which connects to this
process. The launcher itself runs under workers/launch.py, which outlives this process and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from firsttouch.base.encoding import encode_json, host_name
from firsttouch.base.processes import python_module
from firsttouch.base.units import format_number
from firsttouch.workers.launch import SHARED_MEMORY, clean_up, segments
from firsttouch.workers.process import START_TIMEOUT, TICK, TaskResult, describe_exit, took_too_much
from firsttouch.workers.protocol import Reply, Shared, Task, WorkerState, one_line, split_replies
from firsttouch.workers.relay import CHANNEL, ENDED, REPLY

GRACE = 2.0
"""Seconds that the other ranks have to finish a point after it ended early for one."""
_END_TIMEOUT = 8.0
_TAIL = 4096
_Failure = Literal["timeout", "crashed", "failed"]


@dataclass(frozen=True)
class Launcher:
    """How ranks are started. command: the launcher's words before those of a rank; empty if ranks need no launcher.
    environment: for it and the ranks. remote: ranks may be on other hosts.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    remote: bool = False


@dataclass
class _Rank:
    """The connection to the relay of a rank. number: -1 until it has said which rank it is."""

    connection: socket.socket
    number: int = -1
    host: str = ""
    read: bytes = b""
    replies: bytes = b""
    state: WorkerState | Literal[""] = ""
    since: float = 0.0
    reply: Reply | None = None
    """To the present task."""
    texts: int = 0
    """How many of the texts that ranks share it has got."""
    ended: dict[str, object] | None = None
    """How its worker ended, if it did."""
    closed: bool = False
    wrong: bool = False
    """Whether it sent something that is no reply."""


class Ranks:
    """Worker processes 0 to count - 1. Ends all of them at once."""

    def __init__(self, count: int, launcher: Launcher, environment: Mapping[str, str], memory: int | None) -> None:
        """environment, memory: of each worker; memory in bytes. Raises OSError if no process can be started."""
        self._count, self._environment, self._memory = count, environment, memory
        self._listener = socket.create_server(("" if launcher.remote else "127.0.0.1", 0), backlog=count)
        self._listener.setblocking(False)
        name = _address() if launcher.remote else "127.0.0.1"
        self._token = secrets.token_hex(16)
        self._channel = f"{name}:{self._listener.getsockname()[1]}:{self._token}"
        self._segments = segments()
        self._folders = [tempfile.mkdtemp(prefix="firsttouch-ranks-")]
        with suppress(OSError):  # it may be full, or not there
            self._folders.append(tempfile.mkdtemp(prefix="firsttouch-ranks-", dir=SHARED_MEMORY))
        rank = python_module("firsttouch.workers.relay")
        rank_variables = {
            CHANNEL: self._channel,
            "TMPDIR": self._folders[0],
            "OMPI_MCA_btl_sm_backing_directory": self._folders[-1],
        }
        copies, command = (0, [*launcher.command, *rank]) if launcher.command else (count, rank)
        try:
            self._launcher = subprocess.Popen(
                python_module("firsttouch.workers.launch", *self._folders, "--", str(copies), *command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **launcher.environment, **rank_variables},
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            self._listener.close()
            clean_up(self._channel, self._folders, self._segments)
            raise
        self._name = os.path.basename(command[0])
        assert self._launcher.stdout
        os.set_blocking(self._launcher.stdout.fileno(), False)
        self._printed = b""
        self._ranks: list[_Rank] = []
        self._shared: list[tuple[int, bytes]] = []
        self._by_number: dict[int, _Rank] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._launcher.stdout, selectors.EVENT_READ)

    def ask(self, task_of: Callable[[int], Task], *, timeout: float, names: Sequence[str]) -> TaskResult:
        """Send each rank its task and wait until all have ended. Kills all if one ends, or exceeds `timeout` seconds.

        names: what the reason of a failure calls each rank's device. The start of the ranks may take `timeout` seconds,
        and the opening of a device a further START_TIMEOUT.
        """
        begin = time.monotonic()
        for rank in self._ranks:
            rank.reply, rank.since = None, begin
        asked_ranks: set[int] = set()
        self._shared = []
        first_early: float | None = None
        while True:
            self._read()
            now = time.monotonic()
            for number in sorted(self._by_number.keys() - asked_ranks):
                self._send(self._by_number[number], encode_json(task_of(number)) + b"\n")
                self._by_number[number].since = now
                self._by_number[number].texts = 0
                asked_ranks.add(number)
            self._share(asked_ranks)
            failure = self._take_replies(names) or self._why_ended(names) or self._why_late(begin, now, timeout, names)
            states = [self._by_number.get(number) for number in range(self._count)]
            replies = [None if state is None else state.reply for state in states]
            if failure is None and None not in replies:
                return TaskResult("done", self._state(), replies[0], replies)
            if first_early is None and any(_ended_early(reply) for reply in replies):
                first_early = now
            if first_early is not None and (failure is not None or now - first_early > GRACE):
                self.kill()  # the others wait for messages that never come
                return TaskResult("done", self._state(), replies=replies)
            if failure is not None:
                self.kill()
                outcome, reason = failure
                return TaskResult(outcome, self._state(), replies=replies, reason=one_line(reason), seconds=now - begin)

    def alive(self) -> bool:
        return self._launcher.poll() is None and len(self._by_number) == self._count

    def stop(self) -> None:
        """End ranks that wait for a task. Their libraries have a moment to clean up."""
        for rank in self._ranks:
            with suppress(OSError):
                rank.connection.shutdown(socket.SHUT_WR)
        end = time.monotonic() + _END_TIMEOUT
        while self._launcher.poll() is None and time.monotonic() < end and self._selector.get_map():
            self._read()
        self.kill()

    def kill(self) -> None:
        """Kill the launcher and all ranks, and remove what they have left. Idempotent."""
        for rank in self._ranks:
            rank.connection.close()
        self._listener.close()
        assert self._launcher.stdin
        assert self._launcher.stdout
        self._launcher.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._launcher.wait(_END_TIMEOUT)
        if self._launcher.poll() is None:
            self._launcher.kill()
        clean_up(self._channel, self._folders, self._segments)  # if the launcher's own process was killed
        self._selector.close()
        self._launcher.stdout.close()

    def _state(self) -> WorkerState | Literal[""]:
        """The state of the rank that ended the task early; if none did, of the one that has come least far."""
        for rank in self._by_number.values():
            if rank.ended is not None or rank.closed or rank.wrong or _ended_early(rank.reply):
                return rank.state
        order: list[WorkerState | Literal[""]] = ["", "ready", "opening", "opened", "done"]
        states = [rank.state for rank in self._by_number.values()]
        return "" if len(states) < self._count else min(states, key=order.index)

    @staticmethod
    def _send(rank: _Rank, data: bytes) -> None:
        rank.connection.setblocking(True)
        rank.connection.settimeout(START_TIMEOUT)
        with suppress(OSError):
            rank.connection.sendall(data)
        rank.connection.setblocking(False)

    def _share(self, ranks: set[int]) -> None:
        """Pass on what ranks share to all others that have the task."""
        for number in ranks:
            rank = self._by_number[number]
            for giver, line in self._shared[rank.texts :]:
                if giver != number:
                    self._send(rank, line)
            rank.texts = len(self._shared)

    def _read(self) -> None:
        """Read what the launcher and the relays have written within one tick."""
        for key, _ in self._selector.select(TICK):
            if key.fileobj is self._listener:
                self._accept()
            elif key.data is None:
                if data := os.read(key.fd, 1 << 16):
                    self._printed = (self._printed + data)[-_TAIL:]
                else:
                    self._selector.unregister(key.fileobj)
            else:
                self._read_rank(key.data)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            rank = _Rank(connection, since=time.monotonic())
            self._ranks.append(rank)
            self._selector.register(connection, selectors.EVENT_READ, rank)

    def _read_rank(self, rank: _Rank) -> None:
        try:
            data = rank.connection.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            rank.closed = True
            self._selector.unregister(rank.connection)
            return
        *lines, rank.read = (rank.read + data).split(b"\n")
        for line in lines:
            if rank.number < 0:
                self._greet(rank, line)
            elif line[:1] == REPLY:
                rank.replies += line[1:] + b"\n"
            elif line[:1] == ENDED:
                rank.ended = json.loads(line[1:])

    def _greet(self, rank: _Rank, line: bytes) -> None:
        """Take the first line of a relay. Anyone may connect, so nothing in it is believed without the token."""
        hello: object = None
        with suppress(ValueError):
            hello = json.loads(line)
        if isinstance(hello, dict) and secrets.compare_digest(str(hello.get("token")), self._token):
            number = hello.get("rank")
            if isinstance(number, int) and 0 <= number < self._count and number not in self._by_number:
                rank.number, rank.host = number, str(hello.get("host"))
                self._by_number[number] = rank
                start = {"environment": dict(self._environment), "memory": self._memory}
                self._send(rank, json.dumps(start).encode() + b"\n")
                return
            self._printed += f"a process says that it is rank {number} of {self._count}\n".encode()
        rank.closed = True
        self._selector.unregister(rank.connection)
        rank.connection.close()

    def _take_replies(self, names: Sequence[str]) -> tuple[_Failure, str] | None:
        """Note the replies that came. Returns a failure if a line is not a reply, or an answer has no record."""
        for rank in self._by_number.values():
            try:
                replies, rank.replies = split_replies(rank.replies)
            except ValueError as error:
                rank.wrong = True
                return "failed", f"the reply of {self._rank_title(rank.number, names)} is not valid: {error}"
            for reply in replies:
                rank.since = time.monotonic()
                if reply.state == "shares":
                    self._shared.append((rank.number, encode_json(Shared(text=reply.value)) + b"\n"))
                    continue
                rank.state = reply.state
                if reply.state == "done":
                    if reply.record is None:
                        rank.wrong = True
                        return "failed", f"the reply of {self._rank_title(rank.number, names)} has no record"
                    rank.reply = reply
        return None

    def _why_ended(self, names: Sequence[str]) -> tuple[_Failure, str] | None:
        """Why the group has ended, if it has: the first rank whose worker ended, else one whose relay did, else the
        launcher.
        """
        ranks = list(self._by_number.values())
        for rank in ranks:
            if rank.ended is not None:
                who, memory_bytes = self._rank_title(rank.number, names), rank.ended.get("took")
                if isinstance(memory_bytes, int) and memory_bytes and self._memory is not None:
                    return "failed", f"{who} {took_too_much(memory_bytes, self._memory)}"
                return "crashed", describe_exit(who, int(str(rank.ended["status"])), str(rank.ended["words"]))
        if len(closed := [rank for rank in ranks if rank.closed]) not in (0, self._count):
            return (
                "crashed",
                f"{self._rank_title(closed[0].number, names)} has closed its connection, as if it was killed",
            )
        if (status := self._launcher.poll()) is not None:
            self._read()
            return "crashed", describe_exit(self._name, status, self._printed.decode(errors="replace"))
        return None

    def _why_late(self, begin: float, now: float, timeout: float, names: Sequence[str]) -> tuple[_Failure, str] | None:
        """The ranks that have not ended, if one of them has exceeded its time."""
        if (absent := [n for n in range(self._count) if n not in self._by_number]) and now - begin > timeout:
            words = self._printed.decode(errors="replace").splitlines()[-3:]
            who = ", ".join(self._rank_title(number, names) for number in absent)
            return (
                "timeout",
                f"{who} did not start within {format_number(timeout)} s{': ' if words else ''}{' | '.join(words)}",
            )
        pending = [rank for rank in self._by_number.values() if rank.reply is None]
        if not any(now - rank.since > timeout + START_TIMEOUT * (rank.state == "opening") for rank in pending):
            return None
        # Which of them hangs and which wait for it can't be seen.
        waiting = [self._rank_title(number, names) for number in sorted(rank.number for rank in pending)]
        return "timeout", f"{', '.join(waiting)} did not finish within {format_number(timeout)} s"

    def _rank_title(self, number: int, names: Sequence[str]) -> str:
        """A rank with its device and, if that is known, its host."""
        rank = self._by_number.get(number)
        return f"rank {number} ({names[number]}{f' at {rank.host}' if rank else ''})"


def _address() -> str:
    """The name under which other hosts reach this one; where no name service knows it, only this host does."""
    name = host_name()
    with suppress(OSError):
        socket.getaddrinfo(name, None)
        return name
    return "127.0.0.1"


def _ended_early(reply: Reply | None) -> bool:
    """True if a rank has ended its point without measuring it, so that the others may wait for it."""
    return reply is not None and reply.record is not None and reply.record.status != "ok"
