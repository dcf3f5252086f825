"""A process that carries out tasks one by one, so that nothing a task does reaches the process that asked for it.

``python -m firsttouch.worker PARENT_PID`` reads one task per line from stdin and answers with Reply lines on what was
its stdout. It dies with its parent: the kernel kills it (PR_SET_PDEATHSIG), and stdin ends. firsttouch/worker.py has
the table of tasks; a task is a Task of its own tag and a handler.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Literal, TypeAlias

import msgspec

from firsttouch.events.log import Span
from firsttouch.modules import place
from firsttouch.records.schema import DeviceInfo, Record, Struct

LONGEST_REASON = 600
_PR_SET_PDEATHSIG = 1

WorkerState: TypeAlias = Literal["ready", "opening", "opened", "done"]


class Task(Struct):
    """Base of what a worker may be asked. Every subclass has a tag, by which its handler is found."""


class Reply(Struct):
    """What happened: "ready" once after the imports, "opening" and "opened" around the device, "done" per task.

    value: the answer to a trial, '' where there is none; reason says why, or how it was found. span: the unified-memory
    events of a point, where they were recorded.
    """

    state: WorkerState
    record: Record | None = None
    devices: list[DeviceInfo] = []
    value: str = ""
    reason: str = ""
    span: Span | None = None


def one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]


def describe(error: BaseException) -> str:
    """An exception as one line: its kind, its text, and where in a user's module it arose."""
    where = f" ({found})" if (found := place(error)) else ""
    return one_line(f"{type(error).__name__}: {error}{where}" if str(error) else f"{type(error).__name__}{where}")


def _die_with(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _claim_stdout() -> int:
    """A descriptor of the pipe to the parent; whatever a library prints on stdout goes to stderr from now on."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    return pipe


@dataclass
class Pipe:
    """The way back to the process that asked."""

    descriptor: int

    def send(self, reply: Reply) -> None:
        line = memoryview(msgspec.json.encode(reply) + b"\n")
        while line:
            line = line[os.write(self.descriptor, line) :]


Handler: TypeAlias = Callable[[Any, Pipe], Reply]
"""Carries out one task; may send "opening" and "opened" on the way."""


def serve(parent: int, handlers: Mapping[type[Task], Handler]) -> None:
    """Carry out tasks until stdin ends. handlers: by the type of task, each with a tag of its own."""
    _die_with(parent)
    pipe = Pipe(_claim_stdout())
    decoder = msgspec.json.Decoder(reduce(or_, handlers))
    pipe.send(Reply(state="ready"))
    for line in sys.stdin.buffer:
        task = decoder.decode(line)
        pipe.send(handlers[type(task)](task, pipe))
