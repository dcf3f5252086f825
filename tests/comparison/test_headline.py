"""The answer of a comparison says what matters, by kind of device and of experiment, and claims no more."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from runs import another_run, copy, slower

from firsttouch.base.errors import NOT_JUDGED
from firsttouch.comparison.answers import (
    ALIKE,
    COMPARED,
    DIFFERING,
    FEW_RUNS,
    UNCLEAR,
    AlikeExperiments,
    ComparisonAnswer,
    answers,
    shift_of,
)
from firsttouch.comparison.compare import compare_results
from firsttouch.comparison.conditions import DISTURBED
from firsttouch.comparison.differences import CANNOT_TELL, FASTER, LOWER, SAME, SLOWER, ExperimentDifference
from firsttouch.comparison.plain import output
from firsttouch.comparison.words import condition_rows, what_to_type
from firsttouch.records.schema import SCHEMA


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("before")
    return ",".join(copy(folder / str(i), another_run(i)) for i in range(3))


def rows_of(answer: ComparisonAnswer) -> list[AlikeExperiments]:
    return [row for row in answer.rows if isinstance(row, AlikeExperiments)]


@pytest.mark.parametrize(
    ("changes", "first", "all_else"),
    [
        ((), [("CPU", ALIKE, 1), ("CPU kernels", ALIKE, 1)], True),
        ((slower("latency", 1.3),), [("CPU latency", SLOWER, 1.3), ("other CPU experiments", ALIKE, 1),
                                     ("CPU-kernel latency", SLOWER, 1.3)], False),
        ((slower("latency", 1.3), slower("tlb", 1.3)), [("CPU loads", SLOWER, 1.3),
                                                        ("other CPU experiments", ALIKE, 1)], False),
        ((slower("transfer", 1 / 1.7),), [("CPU-kernel copies", FASTER, 1.7)], False),
        ((slower("bandwidth", 1 / 1.1), slower("atomics", 1 / 1.38)), [("CPU atomics and bandwidth", FASTER, 1.38)],
         False),
        ((slower("latency", 1.013),), [("CPU", ALIKE, 1)], True),
        ((slower("faultcount", 1 / 3),), [("CPU counts of faults", LOWER, 1 / 3)], False),
    ],
)  # fmt: skip
def test_what_matters_comes_first(changes, first, all_else, before, tmp_path):
    """first: the first rows, each with its verdict and ratio. all_else: whether no point differs."""
    after = ",".join(copy(tmp_path / "after" / str(i), another_run(i, 0.002), *changes) for i in range(3))
    (answer,) = answers(compare_results([before, after]))
    rows = rows_of(answer)
    assert (answer.kind, answer.runs, answer.points) == (COMPARED, [3, 3], 442)
    wanted = [(subject, verdict, pytest.approx(ratio, rel=0.1)) for subject, verdict, ratio in first]
    assert [(row.subject, row.verdict, row.ratio) for row in rows[: len(first)]] == wanted
    assert (answer.counts == {SAME: 442}) == all_else
    assert all(row.low < row.ratio < row.high for row in rows if row.verdict in DIFFERING)
    assert {row.within is not None for row in rows if row.verdict == ALIKE} == {True}
    named = [group for row in rows if row.verdict in DIFFERING for group in row.experiments]
    assert all(abs(math.log(group.ratio)) >= math.log(1.02) for group in named)


def test_a_change_that_shows_in_no_single_point_is_named(before, tmp_path):
    after = ",".join(copy(tmp_path / str(i), another_run(i, 0.002), slower("latency", 1.03)) for i in range(3))
    (answer,) = answers(compare_results([before, after]))
    assert (answer.counts, answer.differing) == ({SAME: 442}, 2)
    assert SLOWER in {row.verdict for row in rows_of(answer)}


@pytest.mark.parametrize(("far", "state"), [(0, ALIKE), (15, ALIKE), (23, UNCLEAR)])
def test_the_same_is_said_only_where_most_points_are(far, state):
    """On a busy machine loads from memory take longer, and differ from run to run; those from a cache do not, and weigh
    more in the median of an experiment.
    """
    group = ExperimentDifference(
        "latency", "cpu", "lower", "ns", 1, 38, {SAME: 38}, 1.006, 0.98, 1.03, verdict=SAME, worse=None
    )
    assert shift_of(group, [1.37] * far + [1.005] * (38 - far)).state == state


def test_one_run_a_side_claims_nothing_and_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy(Path("a b"), another_run(1, 0.2))
    copy(Path("after"), another_run(2, 0.2))
    Path("after-3").mkdir()
    comparison = compare_results(["a b", "after/"])
    (answer,) = answers(comparison)
    assert (answer.kind, answer.runs) == (FEW_RUNS, [1, 1])
    assert {(row.subject, row.verdict) for row in answer.rows} == {("CPU", CANNOT_TELL), ("CPU kernels", CANNOT_TELL)}
    assert answer.counts.keys() == {SAME, CANNOT_TELL}
    run = "firsttouch run --device cpu --device opencl:0 --out"
    calls = [f"for i in 2 3; do {run} {name}$i; done" for name in ("'a b.'", "after.")]
    assert what_to_type(comparison) == [*calls, "firsttouch compare 'a b,a b.2,a b.3' after,after.2,after.3"]
    assert output(comparison).to_tell == what_to_type(comparison)
    two = compare_results(["a b,after", "after"])
    assert what_to_type(two)[0] == f"for i in 3; do {run} 'a b.'$i; done"
    assert what_to_type(two)[2] == "firsttouch compare 'a b,after,a b.3' after,after.2,after.3"
    assert (answers(two)[0].kind, answers(two)[0].runs) == (FEW_RUNS, [2, 1])
    assert (
        what_to_type(compare_results(["a b,after", "a b,after"]))
        == what_to_type(compare_results(["a b,after,a b", "after"]))
        == []
    )


def facts(**changes):
    """Changes facts of a machine: cpu_load_1min=5 is the fact load_1min of the topic cpu."""

    def change(machine):
        for name, value in changes.items():
            topic, _, fact = name.replace("huge_pages", "huge-pages").partition("_")
            topic = topic.replace("-", "_")
            machine["facts"].setdefault(topic, {})[fact] = value

    return change


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"cpu_load_1min": 4.5}, "cpu.load_1min", r"1.31 \(before\), 4.5 \(after\)"),
        ({"cpu_load_1min": 1.4}, None, ""),
        ({"cpu_governor": "powersave"}, "cpu.governor", r"not stated \(before\), powersave \(after\)"),
        ({"cpu_governor": "powersave"}, "distorts after", "frequency governor 'powersave'"),
        ({"memory_ksm": True, "huge_pages_thp_denied": 1}, "distorts after", "huge pages denied.*; same-page merging"),
        ({"cpu_others_percent": 2.0}, "distorts before", r"load at the start \(the load average was 1.31 on"),
        ({"memory_touch_fresh_ns": 900.0, "memory_touch_again_ns": 170.0}, None, ""),
        ({"environment_MALLOC_ARENA_MAX": "1"}, "environment.MALLOC_ARENA_MAX", r"not stated \(before\), 1 \(after\)"),
    ],
)
def test_conditions_that_differ_are_told_load_included(changes, name, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy(Path("before"), machine=facts(environment_HOME="/", cpu_load_1min=1.31))
    copy(Path("after"), machine=facts(environment_HOME="/", **{"cpu_load_1min": 1.31, **changes}))
    rows = condition_rows(compare_results(["before", "after"]))
    assert (rows == []) if name is None else any(n == name and re.match(text, t) for n, t in rows), rows


def test_points_that_other_programs_disturbed_are_a_condition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, share in (("quiet", 0.02), ("busy", 0.5), ("slightly", 0.09)):
        copy(Path(name), lambda record, share=share: record.update(others_share=share, schema="firsttouch/2.5"))
    rows = dict(condition_rows(compare_results(["quiet", "busy"])))
    assert rows[DISTURBED] == "0 (quiet), 94 (busy)"  # not codegen and accounting
    assert not any("disturbed" in name for name, _ in condition_rows(compare_results(["quiet", "slightly"])))


def test_one_condition_that_shows_in_different_ways_does_not_differ(tmp_path, monkeypatch):
    """That the host hands memory out as it is used shows in the size of the nodes, in a feature, or in its effect."""
    monkeypatch.chdir(tmp_path)
    copy(Path("before"))
    effect = {"memory_touch_fresh_ns": 9300.0, "memory_touch_again_ns": 174.0}
    for i, changes in enumerate((effect, {"memory_touch_fresh_ns": 900.0, "memory_touch_again_ns": 1.5e3}, {})):
        copy(Path(f"after{i}"), machine=facts(**changes))
        rows = condition_rows(compare_results(["before", f"after{i}"]))
        assert not [text for name, text in rows if name.startswith("distorts")]


def test_the_number_of_runs_and_their_loads_are_conditions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i, load in enumerate((0.1, 0.4, 3.0)):
        copy(Path(f"b{i}"), machine=facts(cpu_load_1min=load))
    rows = dict(condition_rows(compare_results(["b0,b1", "b2"])))
    assert rows["cpu.load_1min"] == "0.1 to 0.4 (b0), 3 (b2)"
    assert rows["runs"] == "2 (b0), 1 (b2)"
    assert rows["distorts b2"] == "load at the start (the load average was 3 on 2 usable cores)"


def test_disturbed_points_are_a_condition_and_their_differences_cannot_be_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def disturbed(record):
        record["schema"] = SCHEMA
        record["others_share"] = None if record["experiment"] == "tlb" else 0.6

    def quiet(record):
        record |= {"schema": SCHEMA, "others_share": 0.01}

    before = ",".join(copy(Path(f"b{i}"), another_run(i), quiet) for i in range(3))
    twice = slower("latency", 2), slower("tlb", 2)
    after = ",".join(copy(Path(f"a{i}"), another_run(i), *twice, disturbed) for i in range(3))
    comparison = compare_results([before, after], 0.1)
    rows = dict(condition_rows(comparison))
    assert re.fullmatch(r"0 \(b0\), \d\d \(a0\)", rows[DISTURBED])
    assert comparison.exit_status == NOT_JUDGED
    assert {g.verdict for g in comparison.groups if g.experiment in ("latency", "tlb")} == {"cannot tell"}
    (answer,) = answers(comparison)
    untold = [group.experiment for row in rows_of(answer) if row.verdict == UNCLEAR for group in row.experiments]
    assert {"latency", "tlb"} <= {*untold}
    assert answer.counts[CANNOT_TELL] > 100
    mixed = compare_results([before, f"{after.partition(',')[0]},{before}"], 0.1)
    assert {g.verdict for g in mixed.groups} == {"no clear difference"}
