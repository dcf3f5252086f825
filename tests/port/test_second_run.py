"""--exact: a program runs again on a played Sanitizer API, and what its kernels use is matched with the first run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.calls import call
from tests.port.played import TOP, MakeOnce, PlayedCuda

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
    assert "there is no second run" in shown.stderr
    assert not (tmp_path / "p/exact").exists()
