"""A results directory: results.jsonl (append-only), machine.json, run.json.

A record is on the disk before the next point starts. One writer at a time holds a lock on results.jsonl, which the
kernel drops with its process. Readers treat every file as a stranger's: strictly decoded, refused with its line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from firsttouch.errors import UsageError
from firsttouch.schema import SCHEMA, Factors, Machine, Record, Request

if TYPE_CHECKING:
    from firsttouch.run.trace import Course

RESULTS, MACHINE, RUN = "results.jsonl", "machine.json", "run.json"

_T = TypeVar("_T", Record, Machine, Request)


def point_key(experiment: str, device: str, factors: Factors) -> str:
    """What makes a point one and the same: canonical JSON of experiment, device and factors."""
    return msgspec.json.encode([experiment, device, factors], order="sorted").decode()


@dataclass
class Results:
    """What a directory holds. warnings are sentences for the reader, such as a dropped last line."""

    machine: Machine
    request: Request | None
    records: list[Record]
    warnings: list[str] = field(default_factory=list)
    courses: Mapping[tuple[str, str], Course] = field(default_factory=dict)
    """What points moved over time, by experiment and device, where the reader wants it of the trace."""


class _AnySchema(msgspec.Struct):
    schema: Any = None


def _decode(data: bytes, kind: type[_T], where: str) -> _T:
    """One strict record. Raises UsageError that begins with `where`."""
    try:
        record = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: {_foreign(data) or error}") from None
    if record.schema != SCHEMA:
        raise UsageError(f"{where}: {_foreign(data)}")
    return record


def _foreign(data: bytes) -> str:
    """The sentence about a foreign schema, or '' where the schema is ours or can't be read."""
    try:
        schema = msgspec.json.decode(data, type=_AnySchema).schema
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "" if schema == SCHEMA else f"schema {schema!r} is not the one that this version reads, {SCHEMA!r}"


@dataclass
class _Lines:
    records: list[Record]
    complete: int
    """Bytes up to which the file is whole records; beyond is a last line cut short."""
    warnings: list[str]


def _read_lines(path: Path) -> _Lines:
    data = path.read_bytes()
    lines = data.split(b"\n")
    tail = lines.pop()
    records = [_decode(line, Record, f"{path}:{number}") for number, line in enumerate(lines, 1)]
    if not tail:
        return _Lines(records, len(data), [])
    try:
        msgspec.json.decode(tail)
    except (msgspec.DecodeError, UnicodeDecodeError):
        dropped = f"{path}:{len(lines) + 1}: the last line was cut short and is dropped"
        return _Lines(records, len(data) - len(tail), [dropped])
    records.append(_decode(tail, Record, f"{path}:{len(lines) + 1}"))
    return _Lines(records, len(data), [])


def _read_document(path: Path, kind: type[_T]) -> _T | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return _decode(data, kind, str(path))


def read_request(directory: Path) -> Request | None:
    """What was asked of the run in `directory`, or None where there is no run.json."""
    with _as_usage(directory, "read"):
        return _read_document(directory / RUN, Request)


def has_results(directory: Path) -> bool:
    try:
        return (directory / RESULTS).stat().st_size > 0
    except OSError:
        return False


def load_results(directory: Path) -> Results:
    """Everything that `directory` holds.

    Raises:
        UsageError: no results there, a broken line (with its number), an unknown field, a foreign schema.
    """
    directory = Path(directory)
    with _as_usage(directory, "read"):
        if not (directory / RESULTS).is_file():
            raise UsageError(f"{directory} holds no {RESULTS}; give a directory that `firsttouch run` wrote")
        machine = _read_document(directory / MACHINE, Machine)
        if machine is None:
            raise UsageError(f"{directory} holds no {MACHINE}; give a directory that `firsttouch run` wrote")
        lines = _read_lines(directory / RESULTS)
        return Results(machine, _read_document(directory / RUN, Request), lines.records, lines.warnings)


class _as_usage:
    """Turns an OSError of the block into one sentence that names the directory."""

    def __init__(self, directory: Path, verb: str) -> None:
        self.directory, self.verb = directory, verb

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError):
            accepted = "a directory that can be written" if self.verb == "write" else "a results directory"
            raise UsageError(f"can't {self.verb} {self.directory}: {error.strerror}; give {accepted}") from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_atomically(path: Path, data: bytes) -> None:
    """`path` holds either what it held or all of `data`, whenever the machine stops."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


class Store:
    """The one writer of a results directory.

    Raises:
        UsageError: the directory can't be written, holds results though `resume` is False, is being written by
            another run, or (resume) holds a broken file. Nothing in it has been changed then.
    """

    def __init__(self, directory: Path, *, resume: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self.held: set[str] = set()
        self.records: list[Record] = []
        with _as_usage(directory, "write"):
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(directory / RESULTS, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._lock()
                self._continue(resume)
                _sync_directory(directory)
                _sync_directory(directory.parent)
            except BaseException:
                self.close()
                raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{self.directory} is being written by another run; wait for it or give another --out"
            ) from None

    def _continue(self, resume: bool) -> None:
        size = os.fstat(self._file).st_size
        if size and not resume:
            raise UsageError(f"{self.directory} already holds results; add --resume to go on with them or give "
                             "another --out")  # fmt: skip
        lines = _read_lines(self.directory / RESULTS)
        self.warnings = lines.warnings
        self.records = lines.records
        self.held = {point_key(r.experiment, r.device, r.factors) for r in lines.records}
        if lines.complete < size:
            os.ftruncate(self._file, lines.complete)
        elif size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
        os.fsync(self._file)

    def machine(self) -> Machine | None:
        """The stored machine. Raises UsageError where results have none, since they can't be told from another's."""
        machine = _read_document(self.directory / MACHINE, Machine)
        if machine is None and self.held:
            raise UsageError(f"{self.directory} holds results but no {MACHINE}; give another --out")
        return machine

    def describe(self, machine: Machine, request: Request) -> None:
        """Write machine.json and run.json; done before the first point."""
        with _as_usage(self.directory, "write"):
            for name, content in ((MACHINE, machine), (RUN, request)):
                data = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
                _write_atomically(self.directory / name, data)

    def append(self, record: Record) -> None:
        """On the disk when this returns. A full disk raises UsageError and leaves the earlier lines whole."""
        line = memoryview(msgspec.json.encode(record) + b"\n")
        with _as_usage(self.directory, "write"):
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        self.records.append(record)
        self.held.add(point_key(record.experiment, record.device, record.factors))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_SPREAD = ("factors", "summary", "counters", "clocks_before", "clocks_after")


def flat_rows(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Every record as one flat row; see firsttouch.load."""
    rows = [_flat(msgspec.to_builtins(record)) for record in load_results(Path(directory)).records]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in _SPREAD:
            row |= {f"{name}.{key}": part for key, part in (value or {}).items()}
        else:
            row[name] = value
    return row
