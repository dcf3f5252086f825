"""Reads regular files only, hands scripts to the shell, writes files atomically, with whatever a system lacks."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from firsttouch.base.errors import UsageError

Decoded = TypeVar("Decoded")

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


_NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EROFS}
"""The errors of file systems, of the kernel and of sandboxes that lack fsync, or refuse it for a folder."""


class as_usage_error:
    """A context manager that turns an OSError into a UsageError: "can't VERB PATH: REASON; give ACCEPTED"."""

    def __init__(self, verb: str, path: Path, accepted: str) -> None:
        self.verb, self.path, self.accepted = verb, path, accepted

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise UsageError(f"can't {self.verb} {self.path}: {error.strerror}; give {self.accepted}") from None


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file. Opening it never blocks.

    Raises:
        UsageError: `path` is a FIFO, a device, a directory or a socket.
        OSError: as os.open.
    """
    with suppress(FileNotFoundError):
        _check_regular(path, path.stat())
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    try:
        _check_regular(path, os.fstat(descriptor))  # it may have been replaced since stat()
    except UsageError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: Path, status: os.stat_result) -> None:
    if kind := _KINDS.get(stat.S_IFMT(status.st_mode)):
        raise UsageError(f"{path} is {kind}, not a regular file")


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Raises as `open_regular`."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def read_json(path: Path, kind: type[Decoded], accepted: str) -> Decoded:
    """What a JSON file of this program holds. accepted: what is to be given, as of `as_usage_error`.

    Raises:
        UsageError: it can't be read, or holds something else.
    """
    with as_usage_error("read", path, accepted):
        data = read_regular(path)
    import msgspec

    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is none that this version of firsttouch wrote: {error}") from None


def by_shell(command: Sequence[str], path: str | None = None) -> list[str] | None:
    """The command by which /bin/sh runs a script that the kernel can't execute, as it has no ``#!``; None if the file
    is no text. Source: execvp(3), and the command search of POSIX's shell. path: the folders to search instead of PATH.
    """
    file = shutil.which(command[0], path=path)
    try:
        with os.fdopen(open_regular(Path(file or command[0]), os.O_RDONLY), "rb") as script:
            is_text = b"\0" not in script.read(256)
    except (OSError, UsageError):
        return None
    return ["/bin/sh", os.path.abspath(file or command[0]), *command[1:]] if is_text else None


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, and sync its content. Its directory entry is not synced.

    Raises:
        OSError: the path exists, or can't be written.
    """
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        sync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by a file that holds `data`.

    After a full disk, a kill or a power failure, `path` has either its previous content or all of `data`. The new file
    is written in the same directory, synced and renamed. A symbolic link or a FIFO at `path` is replaced, not followed.

    Raises:
        OSError: the file can't be written; nothing was changed.
    """
    # Process ids alone are not unique: those of other hosts and containers may write here too.
    temporary = path.parent / f".{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        write_new(temporary, data)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # nobody knows the temporary file
        raise
    sync_directory(path.parent)


def write_output(path: Path, data: bytes) -> None:
    """As write_atomically, except that data are written to an existing device or pipe such as /dev/stdout."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(data)
    else:
        write_atomically(path, data)


def sync(descriptor: int) -> None:
    """Sync a file, or a folder, as far as its file system can. Raises OSError if it can and failed, as a full disk."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory, such as that of a file just created or renamed, as far as that is possible: a
    directory may be one that cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def make_new_directory(path: Path) -> Path:
    """Make a directory that no other call has: `path`, or with a suffix the first of PATH-2, PATH-3, ... that is new.

    Raises:
        OSError: no directory can be made there.
    """
    for number in itertools.count(1):
        directory = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            if not os.path.lexists(directory):  # it is not this directory that exists, but a link in place of one above
                raise
        else:
            break
    return directory


def anonymous_file(name: str) -> int:
    """A descriptor of an empty file without a path. It is in memory, or where the C library, the kernel or a sandbox
    does not permit that, in the folder for temporary files. Raises OSError if neither can be made.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
