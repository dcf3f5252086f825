"""Reads a results directory: results.jsonl, machine.json, run.json, of any schema that was ever written.

Files from others are treated as untrusted: strictly decoded, and refused in one sentence with file and line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from firsttouch.errors import UsageError
from firsttouch.files import as_usage_error, read_regular
from firsttouch.records.schema import MAJOR, Machine, Record, Request, Scalar, plain
from firsttouch.records.timeline import TransferTimeline
from firsttouch.records.upgrade import Document, Version, decode, is_newer

RESULTS, MACHINE, RUN = "results.jsonl", "machine.json", "run.json"
UPGRADED = ".upgraded"
"""Folder of a directory whose files stand for those beside it: an upgrade that was decided but stopped on its way."""


def point_key(experiment: str, device: str, factors: Mapping[str, Scalar]) -> str:
    """What makes a point one and the same: canonical JSON of experiment, device and factors."""
    return msgspec.json.encode([experiment, device, factors], order="sorted").decode()


def key_of(record: Record) -> str:
    return point_key(record.experiment, record.device, record.factors)


def latest(lines: Iterable[Record]) -> dict[str, Record]:
    """The last record of every point, by its key, in the order in which the points first stood there."""
    return {key_of(record): record for record in lines}


@dataclass
class Results:
    """What a directory holds: the last record of every point. warnings are sentences for the reader, such as a dropped
    last line.
    """

    machine: Machine
    request: Request | None
    records: list[Record]
    warnings: list[str] = field(default_factory=list)
    timelines: Mapping[tuple[str, str], TransferTimeline] = field(default_factory=dict)
    """What points moved over time, by experiment and device, where the reader wants it of the trace."""


@dataclass
class Lines:
    """What results.jsonl holds, a point that was tried again several times."""

    records: list[Record]
    complete: int
    """Bytes up to which the file is whole records; beyond is a last line cut short."""
    ended: bool
    """Whether the last whole record has its line break."""
    warnings: list[str]
    current: bool
    """Whether all lines are of today's major version."""


def is_upgraded(directory: Path) -> bool:
    """Whether the files of an upgrade are still to be moved. A link is none of ours."""
    folder = directory / UPGRADED
    return folder.is_dir() and not folder.is_symlink()


def read_file(directory: Path, name: str) -> bytes | None:
    """The content of one file of the directory, None where there is none. Raises UsageError or OSError."""
    folders = [directory / UPGRADED, directory] if is_upgraded(directory) else [directory]
    for path in (folder / name for folder in folders):
        try:
            return read_regular(path)
        except FileNotFoundError:
            pass
    return None


def read_lines(directory: Path, data: bytes) -> Lines:
    """The records in the content of results.jsonl. Raises UsageError with the number of the broken line."""
    path = directory / RESULTS
    *whole, tail = data.split(b"\n")
    decoded = [_decode(line, Record, f"{path}:{number}") for number, line in enumerate(whole, 1)]
    complete, warnings = len(data), []
    if tail and _is_cut(tail, alone=not whole):
        complete -= len(tail)
        warnings.append(f"{path}:{len(whole) + 1}: the last line was cut short and is dropped")
    elif tail:
        decoded.append(_decode(tail, Record, f"{path}:{len(whole) + 1}"))
    versions = {version for _, version in decoded}
    return Lines(
        records=[record for record, _ in decoded],
        complete=complete,
        ended=complete < len(data) or not tail,
        warnings=warnings + _newer(path, versions),
        current=all(major == MAJOR for major, _ in versions),
    )


def _is_cut(tail: bytes, *, alone: bool) -> bool:
    """Whether the last line is the beginning of a record. Alone in its file, it must look like one of ours."""
    try:
        msgspec.json.decode(tail)
    except RecursionError:
        return False
    except ValueError:
        begins = b'{"schema":"firsttouch/'
        return not alone or tail.startswith(begins) or begins.startswith(tail)
    return False


def _newer(path: Path, versions: Iterable[Version]) -> list[str]:
    found = max((version for version in versions if is_newer(version)), default=None)
    if found is None:
        return []
    name = f"firsttouch/{found[0]}.{found[1]}"
    return [f"{path}: a newer firsttouch wrote it ({name}); what this version does not know is kept and not shown"]


def _decode(data: bytes, kind: type[Document], where: str) -> tuple[Document, Version]:
    """Raises UsageError that begins with `where`."""
    try:
        return decode(data, kind)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def read_document(directory: Path, name: str, kind: type[Document]) -> tuple[Document, Version] | None:
    """machine.json or run.json with the version of its schema, or None. Raises UsageError or OSError."""
    data = read_file(directory, name)
    return None if data is None else _decode(data, kind, str(directory / name))


def reading(directory: Path) -> as_usage_error:
    return as_usage_error("read", directory, "a results directory")


def read_request(directory: Path) -> Request | None:
    """What was asked of the run in `directory`, or None where there is no run.json. Raises UsageError."""
    with reading(directory):
        found = read_document(directory, RUN, Request)
        return found[0] if found else None


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
    with reading(directory):
        data, machine = read_file(directory, RESULTS), read_document(directory, MACHINE, Machine)
        if data is None or machine is None:
            missing = RESULTS if data is None else MACHINE
            raise UsageError(f"{directory} holds no {missing}; give a directory that `firsttouch run` wrote")
        lines, request = read_lines(directory, data), read_document(directory, RUN, Request)
    points = list(latest(lines.records).values())
    return Results(machine[0], request[0] if request else None, points, lines.warnings)


_SPREAD = ("factors", "summary", "counters", "clocks_before", "clocks_after")


def flat_rows(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Every point as one flat row; see firsttouch.load."""
    rows = [_flat(plain(record)) for record in load_results(Path(directory)).records]
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
