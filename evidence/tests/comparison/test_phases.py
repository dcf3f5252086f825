"""Applications are compared by phase: a change inside one is found, and more values raise no false findings."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.calls import invoke
from tests.comparison.runs import Change, another_run, copy, scale
from tests.kept_runs import stored_run
from tests.schemas import assert_valid

from firsttouch.cli import compare as cli
from firsttouch.comparison import runs
from firsttouch.comparison.answers import phase_answers
from firsttouch.comparison.compare import ResultsComparison, compare_results
from firsttouch.comparison.differences import CANNOT_TELL, SAME
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.report.comparison import render

APPS = stored_run("h200-apps-5")
"""Nine applications, each point with three repetitions."""


def phases(seed: int, spread: float, factor: float, *names: str) -> Change:
    """What a further run would have: phases that vary by themselves, and some that are longer by a factor."""
    rng = random.Random(seed)

    def change(record: dict[str, Any]) -> None:
        before = dict(record["counters"])
        for name in [name for name in before if name.startswith("phase_") and name != "phase_context_ms"]:
            longer = factor if name.removeprefix("phase_").removesuffix("_ms") in names else 1
            record["counters"][name] *= longer * rng.lognormvariate(0, spread)
            if record["summary"]:  # the run is longer too
                added = record["counters"][name] - before[name]
                scale(record, 1 + added / record["summary"]["median"])

    return change


def sides(folder: Path, factor: float, *names: str, spread: float = 0.02, number: int = 3) -> list[str]:
    made = []
    for side, by in (("before", 1.0), ("after", factor)):
        seeds = [number * (side == "after") + i for i in range(number)]
        made.append(
            ",".join(
                copy(folder / f"{side}{s}", another_run(s), phases(s, spread, by, *names), source=APPS) for s in seeds
            )
        )
    return made


def named(comparison: ResultsComparison) -> set[str]:
    assert comparison.phases is not None
    return {group.experiment.partition(": ")[2] for group in comparison.phases.groups if group.differs}


def test_a_tenfold_change_of_allocation_and_free_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = sides(tmp_path, 10, "allocate", "free")
    comparison = compare_results([before, after])
    assert named(comparison) == {"allocate", "free"}
    assert comparison.phases is not None
    ratios = [g.ratio for g in comparison.phases.groups if g.differs]
    assert all(ratio is not None and 9 < ratio < 11 for ratio in ratios)
    invoke(cli.command, [before, after], as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert_valid("compare", data)
    (answer,) = data["phases"]["answers"]
    assert (answer["side"], answer["base"]) == (after, before)
    assert {row["experiment"].partition(": ")[2] for row in answer["rows"]} == {"allocate", "free"}
    assert {row["verdict"] for row in answer["rows"]} == {"slower"}
    assert {p["verdict"] for p in data["phases"]["points"] if p["factors"]["phase"] == "free"} <= {"slower", SAME}
    monkeypatch.setattr("firsttouch.report.comparison.to_svgs", lambda specs: ["" for _ in specs])
    page = render(comparison, reportable_experiments())
    assert "Time of each phase" in page
    assert "app gemm: free" in page


def test_a_phase_that_is_a_small_part_of_the_run_is_in_no_sentence(tmp_path: Path) -> None:
    comparison = compare_results(sides(tmp_path, 1.5, "readback"))
    (answer,) = phase_answers(comparison)
    experiments = {row.experiment for row in answer.rows}
    assert named(comparison) == {"readback"}
    assert comparison.phases is not None
    assert {"app nn: readback", "app gemm: readback"} <= {g.experiment for g in comparison.phases.groups if g.differs}
    assert "app gemm: readback" in experiments
    assert "app nn: readback" not in experiments  # half a percent of its run


def test_one_run_a_side_cannot_tell_phases_either(tmp_path: Path) -> None:
    comparison = compare_results(sides(tmp_path, 2, "free", number=1))
    assert comparison.phases is not None
    counts = {g.experiment.partition(": ")[2]: set(g.counts) for g in comparison.phases.groups if g.points > 2}
    assert counts["free"] == {CANNOT_TELL}
    assert counts["compute"] == {SAME}
    assert not named(comparison)
    assert not phase_answers(comparison)


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.6])
def test_phases_of_equal_sides_hardly_differ(spread: float, tmp_path: Path) -> None:
    comparison = compare_results(sides(tmp_path, 1, spread=spread))
    assert comparison.phases is not None
    points = comparison.phases.differences.points
    assert len(points) > 100
    assert sum(point.differs for point in points) <= 0.02 * len(points)
    assert len(named(comparison)) <= 1


def test_phases_change_nothing_of_the_other_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither verdicts nor intervals, which hold for all experiments together, nor what --fail-over names."""
    specs = sides(tmp_path, 10, "free")
    comparison = compare_results(specs, limit=0.05)
    monkeypatch.setattr(runs, "_phases", lambda record: ())
    without = compare_results(specs, limit=0.05)
    assert without.phases is None
    assert comparison.differences.groups == without.differences.groups
    assert comparison.regressions == without.regressions


def test_applications_with_other_inputs_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The default size of an application may be another one in another version of firsttouch."""

    def grown(record: dict[str, Any]) -> None:
        if record["factors"]["app"] == "pathfinder" and "param_cols" in record["counters"]:
            record["counters"]["param_cols"] *= 2
            scale(record, 4)

    one, other = copy(tmp_path / "one", source=APPS), copy(tmp_path / "other", grown, source=APPS)
    comparison = compare_results([one, other])
    points = {json.loads(d.column.factors)["app"] for group in comparison.groups for d in comparison.points_of(group)}
    assert points
    assert "pathfinder" not in points
    assert comparison.phases is not None
    assert not any("pathfinder" in group.experiment for group in comparison.phases.groups)
    invoke(cli.command, [one, other], as_json=True)
    (left_out,) = json.loads(capsys.readouterr().out)["not_compared"]
    assert left_out["experiment"] == "app pathfinder"
    assert len({definition["inputs"] for definition in left_out["definitions"]}) == 2
