"""A process that carries out tasks one at a time, so that a failing task can't affect the process that sent it.

``python -m firsttouch.engine.worker PARENT_PID`` reads one task per line from stdin, and writes Reply lines to the pipe
that was its stdout. It ends when its parent ends: the kernel kills it (PR_SET_PDEATHSIG), and stdin is closed. With the
names of two files instead, it carries out the task in the first and writes its replies to the second. The table of
tasks is in firsttouch/engine/worker.py; each task is a subclass of Task with a unique tag, and a handler.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.modules import error_location
from firsttouch.base.processes import die_with
from firsttouch.base.units import format_size
from firsttouch.machine.processor_time import ProcessorUse
from firsttouch.profile.events.log import Span
from firsttouch.records.schema import DeviceInfo, Record, Struct, decode_hook
from firsttouch.records.timeline import MemoryCourse

LONGEST_REASON = 600
LONGEST_REPLY = 2**28

WorkerState: TypeAlias = Literal["ready", "opening", "opened", "shares", "done"]


class Task(Struct):
    """Base class of tasks. The tag of a subclass selects its handler."""


class Reply(Struct):
    """A state of the worker: "ready" once after the imports, "opening" before and "opened" after opening a device, and
    "done" after each task; "shares" when a rank has a text for the others (Pipe.share).

    value: the answer of a trial, or the text for the others; '' if there is none; reason: why, or how it was found;
    span: the unified-memory events of a point, if they were recorded; outputs: digests of outputs that were checked;
    phases: of a point whose memory is sampled, spans by name with begin and end in seconds of CLOCK_MONOTONIC;
    use: of the processors, while a point was measured; memory: in use over time, as predicted.
    """

    state: WorkerState
    record: Record | None = None
    devices: list[DeviceInfo] = []
    value: str = ""
    reason: str = ""
    span: Span | None = None
    outputs: list[str] = []
    phases: list[tuple[str, float, float]] = []
    use: ProcessorUse | None = None
    memory: MemoryCourse | None = None


class Shared(Struct):
    """A text of another rank, which a worker waits for in the middle of a task."""

    text: str


def split_replies(data: bytes) -> tuple[list[Reply], bytes]:
    """The replies in whole lines of `data`, and the rest. Raises ValueError if a line is not a reply."""
    if len(data) > LONGEST_REPLY:
        raise ValueError(f"a line of more than {format_size(LONGEST_REPLY)}")
    *lines, rest = data.split(b"\n")
    return [msgspec.json.decode(line, type=Reply) for line in lines], rest


def one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]


def describe(error: BaseException) -> str:
    """An exception as one line: its type, its text, and the place in a user's module where it was raised."""
    place = f" ({location})" if (location := error_location(error)) else ""
    return one_line(f"{type(error).__name__}: {error}{place}" if str(error) else f"{type(error).__name__}{place}")


def _take_over_stdout() -> int:
    """Redirect stdout to stderr, because libraries may print to it. Returns a descriptor of the pipe to the parent."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    return pipe


@dataclass
class Pipe:
    """Sends replies to the parent process."""

    descriptor: int

    def send(self, reply: Reply) -> None:
        line = memoryview(encode_json(reply) + b"\n")
        while line:
            line = line[os.write(self.descriptor, line) :]

    @contextmanager
    def opening(self) -> Iterator[None]:
        """A scope in which a device is opened."""
        self.send(Reply(state="opening"))
        yield
        self.send(Reply(state="opened"))

    def share(self, text: str | None) -> str:
        """Give a text to all other ranks of the task; without a text, wait for that of another rank. Returns it."""
        if text is None:
            return msgspec.json.decode(sys.stdin.buffer.readline(), type=Shared).text
        self.send(Reply(state="shares", value=text))
        return text


Handler: TypeAlias = Callable[[Any, Pipe], Reply]
"""Carries out one task; may send "opening" and "opened" meanwhile."""


def in_child(handler: Callable[[], Reply]) -> Reply:
    """What `handler` returns in a child of this process, which is there at once and has all that was imported.

    If the child crashes, this process ends in the same way. No thread may have been started in it.
    """
    parent = os.getpid()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            die_with(parent)
            os.write(writing, encode_json(handler()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        with suppress(OSError):  # SIGKILL cannot be set
            signal.signal(-status, signal.SIG_DFL)
        os.kill(parent, -status)
    if status != 0:
        os._exit(status)
    with open(reading, "rb") as answer:
        return msgspec.json.decode(answer.read(), type=Reply)


def serve(parent: int, handlers: Mapping[type[Task], Handler]) -> None:
    """Carry out tasks until stdin is closed. handlers: by the type of task; every type has a unique tag."""
    die_with(parent)
    pipe = Pipe(_take_over_stdout())
    decoder = msgspec.json.Decoder(reduce(or_, handlers), dec_hook=decode_hook)
    pipe.send(Reply(state="ready"))
    for line in sys.stdin.buffer:
        task = decoder.decode(line)
        pipe.send(handlers[type(task)](task, pipe))


def carry_out(task: Path, replies: Path, handlers: Mapping[type[Task], Handler]) -> None:
    """Carry out the task in a file, in a process that a tool started. The runner ends the tool with its process group.

    The kernel's signal at the end of the parent is of no use here: it is sent when the thread ends that started this
    process, and a tool may start it from any.
    """
    with open(replies, "wb", buffering=0) as file:
        todo = msgspec.json.decode(task.read_bytes(), type=reduce(or_, handlers), dec_hook=decode_hook)
        pipe = Pipe(file.fileno())
        pipe.send(handlers[type(todo)](todo, pipe))
