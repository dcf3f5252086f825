"""Journals that were damaged after they were written are not told as whole; those that were not damaged are."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.port.journals import CHUNK, HEADER, journal, profile
from tests.port.traces import Calls

import firsttouch
from firsttouch.base.errors import UsageError

MIB = 1 << 20
COPIES = 700


def copying() -> Calls:
    """A program whose journal has several chunks; its last copies are the only ones of a second buffer."""
    calls = Calls(pid=100)
    blocks, host = [calls.block(MIB, line=n) for n in (1, 2)], calls.host(2 * MIB)
    for _ in range(COPIES):
        calls.copy(blocks[0], host, MIB, line=3)
        calls.launch(blocks[0], kernel="_Z4stepPf", seconds=1e-4, line=4)
    calls.copy(blocks[1], host + MIB, MIB, line=5)
    calls.copy(host, blocks[0], MIB, line=6)
    return calls


@pytest.fixture(scope="module", params=[2, 3])
def content(request: pytest.FixtureRequest) -> bytes:
    written = journal(copying().traced, request.param).file
    assert len(written) > HEADER + 3 * CHUNK
    return written


def version_of(content: bytes) -> int:
    return content[8]


def length(content: bytes) -> int:
    """Where the records end."""
    return len(content.rstrip(b"\0"))


def zeroed(content: bytes, first: int, last: int) -> bytes:
    return content[:first] + bytes(last - first) + content[last:]


def shown(tmp_path: Path, content: bytes) -> dict[str, object]:
    directory = profile(tmp_path / "p", Calls(pid=100).traced)
    (directory / "journal-100-0.bin").write_bytes(content)
    lines = directory / "profile.jsonl"
    lines.write_text(re.sub(r'"trace","active":false', '"trace","active":true', lines.read_text()))
    return firsttouch.port(directory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: zeroed(content, int(length(content) * 0.7), len(content)),
        lambda content: zeroed(content, length(content) - 3000, len(content)),
        lambda content: zeroed(content, HEADER + CHUNK + 4096, HEADER + CHUNK + 8192),
        lambda content: zeroed(content, HEADER + CHUNK, HEADER + 2 * CHUNK),
        lambda content: content[:-CHUNK],
        lambda content: content[: length(content) // 2],
        lambda content: content[: HEADER + CHUNK],
    ],
    ids=["zeroed tail", "last records", "hole", "chunk", "last chunk lost", "truncated", "one chunk left"],
)
def test_a_journal_of_which_records_are_missing_is_not_whole(
    tmp_path: Path, content: bytes, damage: Callable[[bytes], bytes]
):
    port = shown(tmp_path, damage(content))
    assert port["partial"]
    assert port["incomplete"]
    assert "as far as its trace has records" in str(port["summary"])
    assert [block["unused"] for block in port["blocks"]] == [[]] * len(port["blocks"])  # type: ignore[attr-defined,index,call-overload]


def test_a_journal_as_it_was_written_is_whole(tmp_path: Path, content: bytes):
    port = shown(tmp_path, content)
    assert (port["partial"], port["copies"]) == (False, COPIES + 2)
    assert "as far as" not in str(port["summary"])


def test_a_chunk_that_was_just_begun_is_no_damage(tmp_path: Path):
    """The process was killed between two records, the second of which needs a new chunk."""
    written = journal(copying().traced).file
    room = bytes(CHUNK)
    assert not shown(tmp_path, written + room)["partial"]


def test_records_behind_those_that_the_header_states_are_read(tmp_path: Path):
    """The process was killed after it wrote a record and before it wrote that."""
    calls = copying()
    written = journal(calls.traced)
    before = written.file
    written.call(calls.calls[-1])
    port = shown(tmp_path, before[:HEADER] + written.file[HEADER:])
    assert (port["partial"], port["copies"]) == (False, COPIES + 3)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.95])
def test_bytes_that_were_replaced_are_noticed(tmp_path: Path, place: float):
    content = bytearray(journal(copying().traced).file)
    at = int(HEADER + (length(bytes(content)) - HEADER) * place)
    content[at] ^= 0x10
    with suppress(UsageError):  # where a record then says what cannot be
        assert shown(tmp_path, bytes(content))["partial"]


def test_a_journal_without_its_header_is_told_and_not_taken_for_a_program_without_cuda(tmp_path: Path, content: bytes):
    with pytest.raises(UsageError, match="no header"):
        shown(tmp_path, zeroed(content, 0, HEADER))


def test_an_old_journal_of_a_program_that_was_killed_has_no_end(tmp_path: Path):
    calls = copying()
    written = journal(calls.traced, 2)
    written.call(calls.calls[-1])
    assert shown(tmp_path, written.file)["partial"]
