"""The tables of the docs that quote results/ are what `make docs` computes from the records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="the source distribution leaves out results/")
MEANS = "<!-- recomputed: means results/h200-apps* -->\n{}<!-- end of recomputed -->\n"


def recompute(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "docs/recompute", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def test_no_figure_is_stale() -> None:
    found = recompute("--check")
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_stale_figure_is_named_and_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n" + MEANS.format("") + "after\n")
    assert recompute(page).returncode == 0
    right = page.read_text()
    assert "`managed+prefetch`" in right
    assert right.startswith("before\n")
    assert right.endswith("after\n")
    stale = right.replace("0.", "7.", 1)
    page.write_text(stale)
    found = recompute("--check", page)
    assert (found.returncode, page.read_text()) == (1, stale)
    assert str(page) in found.stdout
    recompute(page)
    assert page.read_text() == right


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (MEANS.format("").replace("means", "nonesuch"), "nonesuch is neither"),
        (MEANS.format("").replace("h200-apps*", "nowhere"), "no such directory"),
        (MEANS.format("").replace("end of", "end"), "has no end"),
    ],
)
def test_a_wrong_comment_is_refused(page: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    found = recompute(path)
    assert found.returncode == 1
    assert message in found.stderr
    assert path.read_text() == page


def test_the_readme_can_be_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1200


def test_the_docs_stay_short() -> None:
    """At most 60,000 words in all; the bars between the cells of a table are none."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    words = [word for page in pages for word in page.read_text(encoding="utf-8").split()]
    assert sum(any(letter.isalnum() for letter in word) for word in words) <= 60_000
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split()) <= 900
