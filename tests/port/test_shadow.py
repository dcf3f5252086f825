"""--shadow: what would differ if an array and the block that copies join it with were one memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.calls import call
from tests.port.played import FIXTURES, PlayedCuda
from tests.profile import injected
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.advice.port.shadowed import ShadowRun, shadow_run
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.inject import SHADOW_VARIABLE
from firsttouch.program.trace import trace

pytestmark = pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())


def shadow_of(cuda: PlayedCuda, folder: Path, program: str) -> ShadowRun:
    more = {SHADOW_VARIABLE: "1", "STANDIN_CUDA_LATE": "1"}
    (calls,) = read_calls(cuda.trace(FIXTURES / "shadow.cpp", folder, program, more=more))
    shadow = shadow_run(trace(calls))
    assert shadow is not None
    return shadow


@pytest.mark.parametrize(
    ("program", "hazard"),
    [
        ("reads", "read"),
        ("reads_while_it_runs", "read"),
        ("reads_before_it_comes_back", "read"),
        ("reads_after_the_block", "read"),
        ("reads_by_a_system_call", "read"),
        ("reads_one_page", "read"),
        ("shared_pages_are_read", "read"),
        ("writes", "written"),
        ("writes_by_memset", "written"),
        ("writes_after_results", "written"),
        ("writes_in_a_thread", "written"),
        ("reads_a_file", "written"),
        ("shared_pages", "written"),
        ("page_locked", "written"),
        ("forks_and_writes", "written"),
        ("writes_in_the_heap", "written"),
        ("writes_while_it_runs", "running"),
        ("scratch", "replaced"),
        ("restores", "restored"),
    ],
)
def test_a_use_of_both_sides_is_seen(cuda: PlayedCuda, tmp_path: Path, program: str, hazard: str) -> None:
    shadow = shadow_of(cuda, tmp_path, program)
    assert {seen.hazard for seen in shadow.found} == {hazard}
    assert all(seen.is_certain for seen in shadow.found)


@pytest.mark.parametrize(
    "program",
    [
        "reads_other_pages",
        "reads_an_input",
        "reads_results",
        "writes_the_same",
        "writes_and_copies",
        "writes_for_another_launch",
        "reads_a_file_and_copies",
        "writes_while_another_runs",
        "scratch_of_other_pages",
        "copies_again",
        "prepares_again",
        "copies_chunks",
        "takes_turns",
        "forks",
        "huge",
    ],
)
def test_a_near_use_is_none(cuda: PlayedCuda, tmp_path: Path, program: str) -> None:
    shadow = shadow_of(cuda, tmp_path, program)
    assert shadow.found == []
    assert shadow.looked == {0} or shadow.looked == {0, 1}


@pytest.mark.parametrize("program", ["rows_come_back", "a_graph_copies_back"])
def test_copies_that_join_no_whole_array_leave_what_is_not_known(
    cuda: PlayedCuda, tmp_path: Path, program: str
) -> None:
    shadow = shadow_of(cuda, tmp_path, program)
    assert (shadow.found, shadow.looked) == ([], set())
    assert shadow.partial > 0


def test_what_may_be_another_array_in_the_same_place_is_only_likely(cuda: PlayedCuda, tmp_path: Path) -> None:
    shadow = shadow_of(cuda, tmp_path, "reuses_the_heap")
    assert [(seen.hazard, seen.is_certain) for seen in shadow.found] == [("written", False)]


def port(
    cuda: PlayedCuda, folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, *options: str
) -> dict[str, Any]:
    """What `firsttouch port` prints of a program."""
    for name, value in cuda.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STANDIN_CUDA_LATE", "1")
    built = cuda.built(FIXTURES / "shadow.cpp")
    done = call("port", *options, "--out", folder / f"out{len(options)}", "--json", "--", built, program)
    assert done.returncode == 0, done.stderr
    return {"err": done.stderr, **msgspec.json.decode(done.stdout)}


def line(fact: str) -> int:
    """The number of the line of the programs that says so."""
    lines = (FIXTURES / "shadow.cpp").read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if fact in text)


@pytest.mark.parametrize("program", ["writes", "writes_in_a_thread", "writes_while_it_runs", "scratch"])
def test_the_line_that_writes_is_named(
    cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    found = port(cuda, tmp_path, monkeypatch, program, "--shadow")
    (row,) = (row for row in found["findings"] if row["kind"] == "both-sides")
    assert (row["certainty"], row["to_fix"]) == ("seen", True)
    assert [place["line"] for place in row["places"]] == [line("// WRITES")]
    assert_states(row["text"], f"shadow.cpp:{line('// WRITES')}")


def test_a_function_of_the_c_library_writes_for_the_line_that_calls_it(
    cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = port(cuda, tmp_path, monkeypatch, "writes_by_memset", "--shadow")
    (row,) = (row for row in found["findings"] if row["kind"] == "both-sides")
    assert_states(row["text"], f"shadow.cpp:{line('void writes_by_memset')}")


@pytest.mark.parametrize(("program", "calls"), [("reads", ("wait_for_device()", "void back")), ("reads_a_file", ())])
def test_what_has_no_line_has_those_of_the_calls_around_it(
    cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, calls: tuple[str, ...]
) -> None:
    found = port(cuda, tmp_path, monkeypatch, program, "--shadow")
    (row,) = (row for row in found["findings"] if row["kind"] == "both-sides")
    assert_states(row["text"], "between the calls")
    if calls:
        assert_states(row["text"], f"shadow.cpp:{line(calls[0])}")


def test_what_the_shadow_has_seen_is_no_longer_likely(
    cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel may write what the CPU reads again, as far as its name tells."""
    without = port(cuda, tmp_path, monkeypatch, "reads_an_input")
    assert any(row["unless"] for row in without["copy_calls"])
    assert without.get("shadow") is None
    found = port(cuda, tmp_path, monkeypatch, "reads_an_input", "--shadow")
    assert {(row["fate"], row.get("unless", "")) for row in found["copy_calls"]} == {("dropped", "")}
    assert found["shadow"] == {"arrays": 2, "partial": 0, "differences": 0}
    assert [row for row in found["findings"] if row["kind"] in ("both-sides", "restoring", "concurrent")] == []


def test_the_answer_says_what_the_shadow_saw(cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port(cuda, tmp_path, monkeypatch, "restores", "--shadow")
    done = call("port", tmp_path / "out1")
    (told,) = [text for text in done.stdout.splitlines() if text.startswith("shadow")]
    assert_states(told, "1 difference", "3 arrays")
    assert call("report", tmp_path / "out1").returncode == 0
    assert "1 difference from one memory" in (tmp_path / "out1/report.html").read_text()


def test_nothing_else_changes_for_the_program(cuda: PlayedCuda, tmp_path: Path) -> None:
    built = cuda.built(FIXTURES / "shadow.cpp")
    for program in ("writes_in_a_thread", "forks_and_writes", "huge"):
        printed = []
        for number, value in enumerate(("", "1")):
            folder = tmp_path / f"{program}-{number}"
            folder.mkdir()
            variables = (
                injected.environment(folder, nvtx=False, trace=True) | cuda.environment | {SHADOW_VARIABLE: value}
            )
            printed.append(injected.run([built, program], variables))
        assert printed[0] == printed[1]


def test_a_directory_is_not_run_again() -> None:
    done = call("port", "--shadow", "some-directory")
    assert done.returncode == 2
    assert_states(done.stderr, "--shadow")
