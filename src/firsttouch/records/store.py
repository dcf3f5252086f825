"""The only writer of a results directory: results.jsonl (append-only), machine.json and run.json.

A record is on disk before the next point starts. The writer holds a lock on results.jsonl, which the kernel releases
when its process ends; a file system without locks is told in a warning.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import KeysView
from pathlib import Path

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.base.files import (
    as_usage_error,
    make_new_directory,
    open_regular,
    sync,
    sync_directory,
    write_atomically,
)
from firsttouch.records.plausibility import mark
from firsttouch.records.reading import MACHINE, RESULTS, RUN, key_of, latest, read_document, read_file, read_lines
from firsttouch.records.schema import FAILURES, Machine, Record, Request, Stored, encode


class Store:
    """The only writer of a results directory. own: makes a new directory, of that name or with a number after it.

    Raises:
        UsageError: the directory cannot be written, holds results although `resume` is False, is being written by
            another run, or (with `resume`) holds an invalid file. Nothing in it has been changed in these cases.
    """

    def __init__(self, directory: Path, *, resume: bool, own: bool = False) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self._file = -1
        self._latest: dict[str, Record] = {}
        self._tries: Counter[str] = Counter()
        self._machine: Machine | None = None
        with self._writing():
            if own:
                self.directory = directory = make_new_directory(directory)
            else:
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
    def keys(self) -> KeysView[str]:
        """The keys of all points that have a record."""
        return self._latest.keys()

    @property
    def records(self) -> list[Record]:
        """The last record of every point. Suspect records are marked once the machine is described."""
        records = list(self._latest.values())
        if self._machine is not None:
            mark(records, self._machine)
        return records

    def to_retry(self, *, all_failures: bool = False) -> set[str]:
        """The keys of points to measure again: those that crashed or timed out and were tried once. With
        `all_failures`, all that crashed, timed out or failed, however often they were tried.
        """
        statuses = FAILURES if all_failures else ("crashed", "timeout")
        return {
            key
            for key, record in self._latest.items()
            if record.status in statuses and (all_failures or self._tries[key] == 1)
        }

    # ---------------------------------------------------------------------------------------------------- opening

    def _open_locked(self) -> None:
        self._file = open_regular(self.directory / RESULTS, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{self.directory} is being written by another run; wait for it or choose another --out"
            ) from None
        except OSError as error:
            self.warnings.append(
                f"the file system of {self.directory} has no locks ({error.strerror}): nothing keeps another run from "
                "writing there; give each run a directory of its own"
            )

    def _read(self, resume: bool) -> None:
        if os.fstat(self._file).st_size and not resume:
            raise UsageError(f"{self.directory} already holds results; add --resume to continue them or choose "
                             "another --out")  # fmt: skip
        lines = read_lines(self.directory, read_file(self.directory, RESULTS) or b"")
        read_document(self.directory, MACHINE, Machine), read_document(self.directory, RUN, Request)  # refuse bad ones
        self.warnings += lines.warnings
        self._tries = Counter(map(key_of, lines.records))
        self._latest = latest(lines.records)
        if lines.complete < os.fstat(self._file).st_size:
            os.ftruncate(self._file, lines.complete)
        elif not lines.has_final_newline:
            os.write(self._file, b"\n")
        sync(self._file)

    def machine(self) -> Machine | None:
        """The stored machine, or None in an empty directory. Raises UsageError if there are results but no machine,
        because they might be from another machine.
        """
        with as_usage_error("read", self.directory, "a results directory"):
            machine = read_document(self.directory, MACHINE, Machine)
        if machine is None and self.keys:
            raise UsageError(f"{self.directory} holds results but no {MACHINE}; choose another --out")
        return machine

    # ---------------------------------------------------------------------------------------------------- writing

    def describe(self, machine: Machine, request: Request) -> None:
        """Writes machine.json and run.json before the first point."""
        self._machine = machine
        with self._writing():
            stored = read_document(self.directory, RUN, Request)
            if stored is not None and stored.unknown:  # keep the fields of a newer minor version
                request = msgspec.structs.replace(request, schema=stored.schema)
                request.keep_unknown(stored.unknown)
            write_atomically(self.directory / MACHINE, _pretty(machine))
            write_atomically(self.directory / RUN, _pretty(request))

    def append(self, record: Record) -> None:
        """Appends a record, which is on disk when this returns, and marks it if it is suspect by itself. Raises
        UsageError if the disk is full, and leaves the earlier lines intact.
        """
        if self._machine is not None:
            mark([record], self._machine)
        line = memoryview(encode(record) + b"\n")
        with self._writing():
            while line:
                line = line[os.write(self._file, line) :]
            sync(self._file)
        key = key_of(record)
        self._latest[key] = record
        self._tries[key] += 1

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
