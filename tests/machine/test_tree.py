from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.machine.tree import READ_LIMIT, Tree, format_ids, parse_ids, parse_int, parse_kernel_size


@given(st.lists(st.integers(0, 4096)))
def test_parse_ids_is_the_inverse_of_format_ids(ids: list[int]) -> None:
    assert parse_ids(format_ids(ids)) == sorted(set(ids))


@pytest.mark.parametrize("text", [None, "", "x", "3-1", "-1", "1-", "0-99999999999", "1,,2", "٣"])
def test_a_malformed_list_is_empty(text: str | None) -> None:
    assert parse_ids(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("48K", 49152),
        ("1024K", 2**20),
        ("32M", 2**25),
        ("64", 64),
        ("0K", None),
        ("K", None),
        ("", None),
        ("-1K", None),
    ],
)
def test_sizes(text: str, value: int | None) -> None:
    assert parse_kernel_size(text) == value


@pytest.mark.parametrize("text", ["", " ", "1.5", "0x10", str(2**63), "9" * 5000, "٣", None])
def test_text_that_is_not_a_64_bit_integer(text: str | None) -> None:
    assert parse_int(text) is None


@pytest.mark.parametrize(
    ("text", "choice"),
    [("always [madvise] never", "madvise"), ("performance\n", "performance"), ("a b", None), ("[", None), ("", None)],
)
def test_selected_option(tmp_path: Path, text: str, choice: str | None) -> None:
    (tmp_path / "enabled").write_text(text)
    assert Tree(tmp_path).selected("enabled") == choice


def test_missing_and_malformed_files_read_as_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\x00\xfe")
    assert tree.text("folder") is None
    assert tree.text("absent") is None
    assert tree.text("nul\0byte") is None
    assert tree.integer("binary") is None
    assert tree.names("binary") == []
    assert tree.kibibytes("binary") == {}


def test_absolute_names_stay_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/name").write_text("inside")
    assert Tree(tmp_path).text("/etc/name") == "inside"


def test_a_stream_has_the_whole_file_and_other_reads_stop_at_the_limit(tmp_path: Path) -> None:
    line = b"a line of 16 B.\n"
    (tmp_path / "long").write_bytes(line * (READ_LIMIT // 16 + 1000))
    tree = Tree(tmp_path)
    lines = tree.stream("long")
    assert lines is not None
    assert sum(each == line for each in lines) == READ_LIMIT // 16 + 1000
    assert len(tree.bytes("long") or b"") == READ_LIMIT


def test_a_stream_of_a_missing_or_unreadable_file(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "folder").mkdir()
    assert tree.stream("absent") is None
    assert tree.stream("folder") is None
    assert tree.stream("nul\0byte") is None
