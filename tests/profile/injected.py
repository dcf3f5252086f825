"""What the tests of the injected library share: where it is, programs that use it, and what they wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from firsttouch.profile.inject import inject_environment, injected_library
from firsttouch.profile.journal import read_journals
from firsttouch.profile.recorded import ProcessJournal

TOP = Path(__file__).parents[2]
HERE = Path(__file__).parent


def compiled(source: str, target: Path, *options: str, language: str = "c") -> Path:
    """Compiles a program. Skips the test if there is no compiler."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler here to build the program with")
    command = [compiler, "-x", language, "-O1", "-g", "-pthread", source, "-x", "none", "-o", target, *options, "-ldl"]
    subprocess.run(command, check=True, timeout=100)
    return target


def environment(directory: Path, *, nvtx: bool = True, trace: bool = False, **more: str) -> dict[str, str]:
    """The environment of a target that writes journals into `directory`."""
    if not injected_library().is_file():
        pytest.skip(f"{injected_library()} was not built")
    current = {name: value for name, value in os.environ.items() if "INJECTION64" not in name}
    added, states = inject_environment(directory, nvtx=nvtx, trace=trace, current=current)
    assert all(state.active for state in states)
    return current | added | more


def run(command: Sequence[str | Path], variables: dict[str, str], status: int = 0) -> str:
    """Runs a target, which must not write anything to stderr. Returns what it printed."""
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


def only_journal(directory: Path) -> ProcessJournal:
    """The one journal that was written."""
    (journal,) = read_journals(directory)
    return journal


def python(script: str) -> list[str]:
    """The command that runs a script in this Python."""
    return [sys.executable, "-c", script]
