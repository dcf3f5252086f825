"""The summary of a run of applications on the terminal, from the records in results/h200-apps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.texts import assert_states

from firsttouch.cli.summary import show
from firsttouch.harness.outcomes.report import PointSummary, summary
from firsttouch.records.reading import load_results

ROWS = summary(load_results(Path(__file__).parents[2] / "results" / "h200-apps").records)


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def shown(rows: Sequence[PointSummary], capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The printed lines, as lists of words."""
    show(rows)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def of(application: str) -> list[PointSummary]:
    return [row for row in ROWS if row.application == application]


def test_few_points_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    skipped, *others = of("pointer_tree")
    lines = shown([*of("lud"), skipped, *others], capsys)
    assert ["lud"] in lines
    assert [
        "managed+prefetch",
        "1.92",
        "s",
        "1.09",
        "s",
        "3.985",
        "GiB",
        "3.875",
        "GiB",
        "0.76",
        "0.64",
        "0.99",
        "✓",
    ] in lines
    assert ["explicit", "skipped"] in lines
    assert "10 points: 9 verified, 1 skipped." in " ".join(word for line in lines for word in line)
    assert " ".join(lines[-1]) == f"- explicit of pointer_tree: skipped: {skipped.reason}"


def test_many_points_have_a_line_per_application(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(ROWS, capsys)
    assert ["lud", "2.53", "s", "1.04", "1.07", "0.76", "0.78"] in lines
    assert ["pointer_tree", "-", "1.26", "s", "1.31", "s", "602", "ms", "1.19", "s"] in lines
    assert ["cfd_concurrent,", "events", "on", "timeout"] in lines
    assert len(lines) < 45


@pytest.mark.parametrize("columns", ["60", "80"])
def test_a_narrow_terminal_gets_all_of_it(columns: str, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    show(ROWS)
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= int(columns)
    heads = [line for line in told.splitlines() if line.startswith("time")]
    assert len(heads) == (1 if columns == "80" else 2)
    assert "…" not in told


def test_wrong_results_are_listed_before_what_was_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    skipped, right, *_ = of("pointer_tree")
    wrong = replace(right, verified=False, reason="3 of 8 keys were not found")
    words = [" ".join(line) for line in shown([skipped, wrong], capsys)]
    assert words[-2] == "- managed of pointer_tree: wrong: 3 of 8 keys were not found"
    assert any(line.startswith("managed ") and line.endswith(" ✗") for line in words)
    many = [replace(wrong, application=f"a{i}") for i in range(20)] + [
        replace(right, strategy="x", conditions={"n": i}) for i in range(20)
    ]
    assert ["a0", "wrong"] in shown(many, capsys)
    failed = [replace(skipped, status="failed", reason=f"reason {i}") for i in range(20)]
    assert shown(failed, capsys)[-1] == ["-", "and", "8", "more,", "listed", "in", "the", "report"]


def test_suspect_points_have_a_mark_and_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    rows = of("lud")
    odd = [replace(row, suspect="part-above-whole") if row.strategy == "managed" else row for row in rows]
    lines = [" ".join(line) for line in shown(odd, capsys)]
    assert [line.split()[-1] for line in lines if line.startswith("managed ")] == ["!"]
    assert_states(lines, "- managed of lud", "suspect: part-above-whole")
    assert "suspect" in next(
        " ".join(line) for line in shown([*odd, *of("bfs"), *ROWS[:40]], capsys) if line[0] == "lud"
    )


def test_what_a_search_for_the_best_share_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    managed = next(row for row in of("kmeans_concurrent") if row.strategy == "managed")
    found = {"best_share": 0.7, "best_speedup": 1.3, "best_speedup_low": 1.1, "best_speedup_high": 1.4}
    lines = shown([replace(managed, **found), replace(managed, **found, status="failed")], capsys)
    told = [" ".join(line) for line in lines if "share" in line]
    assert len(told) == 1
    assert_states(told, "managed of kmeans_concurrent", "best share 0.7", "1.3 times", "(1.1 to 1.4)")


def test_kernel_times_have_a_column_and_an_explanation_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    rows = of("lud")
    timed = [replace(row, kernel_ms=995.0, gpu_ms=998.0) for row in rows]
    told = " ".join(map(" ".join, shown(timed, capsys)))
    assert "compute GPU kernel" in told
    assert "998 ms 995 ms" in told
    assert "Kernel times are means" in told
    untimed = " ".join(map(" ".join, shown([replace(row, gpu_ms=998.0) for row in rows], capsys)))
    assert "ernel" not in untimed
    assert "998 ms" not in untimed


def test_a_ratio_that_may_be_one_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    rows = of("lud")
    unsure = [replace(row, relative_time_low=0.7, relative_time_high=1.02) for row in rows]
    lines = shown(unsure, capsys)
    assert "~0.76" in next(line for line in lines if line[0] == "managed+prefetch")
    assert_states(" ".join(map(" ".join, lines)), "~: ", "includes 1.")
    sure = [replace(row, relative_time_low=0.7, relative_time_high=0.8) for row in rows]
    assert "~" not in " ".join(map(" ".join, shown(sure, capsys)))


def test_a_missing_ratio_of_memory_is_explained_where_other_programs_used_the_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loud = [
        replace(row, relative_memory=None, peak_machine_bytes=400 << 20, peak_machine_noise_bytes=90 << 20)
        for row in of("lud")
    ]
    assert_states(
        " ".join(word for line in shown(loud, capsys) for word in line), "relative memory", "changed", "90 MiB"
    )
    quiet = [replace(row, relative_memory=0.6, relative_memory_low=0.5, relative_memory_high=1.1) for row in loud]
    words = [word for line in shown(quiet, capsys) for word in line]
    assert "~0.60" in words
    assert "changed" not in words


@pytest.mark.parametrize("tried", [True, False])
def test_a_baseline_without_a_time_is_named(tried: bool, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [replace(row, relative_to="pinned", relative_time=None) for row in of("lud") if row.strategy != "pinned"]
    show([replace(row, strategy="pinned") if tried and not i else row for i, row in enumerate(rows)])
    said = capsys.readouterr().out
    assert "No ratios: pinned" in said
    assert ("add --strategy pinned" in said) != tried
