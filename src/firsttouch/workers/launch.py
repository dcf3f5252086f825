"""Starts the launcher of ranks, waits for it, and leaves nothing behind: neither processes nor shared memory.

``python -m firsttouch.workers.launch FOLDER... -- COPIES COMMAND...`` runs COMMAND until it ends or stdin is closed,
which happens when the runner ends, in whatever way. Then it kills what is left of the group on this host and removes
the folders and the shared memory that MPI has left. It ends with the command's status. If COPIES is not 0, it runs so
many copies, which get their number in the environment: ranks without a launcher of their own. They end when one fails.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from firsttouch.base.files import by_shell
from firsttouch.base.processes import why_foreign
from firsttouch.workers.relay import CHANNEL, NUMBER

SHARED_MEMORY = Path("/dev/shm")
_LEFT_BY_MPI = ("mpich_shm_*", "ucx_shm_posix_*", "sm_segment.*", "ompi.*", "vader_segment.*", "psm*_shm.*")
_TICK = 0.02
_PATIENCE = 3.0
"""Seconds in which killed processes must have ended."""


def main(folders: Sequence[str], copies: int, command: Sequence[str]) -> int:
    before = segments()
    with suppress(OSError):  # a Ctrl-C is the runner's to handle
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = [_start(command, number) for number in range(copies)] if copies else [_start(command)]
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        clean_up(os.environ[CHANNEL], folders, before)
        return 127
    threading.Thread(target=_end_with_stdin, args=(folders, before), daemon=True).start()
    status = _wait(started)
    clean_up(os.environ[CHANNEL], folders, before)
    return status if status >= 0 else 128 - status


def _start(command: Sequence[str], number: int | None = None) -> subprocess.Popen[bytes]:
    environment = os.environ | ({} if number is None else {NUMBER: str(number)})
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
    except OSError as error:
        script = by_shell(command) if error.errno == errno.ENOEXEC else None
        if script is None:
            raise
        return subprocess.Popen(script, stdin=subprocess.DEVNULL, env=environment)


def _wait(started: Sequence[subprocess.Popen[bytes]]) -> int:
    """Returns the status of the first that failed, or 0 when all have ended."""
    if len(started) == 1:
        return started[0].wait()
    while None in (ends := [process.poll() for process in started]) and not any(ends):
        time.sleep(_TICK)
    return next((status for status in ends if status), 0)


def _end_with_stdin(folders: Sequence[str], before: Collection[Path]) -> None:
    while os.read(0, 1 << 10):
        pass
    clean_up(os.environ[CHANNEL], folders, before)
    os._exit(0)


def segments() -> set[Path]:
    """The files in shared memory that an MPI of this user may have made."""
    paths = {path for pattern in _LEFT_BY_MPI for path in SHARED_MEMORY.glob(pattern)}
    mine = set()
    for path in paths:
        with suppress(OSError):
            if path.stat().st_uid == os.getuid():
                mine.add(path)
    return mine


def clean_up(channel: str, folders: Sequence[str], before: Collection[Path]) -> None:
    """Kills the processes of a group on this host, and removes its folders and what is new in shared memory and no
    process uses.
    """
    end = time.monotonic() + _PATIENCE
    while (left := group(channel)) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_TICK)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    if (new := segments() - set(before)) and not why_foreign():
        used = mapped()
        for path in new:
            if str(path) not in used:
                path.unlink(missing_ok=True)


def group(channel: str) -> list[int]:
    """The processes of this host with this channel in their environment, without the calling process."""
    if why_foreign():
        return []
    variable, pids = f"{CHANNEL}={channel}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                is_zombie = entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
                if not is_zombie and variable in entry.joinpath("environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
    return pids


def mapped() -> set[str]:
    """The files in shared memory that processes of this user have mapped."""
    files = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                lines = entry.joinpath("maps").read_text(errors="surrogateescape").splitlines()
                files |= {line.split(maxsplit=5)[-1] for line in lines if str(SHARED_MEMORY) in line}
    return files


if __name__ == "__main__":
    at = sys.argv.index("--")
    sys.exit(main(sys.argv[1:at], int(sys.argv[at + 1]), sys.argv[at + 2 :]))
