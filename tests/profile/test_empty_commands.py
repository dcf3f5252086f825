"""Commands that are empty at first, as they are for a moment while a process executes another program."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.profile.trees import tree_of

from firsttouch.advice.port.processes import command_of
from firsttouch.profile import schema
from firsttouch.profile.content import Profile
from firsttouch.profile.reading import read
from firsttouch.profile.records import Pace, Writer
from firsttouch.profile.tree import Processes

PID = 50
STAT = f"{PID} (env) R 1 {PID} {PID} 0 -1 4194304 100 0 0 0 1 1 0 0 20 0 1 0 100 1000000 100 1\n"


@contextmanager
def profiled(folder: Path, command: bytes) -> Iterator[tuple[Processes, Path]]:
    """A process with this command line, in a copy of /proc; the profile is written at the end."""
    files = {"comm": "app\n", "cmdline": command, "stat": STAT, "statm": "200 100 50 1 0 60 0\n"}
    tree = tree_of(folder / "tree", {f"proc/{PID}/{name}": text for name, text in files.items()})
    writer = Writer(folder / "out")
    header = schema.Header(
        schema=schema.SCHEMA, version="1", command=["env", "app"], pid=PID, started="", clock=0.0, interval=0.01,
        host="h", page_bytes=4096,
    )  # fmt: skip
    writer.add(header)
    processes = Processes(tree, writer, Pace(0.01))
    assert processes.add_first(0.0, PID)
    yield processes, folder / "tree/proc" / str(PID) / "cmdline"
    writer.flush()


def starts(folder: Path) -> int:
    return (folder / "out/profile.jsonl").read_text().count('"line":"started"')


def profile_of(folder: Path) -> Profile:
    return read(folder / "out")


def test_a_command_that_is_empty_while_the_program_starts_is_read_again(tmp_path: Path) -> None:
    with profiled(tmp_path, b"") as (processes, file):
        processes.take_readings(time.monotonic())
        file.write_bytes(b"/bin/app\0fast\0")
        processes.take_readings(time.monotonic())
    assert [*command_of(profile_of(tmp_path), PID)] == ["/bin/app", "fast"]


@pytest.mark.parametrize(("command", "shown"), [(b"/bin/app\0", "/bin/app"), (b"", "app")])
def test_one_that_stays_as_it_is_is_written_once(tmp_path: Path, command: bytes, shown: str) -> None:
    """A process that has cleared its command, or ended, is called by its name."""
    with profiled(tmp_path, command) as (processes, _):
        for _ in range(3):
            processes.take_readings(time.monotonic())
    assert starts(tmp_path) == 1
    assert [*command_of(profile_of(tmp_path), PID)] == [shown]


@pytest.mark.parametrize(("is_program", "shown"), [(True, "brief"), (False, "/bin/app")])
def test_a_program_that_ends_at_once_is_called_by_its_name(tmp_path: Path, is_program: bool, shown: str) -> None:
    """It was executed by another one, such as env. A process that named itself keeps its command."""
    with profiled(tmp_path, b"/bin/app\0") as (processes, file):
        for each in file.parent.iterdir():
            each.unlink()
        processes.executed(0.5, PID, "brief", is_program=is_program)
    assert [*command_of(profile_of(tmp_path), PID)] == [shown]
