"""Programs with OpenMP's target constructs are traced by a tool of its runtime: what they map, what is found, and that
they run as without it. On the processor as a device, with the regions running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.port.played import FIXTURES
from tests.profile import injected

from firsttouch.advice.edits import edits
from firsttouch.advice.port.found import found
from firsttouch.advice.port.places import Places, where
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import WaitCall
from firsttouch.profile.inject import OPENMP_VARIABLE, inject_environment, injected_library
from firsttouch.profile.journal import read_journals
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.symbols.lookup import CodeLocation, symbolize
from firsttouch.profile.traced import place_of
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedCopy, TracedFill, TracedLaunch, TracedRun, TracedStep, trace

BYTES, STEPS = 4 << 20, 4
LIBRARIES = "/usr/lib/llvm-19/lib"
SOURCE = FIXTURES / "openmp.c"


def compiled(folder: Path, *options: str) -> None:
    compiler = shutil.which("clang-19")
    assert compiler is not None
    rpath = f"-Wl,-rpath,{LIBRARIES}"
    command = [compiler, "-g", "-fopenmp", *options, rpath, str(SOURCE), "-o", str(folder / "openmp")]
    subprocess.run(command, check=True, timeout=100, capture_output=True)


@pytest.fixture(scope="module")
def program(make_once) -> Path:
    if shutil.which("clang-19") is None or not Path(LIBRARIES, "libomptarget.so").exists():
        pytest.skip("clang 19 and its OpenMP runtime are not installed")
    if not Path(LIBRARIES, "../bin/clang-linker-wrapper").exists():
        pytest.skip("the tools of clang 19 for code of devices are not installed")
    built = (
        make_once("openmp", lambda folder: compiled(folder, "-DWITH_DEVICE", "-fopenmp-targets=x86_64-pc-linux-gnu"))
        / "openmp"
    )
    ran = subprocess.run([built, "update"], env=os.environ | {"OMP_TARGET_OFFLOAD": "MANDATORY"}, capture_output=True)
    if ran.returncode != 0:
        pytest.skip("the processor is no device of this OpenMP runtime")
    return built


def ran(program: Path, directory: Path, *form: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a form of the program, which must print what it prints without the tool."""
    more = {"LD_LIBRARY_PATH": LIBRARIES, "OMP_TARGET_OFFLOAD": "MANDATORY", "FIRSTTOUCH_CHECK_COPIES": "1", **more}
    variables = os.environ | injected.environment(directory, nvtx=False, trace=True, **more)
    done = subprocess.run([program, *form], env=variables, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout, done.stderr, done.returncode) == ("right\n", "", 0)
    return done


def traced(program: Path, directory: Path, *form: str) -> TracedRun:
    ran(program, directory, *form)
    (calls,) = read_calls(directory)
    assert [runtime.api for runtime in calls.runtimes] == ["OpenMP"]
    return trace(calls)


def copied(run: TracedRun) -> dict[str, int]:
    """Bytes by direction."""
    total = Counter[str]()
    for step in run.steps:
        if isinstance(step, TracedCopy):
            total[step.way] += step.device.total
    return dict(total)


@pytest.mark.parametrize(
    ("form", "into", "back", "launches"),
    [
        ("round-trip", STEPS, STEPS, STEPS),
        ("round-trip mended", 1, 1, STEPS),
        ("duplicate", STEPS, STEPS, STEPS),
        ("update", 1, 1, 1),
        ("calls", 1, 1, 1),
        ("nowait", 1, 1, 4),
        ("threads", 1, 1, 4),
    ],
)
def test_bytes_by_direction_and_launches_are_those_of_the_source(
    program: Path, tmp_path: Path, form: str, into: int, back: int, launches: int
):
    run = traced(program, tmp_path, *form.split())
    assert copied(run) == {"h2d": into * BYTES, "d2h": back * BYTES}
    assert run.launches == launches
    assert not [block for block in run.blocks for life in block.lives if life.end is None]


def needless(port: PortFindings) -> object:
    return [(row.direction, row.copies, row.renewed) for row in port.needless]


def most_allocations(port: PortFindings) -> object:
    return max(block.allocations for block in port.blocks)


def passed_to_none(port: PortFindings) -> object:
    return sum(bool(block.unused) for block in port.blocks)


@pytest.mark.parametrize(
    ("form", "look", "is_found", "is_gone"),
    [
        ("duplicate", needless, [("h2d", STEPS - 1, STEPS - 1)], []),
        ("round-trip", needless, [("h2d", STEPS - 1, STEPS - 1)], []),
        ("allocation", most_allocations, STEPS, 1),
        ("unused", passed_to_none, 1, 0),
    ],
)
def test_what_is_needless_is_found_and_gone_when_it_is_mended(
    program: Path, tmp_path: Path, form: str, look: Callable[[PortFindings], object], is_found: object, is_gone: object
):
    for words, expected in (([form], is_found), ([form, "mended"], is_gone)):
        directory = tmp_path / words[-1]
        directory.mkdir()
        port = found(traced(program, directory, *words), {})
        assert look(port) == expected
        assert port.waits == [], "a region waits for itself"
        assert port.hazards == set()


def test_numbers_that_the_cpu_changed_in_between_are_no_round_trip(program: Path, tmp_path: Path):
    port = found(traced(program, tmp_path, "changed"), {})
    assert (port.needless, port.findings) == ([], [])
    assert port.copies == 2 * STEPS


@pytest.mark.parametrize(
    ("form", "uses"),
    [("allocation", [2] * STEPS), ("regions", [1, 2]), ("reached", [2]), ("held", [2] * STEPS), ("on-device", [1])],
)
def test_a_region_uses_what_it_is_called_with_and_what_that_points_to(
    program: Path, tmp_path: Path, form: str, uses: list[int]
):
    run = traced(program, tmp_path, form)
    launches = [step for step in run.steps if isinstance(step, TracedLaunch)]
    assert [len(step.uses) for step in launches] == uses
    lines = SOURCE.read_text().splitlines()
    for step in launches:
        function, line = step.kernel.split(":")
        assert function == form.replace("-", "_")
        assert lines[int(line) - 1].startswith("#pragma omp target")
    port = found(run, {})
    assert not any("region" in sentence or "--exact" in sentence for sentence in port.unseen)


def test_fills_and_copies_on_the_device_are_no_copies_of_the_host(program: Path, tmp_path: Path):
    run = traced(program, tmp_path, "on-device")
    assert copied(run) == {"d2d": BYTES, "d2h": BYTES}
    assert [step.target.total for step in run.steps if isinstance(step, TracedFill)] == [BYTES]
    assert found(run, {}).findings == []


def test_where_the_call_of_a_region_is_not_seen_it_is_taken_to_use_all_and_that_is_said(program: Path, tmp_path: Path):
    def not_seen(step: TracedStep) -> TracedStep:
        if not isinstance(step, TracedLaunch) or step.call.arguments is None:
            return step
        arguments = msgspec.structs.replace(step.call.arguments, kernel="target_region")
        return msgspec.structs.replace(step, call=msgspec.structs.replace(step.call, arguments=arguments))

    run = traced(program, tmp_path, "regions")
    run = msgspec.structs.replace(run, steps=[not_seen(step) for step in run.steps])
    assert sum("target region" in sentence for sentence in found(run, {}).unseen) == 1


def test_the_program_waits_where_a_construct_with_a_region_ends(program: Path, tmp_path: Path):
    run = traced(program, tmp_path, "update")
    kinds = [type(step) for step in run.steps if isinstance(step, TracedLaunch | TracedCopy | WaitCall)]
    launch = kinds.index(TracedLaunch)
    assert kinds[launch + 1] is WaitCall


def test_calls_are_told_by_the_lines_of_constructs(program: Path, tmp_path: Path):
    run = traced(program, tmp_path, "update")
    lines = SOURCE.read_text().splitlines()
    (copy, _) = (step for step in run.steps if isinstance(step, TracedCopy))
    frame = copy.call.site[0]
    place = symbolize([(frame.file, frame.offset)])[frame.file, frame.offset]
    assert place.function == "update"
    assert lines[place.number - 1].startswith("#pragma omp target update to")


@pytest.mark.parametrize(
    ("near", "words"), [(True, ("main near app.c:12", "near :12")), (False, ("main app.c:12", ":12"))]
)
def test_that_a_call_has_no_line_of_its_own_is_said(near: bool, words: tuple[str, str]):
    name = CodeLocation("main", "/src/app.c", 12, near=near)
    frame = CallFrame("/src/app", 0x10)
    place = place_of((frame,), {("/src/app", 0x10): name})
    assert (where(place), where(place, place)) == words


def test_without_target_regions_nothing_is_recorded(program: Path, tmp_path: Path, make_once):
    ran(program, tmp_path, "host")
    plain = make_once("openmp-host", lambda folder: compiled(folder)) / "openmp"
    for form in ("host", "update"):  # the latter by the host
        ran(plain, tmp_path, form, OMP_TARGET_OFFLOAD="DEFAULT")
    assert read_calls(tmp_path) == []
    assert not any(tmp_path.iterdir())


def test_without_a_journal_the_program_runs_as_it_would(program: Path, tmp_path: Path):
    for more in (
        {"FIRSTTOUCH_TRACE": ""}, {"FIRSTTOUCH_PROFILE": ""}, {OPENMP_VARIABLE: "/there/is/no/tool.so"},
        {"OMP_TOOL": "disabled"},
    ):  # fmt: skip
        ran(program, tmp_path, "round-trip", **more)
    assert not any(tmp_path.iterdir())


def test_where_the_runtime_is_not_found_the_profile_says_how_to_mend_it(program: Path, tmp_path: Path):
    ran(program, tmp_path, "update", LD_LIBRARY_PATH="")
    notices = [notice.text for journal in read_journals(tmp_path) for notice in journal.notices]
    if read_calls(tmp_path):
        pytest.skip("this runtime is found without a path")
    assert [LIBRARIES in text or "libomp" in text for text in notices] == [True]
    assert "LD_LIBRARY_PATH" in notices[0]


def test_a_tool_of_the_user_stays_the_first(tmp_path: Path):
    current = {OPENMP_VARIABLE: "/opt/tool.so"}
    added, _ = inject_environment(tmp_path, nvtx=False, trace=True, current=current)
    assert added[OPENMP_VARIABLE] == f"/opt/tool.so:{injected_library()}"


@pytest.mark.parametrize(
    ("strategy", "kinds", "words"),
    [
        ("managed", ["allocate", "drop", "check"], "requires unified_shared_memory"),
        ("explicit", ["omit"], "`target data`"),
    ],
)
def test_the_list_of_changes_is_in_the_words_of_openmp(
    program: Path, tmp_path: Path, strategy: str, kinds: list[str], words: str
):
    run = traced(program, tmp_path, "round-trip")
    changes = edits(run, found(run, {}), Places({}), STRATEGIES[strategy])
    assert [change.what for change in changes] == kinds
    assert words in changes[0].text
    assert changes[-1].count == (2 * STEPS if strategy == "managed" else STEPS - 1)
