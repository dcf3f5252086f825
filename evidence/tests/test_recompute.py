"""The tables of the docs that quote records are what `make evidence` computes from the records."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.calls import call
from tests.port import tries
from tests.scripts import load_script
from tests.texts import assert_states

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
MEANS = "<!-- recomputed: means results/h200-apps* -->\n{}<!-- end of recomputed -->\n"


Recompute = Callable[..., int]


@pytest.fixture(scope="module")
def recompute() -> Iterator[Recompute]:
    """The program, called in this process with words of its command line. Returns its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "evidence/recompute")
        program = load_script(ROOT / "evidence/recompute/__main__.py")
        yield lambda *words: program.main([str(word) for word in words])


@pytest.mark.exhaustive
def test_no_figure_is_stale() -> None:
    """.ci/run checks it for every change, in its step of the evidence."""
    found = subprocess.run([sys.executable, ROOT / "evidence/recompute", "--check"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_stale_figure_is_named_and_rewritten(
    recompute: Recompute, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n" + MEANS.format("") + "after\n")
    assert recompute(page) == 0
    right = page.read_text()
    assert "`managed+prefetch`" in right
    assert right.startswith("before\n")
    assert right.endswith("after\n")
    stale = right.replace("0.", "7.", 1)
    page.write_text(stale)
    assert (recompute("--check", page), page.read_text()) == (1, stale)
    assert f"{page}: out of date" in capsys.readouterr().out
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
def test_a_wrong_comment_is_refused(recompute: Recompute, page: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    with pytest.raises(SystemExit, match=message):
        recompute(path)
    assert path.read_text() == page


def rows_of(page: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in (ROOT / page).read_text().splitlines() if line[:2] == "| "]


def test_the_readme_has_the_numbers_that_the_evidence_computes() -> None:
    said = " ".join(README.read_text().split())
    judged = [row for row in rows_of("evidence/advice.md") if row[0] == "all with three repetitions or more"]
    (h200, h100) = ((cases, mean, worst.partition(",")[0]) for _, cases, mean, _, worst, *_ in judged)
    assert f"In {h200[0]} cases on H200s the advised strategy took {h200[1]} times as long" in said
    assert f"{h200[2]} at worst; in {h100[0]} on H100s {h100[1]} and {h100[2]} (" in said
    sizes = [row for row in rows_of("docs/model.md") if row[0].endswith("iB")]
    (every, exact, near) = ([int(row[column]) for row in sizes] for column in (1, 2, 3))
    assert (len(sizes), {*every}) == (3, {21})
    assert f"in {min(exact)} to {max(exact)} of 21 applications" in said
    assert f"within 0.5 % in {min(near)} to {max(near)}." in said
    error = next(row for row in rows_of("docs/model.md") if row[0] == "h200-pcie")
    assert f"within {error[2]} on H200s" in said
    assert f"a second H200 misses by {error[4].partition(',')[0]}." in said


def test_a_prediction_is_printed_as_the_readme_says(tmp_path: Path) -> None:
    shown = re.search(r"^    \$ (firsttouch app .*)\n((?: {4}.*\n)+?) {4}\.\.\.$", README.read_text(), re.MULTILINE)
    assert shown is not None
    command, printed = shown.groups()
    done = call(*shlex.split(command)[1:], cwd=tmp_path)
    assert (done.returncode, done.stderr.count("skipped")) == (0, 0)
    for line in printed.splitlines():
        assert " ".join(line.split()) in " ".join(done.stdout.split())


def test_tables_of_what_was_tried_have_measured_and_predicted_times(tmp_path: Path) -> None:
    spread = (0.9, 0.95, 1.0, 1.05, 1.1)
    times = {"none": [*spread], "managed": [t / 2 for t in spread], "managed+prefetch": [2 * t for t in spread]}
    predicted = {"managed": (0.6, 0.4, 0.7), "managed+prefetch": (0.8, 0.7, 0.9)}
    first = tries.written(tmp_path / "a", tries.found(times, predicted))
    other = tries.written(tmp_path / "b", tries.found({"none": [3.0]}, command=["./b", "2"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "evidence/recompute")
        tables = load_script(ROOT / "evidence/recompute/tried.py").OF_TRIES
    rows = [line.strip("| ").split(" | ") for line in tables["tried-times"]([first, other]).splitlines()]
    assert rows[2][:4] == ["`app 1`", "5", "1 s (0.9 to 1.1)", "0.50 (0.49 to 0.51)"]
    assert rows[3][:3] == ["`b 2`", "1", "3 s"]
    beside = tables["tried-beside"]([first]).splitlines()
    assert [line.split(" | ")[-1].strip(" |") for line in beside[2:]] == ["yes", "no"]
    assert "0.60 (0.40 to 0.70)" in beside[2]
    assert_states(tables["tried-judged"]([first]), "2 estimates", "3 pairs")
    for paths, message in (([other], "--prices"), ([first, ROOT / "docs", ROOT / "src"], "name one run")):
        with pytest.raises(SystemExit, match=message):
            tables["tried-judged"](paths)
