"""The one writer of a results directory: results.jsonl (append-only), machine.json, run.json.

A record is on the disk before the next point starts. One writer at a time holds a lock on results.jsonl, which the
kernel drops with its process.

A directory of an older major version of the schema is upgraded as a whole before it is written: the new files are
written into a folder of their own, synced, and the folder is renamed to UPGRADED. From then on readers take its files
for those beside it, and whoever writes next moves them there. Killed at any time, the directory reads as all old or all
new.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections import Counter
from collections.abc import KeysView, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from firsttouch.errors import UsageError
from firsttouch.files import as_usage_error, open_regular, sync_directory, write_atomically, write_new
from firsttouch.records.reading import (
    MACHINE,
    RESULTS,
    RUN,
    UPGRADED,
    is_upgraded,
    key_of,
    latest,
    read_document,
    read_file,
    read_lines,
)
from firsttouch.records.schema import MAJOR, Machine, Record, Request, Stored, encode

_UPGRADING = ".upgrading"
"""Folder of an upgrade that may still be given up."""


class Store:
    """The one writer of a results directory.

    Raises:
        UsageError: the directory can't be written, holds results though `resume` is False, is being written by
            another run, or (resume) holds a broken file. Nothing in it has been changed then.
    """

    def __init__(self, directory: Path, *, resume: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self._file = -1
        self._latest: dict[str, Record] = {}
        self._tries: Counter[str] = Counter()
        self._lines: list[Record] = []
        """Of an older schema: all that results.jsonl holds, to be written anew."""
        with self._writing():
            directory.mkdir(parents=True, exist_ok=True)
            try:
                self._open_locked()
                self._read(resume)
                sync_directory(directory)
                sync_directory(directory.parent)
            except BaseException:
                self.close()
                raise

    def _writing(self) -> as_usage_error:
        return as_usage_error("write", self.directory, "a directory that can be written")

    @property
    def held(self) -> KeysView[str]:
        """The keys of all points that have a record."""
        return self._latest.keys()

    @property
    def records(self) -> list[Record]:
        """The last record of every point."""
        return list(self._latest.values())

    def to_retry(self, *, again: bool = False) -> set[str]:
        """The keys of points to measure once more: those that crashed or timed out and were tried once; with `again`,
        all that crashed, timed out or failed, however often they were tried.
        """
        ends = ("crashed", "timeout", "failed") if again else ("crashed", "timeout")
        return {key for key, r in self._latest.items() if r.status in ends and (again or self._tries[key] == 1)}

    # ---------------------------------------------------------------------------------------------------- opening

    def _open_locked(self) -> None:
        """Open and lock results.jsonl; once more where an upgrade has replaced it in between."""
        path = self.directory / RESULTS
        while True:
            self._file = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{self.directory} is being written by another run; wait for it or give another --out"
                ) from None
            if os.path.samestat(os.fstat(self._file), path.stat()):
                return
            self.close()

    def _read(self, resume: bool) -> None:
        if os.fstat(self._file).st_size and not resume:
            raise UsageError(f"{self.directory} already holds results; add --resume to continue them or give "
                             "another --out")  # fmt: skip
        if is_upgraded(self.directory):
            self._move_upgraded()
        lines = read_lines(self.directory, read_file(self.directory, RESULTS) or b"")
        documents = (read_document(self.directory, MACHINE, Machine), read_document(self.directory, RUN, Request))
        self.warnings = lines.warnings
        self._tries = Counter(map(key_of, lines.records))
        self._latest = latest(lines.records)
        self._is_current = lines.current and all(found is None or found[1][0] == MAJOR for found in documents)
        if not self._is_current:
            self._lines = lines.records
            return
        if lines.complete < os.fstat(self._file).st_size:
            os.ftruncate(self._file, lines.complete)
        elif not lines.ended:
            os.write(self._file, b"\n")
        os.fsync(self._file)

    def machine(self) -> Machine | None:
        """The stored machine. Raises UsageError where results have none, since they can't be told from another's."""
        with as_usage_error("read", self.directory, "a results directory"):
            found = read_document(self.directory, MACHINE, Machine)
        if found is None and self.held:
            raise UsageError(f"{self.directory} holds results but no {MACHINE}; give another --out")
        return found[0] if found else None

    # ---------------------------------------------------------------------------------------------------- writing

    def describe(self, machine: Machine, request: Request) -> None:
        """Write machine.json and run.json; done before the first point. Upgrades a directory of an older schema."""
        with self._writing():
            stored = read_document(self.directory, RUN, Request)
            if stored is not None and stored[0].unknown:  # of a newer minor version: they stay
                request = msgspec.structs.replace(request, schema=stored[0].schema)
                request.keep_unknown(stored[0].unknown)
            documents = {MACHINE: _pretty(machine), RUN: _pretty(request)}
            if not self._is_current:
                self._upgrade(documents)
                return
            for name, data in documents.items():
                write_atomically(self.directory / name, data)

    def append(self, record: Record) -> None:
        """On the disk when this returns. A full disk raises UsageError and leaves the earlier lines whole."""
        if not self._is_current:
            raise RuntimeError("describe() comes first: it upgrades the directory")
        line = memoryview(encode(record) + b"\n")
        with self._writing():
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        key = key_of(record)
        self._latest[key] = record
        self._tries[key] += 1

    def _upgrade(self, documents: Mapping[str, bytes]) -> None:
        """Every file in today's schema, or none."""
        building = self.directory / _UPGRADING
        if building.exists():
            shutil.rmtree(building)
        building.mkdir()
        try:
            lines = b"".join(encode(record) + b"\n" for record in self._lines)
            for name, data in {RESULTS: lines, **documents}.items():
                write_new(building / name, data)
            sync_directory(building)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            raise
        building.rename(self.directory / UPGRADED)
        sync_directory(self.directory)
        self._move_upgraded()
        self._is_current, self._lines = True, []

    def _move_upgraded(self) -> None:
        """Put the files of a decided upgrade in the places of the old ones. The lock goes along with results.jsonl."""
        folder = self.directory / UPGRADED
        for name in (MACHINE, RUN):
            with suppress(FileNotFoundError):
                (folder / name).replace(self.directory / name)
        with suppress(FileNotFoundError):
            file = open_regular(folder / RESULTS, os.O_RDWR | os.O_APPEND)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / RESULTS).replace(self.directory / RESULTS)
            os.close(self._file)
            self._file = file
        sync_directory(self.directory)
        folder.rmdir()
        sync_directory(self.directory)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pretty(document: Stored) -> bytes:
    return msgspec.json.format(encode(document), indent=1) + b"\n"
