"""docs/reproduce.md: every command of the page can be typed, and plans what it says on descriptions of the machines."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.calls import UNDRAWN, call
from tests.fabricated import GIB, KIB, MACHINES, MIB
from tests.matrix import matrix
from tests.planning import plan_on
from tests.scripts import load_script

from firsttouch.base.units import parse_size
from firsttouch.comparison.papers.comparisons import values_of
from firsttouch.comparison.papers.figures import all_figures
from firsttouch.records.papers.rows import all_rows
from firsttouch.records.papers.studies import PAPERS, Conditions, StudyLine, parts_in, studies
from firsttouch.records.reading import load_results

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reproduce.md"
WORDS = {"H200", "H100", "VM", "small", "stand-in"}
"""What the last column may say."""


def words_of(command: str) -> list[str]:
    """The words of a call after `firsttouch`."""
    words = shlex.split(command)
    return words[words.index("firsttouch") + 1 :]


def started_by(command: str) -> str:
    """What a call of `profile` starts; any other call is returned as it is."""
    is_profile = command.startswith("firsttouch profile ")
    return command.partition(" -- ")[2] if is_profile else command


class Row(NamedTuple):
    paper: str
    line: StudyLine

    @property
    def command(self) -> str:
        return self.line.command

    @property
    def plans(self) -> bool:
        """Whether its command has a plan; `machine` has none, nor has a program that is profiled."""
        return bool(re.match(r"(\w+=\S+ )?firsttouch (run|app|methods)\b", self.planned))

    @property
    def planned(self) -> str:
        """The command, or what it profiles."""
        return started_by(self.command)


PLAYED_BY: Mapping[str, Collection[str]] = {
    "any": MACHINES,
    "MI300A": ("mi300a", "mi300a-xnack"),
    "MI300A XNACK": ("mi300a-xnack",),
    "GH200": ("gh200", "gh200-64k"),
    "TK1": ("tk1",),
    "Kaveri": ("kaveri", "kaveri-hsa"),
    "Kaveri HSA": ("kaveri-hsa",),
    "Pascal": ("pascal",),
    "Volta": ("volta",),
    "Power 9": ("power9",),
    "node": ("mi300a-node",),
    "MI250X": ("mi250x-node",),
}
"""The descriptions of each machine that the page names."""
NOT_STUDIED = {"h100-node"}
"""Those of machines on which none of the papers measured."""


ROWS = [Row(paper, line) for paper, study in studies().items() for line in study.lines]
COMMANDS = list(dict.fromkeys(row.planned for row in ROWS if row.plans))
PROFILES = [row.command for row in ROWS if row.command.startswith("firsttouch profile ")]


def options(command: str, name: str) -> list[str]:
    """The values of an option of a call."""
    words = words_of(command)
    return [value for word, value in pairwise(words) if word == name]


def runs_here(command: str) -> bool:
    """Whether a CPU or PoCL can run a call of the page. PoCL's kernels do not reach memory of malloc."""
    plain = "allocator=malloc" in options(command, "--set") or "system" in options(command, "--strategy")
    device = options(command, "--device")
    if words_of(command)[0] == "methods":
        return False  # half a minute for each device
    return device in ([], ["cpu"]) or (device == ["opencl:0"] and not plain)


def machines_of(row: Row) -> set[str]:
    return {machine for name in row.line.machines for machine in PLAYED_BY[name]}


def test_the_page_has_a_line_for_everything() -> None:
    assert len(COMMANDS) >= 60
    assert {machine for row in ROWS if row.line.machines != ["any"] for machine in machines_of(row)} == set(
        MACHINES
    ) - NOT_STUDIED
    for row in ROWS:
        assert WORDS.issuperset(row.line.ran), row
        assert row.command or not row.line.ran, row
        assert not row.plans or runs_here(row.planned) == ("small" in row.line.ran), row


OTHER_NAMES = {
    "qiskit": "quantum_volume",
    "needle": "nw",
    "particlefinder": "particlefilter",
    "black-scholes": "black_scholes",
    "cublas": "gemm",
    "cg": "conjugate_gradient",
    "graph500": "graph500_bfs",
    "conv0": "fft_conv_r2c",
    "conv1": "fft_conv_c2c",
    "conv2": "fft_conv_fused",
    "heartwall-v1": "heartwall",
    "heartwall-v2": "heartwall",
    "srad_v1": "srad",
}
"""What the papers call applications, and what we do."""
NOT_MEASURED = {"QMCPack", "iPIC3D"}
"""Applications that a paper only cites."""


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_table_and_application_of_a_study_has_a_line(paper: str) -> None:
    study = studies()[paper]
    published = [row for row in all_rows() if row.paper == paper and not row.cited]
    listed = {figure.id for figure in all_figures()[paper]}
    figures = {name for row in published for name in parts_in(row.section) if name.startswith(("Fig.", "Table"))}
    assert figures <= listed
    assert {name for name in study.names if name.startswith(("Fig.", "Table"))} == listed
    named = {name for row in published for name in values_of(row.conditions.get("app", []))} - NOT_MEASURED
    text = " ".join(
        f"{line.what} {line.command or line.no_command}"
        for line in study.lines
        if not line.command or line.command.startswith("firsttouch app")
    )
    assert not {name for name in named if OTHER_NAMES.get(name, name) not in text}


def test_what_is_measured_has_conditions() -> None:
    for paper, study in studies().items():
        assert study.common != Conditions(), paper
        for part in study.parts:
            assert not part.measured or part.conditions != Conditions(), (paper, part.id)
            assert part.id in study.names, (paper, part.id)
    for row in ROWS:
        measured = [part.id for part in studies()[row.paper].parts if part.measured]
        compared = row.plans and words_of(row.planned)[0] != "methods" and {*measured} & {*row.line.where}
        assert not compared or row.line.stated or row.line.assumed, row


def test_the_page_has_what_the_studies_say() -> None:
    assert PAGE.read_text() == load_script(ROOT / "docs/reproduce.py").page()


def is_as_stated(planned: set[object], text: str) -> bool:
    """Whether planned values are those that a study states, in the words of a call: V1,V2, or FIRST..LAST."""
    if ".." in text:
        return {min(planned), max(planned)} == {*map(_number, text.split(".."))}  # type: ignore[type-var]
    return planned == {*map(_number, text.split(","))}


def _number(word: object) -> object:
    with suppress(ValueError):
        return parse_size(str(word))
    return str(word)


STATED = [row for row in ROWS if row.line.stated]


@pytest.mark.parametrize("row", STATED, ids=lambda row: f"{row.paper}: {row.line.what[:40]}")
@pytest.mark.slow
def test_a_line_has_the_conditions_of_its_study_or_says_what_differs(row: Row) -> None:
    """What a study states of agents, allocators, sizes, programs, iterations, processes and switches is what the call
    plans. What differs has its reason, and does differ.
    """
    machine = min(machines_of(row), key=BY_DEFAULT.index)
    plan = plan_on(machine, row.planned)
    points = [*plan["measured"], *plan["skipped"]]
    assert points, plan["refusal"]
    assert row.line.stated.keys() >= row.line.differs.keys()
    for name, text in row.line.stated.items():
        planned = {_number(point[name]) for point in points if point.get(name) is not None}
        assert is_as_stated(planned, text) == (name not in row.line.differs), (name, text, planned)


LIKE_ANOTHER = ("gh200-64k", "volta")
"""Machines of which all lines name another one too."""
BY_DEFAULT = sorted(MACHINES, key=lambda machine: machine in LIKE_ANOTHER)


@pytest.mark.parametrize("machine", matrix(BY_DEFAULT, len(MACHINES) - len(LIKE_ANOTHER)))
@pytest.mark.slow
def test_every_command_has_its_points_on_its_machine(machine: str) -> None:
    """What any machine can run is planned on one of them here, and on the others by the exhaustive tests."""
    rows_here = [row for row in ROWS if row.plans and machine in machines_of(row)]
    own = {row.planned for row in rows_here if "any" not in row.line.machines or machine == BY_DEFAULT[0]}
    plans = {command: plan_on(machine, command) for command in own}
    for command, plan in plans.items():
        assert plan["measured"], (command, plan)
        for factor, asked in plan["requested"].items():
            values = {point[factor] for point in [*plan["measured"], *plan["skipped"]] if factor in point}
            assert len(values) == len(asked), (command, factor, values, plan["left_out"])
    for begin, on, expected in EXPECTED:
        if machine in PLAYED_BY[on] and (on != "any" or machine == BY_DEFAULT[0]):
            found = [plan for command, plan in plans.items() if command.startswith(f"firsttouch {begin}")]
            assert found, begin
            for factor, values in expected.items():
                assert {p.get(factor) for plan in found for p in plan["measured"]} >= {*values}, (begin, factor)


@pytest.mark.parametrize("row", [row for row in ROWS if row.plans and "any" not in row.line.machines])
@pytest.mark.slow
def test_all_that_a_line_names_is_measured_on_one_of_its_machines(row: Row) -> None:
    """Each value of a factor, and of applications each with every strategy: nothing named is skipped everywhere."""
    words = words_of(row.planned)
    if words[0] == "methods":
        return
    machines = sorted(machines_of(row) - {*LIKE_ANOTHER}) or sorted(machines_of(row))
    plans = [plan_on(machine, row.planned) for machine in machines]
    measured = [point for plan in plans for point in plan["measured"]]
    named = {factor: asked for plan in plans for factor, asked in plan["requested"].items()}
    applications = words[1 : words.index("--device")] if words[0] == "app" else []
    unmeasured = [
        (factor, len(asked))
        for factor, asked in named.items()
        if len({str(point.get(factor)) for point in measured}) < len(asked)
    ]
    assert not unmeasured
    for application in applications:
        strategies = {point["strategy"] for point in measured if point["app"] == application}
        assert strategies, application
        assert strategies >= {*named.get("strategy", ())}, (application, strategies)


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.slow
def test_published_values_have_points_among_the_lines_of_their_paper(paper: str) -> None:
    """What a row corresponds to, and what its ratio is to: results of a study's lines stand beside the study."""
    lines = [row for row in ROWS if row.paper == paper and row.plans]
    calls = {(machine, line.planned) for line in lines for machine in machines_of(line) - {*LIKE_ANOTHER}}
    points = [point for machine, command in calls for point in plan_on(machine, command)["measured"]]
    for row in all_rows():
        here = row.here
        if here is None or row.paper != paper:
            continue
        of_it = [p for p in points if here.experiment == ("app" if "app" in p else p.get("experiment"))]
        first = [point for point in of_it if here.matches(point)]
        assert first, row.name
        assert not here.relative_to or any({**point, **here.relative_to} in of_it for point in first), row.name


@pytest.mark.parametrize("machine", matrix(MACHINES, 1))
@pytest.mark.slow
def test_on_other_machines_a_command_has_a_reason(machine: str) -> None:
    devices = {device.name for device in MACHINES[machine].devices}
    for command in COMMANDS:
        plan = plan_on(machine, command)
        assert not re.search(r"unknown (factor|experiment|application|preset|strategy)", plan["refusal"]), command
        assert all(point["reason"] for point in plan["skipped"]), command
        assert bool(plan["refusal"]) != bool(plan["measured"] or plan["skipped"]), command
        if not devices.issuperset(options(command, "--device")):
            assert plan["refusal"].startswith("unknown device"), command


EXPECTED: Sequence[tuple[str, str, Mapping[str, Collection[Any]]]] = (
    ("methods --verify --device hip:0", "MI300A", {"allocator": ("malloc", "device", "pinned", "managed")}),
    ("run latency --device hip:0", "MI300A", {"size": (KIB, 4 * GIB)}),
    ("run allocation --device hip:0", "MI300A", {"size": [2**k for k in range(1, 31)]}),
    ("run pagefault --device hip:0", "MI300A", {"pages": [10**k for k in range(8)]}),
    ("run pagefault --device cpu", "any", {"page_size": ("base", "huge"), "access": ("load", "store")}),
    ("run caching --device cuda:0", "TK1", {"threads": [2**k for k in range(24)]}),
)
"""The beginning of calls, a machine, and values that no call names, which are measured there by one of these calls."""


def test_what_the_gpu_of_an_apu_reaches_depends_on_xnack() -> None:
    def stated(machine: str, command: str, name: str) -> object:
        cells = plan_on(machine, command)["measured"]
        return next(cell["stated"] for cell in cells if (cell["allocator"], cell["property"]) == ("malloc", name))

    assert stated("mi300a", "firsttouch methods --verify --device hip:0 --out without-xnack", "gpu") == "none"
    assert stated("mi300a-xnack", "HSA_XNACK=1 firsttouch methods --verify --device hip:0 --out with-xnack", "gpu") == (
        "direct"
    )


@pytest.mark.exhaustive
def test_huge_pages_are_those_of_the_kernel() -> None:
    """Half a gigabyte each where the base page has 64 KiB on Arm: a run of standard touches 2 GiB at most."""
    call = "firsttouch run pagefault --device cpu --preset standard --set page_size=base,huge"
    touched = {
        machine: {p["pages"] for p in plan_on(machine, call)["measured"] if p["page_size"] == "huge"}
        for machine in ("gh200", "gh200-64k", "power9")
    }
    assert touched == {"gh200": {1, 10, 100, 1000}, "gh200-64k": {1}, "power9": {1, 10, 100, 1000}}


SMALL = {
    "latency": {"size": "4KiB,1MiB"},
    "bandwidth": {"arrays": "sweep", "kernel": "triad", "size": "64KiB", "threads": "0,1"},
    "pagefault": {"pages": "1,64", "threads": "0,1"},
    "faultcount": {"size": "1MiB"},
    "atomics": {"elements": "1024", "cpu_threads": "0,1,2"},
    "caching": {"threads": "64"},
    "concurrency": {"size": "1MiB", "iterations": "10"},
}
"""Values of factors that replace those of the page's calls, by experiment."""


def small(command: str) -> list[str]:
    """A call of the page with small values, in words."""
    words = words_of(command)
    if words[0] == "app":
        return [*words, "--size", "tiny", "--repeat", "1"]
    replaced = dict(SMALL.get(words[1], {}))
    if options(command, "--device") == ["cpu"] and "cpu_threads" in replaced:
        replaced["cpu_threads"] = "1,2"
    kept = [value for value in options(command, "--set") if value.partition("=")[0] not in replaced]
    if words[1] == "bandwidth" and any(value.startswith("agent=gpu") for value in kept):
        del replaced["threads"]
    values = [*kept, *(f"{name}={value}" for name, value in replaced.items())]
    devices = [word for device in options(command, "--device") for word in ("--device", device)]
    return ["run", words[1], *devices, *(word for value in values for word in ("--set", value))]


@pytest.mark.parametrize("command", matrix([command for command in COMMANDS if runs_here(command)], by_default=0))
def test_what_this_machine_can_run_of_the_page_runs_with_small_values(command: str, tmp_path: Path) -> None:
    done = call(*small(command), "--out", tmp_path / "out", drawn=True)
    assert done.returncode == 0, done.stderr
    records = load_results(tmp_path / "out").records
    assert all(record.status in ("ok", "skipped") for record in records)
    assert all(record.reason for record in records if record.status == "skipped")
    may_lack = "method=counter" in command or "target=" in command  # a virtual machine's counters, a compiler
    assert may_lack or any(record.status == "ok" for record in records)
    assert all(record.verified is not False for record in records)


@pytest.mark.parametrize("command", PROFILES)
def test_the_options_of_a_profile_show_the_memory_of_a_small_program(command: str, tmp_path: Path) -> None:
    words = words_of(command)
    options = words[: words.index("--")]
    program = [sys.executable, "-c", "import time; block = b'1' * 2**26; time.sleep(0.5)"]
    words = [*UNDRAWN, *options, "--out", str(tmp_path / "out"), "--", *program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out/profile.json").read_text())
    assert found["interval"] == 0.1
    assert found["host"]["peak"]["bytes"] > 64 * MIB
