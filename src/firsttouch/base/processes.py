"""How this program starts Python again, whatever the working directory holds, and which processes /proc describes."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

HAS_SAFE_PATH = sys.version_info >= (3, 11)
_FIRST = "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
"""Removes the working directory, which is '' there, from the path. `sys` is part of the interpreter."""
_RUN = "import runpy; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"


_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends, which has the id `parent`. Source: prctl(2)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def why_foreign(proc: Path = _PROC) -> str:
    """Why PROC/PID is not the process that has this number in this PID namespace; '' if it is. With a reason, the
    process must not be sent a signal either.

    proc: /proc, or a test's copy of it, in which `self` may be a folder. Source: pid_namespaces(7).
    """
    try:
        shown_pid = os.readlink(proc / "self")
    except OSError:  # /proc is not mounted, or does not show this process
        shown_pid = "" if proc == _PROC else str(os.getpid())
    if shown_pid == str(os.getpid()):
        return ""
    return (
        "/proc is not that of this PID namespace, and shows other processes under these numbers; mount its own with "
        "`unshare --mount-proc`, or with `mount -t proc proc /proc`"
    )


def python_module(name: str, *arguments: str, safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs a module as `python -m` does, except that files of the working directory take the place
    of no module: one named types.py or random.py would otherwise be executed instead of the standard library's.
    """
    if safe_path:
        return [sys.executable, "-P", "-m", name, *arguments]
    return [sys.executable, "-c", _FIRST + _RUN, name, *arguments]


def python_code(code: str, *arguments: str, safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs a text as `python -c` does, with the same exception."""
    if safe_path:
        return [sys.executable, "-P", "-c", code, *arguments]
    return [sys.executable, "-c", _FIRST + code, *arguments]
