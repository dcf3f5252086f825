"""Programs that are started as a shell would start them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firsttouch.base.files import by_shell
from firsttouch.profile import launch


def status_of(tmp_path: Path, *command: str) -> int:
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TO": str(tmp_path / "printed")}
    pid = launch.start(command, environment, lambda pid: None, mask=set())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def made(tmp_path: Path, content: bytes) -> str:
    file = tmp_path / "job"
    file.write_bytes(content)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("named", ["by its path", "by its name"])
def test_a_script_without_an_interpreter_is_run_by_the_shell(tmp_path: Path, named: str) -> None:
    file = made(tmp_path, b'printf "%s," "$@" > "$TO"\nexit 3\n')
    assert status_of(tmp_path, file if named == "by its path" else "job", "a b", "-c") == 3
    assert (tmp_path / "printed").read_text() == "a b,-c,"


@pytest.mark.parametrize("content", [b"", b"# nothing\n", "true # \u00fc\n".encode(), b"true \xff\n"])
def test_every_text_is_a_script(tmp_path: Path, content: bytes) -> None:
    assert status_of(tmp_path, made(tmp_path, content)) == 0


@pytest.mark.parametrize(
    ("content", "status", "why"),
    [
        (b"\x7fELF\2\1\1\0" + bytes(200), 126, "Exec format error"),
        (b"MZ\0\0", 126, "Exec format error"),
        (b"#!/no/such/interpreter\n", 127, "the interpreter that it names, in its first line or as its loader, is not"),
        (b"#!/bin/sh\r\n", 127, "the interpreter that it names"),
    ],
)
def test_what_is_no_script_is_one_sentence(tmp_path: Path, content: bytes, status: int, why: str) -> None:
    file = made(tmp_path, content)
    with pytest.raises(launch.NotStarted, match=f"^can't start {file}: {why}") as raised:
        status_of(tmp_path, file)
    assert raised.value.status == status


@pytest.mark.timeout(20)
def test_what_is_no_file_is_no_script(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "absent"):
        assert by_shell([str(tmp_path / name)]) is None
