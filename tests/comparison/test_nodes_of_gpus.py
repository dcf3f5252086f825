"""Two nodes of eight GPUs, three runs each: what is slow or missing is named, as an acceptance test needs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest
from tests.calls import call
from tests.node_of_gpus import FAULTY, Node, results, write

from firsttouch.base.errors import NOT_JUDGED
from firsttouch.comparison.answers import (
    ALIKE,
    ALL_SIDES,
    FEW_RUNS,
    ONE_ROW,
    OUTLIER,
    AlikeExperiments,
    ComparisonAnswer,
    PlaceRow,
    answers,
)
from firsttouch.comparison.compare import ResultsComparison, compare_results, compare_sides
from firsttouch.comparison.differences import CANNOT_TELL, SLOWER, ExperimentDifference
from firsttouch.comparison.missing import MissingDevices, missing_devices
from firsttouch.comparison.plain import output
from firsttouch.comparison.runs import ComparedRun, of_results
from firsttouch.comparison.sides import Sides, devices_of
from firsttouch.comparison.table import Side
from firsttouch.comparison.tables import table_of_places
from firsttouch.comparison.words import notes, regression_lines, what_to_type
from firsttouch.experiments import all_experiments
from firsttouch.records.schema import DeviceInfo
from firsttouch.report.comparison import render

GOOD, OTHER = Node(host="good"), Node(host="other")
LIMIT = 0.05


@cache
def run(node: Node) -> ComparedRun:
    return of_results(f"{node.host}{node.run}", results(node))


def side(node: Node, runs: int = 3) -> Side:
    return Side(node.host, [run(replace(node, run=number)) for number in range(1, runs + 1)])


def against(node: Node, base: Node = GOOD, *, runs: int = 3) -> ResultsComparison:
    return compare_sides(Sides([side(base, runs), side(node, runs)], []), LIMIT)


@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_two_good_nodes_pass(noise: float) -> None:
    comparison = against(replace(OTHER, noise=noise), replace(GOOD, noise=noise))
    assert (comparison.exit_status, comparison.places, comparison.missing) == (0, [], [])
    first = answers(comparison)[0].rows[0]
    assert isinstance(first, AlikeExperiments)
    assert (first.subject, first.verdict) == ("8 GPUs", ALIKE)


def places_in(answer: ComparisonAnswer) -> list[tuple[str, str, float | None]]:
    """Name and verdict of the places that an answer names, and the ratio that its sentence has."""
    rows = [row for row in answer.rows if isinstance(row, PlaceRow)]
    return [(row.name, row.verdict, row.ratio if row.as_a_whole else row.example.ratio) for row in rows]


def about(ratio: float) -> object:
    return pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"slow_pair": (2, 5)}, [("cuda:2 to cuda:5", 0.53), ("8 ranks together", 1.9)]),
        ({"slow_pair": (5, 2), "slow_gbs": 340.0, "ranks": (2,)}, [("cuda:5 to cuda:2", 0.91)]),
        ({"slow_gpu": 6}, [("cuda:6", 0.8)]),
        ({"missing": 3}, []),
        (
            {"scale": 0.9},
            [("all 8 GPUs", 0.9), ("all 28 pairs of devices", 0.9), ("8 ranks together", 1.11),
             ("2 ranks together", 1.11)],
        ),
    ],
)  # fmt: skip
def test_what_is_slow_or_missing_is_the_answer_and_the_regression(
    fault: dict[str, object], named: list[tuple[str, float]]
) -> None:
    comparison = against(replace(OTHER, **fault))
    (answer,) = answers(comparison)
    assert places_in(answer) == [(name, SLOWER, about(ratio)) for name, ratio in named]
    lacking = [("cuda:3",)] if "missing" in fault else []
    assert [row.names for row in answer.rows if isinstance(row, MissingDevices)] == lacking
    rest = [(row.subject, row.verdict, row.within) for row in answer.rows if isinstance(row, AlikeExperiments)]
    if not lacking:
        assert {("all else on 8 GPUs", ALIKE, 0.02), ("all else on CPU", ALIKE, 0.02)} <= {*rest}
    lines = regression_lines(comparison)
    names = ["cuda:3"] if lacking else [name for name, _ in named]
    assert [line.startswith(name) for line, name in zip(lines, names, strict=True)] == [True] * len(names)
    data = output(comparison)
    assert comparison.exit_status == 1
    assert all(len(place.text) < 200 for place in data.places)
    assert [one.names for one in data.missing] == lacking
    assert len(data.regressions) >= len(lines)


def test_all_pairs_of_a_gpu_are_named_as_that_gpu() -> None:
    """A GPU whose links run at half their rate."""

    def halved(one: ComparedRun) -> ComparedRun:
        slow = [p for p in one.points if '"peer":"cuda:4"' in p.factors or p.device == "cuda:4"]
        slow = [p for p in slow if '"peer"' in p.factors and '"peer":"self"' not in p.factors and p.flow]
        for p in slow:
            p.value = (p.value[0] / 2, p.value[1] / 2, p.value[2] / 2, p.value[3])
        return one

    fresh = [halved(of_results(f"o{n}", results(replace(OTHER, run=n)))) for n in (1, 2, 3)]
    comparison = compare_sides(Sides([side(GOOD), Side("other", fresh)], []), LIMIT)
    assert [place.name for place in comparison.places] == ["cuda:4 with all 7 others"]
    assert places_in(answers(comparison)[0]) == [("cuda:4 with all 7 others", SLOWER, about(0.5))]


def noisy(name: str, seed: int, factor: float = 1.0) -> ComparedRun:
    """A run of a node whose points vary by 1 %, and 3 % of which are far off. factor: of all rates from cuda:2 to 5."""
    rng, base = random.Random(seed), run(Node(noise=0, host="noisy", ranks=()))
    points, slow = [], (("cuda:2", "out", '"peer":"cuda:5"'), ("cuda:5", "in", '"peer":"cuda:2"'))
    for p in base.points:
        times = rng.gauss(1, 0.01) * (rng.choice((0.7, 1.5, 3)) if rng.random() < 0.03 else 1)
        if any(p.device == device and p.flow == flow and peer in p.factors for device, flow, peer in slow):
            times *= factor
        low, middle, high, n = p.value
        points.append(msgspec.structs.replace(p, value=(times * low, times * middle, times * high, n)))
    return msgspec.structs.replace(base, name=f"{name}{seed}", points=points)


def test_a_slow_pair_is_found_where_single_points_are_far_off_now_and_then() -> None:
    good = Side("good", [noisy("good", seed) for seed in (1, 2, 3)])
    comparison = compare_sides(Sides([good, Side("slow", [noisy("slow", n, 0.9) for n in (4, 5, 6)])], []), LIMIT)
    (line,) = regression_lines(comparison)
    (place,) = (row for row in answers(comparison)[0].rows if isinstance(row, PlaceRow))
    assert (place.name, place.verdict, place.as_a_whole, place.of_points) == ("cuda:2 to cuda:5", SLOWER, True, 12)
    assert place.low is not None
    assert place.high is not None
    assert place.low < 0.9 < place.high
    assert line.startswith(place.name)
    assert output(comparison).places[0].text == line
    other = Side("other", [noisy("other", seed) for seed in (7, 8, 9)])
    assert compare_sides(Sides([good, other], []), LIMIT).exit_status == 0


def test_one_run_a_side_cannot_tell_but_of_a_missing_gpu() -> None:
    comparison = against(replace(FAULTY, host="other"), runs=1)
    (answer,) = answers(comparison)
    assert comparison.exit_status == 1
    assert (answer.kind, answer.runs) == (FEW_RUNS, [1, 1])
    assert places_in(answer)[0] == ("cuda:2 to cuda:5", CANNOT_TELL, about(0.53))
    assert "7 GPUs" in [row.subject for row in answer.rows if isinstance(row, AlikeExperiments)]
    (line,) = regression_lines(comparison)
    assert line.startswith("cuda:3 is missing")
    assert "--device cuda:7 --out" in what_to_type(comparison)[0]
    without = against(replace(FAULTY, host="other", missing=None), runs=1)
    assert without.exit_status == NOT_JUDGED


def test_a_gpu_that_the_first_side_lacks_is_said_and_fails_nothing() -> None:
    comparison = against(GOOD, replace(OTHER, missing=3))
    assert comparison.exit_status == 0
    assert any("cuda:3 is missing" in note for note in notes(comparison))


def test_a_plain_run_is_repeated_as_such() -> None:
    """A call that names devices measures each in full."""
    made = results(GOOD)
    assert made.request is not None
    made.request.every_device = False
    assert "--device" not in of_results("x", made).command


def _fell_off(gpus: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The third GPU is gone from the bus, and the driver numbers the others anew."""
    left = [d for d in gpus if d.name != "cuda:2"]
    for number, device in enumerate(left[1:]):
        device.name = f"cuda:{number}"
    return left


def _no_driver(gpus: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    return [gpus[0], DeviceInfo(name="cuda", kind="cuda", title="cuda", available=False, reason="no CUDA driver")]


def _other_model(gpus: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    for device in gpus[1:]:
        device.title = "another model"
    return [*gpus[:4]]


def _one_partition_less(gpus: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    for number, device in enumerate(gpus[1:8], 1):
        device.facts["model"], device.title = device.title, f"{device.title}, partition {number} of 7 (MIG)"
    return [*gpus[:8]]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_fell_off, [(1, 8, ("0000:02:00.0",), "")]),
        (_no_driver, [(8, 8, (), "no CUDA driver")]),
        (_one_partition_less, [(1, 8, ("0000:07:00.0",), "")]),
        (_other_model, []),
        (lambda gpus: [*gpus[:1]], []),  # the call looked for no GPU
    ],
)
def test_gpus_that_are_gone_from_the_bus_or_were_never_there(
    change: Callable[[Sequence[DeviceInfo]], list[DeviceInfo]], found: list[tuple[int, int, tuple[str, ...], str]]
) -> None:
    def machine(host: str, change: Callable[[Sequence[DeviceInfo]], list[DeviceInfo]]) -> Side:
        made = results(replace(GOOD, host=host, ranks=()))
        for number, device in enumerate(made.machine.devices[1:]):
            device.facts["pci_bus"] = f"0000:0{number}:00.0"
        made.machine.devices = change(made.machine.devices)
        return Side(host, [of_results(host, made)])

    sides = [machine("a", list), machine("b", change)]
    missing = missing_devices(sides, fleet=False)
    assert [(one.missing, one.expected, one.addresses, one.why) for one in missing] == found


def test_a_node_among_many_is_named_with_its_pair_and_its_missing_gpu() -> None:
    nodes = [Side(f"n{i}", [run(Node(host=f"n{i}", ranks=(2,), noise=0.006))]) for i in range(6)]
    comparison = compare_sides(Sides([*nodes, Side("x", [run(replace(FAULTY, host="x", ranks=(2,)))])], []), LIMIT)
    first, second = answers(comparison)
    assert (first.kind, first.counts["outliers"]) == (ALL_SIDES, 1)
    assert (second.kind, second.side) == (OUTLIER, "x")
    lacking = second.rows[0]
    assert isinstance(lacking, MissingDevices)
    assert lacking.names == ("cuda:3",)
    assert ("cuda:2 to cuda:5", SLOWER, about(0.53)) in places_in(second)
    assert comparison.exit_status == 1
    assert sum(line.startswith("x: cuda:2 to cuda:5 is") for line in regression_lines(comparison)) == 1


def test_one_node_alone_is_judged_by_its_own_gpus() -> None:
    """With one run: what the GPUs of a machine vary by is known."""
    comparison = compare_sides(Sides(devices_of(side(FAULTY, 1)), [], of_devices=True), LIMIT)
    first, lacking, pair, device = answers(comparison)
    assert first.counts == {"sides": 7, "outliers": 1, "pairs": 1}
    assert [one.kind for one in (lacking, pair, device)] == [ONE_ROW, ONE_ROW, OUTLIER]
    assert isinstance(lacking.rows[0], MissingDevices)
    (place,) = pair.rows
    assert isinstance(place, PlaceRow)
    assert places_in(pair) == [("cuda:2 to cuda:5", SLOWER, about(0.53))]
    assert (place.points, place.of_points) == (19, 32)  # all of copies, access and messages between the two
    (row,) = device.rows
    assert isinstance(row, ExperimentDifference)
    assert (row.side, row.experiment, row.verdict, row.ratio) == ("cuda:6", "bandwidth", SLOWER, about(0.89))
    assert comparison.exit_status == 1
    assert not any("cuda:0" in line for line in regression_lines(comparison))
    alike = compare_sides(Sides(devices_of(side(GOOD, 1)), [], of_devices=True), LIMIT)
    assert (alike.exit_status, alike.places) == (0, [])


def test_the_command_names_pair_and_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From directories to the terminal and the page, of which no figure is drawn."""
    monkeypatch.setattr("firsttouch.report.comparison.to_svgs", lambda specs: [""] * len(specs))
    good = Node(gpus=4, ranks=(), host="good")
    nodes = {"good": good, "bad": replace(good, host="bad", slow_pair=(0, 2), slow_gpu=1, missing=3)}
    sides = [",".join(str(write(replace(node, run=n), tmp_path / f"{name}{n}")) for n in (1, 2, 3))
             for name, node in nodes.items()]  # fmt: skip
    done = call("compare", *sides, "--fail-over", "5%", COLUMNS="160")
    assert done.returncode == 1
    assert "3 regressions of more than 5 %" in done.stdout
    assert re.search(r"cuda:0 to cuda:2 +\d+ +\d+ slower", done.stdout)
    page = render(compare_results(sides, LIMIT), all_experiments())
    assert "cuda:0 to cuda:2 is" in page
    assert "Where it differs" in page


def test_one_gpu_of_two_backends_is_not_called_two_gpus() -> None:
    def both(host: str) -> Side:
        held = results(Node(gpus=1, host=host))
        gpu = held.machine.devices[1]
        held.machine.devices.append(msgspec.structs.replace(gpu, name="opencl:0", kind="opencl"))
        twins = [msgspec.structs.replace(r, device="opencl:0") for r in held.records if r.device == gpu.name]
        return Side(host, [of_results(host, replace(held, records=[*held.records, *twins]))])

    (answer,) = answers(compare_sides(Sides([both("good"), both("other")], []), LIMIT))
    subjects = [row.subject for row in answer.rows if isinstance(row, AlikeExperiments)]
    assert {"cuda:0", "opencl:0"} < {*subjects}


def test_the_ratio_of_a_pair_is_of_rates_or_of_times() -> None:
    """A pair over which copies have 0.8 of their rate, and loads take twice as long."""

    def slow(one: ComparedRun) -> ComparedRun:
        for p in one.points:
            if (p.device, '"peer":"cuda:1"' in p.factors) == ("cuda:0", True) and (p.flow == "out" or not p.flow):
                times = 2.0 if one.definitions[p.definition].experiment == "p2p-latency" else 0.8
                p.value = (p.value[0] * times, p.value[1] * times, p.value[2] * times, p.value[3])
        return one

    node = Node(gpus=2, ranks=())
    fresh = [slow(of_results(f"o{n}", results(replace(node, run=n)))) for n in (1, 2, 3)]
    comparison = compare_sides(Sides([side(node), Side("other", fresh)], []), LIMIT)
    (place,) = output(comparison).places
    assert (place.name, place.experiments[0]) == ("cuda:0 to cuda:1", "p2p-latency")
    assert place.ratio == pytest.approx(2, rel=0.02)
    assert place.text.count("access to other GPUs") == 1
    assert table_of_places(comparison, 1).rows[0][3] == "2.00 times as slow"
