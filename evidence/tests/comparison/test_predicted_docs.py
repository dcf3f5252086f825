"""What docs/reproduce.md and docs/model.md say of predictions is what follows from the platform files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]
WORDS = {"yes", "part", "value", "scope", "real", "no"}


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "evidence/recompute")
        yield load_script(ROOT / "evidence/recompute/modelled.py")


@pytest.mark.parametrize(
    "named", ["firsttouch machine", "--set target=gfx942", "run codegen --device hip:0", "app nw "]
)
def test_a_command_of_the_page_is_predicted_as_it_says(program: ModuleType, named: str) -> None:
    line = next(cells for _, cells in program.rows(program.PAGE.read_text()) if named in cells[2])
    assert program.word_of(line) == line[-1]


def test_every_line_says_how_much_is_predicted(program: ModuleType) -> None:
    lines = [cells for _, cells in program.rows(program.PAGE.read_text())]
    assert len(lines) > 100
    assert {cells[-1] for cells in lines} == WORDS
    assert all((cells[-1] == "no") == cells[2].startswith("none: ") for cells in lines)


@pytest.mark.exhaustive
def test_all_that_the_docs_say_of_predictions_is_so(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--check"]) == 0, capsys.readouterr().out
