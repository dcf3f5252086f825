"""`compare` finds what differs between runs, and nothing else."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from itertools import combinations
from math import isfinite
from pathlib import Path

import msgspec
import pytest
from runs import CPU, RESULTS, another_run, copy, scale, slower, verdicts
from tests.kept_runs import stored_run

from firsttouch.base.errors import NOT_JUDGED, UsageError
from firsttouch.comparison.answers import ALL_SIDES, FAR, FEW_RUNS, answers
from firsttouch.comparison.compare import compare_results
from firsttouch.comparison.differences import SLOWER
from firsttouch.comparison.plain import ComparisonOutput, output
from firsttouch.records.schema import SCHEMA

SAME = "no clear difference"


def compared(*sides: str | Path, limit: float | None = None) -> dict:
    found = msgspec.to_builtins(output(compare_results([str(side) for side in sides], limit)))
    assert msgspec.convert(found, ComparisonOutput)  # as the published schema has it
    assert len(found["answers"]) == len(found["answer"])  # what each sentence says, as data
    return found


@pytest.fixture(scope="module")
def repeated(tmp_path_factory) -> list[str]:
    """Six runs of one machine."""
    folder = tmp_path_factory.mktemp("runs")
    return [copy(folder / str(i), another_run(i)) for i in range(6)]


@pytest.mark.parametrize("name", ["xeon-vm-quick", "h200-apps", "h200-counters/loads"])
def test_a_run_does_not_differ_from_itself(name):
    found = compared(stored_run(name), stored_run(name), limit=0.0)
    assert found["points"]
    assert verdicts(found["points"]) == verdicts(found["experiments"]) == {SAME}
    assert (found["conditions"], found["regressions"]) == ([], [])


def test_three_runs_against_three_runs_of_one_machine_hardly_differ(repeated):
    found = compared(",".join(repeated[:3]), ",".join(repeated[3:]), limit=0.05)
    assert sum(p["verdict"] != SAME for p in found["points"]) < 0.02 * len(found["points"])
    assert verdicts(found["experiments"]) == {SAME}
    assert found["regressions"] == []


def test_one_run_a_side_cannot_tell(tmp_path):
    """Runs of one machine, each of which is apart from the others by more than its samples vary."""
    runs = [copy(tmp_path / str(i), another_run(i, spread=0.2)) for i in range(6)]
    for before, after in combinations(runs, 2):
        comparison = compare_results([before, after], limit=0.1)
        found = msgspec.to_builtins(output(comparison))
        assert verdicts(found["points"]) == {SAME, "cannot tell"}
        assert verdicts(found["experiments"]) <= {SAME, "cannot tell"}
        assert {point["worse"] for point in found["points"]} == {None}
        assert (found["cannot_tell"], found["regressions"], comparison.exit_status) == ([after], [], NOT_JUDGED)
        assert [answer["kind"] for answer in found["answers"]] == [FEW_RUNS]


def test_one_run_is_told_from_three(tmp_path, repeated):
    found = compared(",".join(repeated[:3]), copy(tmp_path / "after", slower("latency", 1.5)), limit=0.1)
    assert {r["experiment"] for r in found["regressions"]} == {"latency"}
    assert found["cannot_tell"] == []


def test_a_point_that_fails_is_a_regression_with_one_run_too(tmp_path):
    def broken(record):
        if record["experiment"] == "latency" and record["status"] == "ok":
            record |= {"status": "failed", "reason": "no memory", "samples": [], "summary": None}

    found = compared(CPU, copy(tmp_path / "after", broken), limit=0.1)
    assert {r["kind"] for r in found["regressions"]} == {"failed"}


@pytest.mark.parametrize("experiment", ["latency", "bandwidth"])
def test_a_slow_down_of_one_experiment_is_found_and_only_there(experiment, tmp_path):
    before = ",".join(copy(tmp_path / f"before{i}") for i in range(2))
    after = ",".join(copy(tmp_path / f"after{i}", slower(experiment, 1.1)) for i in range(2))
    found = compared(before, after, limit=0.05)
    of_it = [p for p in found["points"] if p["experiment"] == experiment]
    assert verdicts(of_it) == {"slower", SAME}
    assert {p["experiment"] for p in found["points"] if p["verdict"] != SAME} == {experiment}
    assert {g["experiment"] for g in found["experiments"] if g["verdict"] == "slower"} == {experiment}
    assert {r["experiment"] for r in found["regressions"]} == {experiment}
    assert found["experiments"][0]["experiment"] == experiment
    assert compared(before, after, limit=0.2)["regressions"] == []


def test_a_slow_down_is_found_against_the_spread_between_runs(repeated, tmp_path):
    after = [copy(tmp_path / str(i), slower("latency", 1.1), another_run(10 + i)) for i in range(3)]
    found = compared(",".join(repeated[:3]), ",".join(after))
    assert {g["experiment"] for g in found["experiments"] if g["verdict"] != SAME} == {"latency"}
    others = [p for p in found["points"] if p["experiment"] != "latency"]
    assert sum(p["verdict"] != SAME for p in others) < 0.02 * len(others)
    latency = [p for p in found["points"] if p["experiment"] == "latency"]
    assert sum(p["verdict"] == "slower" for p in latency) > 0.5 * len(latency)


def test_the_interval_of_several_runs_holds_each_of_them(repeated):
    found = compare_results([",".join(repeated[:3]), repeated[3]])
    medians = {i: [] for i in range(len(found.table.columns))}
    for row in found.table.sides[found.base]:
        for i, value in enumerate(found.table.value[row]):
            if isfinite(value):
                medians[i].append(value)
    places = {column: i for i, column in enumerate(found.table.columns)}
    for d in found.differences.points:
        of_runs = medians[places[d.column]]
        assert d.base.low <= min(of_runs) * (1 + 1e-9)
        assert d.base.high >= max(of_runs) * (1 - 1e-9)


def test_a_rate_is_slower_when_it_is_lower_and_a_count_only_higher(tmp_path):
    before = ",".join(copy(tmp_path / f"before{i}") for i in range(2))
    found = compared(before, ",".join(copy(tmp_path / f"after{i}", lambda r: scale(r, 2)) for i in range(2)))
    words = {(p["unit"], p["better"]): p["verdict"] for p in found["points"] if p["verdict"] != SAME}
    assert words["ns", "lower"] == "slower"
    assert words["GB/s", "higher"] == "faster"
    assert words["faults/MiB", "lower"] == "higher"


def test_the_largest_differences_come_first(tmp_path):
    found = compared(CPU, copy(tmp_path / "b", slower("atomics", 1.5), slower("latency", 3)))
    assert found["experiments"][0]["experiment"] == "latency"
    ratios = [p["ratio"] for p in found["points"] if p["experiment"] == "latency" and p["device"] == "cpu"]
    clear = [p["verdict"] == "slower" for p in found["points"] if p["experiment"] == "latency"][: len(ratios)]
    assert clear == sorted(clear, reverse=True)


def test_values_of_another_definition_are_never_compared(tmp_path):
    def redefine(record):
        if record["experiment"] == "latency":
            record["metric_version"] = 7

    found = compared(CPU, copy(tmp_path / "b", redefine))
    assert "latency" not in {p["experiment"] for p in found["points"]}
    assert [n["experiment"] for n in found["not_compared"]] == ["latency"]


def test_only_results_of_another_metric_version_are_refused(tmp_path):
    other = copy(tmp_path / "b", lambda record: record.update(metric_version=7))
    with pytest.raises(UsageError, match=r"different definitions .*version 1 and ns, version 7.*never compared"):
        compared(CPU, other)


def test_conditions_that_differ_are_named(tmp_path):
    def other(machine):
        machine["firsttouch"] = machine["facts"]["software"]["firsttouch"] = "0.2.0.dev3+g9ca7184"
        machine["facts"]["kernel"]["release"] = "7.0"
        machine["facts"]["memory"]["page_bytes"] = 65536
        machine["facts"]["memory"]["free_bytes"] = 1

    found = compared(CPU, copy(tmp_path / "b", lambda r: r.update(seed=5, preset="full"), machine=other))
    names = {c["name"]: [*c["values"].values()] for c in found["conditions"]}
    assert names["memory.page_bytes"] == [4096, 65536]
    assert {"firsttouch", "kernel.release", "run.seed", "run.preset"} <= names.keys()
    assert names.keys().isdisjoint({"memory.free_bytes", "software.firsttouch"})


def test_what_all_calls_of_a_directory_set_is_a_condition(tmp_path):
    folder = Path(copy(tmp_path / "b"))
    request = json.loads((folder / "run.json").read_text())
    earlier = {"experiments": ["tlb"], "devices": ["cpu"], "set": {"size": ["1MiB", "2MiB"]}}
    (folder / "run.json").write_text(json.dumps(request | {"schema": SCHEMA, "earlier": [earlier]}))
    (found,) = compared(CPU, folder)["conditions"]
    assert (found["name"], found["values"][str(folder)]) == ("run.set size", "1MiB, 2MiB")


def test_a_gpu_is_compared_with_that_of_another_vendor_under_another_name(tmp_path):
    def rename(machine):
        for device in machine["devices"]:
            if device["name"] == "cuda:0":
                device |= {"name": "hip:0", "kind": "hip", "title": "Another GPU"}

    def renamed(record):
        if record["device"] == "cuda:0":
            record["device"] = "hip:0"

    source = RESULTS / "h200-quick"
    found = compared(source, copy(tmp_path / "amd", renamed, source=source, machine=rename))
    assert found["sides"][1]["renamed"] == {"cuda:0": "hip:0"}
    assert found["sides"][1]["without_counterpart"] == {}
    assert {"name": "device cuda:0", "values": {str(source): "NVIDIA H200", str(tmp_path / "amd"): "Another GPU"}} in (
        found["conditions"]
    )


def test_points_without_a_counterpart_are_counted(tmp_path):
    def fewer(record):
        if record["experiment"] == "atomics":
            record["experiment"] = "other"

    found = compared(CPU, copy(tmp_path / "b", fewer))
    assert [*found["sides"][0]["without_counterpart"]] == ["atomics"]
    assert [*found["sides"][1]["without_counterpart"]] == ["other"]


def test_a_point_that_failed_on_one_side_is_a_regression(tmp_path):
    crashed = []

    def crash(record):
        if record["experiment"] == "atomics" and record["status"] == "ok" and not crashed:
            crashed.append(record["factors"])
            record |= {"status": "crashed", "reason": "signal 11", "summary": None, "samples": [], "verified": None}

    found = compared(CPU, copy(tmp_path / "b", crash), limit=0.05)
    (lost,) = found["regressions"]
    assert (lost["kind"], lost["why"], lost["factors"]) == ("failed", "crashed", crashed[0])


def test_a_single_sample_has_no_interval_and_differs_from_nothing(tmp_path):
    source = RESULTS / "h200-apps"
    found = compared(source, copy(tmp_path / "b", lambda r: scale(r, 1.5), source=source))
    assert verdicts(p for p in found["points"] if p["base"]["low"] is None) == {SAME}


def test_of_many_machines_those_that_differ_are_named(tmp_path):
    nodes = [copy(tmp_path / f"node{i}", another_run(i, 0.005)) for i in range(6)]
    nodes.append(copy(tmp_path / "slow", slower("latency", 1.3), another_run(7, 0.005)))
    found = compared(*nodes, limit=0.1)
    assert found["base"] == "the median of 7 sides"
    outliers = {(g["side"], g["experiment"]) for g in found["experiments"] if g["verdict"] != SAME}
    assert outliers == {(str(tmp_path / "slow"), "latency")}
    assert {r["side"] for r in found["regressions"]} == {str(tmp_path / "slow")}


def test_a_machine_that_was_busy_is_no_outlier_among_many(tmp_path):
    def busy(record):
        record |= {"schema": SCHEMA, "others_share": 0.6}

    nodes = [copy(tmp_path / f"node{i}", another_run(i, 0.005)) for i in range(6)]
    nodes.append(copy(tmp_path / "busy", slower("latency", 1.3), another_run(7, 0.005), busy))
    comparison = compare_results(nodes, 0.1)
    assert (comparison.regressions, comparison.exit_status) == ([], 0)
    first, second = answers(comparison)
    assert (first.kind, first.counts) == (ALL_SIDES, {"sides": 7, "outliers": 0, "pairs": 0})
    assert second.kind == FAR
    assert {(row.side, row.experiment, row.verdict) for row in second.rows} == {(nodes[-1], "latency", "cannot tell")}
    assert output(comparison).cannot_tell == [nodes[-1]]
    all_busy = [copy(tmp_path / f"busy{i}", another_run(i, 0.005), busy) for i in range(6)]
    assert len(compare_results([*all_busy, nodes[-1]], 0.1).regressions) == 2


def test_one_directory_is_compared_device_by_device(tmp_path):
    source = RESULTS / "h200-quick"
    folder = tmp_path / "two"
    copy(folder, source=source)
    machine = json.loads((folder / "machine.json").read_text())
    second = next(d for d in machine["devices"] if d["name"] == "cuda:0") | {"name": "cuda:1"}
    machine["devices"].append(second)
    (folder / "machine.json").write_text(json.dumps(machine))
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    twins = [deepcopy(r) | {"device": "cuda:1"} for r in records if r["device"] == "cuda:0"]
    for record in twins:
        slower("latency", 1.5)(record)
    (folder / "results.jsonl").write_text("\n".join(map(json.dumps, [*records, *twins])) + "\n")
    found = compared(folder)
    assert [side["name"] for side in found["sides"]] == ["cuda:0", "cuda:1"]
    assert {g["experiment"] for g in found["experiments"] if g["verdict"] == "cannot tell"} == {"latency"}
    assert found["to_tell"][-1] == f"firsttouch compare {folder},{folder}-2,{folder}-3"
    three = [copy(tmp_path / str(i), source=folder) for i in range(3)]
    found = compared(",".join(three))
    assert {g["experiment"] for g in found["experiments"] if g["verdict"] == "slower"} == {"latency"}


def test_published_values_are_a_side():
    found = compared(RESULTS / "h200-quick", "published:mi300a-upm")
    assert found["points"]
    assert found["sides"][1]["published"][0]["paper"] == "mi300a-upm"
    assert {p["device"] for p in found["points"]} <= {"cpu", "cuda:0"}


def broken(folder: Path) -> str:
    shutil.copytree(CPU, folder)
    (folder / "results.jsonl").write_text("{not json}\n")
    return str(folder)


def test_a_broken_directory_among_several_is_named_and_the_others_are_compared(tmp_path):
    bad = broken(tmp_path / "bad")
    found = compare_results([str(CPU), bad, copy(tmp_path / "b")])
    assert [side.name for side in found.sides] == [str(CPU), str(tmp_path / "b")]
    assert [one.name for one in found.unreadable] == [bad]
    assert "results.jsonl:1" in found.unreadable[0].reason
    assert found.exit_status == 1


def test_extreme_values_of_a_stranger_are_compared_without_an_error(tmp_path):
    def extreme(record, seen=[]):  # noqa: B006
        seen.append(record)
        scale(record, 1e80 if len(seen) % 2 else 1e-80)

    sides = [copy(tmp_path / str(i), extreme) for i in range(3)]
    found = compared(f"{sides[0]},{sides[1]}", sides[2], limit=0.05)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_many_directories_are_read_by_several_processes(tmp_path):
    nodes = [copy(tmp_path / str(i)) for i in range(16)]
    bad = broken(tmp_path / "bad")
    found = compare_results([*nodes[:3], bad, *nodes[3:]])
    assert [side.name for side in found.sides] == nodes
    assert [one.name for one in found.unreadable] == [bad]


def test_what_cannot_be_compared_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    bad = broken(tmp_path / "bad")
    mixed = f"{CPU},{RESULTS / 'h200-quick'}"
    for sides, message in (
        ([], "name two results directories"),
        ([CPU], "no two devices of one kind"),
        ([CPU, tmp_path / "empty"], "holds no results.jsonl"),
        ([CPU, tmp_path / "missing"], "holds no results.jsonl"),
        ([CPU, bad], "results.jsonl:1"),
        ([mixed, CPU], "joined by a comma but are of two machines"),
        ([CPU, stored_run("h200-counters/loads")], "no point in common"),
        ([CPU, f"{CPU},"], "the name of a directory is empty"),
        ([CPU, "published:mi300a-up"], "did you mean 'mi300a-upm'"),
        (["published:mi300a-upm", "published:gh200"], "name a results directory too"),
    ):
        with pytest.raises(UsageError, match=message):
            compared(*sides)


@pytest.mark.parametrize(("factor", "status"), [(10.0, 1), (3.5, 1), (2.0, NOT_JUDGED)])
def test_a_threefold_change_is_judged_between_single_runs(tmp_path: Path, factor: float, status: int) -> None:
    """If at least half of the points of an experiment differ by as much."""
    before, after = copy(tmp_path / "before"), copy(tmp_path / "after", slower("latency", factor))
    comparison = compare_results([before, after], limit=0.1)
    (latency,) = (group for group in comparison.groups if group.experiment == "latency" and group.device == "cpu")
    assert (latency.verdict, latency.worse) == ((SLOWER, True) if status == 1 else ("cannot tell", None))
    assert comparison.exit_status == status
    assert comparison.not_judged == [after]
