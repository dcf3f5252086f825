"""Calls of the firsttouch command by tests: in this process, or as a program where that is what matters."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

import typer

from firsttouch.base.errors import NOT_JUDGED, UsageError
from firsttouch.cli import main
from firsttouch.cli.declaration import Command
from firsttouch.engine import discover, reporting, runner
from firsttouch.engine.choices import BUDGETS
from firsttouch.machine import effects, facts, libraries, nvidia, processor_time
from firsttouch.machine.backends import NATIVE
from firsttouch.machine.peers import with_other_backends
from firsttouch.records.schema import DeviceInfo, Library

COMMAND = (sys.executable, "-m", "firsttouch.cli.main")
_UNDRAWN = (
    "from firsttouch.engine import reporting; reporting.write_report = lambda *_: ''; "
    "from firsttouch.machine import processor_time; processor_time.others_share = lambda *uses, **options: None; "
    "from firsttouch.cli.main import main; main()"
)
UNDRAWN = (sys.executable, "-c", _UNDRAWN)
"""For tests that do not look at the report, which takes longer than their points do."""
DRAWN_BESIDES = bool(os.environ.get("FIRSTTOUCH_EXHAUSTIVE"))
"""For tests whose records are unlike those of other tests: with the exhaustive tests, the report is drawn too."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """In this process, other programs seem to leave the processors alone, and memory to come from hardware: what is
    measured of them depends on what else the machine of the tests does, and takes time. What of that machine distorts
    measurements is not said.
    """
    with (
        patch.object(processor_time, "others_share", lambda *uses, **options: None),
        patch.object(processor_time, "load_since", lambda before: {"others_percent": 0.0}),
        patch.object(effects, "touches", lambda available: {}),
        patch.object(effects, "pair", lambda processors: {}),
        patch.object(runner, "conditions", lambda topics: []),
    ):
        yield


def call(
    *words: object,
    cwd: Path | None = None,
    drawn: bool = False,
    drawn_by_process: bool = False,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Carries out `firsttouch WORDS` in this process, with streams that are no terminals. Workers are processes still.

    drawn: whether a run or a profile draws its report. drawn_by_process: whether a process draws what is drawn, as it
    does for users; otherwise this process does, which has loaded what that takes. environment: variables besides those
    of this process. Devices, and what NVML says of them, are looked for once, which takes as long as a short run
    does. A quick run samples for a twentieth of the time that it takes otherwise.
    """
    arguments = [str(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as during:
        during.enter_context(patch.dict(os.environ, environment))  # and removes what the call adds
        during.enter_context(_inside(cwd))
        during.enter_context(quiet())
        during.enter_context(contextlib.redirect_stdout(out))
        during.enter_context(contextlib.redirect_stderr(err))
        during.enter_context(patch.object(discover, "discover_devices", devices))
        during.enter_context(patch.object(nvidia, "collect", _collect))
        during.enter_context(patch.object(facts, "find_libraries", _libraries))
        during.enter_context(patch.dict(BUDGETS, quick=_SHORT))
        if not drawn:
            for module in (runner, reporting):
                during.enter_context(patch.object(module, "write_report", lambda *_: ""))
        if not drawn_by_process and reporting._written_paths is _written:
            during.enter_context(patch.object(reporting, "_written_paths", _draw))
        status = main.call(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


_written = reporting._written_paths


def _draw(drawing: Sequence[object]) -> list[Path]:
    """Draws here what a process would be asked for, with the same errors."""
    from firsttouch.report.__main__ import write

    try:
        with contextlib.redirect_stdout(sys.stderr):
            return write(drawing)
    except UsageError:
        raise
    except Exception as error:
        raise reporting.NotDrawn(traceback.format_exception_only(error)[-1].strip()) from error


_SHORT = dataclasses.replace(
    BUDGETS["quick"], seconds={name: seconds / 20 for name, seconds in BUDGETS["quick"].seconds.items()}
)
_discover, _ask_nvml = discover.discover_devices, nvidia.collect
_IRRELEVANT = ("PYTEST_CURRENT_TEST", "COLUMNS", "TMPDIR", "FIRSTTOUCH_MODULES", "FIRSTTOUCH_TEST_OUT", "STEADY_LOG",
               "RANKS_", "STANDIN_FLIP", "STANDIN_RCCL_FLIP", "STANDIN_CUPTI_")  # fmt: skip
"""The beginnings of the names of variables that change neither."""
Environment: TypeAlias = "frozenset[tuple[str, str]]"


def _environment() -> Environment:
    return frozenset((name, value) for name, value in os.environ.items() if not name.startswith(_IRRELEVANT))


_found: dict[tuple[str, Environment], list[DeviceInfo]] = {}


def devices(kinds: Iterable[str] = NATIVE) -> list[DeviceInfo]:
    """The devices of these kinds. Each kind is looked for once in each environment."""
    wanted, environment = list(kinds), _environment()
    new = [kind for kind in wanted if (kind, environment) not in _found]
    for device in _discover(new) if new else []:
        _found.setdefault((device.kind, environment), []).append(device)
    return with_other_backends(copy.deepcopy([d for kind in wanted for d in _found.get((kind, environment), [])]))


def _collect(timeout: float = 30.0, command: Sequence[str] | None = None) -> tuple[nvidia.Topics, str]:
    """What NVML, or the program `command`, says in each environment."""
    return copy.deepcopy(_collected(timeout, command and tuple(command), _environment()))


@cache
def _collected(timeout: float, command: tuple[str, ...] | None, environment: Environment) -> tuple[nvidia.Topics, str]:
    return _ask_nvml(timeout, command)


def _libraries() -> list[Library]:
    """The vendors' libraries in each environment."""
    return [*_libraries_found(_environment())]


@cache
def _libraries_found(environment: Environment) -> list[Library]:
    return libraries.find_libraries()


@contextlib.contextmanager
def _inside(cwd: Path | None) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(before if cwd is None else cwd)
    try:
        yield
    finally:
        os.chdir(before)


def invoke(command: Command, *arguments: object, **options: object) -> None:
    """A call of a command in this process, with values as the parser of the command line makes them. That it has not
    judged, its tests see in what it prints.
    """
    parameters = inspect.signature(command.callback).parameters
    values = dict(zip(parameters, arguments, strict=False)) | options
    try:
        command.callback(**{name: values.get(name, p.default) for name, p in parameters.items()})
    except typer.Exit as ended:
        if ended.exit_code != NOT_JUDGED:
            raise
