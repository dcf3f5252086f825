"""Journals that are cut short, broken or full."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.profile.injected import HERE, compiled, environment, only_journal, run

from firsttouch.base.errors import UsageError
from firsttouch.profile import marks
from firsttouch.profile.inject import injected_library
from firsttouch.profile.journal import JournalFile, journal_files, read_journals

HEADER = struct.Struct("<8s4I2Q")
MARK = struct.Struct("<QqIHHB7x")


def header(**changed: object) -> bytes:
    fields = {
        "magic": b"FTJRNL\r\n",
        "version": 1,
        "header_bytes": 64,
        "chunk_bytes": 4096,
        "process": 7,
        "opened": 10**9,
        "left_out": 0,
    } | changed
    return HEADER.pack(*fields.values()).ljust(64, b"\0")


def record(kind: int, content: bytes) -> bytes:
    size = (8 + len(content) + 7) // 8 * 8
    return (struct.pack("<IHxx", size, kind) + content).ljust(size, b"\0")


def mark(name: str, t: int = 2 * 10**9, what: int = 2) -> bytes:
    text = name.encode()
    return record(1, MARK.pack(t, -1, 5, len(text), 0, what) + text)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "journal-7-0.bin"
    path.write_bytes(content)
    return path


def names(folder: Path) -> list[str]:
    return [m.name for m in only_journal(folder).marks]


def test_a_journal_is_read_up_to_where_it_ends(tmp_path: Path):
    whole = header() + mark("first") + mark("second") + record(0, bytes(100)) + mark("third")
    ends = {len(header()): 0}
    for name in ("first", "second"):
        ends[max(ends) + len(mark(name))] = len(ends)
    ends |= {max(ends) + 8 + 104: 2, len(whole): 3}
    for size in range(len(whole) + 1):
        written(tmp_path, whole[:size])
        expected = max((count for end, count in ends.items() if end <= size), default=0)
        journal = only_journal(tmp_path)
        assert [mark.name for mark in journal.marks] == ["first", "second", "third"][:expected]
        assert bool(journal.notices) == (size >= HEADER.size and size != len(header()))  # that it was cut
    written(tmp_path, whole.ljust(64 + 4096, b"\0"))  # what was reserved and not used
    assert names(tmp_path) == ["first", "second", "third"]
    assert not only_journal(tmp_path).notices


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"ELF" * 100, "is no journal of firsttouch"),
        (header(version=6), "has version 6 of the format; versions up to 5 are read"),
        (header(version=0), "has version 0 of the format; versions up to 5 are read"),
        (header(header_bytes=3), "has a broken header"),
        (header(header_bytes=1 << 30), "has a broken header"),
        (header() + struct.pack("<IHxx", 9, 1) + bytes(100), "has a record of 9 bytes"),
        (header() + record(1, b"short"), "has a broken record"),
        (header() + mark("x", what=9), "has a broken record"),
        (header() + record(1, MARK.pack(1, -1, 5, 60000, 0, 2)), "has a broken record"),
        (header() + record(2, struct.pack("<QII", 1, 1 << 31, 0)), "has a broken record"),
        (header() + record(9, struct.pack("<II", 1, 1 << 31)), "has a broken record"),
        (header() + record(8, bytes(32)), "has a broken record"),  # no reading of the clocks
        (header() + record(4, bytes(16)) + record(8, bytes(28) + b"\7\0\0\0"), "has a broken record"),  # unknown text
        (header() + record(4, bytes(16)) + record(5, bytes(64)), "has a broken record"),  # no kind
    ],
)
def test_nonsense_is_refused_in_one_sentence(tmp_path: Path, content: bytes, sentence: str):
    path = written(tmp_path, content)
    with pytest.raises(UsageError, match=re.escape(sentence)) as error:
        read_journals(tmp_path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_records_of_a_later_kind_are_left_out(tmp_path: Path):
    written(tmp_path, header(left_out=3) + record(77, b"later") + mark("known"))
    journal = only_journal(tmp_path)
    assert ([m.name for m in journal.marks], journal.left_out, journal.pid) == (["known"], 3, 7)


def test_text_that_is_not_utf8_is_shown_as_such(tmp_path: Path):
    written(tmp_path, header() + record(1, MARK.pack(1, -1, 5, 4, 0, 2) + b"a\xff\0b"))
    assert names(tmp_path) == ["a\ufffd\0b"]


def test_other_files_are_no_journals(tmp_path: Path):
    for name in ("journal-1.bin", "journal-1-0.bin.new", "journal-x-0.bin", "profile.jsonl"):
        (tmp_path / name).write_text("other")
    (tmp_path / "journal-1-1.bin").symlink_to("/etc/passwd")
    assert journal_files(tmp_path) == []
    assert journal_files(tmp_path / "missing") == []


@pytest.mark.slow
def test_changed_bytes_never_raise_anything_else(tmp_path: Path):
    chance = random.Random(3)
    clocks = record(4, struct.pack("<QQ", 10**9, 2 * 10**9))
    texts = b"".join(record(3, struct.pack("<II", i + 1, 5) + b"h2d\0\0") for i in range(3))
    site = record(9, struct.pack("<II", 1, 1) + struct.pack("<QI4x", 16, 1))
    call = record(10, struct.pack("<QII", 1, 5, 1))
    event = record(5, struct.pack("<5Q5I4x", 1, 2, 3, 4, 5, 1, 1, 1, 1, 1))
    memory = record(6, struct.pack("<3Q6I", 1, 2, 3, 1, 3, 0, 5, 1, 1))
    copy = record(7, struct.pack("<3Q5I3Bx", 1, 2, 3, 0, 1, 2, 0, 0, 1, 1, 3))
    kernel = record(8, struct.pack("<2Q4I", 1, 2, 0, 1, 2, 1))
    whole = header() + clocks + texts + site + call + event + memory + copy + kernel + mark("m") + clocks
    for _ in range(3000):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        written(tmp_path, bytes(broken))
        with contextlib.suppress(UsageError):
            read_journals(tmp_path)


def test_a_journal_that_vanishes_is_one_sentence(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        list(JournalFile(tmp_path / "journal-1-0.bin").records())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: socket.socket(socket.AF_UNIX).bind(path.name)])
def test_what_is_no_file_is_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]):
    """A profile from a stranger may have a FIFO in place of a journal."""
    written(tmp_path, header() + mark("first"))
    monkeypatch.chdir(tmp_path)  # the address of a socket must be short
    make(tmp_path / "journal-1-1.bin")
    with pytest.raises(UsageError, match=r"journal-1-1\.bin is a (FIFO|directory|socket), not a regular file"):
        read_journals(tmp_path)


@pytest.mark.timeout(20)
def test_a_fifo_in_place_of_the_marks_does_not_block_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(tmp_path / marks.FILE)
    monkeypatch.setenv(marks.VARIABLE, str(tmp_path))
    assert not marks.write("begin", "first", "python")


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that sends the number of marks that it is told, through NVTX's tables of its own."""
    target = tmp_path_factory.mktemp("sender") / "sender"
    return compiled(str(HERE / "sender.c"), target)


def test_a_full_disk_is_silent(sender: Path, tmp_path: Path):
    """The program runs to its end, and what fitted is read."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = 'mount -t tmpfs -o size=1m firsttouch "$1" && shift && "$@" && cp "$FIRSTTOUCH_PROFILE"/* "$COPIES"'
    variables = environment(tmp_path) | {"FIRSTTOUCH_PROFILE": str(disk), "COPIES": str(tmp_path)}
    unshared = ["unshare", "--mount", "--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshared, "true"], capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here")
    assert run([*unshared, "sh", "-c", command, "sh", disk, sender, "50000"], variables) == "50000\n"
    journal = only_journal(tmp_path)
    assert 5000 < len(journal.marks) < 50000
    assert [m.name for m in journal.marks] == [str(i) for i in range(len(journal.marks))]
    assert journal.left_out == 50000 - len(journal.marks)


def test_a_limit_for_the_size_of_files_does_not_end_the_program(sender: Path, tmp_path: Path):
    limited = ["sh", "-c", 'ulimit -f 600; exec "$@"', "sh", sender, "50000"]
    assert run(limited, environment(tmp_path)) == "50000\n"
    journal = only_journal(tmp_path)
    assert 0 < len(journal.marks) < 50000
    assert journal.left_out == 50000 - len(journal.marks)


def test_the_library_exports_its_entry_points_alone():
    if not injected_library().is_file() or shutil.which("nm") is None:
        pytest.skip("the library was not built, or nm is not installed")
    command = ["nm", "-D", "--defined-only", injected_library()]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split()[-1] for line in symbols} == {
        *("InitializeInjection", "InitializeInjectionNvtx2", "clGetLayerInfo", "clInitLayer"),
        *("firsttouch_hip_functions", "firsttouch_hip_table", "ompt_start_tool"),
    }
    needed = subprocess.run(["readelf", "-d", injected_library()], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in needed
    assert "python" not in needed
    assert "NODELETE" in needed
