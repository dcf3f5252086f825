"""Programs that use OpenCL are traced by a layer of its loader: what they ask for, what is found, and that they run as
without it. On PoCL, with the kernels running.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.port.played import FIXTURES
from tests.profile import injected

from firsttouch.advice.port.found import found
from firsttouch.profile.call_journal import read_calls
from firsttouch.program.trace import TracedCopy, TracedRun, trace

BYTES, STEPS = 4 << 20, 4
LOADER = "libOpenCL.so.1"


@pytest.fixture(scope="module")
def program(make_once) -> Path:
    if not Path("/usr/include/CL/cl.h").is_file():
        pytest.skip("the headers of OpenCL are not installed")

    def fill(folder: Path) -> None:
        injected.compiled(str(FIXTURES / "opencl.c"), folder / "opencl", f"-l:{LOADER}")

    built = make_once("opencl", fill) / "opencl"
    if subprocess.run([built], capture_output=True, check=False).returncode == 2:
        pytest.skip("no OpenCL device")
    return built


def traced(program: Path, directory: Path, form: str, *, prints: str = "right\n", **more: str) -> TracedRun:
    """The trace of a form of the program, which must print what it prints without the layer."""
    variables = os.environ | injected.environment(directory, nvtx=False, trace=True, **more)
    done = subprocess.run([program, form], env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (prints, 0), done.stderr
    (calls,) = read_calls(directory)
    assert [runtime.api for runtime in calls.runtimes] == ["OpenCL"]
    return trace(calls)


def copied(run: TracedRun) -> dict[str, int]:
    """Bytes by direction."""
    total = Counter[str]()
    for step in run.steps:
        if isinstance(step, TracedCopy):
            total[step.way] += step.device.total
    return dict(total)


def kinds(run: TracedRun) -> list[str]:
    return sorted({finding.kind for finding in found(run, {}).findings})


@pytest.mark.parametrize(
    ("form", "moved", "findings"),
    [
        ("copied", {"h2d": STEPS * BYTES, "d2h": STEPS * BYTES}, []),
        ("given", {}, []),
        ("misaligned", {}, ["misaligned"]),
        ("made", {}, []),
        ("made-copied", {"h2d": STEPS * BYTES, "d2h": STEPS * BYTES}, ["shared-copy"]),
        ("staged", {"h2d": STEPS * BYTES, "d2h": STEPS * BYTES}, []),
        ("halves", {"h2d": BYTES, "d2h": BYTES}, []),
        ("parts", {"h2d": BYTES, "d2h": BYTES}, []),
        ("svm", {}, []),
        ("rows", {"h2d": BYTES, "d2h": BYTES}, []),
    ],
)
def test_bytes_by_direction_and_findings_are_those_of_the_source(
    program: Path, tmp_path: Path, form: str, moved: dict[str, int], findings: list[str]
):
    run = traced(program, tmp_path, form)
    assert copied(run) == moved
    assert kinds(run) == findings


@pytest.mark.parametrize(("form", "needless"), [("renewed", [STEPS - 1]), ("renewed-changed", [])])
def test_a_buffer_that_is_made_and_filled_with_the_same_bytes_again_is_found(
    program: Path, tmp_path: Path, form: str, needless: list[int]
):
    found_again = found(traced(program, tmp_path, form, FIRSTTOUCH_CHECK_COPIES="1"), {}).needless
    assert [row.renewed for row in found_again] == needless
    assert all(row.certainty == "seen" for row in found_again)


def test_a_launch_while_a_mapping_lasts_is_found(program: Path, tmp_path: Path):
    assert "mapped" in kinds(traced(program, tmp_path, "still-mapped", prints=""))


def test_a_buffer_that_is_mapped_to_be_copied_is_page_locked_memory(program: Path, tmp_path: Path):
    run = traced(program, tmp_path, "staged")
    assert [block.kind for block in run.blocks] == ["pinned", "device"]
    assert {step.call.host for step in run.steps if isinstance(step, TracedCopy)} == {"pinned"}
    assert found(run, {}).saved.bytes == BYTES


def test_copies_of_a_buffer_that_is_shared_are_not_said_to_be_of_managed_memory(program: Path, tmp_path: Path):
    findings = found(traced(program, tmp_path, "made-copied"), {})
    assert [(row.of, row.copies) for row in findings.other_copies] == [("sharing", 2 * STEPS)]
    assert "managed" not in findings.summary


def test_a_kernel_writes_only_what_its_arguments_let_it(program: Path, tmp_path: Path):
    run = traced(program, tmp_path, "copied")
    read, written = (block.number for block in run.blocks)
    for step in run.steps:
        for use in getattr(step, "uses", ()):
            assert use.may_write == (use.block == written)
    findings = found(run, {})
    assert {block.number: block.may_write for block in findings.blocks} == {read: False, written: True}
    assert findings.saved.bytes == 2 * BYTES


def test_without_a_device_or_a_journal_the_program_runs_as_it_would(program: Path, tmp_path: Path):
    bare = subprocess.run([program, "copied"], capture_output=True, check=False)
    variables = os.environ | injected.environment(tmp_path, nvtx=False, trace=True)
    for more in ({"FIRSTTOUCH_TRACE": ""}, {"FIRSTTOUCH_PROFILE": ""}, {"OPENCL_LAYERS": "/there/is/no/layer.so"}):
        done = subprocess.run([program, "copied"], env=variables | more, capture_output=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)
    assert not any(tmp_path.iterdir())
