"""Calls of the firsttouch command by tests: in this process, or as a program where that is what matters."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from unittest.mock import patch

from firsttouch.cli import main
from firsttouch.engine import discover, runner
from firsttouch.machine.backends import BACKENDS
from firsttouch.records.schema import DeviceInfo

COMMAND = (sys.executable, "-m", "firsttouch.cli.main")
_UNDRAWN = (
    "from firsttouch.engine import reporting; reporting.write_report = lambda directory: ''; "
    "from firsttouch.cli.main import main; main()"
)
UNDRAWN = (sys.executable, "-c", _UNDRAWN)
"""For tests that do not look at the report, which takes longer than their points do."""
DRAWN_BESIDES = bool(os.environ.get("FIRSTTOUCH_EXHAUSTIVE"))
"""For tests whose records are unlike those of other tests: with the exhaustive tests, the report is drawn too."""


def call(
    *words: object, cwd: Path | None = None, drawn: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Carries out `firsttouch WORDS` in this process, with streams that are no terminals. Workers are processes still.

    drawn: whether a run draws its report. environment: variables besides those of this process. Devices are looked for
    once, which takes as long as a short run does.
    """
    arguments = [str(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as during:
        during.enter_context(patch.dict(os.environ, environment))  # and removes what the call adds
        during.enter_context(_inside(cwd))
        during.enter_context(contextlib.redirect_stdout(out))
        during.enter_context(contextlib.redirect_stderr(err))
        during.enter_context(patch.object(discover, "discover_devices", _devices))
        if not drawn:
            during.enter_context(patch.object(runner, "write_report", lambda directory: ""))
        status = main.call(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


_discover = discover.discover_devices


def _devices(kinds: Iterable[str] = BACKENDS) -> list[DeviceInfo]:
    """The devices of these kinds, found once for each environment."""
    irrelevant = ("PYTEST_CURRENT_TEST", "COLUMNS", "FIRSTTOUCH_MODULES")
    environment = frozenset((name, value) for name, value in os.environ.items() if name not in irrelevant)
    return copy.deepcopy(_found(tuple(kinds), environment))


@cache
def _found(kinds: tuple[str, ...], environment: frozenset[tuple[str, str]]) -> list[DeviceInfo]:
    return _discover(kinds)


@contextlib.contextmanager
def _inside(cwd: Path | None) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(before if cwd is None else cwd)
    try:
        yield
    finally:
        os.chdir(before)
