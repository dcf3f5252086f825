"""Files are replaced atomically."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from firsttouch.files import write_atomically


def test_an_existing_file_is_replaced_and_no_temporary_file_remains(tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            write_atomically(path, b"x" * 2**20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_links_and_pipes_are_replaced_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(other)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        write_atomically(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"
        assert not (tmp_path / name).is_symlink()
    assert other.read_bytes() == b"precious"


def test_permissions_follow_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "page", b"")
    finally:
        os.umask(mask)
    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o640
