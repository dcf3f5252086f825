"""Programs of others that print what nobody expects, or do not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.machine.tools import NOT_STARTED, ask


def program(folder: Path, body: str) -> str:
    path = folder / "tool"
    path.write_text(body)
    path.chmod(0o755)
    return str(path)


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    done = ask([program(tmp_path, "#!/bin/sh\ncat\nprintf '\\377 1.0' >&2\n")], "read\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "\ufffd 1.0")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("neither a script nor a program", "did not start: Exec format error"),
        ("#!/no/such/interpreter\n", "did not start: No such file or directory"),
        ("#!/bin/sh\nexec sleep 60\n", "did not end within 0.01 s"),
    ],
)
def test_a_program_that_does_not_run_has_a_reason(tmp_path: Path, body: str, why: str) -> None:
    tool = program(tmp_path, body)
    done = ask([tool], timeout=0.01)
    assert (done.returncode, done.stdout, done.stderr) == (NOT_STARTED, "", f"{tool} {why}")
