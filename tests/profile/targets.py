"""Programs in C that tests profile, and processes that wait until they may execute one."""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import shutil
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firsttouch.profile.perf import NameChange, PerfBatch, TargetEvents, open_processes

NOBODY = 65534


def build(folder: Path, name: str, source: str, *options: str, language: str = "c") -> Path:
    """Compiles a program with debug information. Skips the test without a compiler."""
    compiler = shutil.which("gcc" if language == "c" else "g++")
    if compiler is None:
        pytest.skip("needs gcc")
    file = folder / f"{name}.{'c' if language == 'c' else 'cpp'}"
    file.write_text(source)
    program = folder / name
    command = [compiler, "-g", "-O1", "-pthread", *options, str(file), "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return program


@contextmanager
def readable() -> Iterator[Path]:
    """A temporary folder that the user nobody may read too. Those of pytest are closed to others, again at each start
    of another pytest.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


class Held:
    """A child that executes a command when it may, as that of a profiler."""

    def __init__(self, command: Sequence[str | os.PathLike[str]]) -> None:
        begin, self._release = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._release)
                os.read(begin, 1)
                os.execvp(command[0], [os.fspath(word) for word in command])
            finally:
                os._exit(127)
        os.close(begin)
        self.status: int | None = None
        self.usage: resource.struct_rusage | None = None

    def release(self) -> None:
        os.close(self._release)

    def ended(self) -> bool:
        if self.status is None:
            pid, status, self.usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None


def opened(pid: int, every: int, *, enable_on_exec: bool = True) -> TargetEvents:
    """The events, or a skipped test with the reason."""
    events, states = open_processes(pid, every, enable_on_exec=enable_on_exec)
    if events is None:
        pytest.skip(states[0].why)
    return events


@contextmanager
def held(command: Sequence[str | os.PathLike[str]]) -> Iterator[Held]:
    process = Held(command)
    try:
        yield process
    finally:
        if not process.ended():
            os.kill(process.pid, 9)
            os.waitpid(process.pid, 0)


@contextmanager
def running(command: Sequence[str | os.PathLike[str]], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written its first line."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def watch(command: Sequence[str | os.PathLike[str]], every: int = 0) -> tuple[list[PerfBatch], int | None, int]:
    """Runs a command to the end of all its processes. Returns all batches, the count of faults in user mode, and the
    number of the first process.
    """
    with held(command) as process:
        events = opened(process.pid, every)
        process.release()
        batches = []
        while not process.ended():
            batches.append(events.read())
            time.sleep(0.005)
        batches.append(events.read(rest=True))
        deadline = time.monotonic() + 20
        while living(batches) > 0 and time.monotonic() < deadline:  # orphans
            time.sleep(0.005)
            batches.append(events.read(rest=True))
        assert process.status == 0
        return batches, events.counted(), process.pid


def living(batches: Sequence[PerfBatch]) -> int:
    """How many processes have not ended, including the first one."""
    return 1 + sum(len(batch.starts) - len(batch.ends) for batch in batches)


def executed(batches: Sequence[PerfBatch]) -> list[NameChange]:
    return [change for batch in batches for change in batch.names if change.executed]


def as_nobody(call: Callable[[], Any]) -> Any:
    """Returns what a function returns in a process of the user nobody, if this is root; else calls it."""

    def change_user() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, which a change of the user clears

    return in_child(call, change_user)


def in_child(call: Callable[[], Any], before: Callable[[], None]) -> Any:
    """Returns what a function returns in a child of this process, in which another one is called before."""
    begin, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(begin)
            try:
                before()
            except PermissionError as error:
                pytest.skip(f"this container does not permit it: {error}")
            os.write(end, pickle.dumps(("returned", call())))
        except BaseException as error:
            kind = "skipped" if isinstance(error, pytest.skip.Exception) else "raised"
            os.write(end, pickle.dumps((kind, "".join(traceback.format_exception(error)))))
        finally:
            os._exit(0)
    os.close(end)
    with os.fdopen(begin, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    kind, result = pickle.loads(data)
    if kind == "skipped":
        pytest.skip(result.splitlines()[-1])
    assert kind == "returned", result
    return result
