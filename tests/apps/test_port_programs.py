"""The port programs: right where they are meant to be, and a naive form counts only where its hazard was observed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.calls import call
from tests.findings import assert_finding

from firsttouch import _core
from firsttouch.apps.port_programs import find_port_program, hidden, port_programs
from firsttouch.apps.port_programs.parts import Parts, unified_memory
from firsttouch.apps.port_programs.program import FORMS, PortProgram
from firsttouch.base.errors import Unsupported
from firsttouch.engine.request import RunOptions, resolve
from firsttouch.engine.work_kinds import RUN
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.experiments.contract.contract import factors_of, flaw, strange_factor
from firsttouch.profile.events.log import EventLog, Window
from firsttouch.profile.events.sums import CauseSums, PhaseTotals
from firsttouch.records.findings import quantity
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Factors, Record
from firsttouch.workers.session import OpenDevices, Session

PROGRAMS = port_programs()
REASONS = {
    ("port-static", "opencl:0", "discrete"): "no variables of a whole file",
    ("port-concurrent", "cpu", "naive"): "not observed in 5 runs: sums contain words of the next frame",
    ("port-free-memory", "cpu", "naive"): "has no counter of free memory",
    ("port-free-memory", "opencl:0", "naive"): "has no counter of free memory",
    ("port-partial", "cpu", "naive"): "no unified-memory events",
    ("port-partial", "opencl:0", "naive"): "no unified-memory events",
    ("port-stack", "cpu", "naive"): "not observed in 5 runs: the kernel stores into the stack frame",
    ("port-stack", "opencl:0", "naive"): "no kernel reaches the stack",
    ("port-static", "cpu", "naive"): "not observed in 5 runs: a kernel cannot see a static variable",
}
"""Why a point is not measured here."""
BY_CHANCE = {("port-concurrent", "opencl:0", "naive"), ("port-hidden", "opencl:0", "naive")}
"""Points whose hazard may not show on a busy machine."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All programs in all forms on the CPU and on PoCL."""
    out = tmp_path_factory.mktemp("port") / "out"
    sizes = ("--set", "size=1MiB")  # of less, glibc has blocks left on its heap, which are not new
    done = call("run", *PROGRAMS, "--device", "cpu", "--device", "opencl:0", *sizes, "--out", out)
    assert done.returncode == 0, done.stderr
    return load_results(out)


def measured(found: Results) -> Mapping[tuple[str, str, str], Record]:
    return {(r.experiment, r.device, str(r.factors["form"])): r for r in found.records}


def test_all_forms_run_or_say_why_not(found: Results) -> None:
    records = measured(found)
    assert len(records) == len(PROGRAMS) * 2 * len(FORMS)
    for key, record in records.items():
        if record.status == "skipped":
            reason = "not observed in 5 runs" if key in BY_CHANCE else REASONS[key]
            assert reason in record.reason, (key, record.reason)
        else:
            assert record.status == "ok", (key, record.reason)
            wrong = key[2] == "naive" and not PROGRAMS[key[0]].naive_is_right
            assert record.verified is (None if wrong else True), key
    skipped = {key for key, record in records.items() if record.status == "skipped"}
    assert skipped - BY_CHANCE == REASONS.keys()


def test_a_naive_form_that_counts_says_what_was_observed(found: Results) -> None:
    naive = [r for r in found.records if r.factors["form"] == "naive" and r.status == "ok"]
    assert {r.experiment for r in naive} >= {"port-static", "port-hidden"}
    for record in naive:
        assert str(record.counters["hazard"]) in record.verified_why or record.verified
        assert record.counter("observed") >= 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_findings_compare_the_ported_form_with_the_discrete_one(name: str, found: Results) -> None:
    records = [r for r in found.records if r.experiment == name and r.device == "cpu" and r.status == "ok"]
    first, *_ = PROGRAMS[name].findings(records, None)
    discrete, ported = (next(r for r in records if r.factors["form"] == form) for form in ("discrete", "ported"))
    value, other_value = quantity(ported), quantity(discrete)
    assert_finding([first], f"{name}.ported", value=value, other_form="discrete", other_value=other_value)
    assert list(PROGRAMS[name].findings([], None)) == []


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda one: one.name)
def test_a_program_keeps_the_contract_of_experiments(program: PortProgram) -> None:
    assert not flaw(type(program))
    assert not program.codebook.flaws()
    device = DeviceInfo(name="cpu", kind="cpu", title="")
    assert not strange_factor(program, factors_of(program, device, "quick"))
    found = find_port_program(program.name)
    assert found is program


def test_a_call_runs_only_the_programs_that_it_names(tmp_path: Path) -> None:
    everything = resolve(RUN, RunOptions(out=tmp_path / "a"), warn=print)
    assert everything.experiments == [*all_experiments()]
    named = resolve(RUN, RunOptions(["port-stack", "latency"], out=tmp_path / "b"), warn=print)
    assert named.experiments == ["latency", "port-stack"]


def on_cpu(found: Results, program: PortProgram, form: str) -> Measurement:
    (cpu,) = (device for device in found.machine.devices if device.name == "cpu")
    point = Point(program.name, "cpu", Factors({"form": form, "size": 64 * 1024}))
    return program.measure(point, Session(cpu, 1, 0.01, 0.5, "quick"))


def test_a_wrong_result_is_not_verified(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS["port-stack"]
    assert on_cpu(found, program, "ported").verified
    monkeypatch.setattr(type(program), "expected", lambda self, size: [0])
    assert on_cpu(found, program, "ported").verified is False


def test_a_naive_form_without_its_hazard_is_skipped(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "MORE_FAULTS", math.inf)
    with pytest.raises(Unsupported, match="in 5 runs: a growing vector"):
        on_cpu(found, PROGRAMS["port-hidden"], "naive")


def entry(name: str, **facts: Any) -> AllocatorInfo:
    return AllocatorInfo(name=name, available=True, **{"cpu": "direct", "gpu": "direct", **facts})


MANAGED, PINNED = entry("managed", managed=True, concurrent=True, disjoint=True), entry("pinned")
PLAIN, UNREACHED = entry("malloc"), entry("malloc", gpu="none", gpu_reason="no page faults")


@pytest.mark.parametrize(
    ("allocators", "expected"),
    [
        ([PLAIN, PINNED, MANAGED], "managed"),
        ([UNREACHED, PINNED, msgspec.structs.replace(MANAGED, concurrent=False, disjoint=False)], "pinned"),
        ([PINNED, PLAIN], "malloc"),
        ([entry("svm-fine", disjoint=True), entry("svm-atomic", concurrent=True)], "svm-atomic"),
        ([UNREACHED, entry("device", cpu="none")], None),
    ],
)
def test_unified_memory_is_what_both_use_while_a_kernel_runs(
    allocators: list[AllocatorInfo], expected: str | None
) -> None:
    device = DeviceInfo(name="x:0", kind="x", title="", capabilities=DeviceCapabilities(runs_kernels=True))
    chosen = unified_memory(msgspec.structs.replace(device, allocators=allocators))
    assert (chosen.name if chosen else None) == expected


class Blind:
    """A device whose counter of free memory never changes."""

    def __init__(self, device: _core.Device) -> None:
        self._device = device

    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def test_a_counter_that_misses_unified_memory_is_observed(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    (cpu,) = (device for device in found.machine.devices if device.name == "cpu")
    counting = msgspec.structs.replace(cpu.capabilities, reports_free_memory=True)
    monkeypatch.setattr(Parts, "device", property(lambda parts: Blind(parts.session.device)))
    point = Point("port-free-memory", "cpu", Factors({"form": "naive", "size": 1 << 20}))
    session = Session(msgspec.structs.replace(cpu, capabilities=counting), 1, 0.01, 0.5, "quick")
    measured = PROGRAMS["port-free-memory"].measure(point, session)
    assert "fell by 0 B for 1 MiB" in str(measured.counters["hazard"])
    assert measured.verified


class Moves(EventLog):
    """Events of a driver that moves a page to the CPU and back for each word that is read."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes

    @contextmanager
    def window(self) -> Iterator[Window]:
        window = Window(0.0)
        yield window
        sums = [CauseSums(way, "", 15, 15 * self._nbytes) for way in ("h2d", "d2h")]
        window.phases = [PhaseTotals("", 0.0, 1, sums)]


@pytest.mark.parametrize("nbytes", [0, 4096])
def test_pages_that_move_for_a_word_are_observed(found: Results, nbytes: int) -> None:
    (cpu,) = (device for device in found.machine.devices if device.name == "cpu")
    opened = OpenDevices(cpu)
    assert opened.device.name == "cpu"
    opened.events = Moves(nbytes)
    program = PROGRAMS["port-partial"]
    session = Session(cpu, 1, 0.01, 0.5, "quick", opened=opened)
    naive = Point(program.name, "cpu", Factors({"form": "naive", "size": 64 * 1024}))
    if not nbytes:
        with pytest.raises(Unsupported, match="5 runs: reading one word"):
            program.measure(naive, session)
        return
    measured = program.measure(naive, session)
    assert "8 bytes moves 8 KiB" in str(measured.counters["hazard"])
    assert measured.verified


def test_the_counters_of_a_program_are_in_its_codebook(found: Results) -> None:
    strange = {
        (r.experiment, name)
        for r in found.records
        for name in r.counters
        if PROGRAMS[r.experiment].codebook.counter(name) is None
    }
    assert not strange
