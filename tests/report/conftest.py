from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.conftest import MakeOnce

sys.path.insert(0, str(Path(__file__).parent))
import sample
from browser import Browser
from kinds import KINDS


def _rendered(make_once: MakeOnce, name: str) -> str:
    """The page of a function of `sample`, drawn once per test run."""
    from firsttouch.report.page import render

    def draw(folder: Path) -> None:
        page = render({"out": getattr(sample, name)()}, sample.EXPERIMENTS)
        (folder / "report.html").write_text(page, encoding="utf-8", newline="")

    return (make_once(f"page-{name}", draw) / "report.html").read_bytes().decode()


@pytest.fixture(scope="session")
def page(make_once: MakeOnce) -> str:
    return _rendered(make_once, "results")


@pytest.fixture(scope="session")
def hostile_page(make_once: MakeOnce) -> str:
    return _rendered(make_once, "hostile")


@pytest.fixture(scope="session")
def _started() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(_started: Browser) -> Browser:
    """A Chromium that one process of a test run starts once, without messages and requests of earlier pages."""
    _started.console.clear()
    _started.requests.clear()
    return _started


REPLACE = "import firsttouch.experiments, sample\nfirsttouch.experiments.all_experiments = lambda: sample.EXPERIMENTS\n"


@pytest.fixture
def known(monkeypatch, tmp_path_factory):
    """Replaces the package's experiments by those of the sample, here and in the process that draws reports."""
    monkeypatch.setattr("firsttouch.experiments.all_experiments", lambda: sample.EXPERIMENTS)
    startup = tmp_path_factory.mktemp("startup")
    (startup / "sitecustomize.py").write_text(REPLACE)
    folders = [str(startup), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))


@pytest.fixture
def drawn_here(monkeypatch):
    """Reports are drawn by the process of the test, for tests that look at what was written and not at how."""
    from firsttouch.report.__main__ import write

    monkeypatch.setattr("firsttouch.engine.reporting._written_paths", write)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages have no figures, for tests that look at the texts."""
    for module in ("page", "profile"):
        monkeypatch.setattr(f"firsttouch.report.{module}.to_svgs", lambda specs: ["" for _ in specs])


@pytest.fixture
def write(tmp_path):
    """Writes results as `firsttouch run` does, and returns the directory."""

    def write(results, name="out") -> Path:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "machine.json").write_bytes(msgspec.json.encode(results.machine))
        lines = [msgspec.json.encode(r) + b"\n" for r in results.records]
        (directory / "results.jsonl").write_bytes(b"".join(lines))
        return directory

    return write


@pytest.fixture(params=KINDS)
def any_page(request, make_once: MakeOnce) -> Path:
    """A page of every kind, each written once per test run."""
    pages = make_once(f"kind-{request.param}", KINDS[request.param])
    return next(path for path in sorted(pages.rglob("*.html")))
