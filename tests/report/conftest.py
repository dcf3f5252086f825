from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sample


@pytest.fixture(scope="session")
def page() -> str:
    from firsttouch.report.page import render

    return render({"out": sample.results()}, sample.EXPERIMENTS)


@pytest.fixture(scope="session")
def hostile_page() -> str:
    from firsttouch.report.page import render

    return render({"out": sample.hostile()}, sample.EXPERIMENTS)


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
def write(tmp_path):
    """Writes results as `firsttouch run` would; returns the directory."""

    def write(results, name="out") -> Path:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "machine.json").write_bytes(msgspec.json.encode(results.machine))
        lines = [msgspec.json.encode(r) + b"\n" for r in results.records]
        (directory / "results.jsonl").write_bytes(b"".join(lines))
        return directory

    return write
