"""--exact: a program runs again on a played Sanitizer API, and what its kernels use is matched with the first run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.calls import call
from tests.port.played import FIXTURES, TOP, MakeOnce, PlayedCuda
from tests.texts import assert_states

import firsttouch
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.exact import read_exact
from firsttouch.profile.reading import read
from firsttouch.program.exact import match
from firsttouch.program.exact_run import ExactRun
from firsttouch.program.trace import TracedLaunch, trace
from firsttouch.report.ported import ported_page

GRANULE = 1 << 16
ALL = [(0, 64 * GRANULE)]
NVCC = """#!/bin/sh
for last; do :; done
case "$*" in *--compile-as-tools-patch*granules.cu*) echo patch > "$last";; esac
"""


@pytest.fixture
def exact(cuda: PlayedCuda, make_once: MakeOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what --exact needs is found: a compiler that writes a file, and the stand-in for the Sanitizer API."""

    def build(folder: Path) -> None:
        include = [f"-I{TOP / 'native'}", f"-I{TOP / 'src/firsttouch'}"]
        source, target = TOP / "tests/standins/sanitizer.cpp", folder / "libsanitizer-public.so"
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", *include, source, "-o", target], check=True)

    standin = make_once("played-sanitizer", build) / "libsanitizer-public.so"
    nvcc = tmp_path / "bin/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    variables = cuda.environment | {"STANDIN_SANITIZER": str(standin), "FIRSTTOUCH_LIB_SANITIZER": str(standin)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(nvcc.parent), prepend=":")
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    return nvcc


def matched(directory: Path) -> ExactRun:
    (calls,) = read_calls(directory)
    found = match(trace(calls), read_exact(directory))
    assert found is not None
    return found


@pytest.mark.slow
def test_granules_are_those_that_the_kernels_used(exact: Path, cuda: PlayedCuda, tmp_path: Path) -> None:
    out = tmp_path / "p"
    shown = call("profile", "--exact", "--out", str(out), "--", str(cuda.built(FIXTURES / "shares.c")))
    assert shown.returncode == 0, shown.stderr
    assert "runs again, slowly" in shown.stderr
    found, run = matched(out), trace(read_calls(out)[0])
    used = [
        [[(p.start, p.end) for p in block.pieces] for block in found.uses[number]]
        for number, step in enumerate(run.steps)
        if isinstance(step, TracedLaunch)
    ]
    assert used[0] == [[(0, GRANULE)], [(0, GRANULE)]]
    assert used[1] == [[(i * GRANULE, (i + 1) * GRANULE) for i in range(0, 64, 3)]]
    assert used[2:] == [[ALL, ALL]] * 10
    assert (found.launches, found.matched, found.recorded, found.alike, found.ended) == (12, 12, 12, 0, "")


def test_a_second_run_that_differs_is_exact_up_to_there(
    exact: Path, cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFER", "1")
    call("profile", "--exact", "--out", str(tmp_path / "p"), "--", str(cuda.built(FIXTURES / "shares.c")))
    found = matched(tmp_path / "p")
    assert found.matched == 1
    assert "launch 2 of 12 on: the grid of _Z5thirdPc is (2, 1, 1)" in found.ended


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({"FIRSTTOUCH_LIB_SANITIZER": "/none.so"}, [], "--exact needs NVIDIA's Sanitizer API"),
        ({"CUDA_INJECTION64_PATH": "/other.so"}, [], "unset it"),
        ({"PMI_RANK": "1"}, [], "ranks of MPI cannot"),
        ({}, ["--pid", "1"], "--exact and --pid were given"),
        ({}, ["--no-inject"], "--exact and --no-inject were given"),
        ({"PATH": "/none", "CUDA_HOME": "/none"}, [], "--exact needs nvcc"),
    ],
    ids=["library", "other-tool", "rank", "pid", "no-inject", "compiler"],
)
def test_what_a_second_run_needs_is_said_before_the_first(
    exact: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.setattr("firsttouch.profile.second_run._HOMES", ())
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = [] if "--pid" in options else ["--", "/bin/true"]
    shown = call("profile", "--exact", *options, "--out", str(tmp_path / "p"), *command)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert not (tmp_path / "p").exists()


def test_a_compiler_that_fails_is_quoted(exact: Path, tmp_path: Path) -> None:
    exact.write_text("#!/bin/sh\necho 'nvcc fatal   : Unsupported gpu architecture' >&2\nexit 1\n")
    shown = call("profile", "--exact", "--out", str(tmp_path / "p"), "--", "/bin/true")
    assert (shown.returncode, "Unsupported gpu architecture" in shown.stderr) == (2, True)


def test_a_program_that_a_signal_ended_does_not_run_again(exact: Path, tmp_path: Path) -> None:
    shown = call("profile", "--exact", "--out", str(tmp_path / "p"), "--", "/bin/sh", "-c", "kill -9 $$")
    assert_states(shown.stderr, "no second run", "signal")
    assert not (tmp_path / "p/exact").exists()


def test_a_second_run_that_hangs_is_killed_with_its_children(
    exact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firsttouch.profile.second_run._MOST_SECONDS", 0.5)
    monkeypatch.setattr("firsttouch.profile.second_run._MOST_TIMES", 0.0)
    child = tmp_path / "child"
    hangs = f"test -e {child} || {{ touch {child}; exit 0; }}; sleep 1000 & echo $! > {child}; wait"
    shown = call("profile", "--exact", "--out", str(tmp_path / "p"), "--", "/bin/sh", "-c", hangs)
    assert shown.returncode == 0
    assert_states(shown.stderr, "second run was killed")
    while Path(f"/proc/{int(child.read_text())}/exe").exists():
        time.sleep(0.01)


def test_port_says_what_the_second_run_told(exact: Path, cuda: PlayedCuda, tmp_path: Path) -> None:
    shown = call("port", "--exact", "--out", str(tmp_path / "p"), "--", str(cuda.built(FIXTURES / "shares.c")))
    assert shown.returncode == 0, shown.stderr
    told = firsttouch.port(tmp_path / "p")["kernels"]
    assert [told[name] for name in ("launches", "recorded", "alike", "outside")] == [12, 12, 0, 0]
    first = told["kernels"][0]
    assert (first["kernel"], first["launches"], first["used"], first["bytes"]) == ("first", 1, 1 << 16, 4 << 20)
    assert f"{first['kernel']} accesses 64 KiB of 4 MiB" in " ".join(shown.stderr.split())
    assert "use --exact" not in shown.stderr
    (table,) = [table for table in ported_page(read(tmp_path / "p")).tables if table.anchor == "kernels"]  # type: ignore[union-attr]
    assert ["third", "main shares.c:24", "4 MiB", "1", "1.38 MiB", "34.4 %", "1.38 MiB", "1.38 MiB"] in table.rows
    program = call("port", "--program", str(tmp_path / "p"))
    assert "gpu third" in program.stdout
    assert "updates 1.38 MiB of 1 (shares.c:24) in 22 pieces exact" in program.stdout


def test_the_second_run_reads_its_input_from_the_beginning(exact: Path, tmp_path: Path) -> None:
    given, read = tmp_path / "given", tmp_path / "read"
    given.write_text("three lines\nof\ninput\n")
    script = f"import sys; open({str(read)!r}, 'a').write(sys.stdin.read())"
    before = os.dup(0)
    try:
        with given.open() as stdin:
            os.dup2(stdin.fileno(), 0)
            call("profile", "--exact", "--out", str(tmp_path / "p"), "--", sys.executable, "-c", script)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert read.read_text() == 2 * given.read_text()
