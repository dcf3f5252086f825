"""Calls of `firsttouch profile` by tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import tests.calls

import firsttouch.cli.main
import firsttouch.cli.profiled
import firsttouch.engine.reporting
import firsttouch.profile.profiler
import firsttouch.profile.views
from firsttouch.profile.reading import read


def start(
    *arguments: str,
    drawn: bool = False,
    env: Mapping[str, str] | None = None,
    preexec_fn: Callable[[], object] | None = None,
    **more: Any,
) -> subprocess.Popen[str]:
    """Starts `firsttouch profile` as a fork of this process, which has loaded its modules and the parser's already.

    drawn: whether the page is drawn. The rest is as in subprocess.Popen.
    """

    def run_instead_of_execute() -> None:
        status = 1
        try:
            os.closerange(3, 4096)  # Popen waits for the end of a pipe, as the execution of a program closes it
            if preexec_fn is not None:
                preexec_fn()
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            if not drawn:
                firsttouch.engine.reporting.ProfilePage = MagicMock(**{"return_value.finish.return_value": ""})
            sys.stdin, sys.stdout, sys.stderr = (open(i, mode) for i, mode in enumerate(("r", "w", "w")))  # noqa: SIM115
            sys.argv = ["firsttouch", "profile", *arguments]
            firsttouch.cli.main.main()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    _load_parser()
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "restore_signals": False, **more}
    return subprocess.Popen(["firsttouch"], executable=sys.executable, preexec_fn=run_instead_of_execute, **options)


@cache
def _load_parser() -> None:
    """The parser loads modules at its first call."""
    assert tests.calls.call("profile").returncode == firsttouch.cli.main.WRONG_CALL


def call(*arguments: str, input: str | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    """Calls `firsttouch profile` and waits for its end."""
    if input is not None:
        more["stdin"] = subprocess.PIPE
    with start(*arguments, **more) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=60)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


def until(what: Any, seconds: float = 60.0, apart: float = 0.01) -> Any:
    """What a function returns as soon as that is not false. apart: seconds between two calls."""
    end = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(apart)
    return found


def has_sampled(directory: Path) -> bool:
    file = directory / "profile.jsonl"
    return file.is_file() and b'"samples"' in file.read_bytes()


def values(directory: Path, of: str, column: str) -> Sequence[float]:
    """What a profile that is being written has of a counter until now, and before that 0."""
    curve = read(directory).curve(of, column) if has_sampled(directory) else None
    return [0.0, *(curve.values if curve is not None else ())]
