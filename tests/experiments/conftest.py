from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from small import SMALL
from tests.calls import DRAWN_BESIDES, call

from firsttouch.records.reading import Results, load_results


@pytest.fixture(scope="session")
def small_run(make_once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[[str], Results]:
    """Returns the results of an experiment's small run on every device of this machine. It runs once per session."""

    @cache
    def results(name: str) -> Results:
        def run(folder: Path) -> None:
            sets = [word for text in SMALL[name] for word in ("--set", text)]
            done = call("run", name, "--out", folder / "out", *sets, drawn=DRAWN_BESIDES)
            assert done.returncode == 0, done.stderr
            assert Path(done.stdout.splitlines()[-1]) == folder / "out/report.html"
            assert f"{name} on " in done.stdout

        return load_results(make_once(f"small-run-{name}", run) / "out")

    return results
