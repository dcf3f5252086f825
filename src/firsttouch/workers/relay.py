"""The relay of a rank: starts the rank's worker, and passes tasks and replies between it and the runner.

A launcher such as mpirun starts one relay for each rank, on any host. FIRSTTOUCH_RANKS tells where the runner listens.
The relay says who it is, gets the environment of the worker, and ends the worker when the runner closes the connection.
It depends on little but the standard library, so that it can say how its worker ended, whatever that did.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from firsttouch.base.processes import python_module, why_foreign

CHANNEL = "FIRSTTOUCH_RANKS"
"""The environment variable with host, port and token of the runner, separated by colons."""
NUMBER = "FIRSTTOUCH_RANK_NUMBER"
_NUMBERS = (NUMBER, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "PALS_RANKID", "FLUX_TASK_RANK")
"""The environment variables by which launchers tell a process its rank."""
REPLY, ENDED = b"R", b"E"
"""The first byte of a line to the runner: a reply of the worker, or how the worker ended."""
STOP_TIMEOUT = 2.0
_TICK = 0.05
_TAIL = 4096
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_PDEATHSIG = 1


def rank_of(environment: Mapping[str, str]) -> int:
    """The rank that the launcher has given to this process, or -1 if it tells none."""
    return next((int(environment[name]) for name in _NUMBERS if environment.get(name, "").isdecimal()), -1)


def resident(pid: int) -> int:
    """The bytes of host memory that a process of this host uses; 0 if that can't be read."""
    if why_foreign():
        return 0
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def main() -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the launcher ends: so does this process
    host, port, token = os.environ[CHANNEL].rsplit(":", 2)
    runner = socket.create_connection((host, int(port)), timeout=60)
    hello = {"token": token, "rank": rank_of(os.environ), "host": socket.gethostname(), "pid": os.getpid()}
    runner.sendall(json.dumps(hello).encode() + b"\n")
    line, tasks = _first_line(runner)
    start = json.loads(line)
    runner.settimeout(None)
    worker = subprocess.Popen(
        python_module("firsttouch.engine.worker", str(os.getpid())),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **start["environment"]},
        start_new_session=True,
        close_fds=False,  # the launcher may have opened a descriptor for the rank
        bufsize=0,
    )
    threading.Thread(target=_pass_on_tasks, args=(runner, worker, tasks), daemon=True).start()
    words, memory_bytes = _relay(runner, worker, start["memory"])
    with suppress(OSError):
        runner.sendall(
            ENDED + json.dumps({"status": worker.wait(), "words": words, "took": memory_bytes}).encode() + b"\n"
        )
        runner.shutdown(socket.SHUT_WR)
        while runner.recv(1 << 16):  # until the runner has read it, or has ended
            pass
    return 0


def _first_line(runner: socket.socket) -> tuple[bytes, bytes]:
    """The first line that the runner sends, and what came with it."""
    data = b""
    while b"\n" not in data:
        if not (more := runner.recv(1 << 16)):
            sys.exit(1)
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


def _pass_on_tasks(runner: socket.socket, worker: subprocess.Popen[bytes], data: bytes) -> None:
    """Pass on tasks until the runner closes the connection. Then the worker has a moment to end. data: the first."""
    assert worker.stdin
    with suppress(OSError):
        while True:
            left = memoryview(data)
            while left:
                left = left[worker.stdin.write(left) :]
            if not (data := runner.recv(1 << 16)):
                break
    with suppress(OSError):
        worker.stdin.close()
    end = time.monotonic() + STOP_TIMEOUT
    while worker.poll() is None and time.monotonic() < end:
        time.sleep(_TICK)
    _kill(worker)


def _relay(runner: socket.socket, worker: subprocess.Popen[bytes], memory: int | None) -> tuple[str, int]:
    """Send each line of the worker's replies to the runner until the worker ends. Returns the last that the worker
    wrote to stderr, and the bytes of host memory for which it was killed, or 0.
    """
    assert worker.stdout
    assert worker.stderr
    selector = selectors.DefaultSelector()
    for pipe in (worker.stdout, worker.stderr):
        selector.register(pipe, selectors.EVENT_READ)
    line, printed, too_much = b"", b"", 0
    while selector.get_map():
        ready = selector.select(_TICK)
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
            elif key.fileobj is worker.stderr:
                printed = (printed + data)[-_TAIL:]
            else:
                *lines, line = (line + data).split(b"\n")
                with suppress(OSError):
                    runner.sendall(b"".join(REPLY + reply_line + b"\n" for reply_line in lines))
        if not too_much and memory is not None and (used := resident(worker.pid)) > memory:
            too_much = used
            _kill(worker)
        if not ready and worker.poll() is not None:  # a child of the worker may hold its pipes open
            break
    return printed.decode(errors="replace"), too_much


def _kill(worker: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
