"""Files are replaced atomically."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import tempfile
from pathlib import Path

import pytest

from firsttouch.base.files import anonymous_file, make_new_directory, sync_directory, write_atomically


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


def test_another_process_with_the_same_id_does_not_disturb_a_write(tmp_path, monkeypatch):
    """Every container has a process 1, and several may share a folder."""
    replace = Path.replace

    def beside(self, target):
        monkeypatch.undo()
        write_atomically(tmp_path / "page", b"of the other")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", beside)
    write_atomically(tmp_path / "page", b"of this one")
    assert (tmp_path / "page").read_bytes() == b"of this one"
    assert [p.name for p in tmp_path.iterdir()] == ["page"]


@pytest.mark.parametrize("error", ["EINVAL", "ENOSYS", "EOPNOTSUPP", "EBADF", "EACCES", "EPERM", "EROFS"])
def test_a_file_system_that_does_not_sync(tmp_path, monkeypatch, error):
    def refuse(descriptor):
        raise OSError(getattr(errno, error), "refused")

    monkeypatch.setattr(os, "fsync", refuse)
    write_atomically(tmp_path / "page", b"new")
    assert (tmp_path / "page").read_bytes() == b"new"


def test_a_folder_that_cannot_be_read_is_not_synced(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    sync_directory(tmp_path)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EDQUOT"])
def test_a_sync_that_loses_data_is_an_error(tmp_path, monkeypatch, error):
    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(getattr(errno, error), "lost")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="lost"):
        write_atomically(tmp_path / "page", b"new")


def test_every_call_gets_a_directory_of_its_own(tmp_path):
    made = [make_new_directory(tmp_path / "runs" / "host-20251125-120000") for _ in range(3)]
    (tmp_path / "runs" / "file").touch()
    made += [make_new_directory(tmp_path / "runs" / name) for name in ("file", "a.b")]
    names = ["host-20251125-120000", "host-20251125-120000-2", "host-20251125-120000-3", "file-2", "a.b"]
    assert [path.name for path in made] == names
    assert all(path.is_dir() for path in made)


def test_no_directory_below_a_link_to_nothing_or_a_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").touch()
    for above in ("link", "file"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_new_directory(tmp_path / above / "host")


@pytest.mark.parametrize("lacks", ["the C library", "the kernel", "nothing"])
def test_an_anonymous_file_where_there_is_no_memfd_create(tmp_path, monkeypatch, lacks):
    def refuse(name):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if lacks == "the C library":
        monkeypatch.delattr(os, "memfd_create")
    elif lacks == "the kernel":
        monkeypatch.setattr(os, "memfd_create", refuse)
    file = anonymous_file("words")
    try:
        assert not os.get_inheritable(file)
        os.write(file, b"words")
        assert os.pread(file, 9, 0) == b"words"
    finally:
        os.close(file)
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "no" / "page", b"")
    assert error.value.filename == str(tmp_path / "no" / "page")
