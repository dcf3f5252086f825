"""Python is started again so that no file of the working directory takes the place of a module; whose /proc it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firsttouch
from firsttouch.base.processes import python_code, python_module, why_foreign

SOURCES = Path(firsttouch.__file__).parent
PATHS = [os.path.abspath(entry) for entry in sys.path if entry]
FILES = ("types", "token", "queue", "random", "enum", "json/__init__", "runpy", "msgspec", "numpy/__init__", "site")


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A working directory with files that are named like modules."""
    for name in FILES:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"raise SystemExit('{name} of the user was executed')")
    return tmp_path


@pytest.mark.parametrize("safe_path", [pytest.param(True, marks=pytest.mark.skipif(
    sys.version_info < (3, 11), reason="this Python has no -P")), False])  # fmt: skip
def test_files_of_the_working_directory_are_not_executed(beside: Path, safe_path: bool) -> None:
    (beside / "site").mkdir()
    (beside / "site" / "asked.py").write_text(
        "import enum, json, numpy, queue, random, sys, token, types\nprint(__name__, sys.argv[1:])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(beside / "site"), *PATHS])}
    for command in (
        python_module("asked", "a b", "-c", safe_path=safe_path),
        python_code("import enum, numpy, sys, types; print(__name__, sys.argv[1:])", "a b", "-c", safe_path=safe_path),
    ):
        done = subprocess.run(command, cwd=beside, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "__main__ ['a b', '-c']\n"), done.stderr


def test_every_start_of_python_goes_through_these_commands() -> None:
    starts = {path.name for path in SOURCES.rglob("*.py") if "[sys.executable" in path.read_text()}
    assert starts == {"processes.py"}


@pytest.mark.slow
def test_a_run_beside_such_files(beside: Path) -> None:
    words = ["run", "latency", "--device", "cpu", "--set", "size=4KiB", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    command = python_module("firsttouch.cli.main", *words)
    done = subprocess.run(command, cwd=beside, env=environment, capture_output=True, text=True)
    assert (done.returncode, "not drawn" in done.stderr) == (0, False), done.stderr
    assert (beside / "out" / "report.html").exists()


@pytest.mark.parametrize(
    "own", [str(os.getpid() + 1), "1", f"{os.getpid()}0", "none"], ids=["next", "1", "longer", "none"]
)
def test_a_proc_of_another_pid_namespace_is_noticed(tmp_path: Path, own: str) -> None:
    (tmp_path / "self").symlink_to(own)
    assert "mount its own with `unshare --mount-proc`" in why_foreign(tmp_path)


def test_the_proc_of_this_process_is_its_own(tmp_path: Path) -> None:
    assert why_foreign() == ""
    assert why_foreign(tmp_path) == ""  # a copy of a machine without processes
    (tmp_path / "self").symlink_to(str(os.getpid()))
    assert why_foreign(tmp_path) == ""
