"""Draws the report of a finished run in a separate process, so that a failure does not affect the run.

The renderer is a JavaScript engine in a library. It reserves tens of gigabytes of address space, and aborts the process
if it cannot (`ulimit -v`, few descriptors, no threads left).
"""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
from pathlib import Path

from firsttouch.units import format_size
from firsttouch.workers.process import signal_name
from firsttouch.workers.protocol import one_line

TIMEOUT = 300.0
"""Seconds; a report of 10,000 points takes about ten."""


def write_report(directory: Path) -> str:
    """Writes report.html into `directory`. Returns '', or one sentence that says why it was not drawn."""
    if reason := _draw(directory):
        call = shlex.join(["firsttouch", "report", str(directory)])
        return f"the report was not drawn: {one_line(reason)}; {call} draws it"
    return ""


def _draw(directory: Path) -> str:
    command, before = [sys.executable, "-m", "firsttouch.report", str(directory)], _written(directory)
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        done = subprocess.run(command, **streams, timeout=TIMEOUT, check=False)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return f"did not finish within {TIMEOUT:g} s"
    except OSError as error:
        return f"its process could not be started: {error.strerror}"
    if done.returncode == 0:  # a module may have ended the process with os._exit
        return "" if _written(directory) != before else "its process ended before it was written"
    lines = done.stderr.decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    how = signal_name(-done.returncode) if done.returncode < 0 else f"exit status {done.returncode}"
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if done.returncode < 0 and limit != resource.RLIM_INFINITY:
        return f"its process ended by {how}, with no more than {format_size(limit)} of address space (ulimit -v)"
    return words if done.returncode > 0 and words else f"its process ended by {how}{f' ({words})' if words else ''}"


def _written(directory: Path) -> tuple[int, int] | None:
    """Identifies the present report.html by inode and time; None if there is none."""
    try:
        status = (directory / "report.html").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
