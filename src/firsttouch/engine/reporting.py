"""Draws reports in a separate process, so that a failure of the renderer does not affect the caller.

The renderer is a JavaScript engine in a library. It reserves tens of gigabytes of address space, and aborts the process
if it cannot (`ulimit -v`, few descriptors, no threads left).
"""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from firsttouch.base.errors import UsageError
from firsttouch.base.processes import python_module

TIMEOUT = 300.0
"""Seconds; a report of 10,000 points takes about ten."""
WRONG_CALL = 2
COMPARISON, ADVICE = "comparison", "advice"
"""What a process is asked for instead of a format of `draw`."""


class NotDrawn(Exception):
    """The process that draws the report failed. The message says how."""


def draw(directories: Sequence[Path], form: str = "html", output: Path | None = None) -> list[Path]:
    """Writes the report of `directories`, their figures or their table of points. Returns the paths of the files.

    Raises:
        UsageError: a directory holds no results, or `output` cannot be written.
        NotDrawn: the process that draws the report failed.
    """
    return _written_paths([form, output and str(output), [str(directory) for directory in directories]])


def draw_comparison(sides: Sequence[str], output: Path, limit: float | None) -> Path:
    """Writes the page of a comparison (report/comparison.py). Returns its path. Raises as `draw`."""
    return _written_paths([COMPARISON, str(output), list(sides), limit])[0]


def draw_advice(
    directories: Sequence[Path], output: Path, profile: Path, device: str | None, process: int | None
) -> Path:
    """Writes the page of advice about a traced program (report/advised.py). Returns its path. Raises as `draw`."""
    named = [str(directory) for directory in directories]
    return _written_paths([ADVICE, str(output), named, str(profile), device, process])[0]


def advice_page(
    directories: Sequence[Path], out: Path | None, profile: Path | None, device: str | None, process: int | None
) -> tuple[Path | None, str]:
    """The page of advice about a traced program, if `out` asks for one; or None and why it was not drawn. Raises
    UsageError for other advice, which has none.
    """
    if out is None:
        return None, ""
    if profile is None:
        raise UsageError("--out writes the page of advice about a traced program; name that with --profile DIR")
    return page_or_reason(lambda: draw_advice(directories, out, profile, device, process))


def page_or_reason(draw_page: Callable[[], Path]) -> tuple[Path | None, str]:
    """The page that a call draws; or None and why it was not drawn, which does not lose what it is about."""
    try:
        return draw_page(), ""
    except NotDrawn as error:
        return None, str(error)


def _written_paths(call: Sequence[object]) -> list[Path]:
    """The paths of what the process wrote."""
    return _paths_of(_started(call, subprocess.DEVNULL))


def _started(call: Sequence[object], stdin: int) -> subprocess.Popen[bytes]:
    """The process that draws."""
    command = python_module("firsttouch.report", json.dumps(call))
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise NotDrawn(f"its process could not be started: {error.strerror}") from error


def _paths_of(process: subprocess.Popen[bytes]) -> list[Path]:
    """The paths of what the process wrote, when it has ended."""
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise NotDrawn(f"did not finish within {TIMEOUT:g} s") from None
    finally:
        process.kill()
        process.wait()
    if process.returncode == 0:
        if not stdout:  # a module may have ended the process with os._exit
            raise NotDrawn("its process ended before it was written")
        return [Path(name) for name in json.loads(stdout)]
    from firsttouch.base.units import format_size
    from firsttouch.workers.process import signal_name
    from firsttouch.workers.protocol import one_line

    lines = stderr.decode(errors="replace").split("\n")
    last = one_line(next((line.strip() for line in reversed(lines) if line.strip()), ""))
    status = process.returncode
    if status == WRONG_CALL and last:
        raise UsageError(last)
    how = signal_name(-status) if status < 0 else f"exit status {status}"
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if status < 0 and limit != resource.RLIM_INFINITY:
        raise NotDrawn(f"its process ended by {how}, with at most {format_size(limit)} of address space (ulimit -v)")
    raise NotDrawn(last if status > 0 and last else f"its process ended by {how}{f' ({last})' if last else ''}")


def write_report(directory: Path) -> str:
    """Writes report.html into `directory`. Returns '', or one sentence that says why it was not drawn."""
    return _problem(directory, lambda: _written_paths(_page_of(directory)))


def _page_of(directory: Path) -> list[object]:
    return ["html", None, [str(directory)]]


def _problem(directory: Path, draw_page: Callable[[], object]) -> str:
    """Why a page was not drawn, '' if it was."""
    try:
        draw_page()
    except (UsageError, NotDrawn) as error:
        call = shlex.join(["firsttouch", "report", str(directory)])
        return f"the report was not drawn: {error}; {call} draws it"
    return ""


class ProfilePage:
    """A process that draws the page of a profile while this one writes the profile's end and adds up its numbers. It
    loads its modules at once.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._problem = _problem(directory, self._start)

    def _start(self) -> None:
        self._process = _started([*_page_of(self._directory), True], subprocess.PIPE)

    def go_on(self) -> None:
        """Says that the profile is complete, and the second time, that its numbers are written."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it has ended
                self._process.stdin.write(b"1")
                self._process.stdin.flush()

    def finish(self) -> str:
        """Waits for the page. Returns as `write_report`."""
        process, self._process = self._process, None
        return self._problem or _problem(self._directory, lambda: process and _paths_of(process))

    def drop(self) -> None:
        """Ends the process, if `finish` was not called."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
