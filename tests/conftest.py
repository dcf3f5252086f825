"""What all tests share: fixtures of all processes of pytest-xdist, and whether the exhaustive tests run."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import settings
from tests.mpi import MPIS, Mpi

WITHOUT_SLOW = "FIRSTTOUCH_TEST_WITHOUT_SLOW"
"""An environment variable, for the processes of pytest-xdist: the call names neither files nor marks."""


def pytest_configure(config: pytest.Config) -> None:
    """Tells all tests, and the programs that they start, which tests run."""
    expression = config.option.markexpr
    if "not exhaustive" not in expression:
        os.environ.setdefault("FIRSTTOUCH_EXHAUSTIVE", "1")
    if expression == "not exhaustive" and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        os.environ[WITHOUT_SLOW] = "1"
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and what is printed depends on it
    settings.register_profile("tests", max_examples=100 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else 30)
    settings.load_profile("tests")
    keep_compiled_templates()
    gc.disable()  # until all tests are collected, of which nothing becomes garbage


def keep_compiled_templates() -> None:
    """Templates of pages are compiled once in a process, which takes longer than it takes to draw a small page."""
    compile_template = jinja2.Environment.compile
    compiled: dict[object, object] = {}

    def compile_once(env: Any, source: Any, *more: Any, **options: Any) -> Any:
        options_of_env = (env.autoescape, env.trim_blocks, env.lstrip_blocks, env.undefined)
        key = (source, more, tuple(options.items()), options_of_env, frozenset(env.filters))
        if key not in compiled:
            compiled[key] = compile_template(env, source, *more, **options)
        return compiled[key]

    jinja2.Environment.compile = compile_once  # type: ignore[method-assign, assignment]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each process of pytest-xdist begins to collect elsewhere, so that they compile different files in a new clone."""
    report = yield
    worker, number = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker and isinstance(collector, pytest.Dir) and collector.path == Path(__file__).parent:
        begin = len(report.result) * int(worker.removeprefix("gw")) // number
        report.result = [*report.result[begin:], *report.result[:begin]]
    return report


LONGEST_FIRST = ("standins", "engine", "profile", "apps", "cli", "report", "experiments")
"""Folders whose files take longest. They begin first, so that no process works on one when the others are done."""


LONG = ("ranks_on_hip", "small_runs", "ranks", "profiler", "reproduce", "hip_apps", "sampled", "every_claim", "library")
"""Files that take longest, in whatever folder. They begin before all others."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out slow tests where all are meant. Sorts by folder and file; the tests of a file stay as they are."""
    if WITHOUT_SLOW in os.environ:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    long = {f"test_{name}": i for i, name in enumerate(LONG)}
    order = {name: i for i, name in enumerate(LONGEST_FIRST)}

    def place(item: pytest.Item) -> tuple[int, int, Path]:
        folder = order.get(item.path.parent.name, len(order))
        return long.get(item.path.stem, len(long)), folder, item.path

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Exempts the collected tests from garbage collection, which every run of an application begins with."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # 700 takes a sixth of the time of the tests in this process
    gc.enable()


MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """make_once(name, fill): a folder that one process of this test run filled by calling fill(folder).

    The other processes wait for it. If `fill` raises, the next process that needs the folder calls it again.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        path, complete = base / name, base / f"{name}.complete"
        with open(base / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                fill(path)
                complete.touch()
        return path

    return folder


@pytest.fixture(params=MPIS, ids=lambda mpi: mpi.name)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI that FIRSTTOUCH_TEST_MPI names."""
    found: Mpi = request.param
    if found.why_not:
        pytest.skip(found.why_not)
    return found
