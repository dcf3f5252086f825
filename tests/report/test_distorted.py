"""Under which conditions a run was measured: on its first screen, on its page, and in advice."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.drawn import drawing_of, drawn, point, rows_of
from tests.texts import assert_states

from firsttouch.advice.advisor import advise
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.machine.conditions import AS_USED, disturbed_percent, measuring_conditions, throttled
from firsttouch.records.figures import Line, Table
from firsttouch.records.reading import load_results
from firsttouch.report.conclusions import conclusions
from firsttouch.report.page import render

RESULTS = Path(__file__).parents[2] / "results"
HANDED_OUT = "the hypervisor allocates on first use"


def all_there(facts: dict[str, dict[str, Any]]) -> None:
    """Memory comes as on hardware."""
    facts["memory"]["total_bytes"] = sum(v for k, v in facts["numa"].items() if k.endswith("_total_bytes"))


def reported(facts: dict[str, dict[str, Any]]) -> None:
    all_there(facts)
    facts["memory"]["free_pages_reported"] = True


def dear(facts: dict[str, dict[str, Any]]) -> None:
    all_there(facts)
    facts["memory"] |= {"touch_fresh_ns": 9300.0, "touch_again_ns": 174.0}


def copied(target: Path, run: str, change: Callable[[dict[str, dict[str, Any]]], None]) -> Path:
    shutil.copytree(RESULTS / run, target)
    machine = json.loads((target / "machine.json").read_text())
    change(machine["facts"])
    (target / "machine.json").write_text(json.dumps(machine))
    return target


@pytest.mark.parametrize(
    ("change", "holds"), [(lambda facts: None, True), (all_there, False), (reported, True), (dear, True)]
)
def test_what_rests_on_first_touches_says_how_memory_comes(
    change: Callable[[dict[str, dict[str, Any]]], None], holds: bool, tmp_path: Path
) -> None:
    run = copied(tmp_path / "run", "h200-quick", change)
    screen = conclusions(load_results(run)).screen
    touches = [number for number in screen.numbers if "irst touch" in number.head]
    others = [number for number in screen.numbers if number not in touches]
    assert touches
    assert all((HANDED_OUT in number.text) == holds for number in touches if "CPU" in number.text)
    assert not any(HANDED_OUT in number.text for number in others)
    assert any(HANDED_OUT in words for words in screen.conditions) == holds
    advice = advise([run], pattern="iterate")
    assert any(row.terms for row in advice.strategies)
    assert (AS_USED in advice.assumptions) == holds


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("change", "holds"), [(lambda facts: None, True), (all_there, False)])
def test_the_figures_of_first_touches_say_how_memory_comes(
    change: Callable[[dict[str, dict[str, Any]]], None], holds: bool, tmp_path: Path
) -> None:
    run = copied(tmp_path / "run", "xeon-vm-quick", change)
    page = render({"run": load_results(run)}, reportable_experiments())
    said = re.findall(rf"{AS_USED[4:]}: ([^.]*)\.", page)
    assert len(said) == holds
    noted = {name for names in said for name in re.split(", | and ", names)}
    touching = {"pagefault", "allocation", "transfer", "faultcount"}
    assert noted & {"pagefault", "latency", "bandwidth", "tlb"} == ({"pagefault"} if holds else set())
    assert noted <= (touching | {"migration"} if holds else set())


def test_points_that_others_disturbed_are_marked_in_figures_and_tables() -> None:
    records = [point({"n": n}, others_share=share, better="lower") for n, share in ((1, 0.45), (2, 0.09), (3, None))]
    drawing, _ = drawn(Line(x="n", x_title="n", y_title="time"), records)
    assert [row["x"] for row in rows_of(drawing) if row["flag"] == "disturbed"] == [1]
    assert_states(drawing.notes, "brown squares", "1 point", "other programs")
    table = drawing_of(Table(columns=("n",)), records)
    assert table is not None
    assert [(n, "45 %" in mark, bool(mark)) for n, mark in table.rows] == [
        ("1", True, True), ("2", False, False), ("3", False, False)]  # fmt: skip
    assert disturbed_percent(records) == 33
    assert disturbed_percent(records[2:]) is None


def test_throttled_points_are_a_condition() -> None:
    records = [point({"n": n}, throttled=hot) for n, hot in ((1, True), (2, False), (3, None))]
    machine = load_results(RESULTS / "xeon-vm-quick").machine
    assert_states(throttled(records), "1 of 3 points", "throttled")
    assert measuring_conditions(machine, records)[0] == throttled(records)
