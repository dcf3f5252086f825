"""firsttouch examples: every command of the docs runs without a clone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

from firsttouch.base.examples import examples

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("docs/extending/*.md"),
    *ROOT.glob("docs/examples/*.py"),
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("new") / "examples"
    done = call("examples", directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^results/h200-standard +a run on an NVIDIA H200", done.stdout, re.MULTILINE)
    return directory


def test_they_hold_each_file_that_a_command_of_the_docs_names(copied: Path) -> None:
    commands = [
        line
        for page in PAGES
        for line in re.findall(r"(?:firsttouch [a-z]+|reframe|load\() ?.*", page.read_text())
        if "](" not in line
    ]
    named = {
        path for line in commands for path in re.findall(r"\b(?:results|docs/examples|packaging)/[\w./-]*\w", line)
    }
    assert {"results/h200-standard", "docs/examples/smooth.py"} <= named
    assert [path for path in sorted(named) if not (copied / path).exists()] == []


def test_what_is_printed_last_can_be_typed(copied: Path) -> None:
    last = call("examples", copied / "again").stdout.splitlines()[-1]
    change, advise = (shlex.split(words) for words in last.removeprefix("Next: ").split(" && "))
    done = call(*advise[1:], cwd=Path(change[1]))
    assert done.returncode == 0, done.stderr
    assert "fdtd3d" in done.stdout


def test_they_are_whole_and_can_be_written(copied: Path) -> None:
    for example in examples():
        files = [file for file in (copied / example.path).rglob("*") if file.is_file()]
        assert files
        assert {file.name for file in (copied / example.path).iterdir()} == {
            file.name for file in (ROOT / example.path).iterdir() if file.name not in ("__pycache__", "report.html")
        }
        assert all(file.stat().st_mode & 0o200 for file in files)
    assert not list(copied.rglob("__pycache__"))


def test_nothing_is_overwritten(copied: Path, tmp_path: Path) -> None:
    done = call("examples", copied)
    assert done.returncode == 2
    assert_states(done.stderr, f"{copied}/docs/examples exists", "give a directory")
    (tmp_path / "results").mkdir()
    (tmp_path / "results/h200-standard").symlink_to("nowhere")
    assert "results/h200-standard exists" in call("examples", ".", cwd=tmp_path).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_json_has_the_paths(tmp_path: Path) -> None:
    done = json.loads(call("examples", "--json", cwd=tmp_path).stdout)
    assert done["directory"] == "firsttouch-examples"
    assert all((tmp_path / done["directory"] / example["path"]).is_dir() for example in done["examples"])


def test_all_runs_are_shipped() -> None:
    shipped = {example.path for example in examples() if example.path.startswith("results/")}
    assert shipped == {f"results/{path.name}" for path in (ROOT / "results").iterdir()}
