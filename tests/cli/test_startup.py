"""Heavy libraries are not loaded by short calls."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

from firsttouch import outcomes

HEAVY = ("numpy", "rich", "msgspec", "altair", "jinja2", "vl_convert", "firsttouch._core")


def loaded(code: str) -> set[str]:
    """The members of HEAVY that are loaded after `code`."""
    show = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}; {show}"], text=True, capture_output=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["firsttouch", "firsttouch.cli.main"])
def test_importing_the_package_or_the_command_line_loads_nothing_heavy(module):
    assert loaded(f"import {module}") == set()


@pytest.mark.parametrize("room", ["firsttouch.worker", "firsttouch.engine.runner", "firsttouch.work"])
def test_planning_and_workers_load_neither_numpy_nor_what_draws(room):
    code = f"import {room}; from firsttouch.experiments import all_experiments; all_experiments()"
    assert loaded(code) <= {"msgspec", "firsttouch._core"}


def test_reading_records_of_applications_does_not_load_the_core():
    modules = [f"firsttouch.outcomes.{module.name}" for module in pkgutil.iter_modules(outcomes.__path__)]
    assert modules
    assert loaded(f"import {', '.join(modules)}") == {"msgspec"}
