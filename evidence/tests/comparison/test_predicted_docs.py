"""What docs/reproduce.md and docs/model.md say of predictions is what follows from the platform files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.scripts import load_script

from firsttouch.records.papers.studies import studies
from firsttouch.records.schema import SCHEMA, Record

ROOT = Path(__file__).resolve().parents[3]
WORDS = {"yes", "value", "scope", "real", "no"}
PART = "part: without "
LINES = [(paper, line) for paper, study in studies().items() for line in study.lines]


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "evidence/recompute")
        yield load_script(ROOT / "evidence/recompute/modelled.py")


@pytest.mark.parametrize(
    "named",
    [
        "firsttouch machine",
        "--set target=gfx942",
        "run codegen --device hip:0",
        "app nw ",
        "app dwt2d --device hip:0",  # without kernels, files
        "--set engine=copy-engine --set direction=h2d,d2h --set allocator=malloc,pinned --set other=device",  # sdma=0
        "run migration --device cuda:0 --preset standard --set allocator=malloc",  # refused values
        "run pagefault --device cpu --preset standard",  # a factor that changes nothing
    ],
)
def test_a_command_of_the_page_is_predicted_as_it_says(program: ModuleType, named: str) -> None:
    paper, line = next((paper, line) for paper, line in LINES if named in line.command)
    assert program.word_of(paper, line) == line.modelled


def test_every_line_says_how_much_is_predicted() -> None:
    said = {line.modelled for _, line in LINES}
    assert len(LINES) > 100
    assert {word for word in said if not word.startswith(PART)} == WORDS
    assert any(f"{PART}kernels" in word for word in said)
    assert any(f"{PART}sdma=0" in word for word in said)
    assert all((line.modelled == "no") == (not line.command) for _, line in LINES)


def test_what_is_missing_is_named_by_conditions(program: ModuleType) -> None:
    def record(status: str, reason: str = "", **factors: object) -> Record:
        return Record(SCHEMA, "transfer", "model:one", {**factors}, "GB/s", status, reason=reason)  # type: ignore[arg-type, dict-item]

    kept = [record("ok", sdma="1", size=n, memory="a") for n in (1, 2)]
    assert program.refused(kept) == []
    by_name = record("skipped", "not modelled: sdma=0", sdma="0", size=1, memory="a")
    by_value = record("skipped", "one has no value", sdma="1", size=1, memory="b")
    by_none = record("skipped", "for some reason", sdma="1", size=1, memory="a")
    assert program.refused([*kept, by_name]) == ["sdma=0"]
    assert program.refused([*kept, by_name, by_value]) == ["memory=b", "sdma=0"]
    assert program.refused([*kept, by_none]) == ["some points"]


@pytest.mark.exhaustive
def test_all_that_the_docs_say_of_predictions_is_so(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--check"]) == 0, capsys.readouterr().out
