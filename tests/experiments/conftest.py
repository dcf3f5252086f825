from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from small import SMALL
from tests.calls import DRAWN_BESIDES

from firsttouch.records.reading import Results, load_results


@pytest.fixture(scope="session")
def small_run(make_once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[[str], Results]:
    """Returns the results of an experiment's small run on every device of this machine. It runs once per session."""

    @cache
    def results(name: str) -> Results:
        def run(folder: Path) -> None:
            sets = [word for text in SMALL[name] for word in ("--set", text)]
            command = [*DRAWN_BESIDES, "run", name, "--out", str(folder / "out"), *sets]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
            assert done.returncode == 0, done.stderr
            assert Path(done.stdout.splitlines()[-1]) == folder / "out/report.html"
            assert f"{name} on " in done.stdout

        return load_results(make_once(f"small-run-{name}", run) / "out")

    return results
