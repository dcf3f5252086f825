"""Workers as forks of one process that has loaded their modules, which takes longer than most tasks of tests do.

    python -P tests/forked.py SOCKET

forks itself for each message on a socket that it inherits: a call of the worker, with the descriptors of its streams.
The fork is a child of the process that asked (CLONE_PARENT), which can thus wait for it as for a worker that it
started, and has opened nothing: no device, no library, no thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pkgutil
import platform
import runpy
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import Any

WORKER = "firsttouch.engine.worker"
_CLONE, _GET_TID_ADDRESS = 56, 40
_FLAGS = 0x00008000 | 0x00200000 | 0x01000000 | 17  # CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, SIGCHLD
_AT_START = ("LD_", "PYTHON", "LC_", "LANG", "GLIBC_", "MALLOC_", "OPENBLAS_", "OMP_", "MKL_")
"""The beginnings of the names of variables that a process reads when it starts, or when it loads the modules."""
_STREAMS = slice(10, 16)
"""Of the arguments of Popen._execute_child: for each stream the descriptors of both sides."""


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


class ForkedWorker(subprocess.Popen[Any]):
    """A worker that was forked, if that is possible here and with its environment; any other process is started."""

    def _execute_child(self, *given: Any) -> None:
        command, environment = given[0], given[6]
        forker = _forker() if WORKER in command else None
        if forker is None or _read_at_start(environment) != forker.environment:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        stdin, to, out, stdout, err, stderr = given[_STREAMS]
        self.pid = forker.fork(
            {"cwd": os.getcwd(), "environment": environment, "words": command}, stdin, stdout, stderr
        )
        self._child_created = True
        self._close_pipe_fds(stdin, to, out, stdout, err, stderr)  # type: ignore[attr-defined]


class _Forker:
    def __init__(self) -> None:
        self.environment = _read_at_start(dict(os.environ))
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-P", __file__, str(other.fileno())]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork has none of the threads
        self._process = subprocess.Popen(words, pass_fds=[other.fileno()], env=alone, **streams)
        other.close()
        self.works = self._socket.recv(1) == b"1"

    def fork(self, call: dict[str, Any], *descriptors: int) -> int:
        """Returns the id of the process."""
        socket.send_fds(self._socket, [json.dumps(call).encode()], descriptors)
        return int(self._socket.recv(16))


@cache
def _forker() -> _Forker | None:
    """That of this process; it ends with it."""
    if sys.version_info < (3, 11) or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    forker = _Forker()
    return forker if forker.works else None


# --------------------------------------------------------------------------------------------------- the process


def _tid_address() -> int:
    """Where the C library keeps the id of this thread, which a fork must change; 0 if the kernel does not say."""
    address = ctypes.c_size_t()
    return 0 if ctypes.CDLL(None).prctl(_GET_TID_ADDRESS, ctypes.byref(address)) else address.value


def _fork_beside(tid_address: int) -> int:
    """os.fork, except that the child is one of this process's parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    arguments = (ctypes.c_long(value) for value in (_CLONE, _FLAGS, 0, 0, tid_address, 0))
    pid = ctypes.PyDLL(None).syscall(*arguments)
    (python.PyOS_AfterFork_Child if pid == 0 else python.PyOS_AfterFork_Parent)()
    return int(pid)


def _load() -> None:
    for name in (WORKER, "firsttouch.engine.work_kinds"):
        import_module(name)
    for package in map(import_module, ("firsttouch.experiments", "firsttouch.apps")):
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    address = _tid_address()
    if address:
        _load()
    can_fork = bool(address) and len(os.listdir("/proc/self/task")) == 1
    connection.send(b"1" if can_fork else b"0")
    while can_fork:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            return
        pid = _fork_beside(address)
        if pid:
            connection.send(str(pid).encode())
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        connection.close()
        _become_worker(json.loads(message), descriptors)
        return


def _become_worker(call: dict[str, Any], descriptors: list[int]) -> None:
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = call["words"][call["words"].index(WORKER) :]
    runpy.run_path(str(sys.modules[WORKER].__file__), run_name="__main__")


if __name__ == "__main__":
    main()
