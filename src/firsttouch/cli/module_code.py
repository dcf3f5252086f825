"""Code of modules that runs in the process of a command: what it prints, and what would end or hold up the command."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any, TextIO

from firsttouch.cli.output import printable

LONGEST = 30.0
"""Seconds after which a call into a module is interrupted, if the call of the command does not say."""
_ENDS = ("_exit", "abort", "execv", "execve", "kill")
"""Functions of os that end this process, or replace its program."""


class _PrintableStream(io.TextIOBase):
    """A text stream that escapes control characters before it writes to another stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def code_of_modules(files: Sequence[object] = (), seconds: float | None = None) -> Iterator[None]:
    """Use while code of modules may run in this process. Its output goes to stderr with control characters escaped, and
    what would end the run without a message raises SystemExit as sys.exit does: os._exit and its like, and a call into
    a module of `files` that does not return within so many seconds.
    """
    originals = {name: getattr(os, name) for name in _ENDS}
    stream = _PrintableStream(sys.stderr)
    for name, original in originals.items():
        setattr(os, name, _raise_module_errors(name, original))
    try:
        with (
            redirect_stdout(stream),
            redirect_stderr(stream),
            _limit_time(seconds or LONGEST) if files else nullcontext(),
        ):
            yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def _raise_module_errors(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    process = os.getpid()

    def raise_exit(*arguments: Any) -> Any:
        if os.getpid() != process:  # a process that the module has forked
            return original(*arguments)
        if name == "kill" and (arguments[0] != process or not arguments[1]):
            return original(*arguments)
        raise SystemExit(f"os.{name}({', '.join(f'{argument!r:.40}' for argument in arguments)})")

    return raise_exit


@contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    """Interrupts a call into a module after so many seconds, if this process has no other use for SIGALRM."""
    is_free = threading.current_thread() is threading.main_thread() and not signal.getitimer(signal.ITIMER_REAL)[0]
    if not is_free or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, interrupter(seconds))
    signal.setitimer(signal.ITIMER_REAL, min(1.0, seconds / 4), min(1.0, seconds / 4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def interrupter(seconds: float, clock: Callable[[], float] = time.monotonic) -> Callable[[int, FrameType | None], None]:
    """A handler of a signal that comes again and again. It raises SystemExit in the code of a module whose call has not
    returned within so many seconds.
    """
    called: list[tuple[FrameType, float]] = []

    def look(number: int, frame: FrameType | None) -> None:
        from firsttouch.base.modules import is_foreign

        outermost = None
        while frame is not None:
            outermost = frame if is_foreign(frame.f_code.co_filename) else outermost
            frame = frame.f_back
        if not called or called[0][0] is not outermost:
            called[:] = [] if outermost is None else [(outermost, clock())]
        elif clock() - called[0][1] >= seconds:
            raise SystemExit(f"no end within {seconds:g} s")

    return look
