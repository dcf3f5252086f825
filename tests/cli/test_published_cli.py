"""`firsttouch published`: papers, rows that a search finds, JSON, and wrong calls."""

from __future__ import annotations

import json

import pytest
from tests.calls import invoke
from tests.schemas import assert_valid
from tests.texts import assert_states

import firsttouch
from firsttouch.base.errors import UsageError
from firsttouch.cli import published


def test_without_a_search_there_is_a_line_for_each_paper(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(published.command)
    out = capsys.readouterr().out
    assert "mi300a-upm" in out
    assert "--search WORD" in out
    assert len(out.splitlines()) < 25


def test_a_search_prints_what_was_measured_first_with_section_and_experiment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    invoke(published.command, search="latency gpu")
    out = capsys.readouterr().out
    node, single = out.split("\n\n")[:2]
    assert node.startswith("AMD Instinct MI300A quad-APU node: Schieffer et al. 2025 (mi300a-node)\nSec. 5.1")
    assert node.index("by p2p-latency: agent gpu; peer !self;") < node.index("Observation 1 prints 500")
    assert single.startswith("AMD Instinct MI300A: Wahlgren et al. 2025 (mi300a-upm)\nSec. IV-A")
    assert_states(single, "by latency: agent gpu;", "order random;")
    assert_states(out, "by pagefault: allocator mmap;", "scenario cpu;")


def test_a_long_list_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(published.command, search="mi300a")
    out = capsys.readouterr().out
    assert "not shown: add a word, --all or --json" in out
    invoke(published.command, search="mi300a", everything=True)
    assert len(capsys.readouterr().out) > 2 * len(out)


def test_json_has_rows_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(published.command, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert_valid("published", data)
    assert len(data["rows"]) == 967
    assert all(row["paper"] and row["section"] for row in data["rows"])


def test_words_that_no_row_has_are_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"no published result has 'bandwith' \(did you mean 'bandwidth'\?\)"):
        invoke(published.command, search="bandwith")


def test_figures_are_listed_by_the_numbers_of_their_papers(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(published.command, figures=True)
    out = capsys.readouterr().out
    assert [line.partition(":")[0] for line in out.splitlines() if ": " in line and line[0] != "d"][:2] == [
        "mi300a-upm",
        "mi300a-node",
    ]
    assert "Fig. 2    load latency of GPU and CPU by size and allocator" in out
    invoke(published.command, search="grace-hopper fig. 10", figures=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == firsttouch.published("grace-hopper fig. 10", figures=True)
    with pytest.raises(UsageError, match=r"has 'fig\. 99'"):
        invoke(published.command, search="fig. 99", figures=True)
