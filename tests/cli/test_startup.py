"""Heavy libraries are not loaded by short calls."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.calls import COMMAND
from typer.testing import CliRunner

import firsttouch
from firsttouch.cli import main
from firsttouch.harness import outcomes

HEAVY = ("numpy", "rich", "msgspec", "altair", "jinja2", "vl_convert", "firsttouch._core")


def loaded(code: str) -> set[str]:
    """The members of HEAVY that are loaded after `code`."""
    show = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}; {show}"], text=True, capture_output=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["firsttouch", "firsttouch.cli.main"])
def test_importing_the_package_or_the_command_line_loads_nothing_heavy(module):
    assert loaded(f"import {module}") == set()


@pytest.mark.parametrize(
    "room", ["firsttouch.engine.worker", "firsttouch.engine.runner", "firsttouch.engine.work_kinds"]
)
def test_planning_and_workers_load_neither_numpy_nor_what_draws(room):
    code = f"import {room}; from firsttouch.experiments import all_experiments; all_experiments()"
    assert loaded(code) <= {"msgspec", "firsttouch._core"}


def test_the_list_of_commands_is_not_truncated() -> None:
    listed = CliRunner().invoke(main.app, ["--help"]).stdout.partition("Commands:")[2]
    assert "..." not in listed
    assert [line.split()[0] for line in listed.splitlines() if line[:3].strip() == line[2:3] != ""] == [
        command.name for command in main.app.registered_commands
    ]


def test_reading_records_of_applications_does_not_load_the_core():
    modules = [f"firsttouch.harness.outcomes.{module.name}" for module in pkgutil.iter_modules(outcomes.__path__)]
    assert modules
    assert loaded(f"import {', '.join(modules)}") == {"msgspec"}


RESULTS = Path(__file__).parents[2] / "results"
RUN = str(RESULTS / "xeon-vm-quick")
SHORT = {
    "mark": ["solve"],
    "profile": ["--sources"],
    "report": [RUN, "--format", "csv", "-o", "points.csv"],
    "compare": [RUN, RUN],
    "advise": [RUN, "--pattern", "stream"],
    "interfaces": [str(RESULTS / "h200-message")],
    "published": [],
    "claims": [RUN],
}
"""Calls of commands that other tests do not start as programs."""


@pytest.mark.parametrize("command", [command.name for command in main.app.registered_commands])
def test_every_command_starts_as_a_program(command, tmp_path):
    words = SHORT.get(command, ["--help"])
    done = subprocess.run([*COMMAND, command, *words], cwd=tmp_path, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or command == "mark"


def test_the_package_is_a_command_and_ships_its_types(tmp_path):
    run = [sys.executable, "-m", "firsttouch", "--version"]
    done = subprocess.run(run, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert done.stdout == f"firsttouch {firsttouch.__version__}\n"
    assert Path(firsttouch.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("command", [[], *([name] for name in ("run", "app", "profile", "report", "advise", "mark"))])
def test_h_is_short_for_help(command):
    short, long = (CliRunner().invoke(main.app, [*command, word]) for word in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert "-h, --help" in short.stdout
