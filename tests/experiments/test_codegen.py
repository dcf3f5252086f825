"""codegen on this machine, and for GPUs that this machine does not have."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from fake_records import a_record
from tests.base.compilers import skip_missing_compiler
from tests.calls import call
from tests.findings import claims

from firsttouch.base.errors import NotModelled
from firsttouch.engine.values import parse_value
from firsttouch.experiments.codegen import COMPILED_FOR, OPERATIONS, Codegen
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.model.platform import load_platform
from firsttouch.records.reading import load_results
from firsttouch.records.schema import DeviceInfo, Factors, Record
from firsttouch.report.answers import answered
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette

TARGETS = ("gfx942", "gfx90a", "sm_90")
NO_COMPILERS = {"PATH": "/nowhere", "FIRSTTOUCH_LIB_NVRTC": "/nowhere", "FIRSTTOUCH_LIB_HIPRTC": "/nowhere"}


def run(out: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return call("run", "codegen", "--device", "cpu", "--out", out, *words, **environment)


@pytest.fixture(scope="module")
def of_targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("targets") / "out"
    done = call("run", "codegen", "--out", out, "--set", f"target={','.join(TARGETS)}")
    assert done.returncode == 0, done.stderr
    assert "codegen: other machines on cpu" in done.stdout
    return out


@cache
def records_of(folder: Path) -> list[Record]:
    return list(load_results(folder).records)


def made(folder: Path, operation: str, target: str) -> tuple[str, str]:
    """What the record says that the compiler made, and the instruction that shows it."""
    factors = {"operation": operation, "target": target}
    record = next(r for r in records_of(folder) if r.factors == factors)
    if record.status != "ok":
        skip_missing_compiler(record.reason)
    assert str(record.counters["instruction"]) in str(record.counters["listing"])
    return str(record.counters["made"]), str(record.counters["instruction"])


@pytest.mark.slow
def test_every_operation_is_listed_for_every_target_on_the_device_cpu(of_targets: Path) -> None:
    records = records_of(of_targets)
    assert {(r.factors["operation"], r.factors["target"]) for r in records} == {
        (operation, target) for operation in OPERATIONS for target in TARGETS
    }
    assert {r.device for r in records} == {"cpu"}
    compiled = [r for r in records if r.status == "ok"]
    assert len(compiled) == len(records) or not os.environ.get("CI")
    for r in compiled:
        assert r.verified is None
        assert r.verified_why == r.counters["execution"] == "compiled, not run"
        assert r.counters["compiler"]
        assert r.samples == [float(len(str(r.counters["listing"]).splitlines()))]


def test_gfx942_adds_doubles_natively_at_system_scope(of_targets: Path) -> None:
    form, instruction = made(of_targets, "add_f64_system", "gfx942")
    assert form == "native"
    assert re.match(r"global_atomic_add_f64 .*\bsc1$", instruction)
    assert "sc1" not in made(of_targets, "add_f64_device", "gfx942")[1]


def test_gfx90a_adds_doubles_by_compare_and_swap_at_system_scope(of_targets: Path) -> None:
    form, instruction = made(of_targets, "add_f64_system", "gfx90a")
    assert form == "loop"
    assert instruction.startswith("global_atomic_cmpswap_x2")
    assert made(of_targets, "add_u64_system", "gfx90a")[0] == "native"


def test_sm_90_adds_doubles_natively_at_system_scope(of_targets: Path) -> None:
    form, instruction = made(of_targets, "add_f64_system", "sm_90")
    assert form == "native"
    assert re.search(r"\bsys\b.*\.f64|ADD\.F64.*\.SYS", instruction)


def test_the_report_has_a_column_for_each_target(of_targets: Path) -> None:
    results = load_results(of_targets)
    (part,) = answered(results.records, results.machine.devices, {"codegen": Codegen()})
    compiled = [r for r in part.section.records if r.status == "ok"]
    by_target = draw(part.section.figures[0], compiled, DrawingContext(None, Palette()))
    assert by_target is not None
    assert "compiled, not run" in by_target.title
    targets = [target for target in TARGETS if any(r.factors["target"] == target for r in compiled)]
    assert by_target.columns == ["operation", *targets]
    assert [row[0] for row in by_target.rows] == list(OPERATIONS)
    for row in by_target.rows:
        assert row[1:] == [": ".join(made(of_targets, row[0], target)) for target in targets]
    assert {*claims(part.answer.findings)} == {COMPILED_FOR}
    assert list(dict.fromkeys(f.conditions["target"] for f in part.answer.findings)) == targets
    assert len(part.answer.statements) == len(targets)


def test_the_device_s_own_code_has_its_own_section(of_targets: Path) -> None:
    own = [a_record("codegen", 5, {"operation": operation}, made="native") for operation in OPERATIONS]
    parts = list(answered([*own, *records_of(of_targets)], [], {"codegen": Codegen()}))
    assert [part.title for part in parts] == ["codegen", "codegen: other machines"]
    assert list(parts[0].section.records) == own


def test_without_a_compiler_the_points_are_skipped_and_say_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--set", "target=gfx942,sm_90", "--set", "operation=add_f64_system", **NO_COMPILERS)
    assert done.returncode == 0, done.stderr
    gfx942, sm_90 = load_results(tmp_path / "out").records
    assert (gfx942.factors["target"], gfx942.status) == ("gfx942", "skipped")
    assert "compiler for gfx942" in gfx942.reason
    assert gfx942.reason.endswith("clang 19 or newer, or ROCm")
    assert (sm_90.factors["target"], sm_90.status) == ("sm_90", "skipped")
    assert "compiler for sm_90" in sm_90.reason
    assert "install nvidia-cuda-nvrtc" in sm_90.reason


def test_without_the_readers_of_code_the_points_are_skipped_and_say_what_to_install(tmp_path: Path) -> None:
    for name in ("capstone", "elftools"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('hidden by a test', name='{name}')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    done = run(tmp_path / "out", "--device", "opencl:0", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    reader = {"cpu": "capstone", "opencl:0": "pyelftools"}
    records = load_results(tmp_path / "out").records
    assert {(r.device, r.status) for r in records} == {(device, "skipped") for device in reader}
    for record in records:
        assert record.reason.endswith(f" needs {reader[record.device]}; pip install 'firsttouch[codegen]'")


@pytest.mark.exhaustive
def test_a_target_that_the_compilers_do_not_know_is_skipped_with_their_words(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--set", "target=gfx999,sm_999", "--set", "operation=load_vector")
    assert done.returncode == 0, done.stderr
    for record in load_results(tmp_path / "out").records:
        assert record.status == "skipped"
        if "was found" in record.reason:
            skip_missing_compiler(record.reason)
        assert f" compiles for {record.factors['target']}: " in record.reason


def test_a_name_of_no_target_ends_the_call(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--set", "target=sm_90,abc")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("firsttouch: target: 'abc' ")
    assert done.stderr.endswith("gfx942, gfx90a, sm_90\n")
    assert not (tmp_path / "out").exists()


def test_targets_are_named_as_their_compilers_spell_them() -> None:
    factors = Codegen().factors(DeviceInfo(name="cpu", kind="cpu", title=""), "quick")
    (target,) = (factor for factor in factors if factor.optional)
    for name in ("gfx942", "gfx90a:sramecc+:xnack-", "gfx1100", "sm_90", "sm_90a", "sm_120"):
        assert parse_value(target, name) == name
    for name in ("sm_9", "gfx", "gfx942;ls", "SM_90", "gfx942:", "sm_90 ", "sm_90\n"):
        with pytest.raises(ValueError, match="no such name"):
            parse_value(target, name)


@pytest.mark.parametrize(
    ("platform", "operation", "expected"),
    [
        ("mi300a", "add_f64_system", "native"),
        ("mi300a-node", "add_u64_device", "native"),
        ("mi250x", "add_f64_system", "loop"),
        ("h200-pcie", "add_f64_device", "native"),
        ("gh200", "load_uncached", "bypasses the first level"),
    ],
)
def test_a_modelled_gpu_has_the_code_that_was_compiled_for_its_target(
    platform: str, operation: str, expected: str
) -> None:
    predicted = predict(platform, operation)
    assert predicted.counters["made"] == expected
    assert " for " in str(predicted.counters["read_from"])
    assert predicted.samples[0] > 1


def test_a_modelled_processor_adds_doubles_in_a_loop() -> None:
    assert predict("mi300a", "add_f64_system", of_host=True).counters["made"] == "loop"
    assert predict("kaveri", "add_u64_system", of_host=True).counters["made"] == "native"


@pytest.mark.parametrize(
    ("platform", "of_host", "says"),
    [("kaveri", False, "instruction set is not stated"), ("gh200", True, "aarch64"), ("p9-volta", True, "ppc64le")],
)
def test_code_that_nobody_read_is_not_predicted(platform: str, of_host: bool, says: str) -> None:
    with pytest.raises(NotModelled, match=says):
        predict(platform, "add_u64_device", of_host=of_host)


def predict(name: str, operation: str, *, of_host: bool = False) -> Measurement:
    platform = load_platform(name)
    device = platform.host if of_host else platform.device
    return Codegen().predict(Point("codegen", device.name, Factors({"operation": operation})), platform)
