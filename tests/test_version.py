"""The version names the build: a tag, or the commit, or the sources where no history is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASK = "from scikit_build_core.metadata.setuptools_scm import dynamic_metadata; print(dynamic_metadata('version'))"


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, text=True, capture_output=True).stdout


def _version(folder: Path) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ASK], cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_version_of_a_tag_of_a_commit_and_of_no_history(tmp_path):
    pytest.importorskip("setuptools_scm", reason="needs setuptools-scm, as a build does")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert _version(tmp_path) == "0.2.0.dev0"
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "--short=7", "HEAD").strip()
    assert re.fullmatch(rf"0\.2\.0\.dev1\+g{commit}[0-9a-f]*", _version(tmp_path))
    _git(tmp_path, "tag", "-a", "v0.2.0", "-m", "0.2.0")
    assert _version(tmp_path) == "0.2.0"
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + "# changed\n")
    assert re.fullmatch(rf"0\.2\.1\.dev0\+g{commit}[0-9a-f]*\.d\d{{8}}", _version(tmp_path))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_names_a_copy_without_history_by_its_sources(tmp_path):
    def named() -> str:
        say = "include Makefile\nsay: ; @echo $$SETUPTOOLS_SCM_PRETEND_VERSION_FOR_FIRSTTOUCH\n"
        words = ["make", "-s", "-f", "-", "say"]
        done = subprocess.run(words, cwd=tmp_path, input=say, check=True, text=True, capture_output=True)
        return done.stdout.strip()

    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1")
    before = named()
    assert re.fullmatch(r"0\.2\.0\.dev0\+src\.[0-9a-f]{8}", before)
    (tmp_path / "src" / "a.py").write_text("a = 2")
    assert named() not in ("", before)
    (tmp_path / ".git").mkdir()
    assert named() == ""
