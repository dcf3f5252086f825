"""Starts the target as a shell would: in the same process group and terminal, with the signals that it would have.

The target is a child that waits, before it executes the program, until what observes it is in place.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from firsttouch.base.files import by_shell

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""The exit statuses of a shell for a program that can't be executed and for one that is not there."""


class NotStarted(Exception):
    """The program could not be executed. status: as a shell states it."""

    def __init__(self, name: str, number: int) -> None:
        missing = number in (errno.ENOENT, errno.ENOTDIR)
        self.status = NOT_FOUND if missing else NOT_EXECUTABLE
        reason = "there is no such program" if missing else os.strerror(number)
        if missing and shutil.which(name):
            reason = "the interpreter that it names, in its first line or as its loader, is not there"
        super().__init__(f"can't start {name}: {reason}")


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    before: Callable[[int], None],
    *,
    mask: set[signal.Signals],
    ignored: Iterable[signal.Signals] = (),
    to_stderr: bool = False,
) -> int:
    """Starts a program and returns its pid. before: is called with it before the program is executed.

    mask: the signals that the program is to have blocked; ignored: those that it is to ignore, besides those that this
    process ignores. to_stderr: what it writes to stdout goes to stderr.

    Raises:
        NotStarted: it can't be executed.
    """
    limits = permit_descriptors()
    try:
        waiting, go = os.pipe()
        failed, failure = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise NotStarted(command[0], error.errno or 0) from None
    if pid == 0:
        _execute(command, environment, waiting, go, failure, mask, ignored, limits, to_stderr)
    for descriptor in (waiting, failure):
        os.close(descriptor)
    try:
        before(pid)
    finally:
        os.close(go)  # the end of the pipe lets the child go on
    number = os.read(failed, 16)
    os.close(failed)
    if number:
        os.waitpid(pid, 0)
        raise NotStarted(command[0], int(number))
    return pid


def _execute(
    command: Sequence[str],
    environment: Mapping[str, str],
    waiting: int,
    go: int,
    failure: int,
    mask: set[signal.Signals],
    ignored: Iterable[signal.Signals],
    limits: tuple[int, int],
    to_stderr: bool,
) -> None:
    """The child: waits, and becomes the program. Python ignores SIGPIPE and SIGXFSZ, which programs do not expect."""
    number = errno.ENOEXEC
    try:
        os.close(go)
        os.read(waiting, 1)
        if to_stderr:
            os.dup2(2, 1)
        for changed in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(changed, signal.SIG_DFL)
        for number_ignored in ignored:
            signal.signal(number_ignored, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become(command, dict(environment))
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(failure, str(number).encode())
        os._exit(NOT_FOUND)


def _become(command: Sequence[str], environment: dict[str, str]) -> None:
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        script = by_shell(command, environment.get("PATH")) if error.errno == errno.ENOEXEC else None
        if script is None:
            raise
        os.execve(script[0], script, environment)


def permit_descriptors() -> tuple[int, int]:
    """Lets this process have as many descriptors as its hard limit permits. Returns the limits before."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    return limits


def why_not(command: Sequence[str]) -> NotStarted | None:
    """Why a command can't be executed, as far as that is known before it is tried."""
    if shutil.which(command[0]) is not None:
        return None
    exists = os.path.exists(command[0]) if "/" in command[0] else False
    return NotStarted(command[0], errno.EACCES if exists else errno.ENOENT)
