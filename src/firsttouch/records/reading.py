"""Reads a results directory: results.jsonl, machine.json and run.json, of any minor version of the schema.

Files from others are treated as untrusted. They are decoded strictly; an invalid file is refused in one sentence that
names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.base.files import as_usage_error, read_regular
from firsttouch.records.codebook import with_present_factors
from firsttouch.records.decoding import Document, decode
from firsttouch.records.plausibility import mark
from firsttouch.records.reproduced import REPRODUCED, Reproduced
from firsttouch.records.schema import MAJOR, MINOR, PEER, RELATIVE_TO, Machine, Record, Request, Scalar, plain
from firsttouch.records.timeline import MemoryCourse, TransferTimeline

RESULTS, MACHINE, RUN = "results.jsonl", "machine.json", "run.json"
RUNS = Path("firsttouch-results")
"""The folder in which `firsttouch run` makes directories, if it is given none."""


def point_key(experiment: str, device: str, factors: Mapping[str, Scalar]) -> str:
    """The identity of a point: canonical JSON of experiment, device and factors."""
    return encode_json([experiment, device, factors], order="sorted").decode()


class PointIdentity(msgspec.Struct, frozen=True):
    """What tells a point of a results directory from the others: experiment, device and all factors."""

    experiment: str
    device: str
    factors: dict[str, Scalar]

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        return point_key(self.experiment, self.device, self.factors)


def identities(keys: Iterable[str]) -> list[PointIdentity]:
    """The points that have these keys."""
    return [PointIdentity(*msgspec.json.decode(key)) for key in keys]


def identity_of(record: Record) -> PointIdentity:
    return PointIdentity(record.experiment, record.device, record.factors)


def key_of(record: Record, *without: str) -> str:
    """The identity of a record's point; or that of all points which differ in some factors alone."""
    factors = {name: v for name, v in record.factors.items() if name not in without} if without else record.factors
    return point_key(record.experiment, record.device, factors)


def latest(lines: Iterable[Record]) -> dict[str, Record]:
    """The last record of every point by its key, in the order of the points' first records."""
    return {key_of(record): record for record in lines}


@dataclass
class Results:
    """The contents of a results directory, with the last record of every point.

    warnings: sentences for the user, such as that an incomplete last line was dropped.
    """

    machine: Machine
    request: Request | None
    records: list[Record]
    warnings: list[str] = field(default_factory=list)
    timelines: Mapping[tuple[str, str], list[TransferTimeline]] = field(default_factory=dict)
    """The bytes that points moved over time, by experiment and device; empty unless the trace was read."""
    reproduced: Reproduced | None = None
    """The part of a paper that the points repeat, if `firsttouch reproduce` made them."""
    memory: Mapping[str, MemoryCourse] = field(default_factory=dict)
    """The memory in use over time by the folders that records name; empty unless the profiles were read."""

    def __post_init__(self) -> None:
        if self.request is not None and (baseline := self.request.relative_to):
            named = {RELATIVE_TO: baseline}
            self.records = [msgspec.structs.replace(r, counters=r.counters | named) for r in self.records]
        self.records = _standing_for_others(self.records)


def _standing_for_others(records: list[Record]) -> list[Record]:
    """The records without those places in `stands_for` that have a record of their own, or for which a later record
    stands: a GPU that was found to differ from the first is measured for itself.
    """
    if not any(r.stands_for for r in records):
        return records
    taken_places = {_place(r, r.device, r.factors.get(PEER)) for r in records if r.status == "ok"}
    kept = []
    for r in reversed(records):
        locations = {
            _place(r, location.device, location.peer or r.factors.get(PEER)): location for location in r.stands_for
        }
        remaining = [location for place, location in locations.items() if place not in taken_places]
        taken_places.update(locations)
        kept.append(r if len(remaining) == len(r.stands_for) else msgspec.structs.replace(r, stands_for=remaining))
    return kept[::-1]


def _place(record: Record, device: str, peer: Scalar) -> tuple[object, ...]:
    """The identity of a record's point on another device, or with another peer."""
    rest = frozenset((name, value) for name, value in record.factors.items() if name != PEER)
    return record.experiment, device, peer, rest


@dataclass
class ResultLines:
    """The contents of results.jsonl. A point that was measured again has several records."""

    records: list[Record]
    complete: int
    """The number of bytes that are complete records. An incomplete last line follows them."""
    has_final_newline: bool
    """True if the last complete record ends with a newline."""
    warnings: list[str]


def read_file(directory: Path, name: str) -> bytes | None:
    """The content of one file of the directory, or None if there is none. Raises UsageError or OSError."""
    try:
        return read_regular(directory / name)
    except FileNotFoundError:
        return None


def read_lines(directory: Path, data: bytes) -> ResultLines:
    """Decodes the content of results.jsonl. Raises UsageError with the number of an invalid line."""
    path = directory / RESULTS
    *lines, tail = data.split(b"\n")
    decoded = [_decode(line, Record, f"{path}:{number}") for number, line in enumerate(lines, 1)]
    complete, warnings = len(data), []
    if tail and _is_truncated(tail, only_line=not lines):
        complete -= len(tail)
        warnings.append(f"{path}:{len(lines) + 1}: the last line was cut short and is dropped")
    elif tail:
        decoded.append(_decode(tail, Record, f"{path}:{len(lines) + 1}"))
    return ResultLines(
        records=[with_present_factors(record) for record, _ in decoded],
        complete=complete,
        has_final_newline=complete < len(data) or not tail,
        warnings=warnings + _newer_version_warning(path, max((minor for _, minor in decoded), default=0)),
    )


def _is_truncated(tail: bytes, *, only_line: bool) -> bool:
    """True if the last line is the beginning of a record. An only line must also begin as our records do."""
    try:
        msgspec.json.decode(tail)
    except RecursionError:
        return False
    except ValueError:
        begins = b'{"schema":"firsttouch/'
        return not only_line or tail.startswith(begins) or begins.startswith(tail)
    return False


def _newer_version_warning(path: Path, newest: int) -> list[str]:
    if newest <= MINOR:
        return []
    name = f"firsttouch/{MAJOR}.{newest}"
    return [f"{path}: a newer firsttouch wrote it ({name}); fields unknown to this version are kept and not shown"]


def _decode(data: bytes, kind: type[Document], location: str) -> tuple[Document, int]:
    """Decodes one document. Raises UsageError with a message that begins with `location`."""
    try:
        return decode(data, kind)
    except ValueError as error:
        raise UsageError(f"{location}: {error}") from None


def read_document(directory: Path, name: str, kind: type[Document]) -> Document | None:
    """machine.json or run.json, or None if absent. Raises UsageError or OSError."""
    data = read_file(directory, name)
    return None if data is None else _decode(data, kind, str(directory / name))[0]


def reading(directory: Path) -> as_usage_error:
    return as_usage_error("read", directory, "a results directory")


def read_request(directory: Path) -> Request | None:
    """The request of the run in `directory`, or None if there is no run.json. Raises UsageError."""
    with reading(directory):
        return read_document(directory, RUN, Request)


def read_machine(directory: Path) -> Machine | None:
    """The machine of the run in `directory`, or None if there is no machine.json. Raises UsageError."""
    with reading(directory):
        return read_document(directory, MACHINE, Machine)


def has_results(directory: Path) -> bool:
    try:
        return (directory / RESULTS).stat().st_size > 0
    except OSError:
        return False


def kept_runs() -> list[Path]:
    """The results directories in the folder where runs are kept, the newest first."""
    return sorted(filter(has_results, RUNS.glob("*")), key=lambda path: -path.stat().st_mtime)


def load_results(directory: Path) -> Results:
    """Reads everything that `directory` holds, and marks suspect records.

    Raises:
        UsageError: there are no results, a line is invalid (the message has its number), a field is unknown, or the
            schema cannot be read.
    """
    directory = Path(directory)
    with reading(directory):
        data, machine = read_file(directory, RESULTS), read_document(directory, MACHINE, Machine)
        if data is None or machine is None:
            missing = RESULTS if data is None else MACHINE
            raise UsageError(f"{directory} holds no {missing}; name a directory that `firsttouch run` wrote")
        lines, request = read_lines(directory, data), read_document(directory, RUN, Request)
        reproduced = _read_reproduced(directory)
    points = list(latest(lines.records).values())
    mark(points, machine)
    return Results(machine, request, points, lines.warnings, reproduced=reproduced)


def _read_reproduced(directory: Path) -> Reproduced | None:
    """Raises UsageError if the file is not one that `firsttouch reproduce` wrote."""
    data = read_file(directory, REPRODUCED)
    try:
        return None if data is None else msgspec.json.decode(data, type=Reproduced)
    except ValueError as error:
        raise UsageError(f"{directory / REPRODUCED}: {error}") from None


_FLATTENED = ("factors", "summary", "counters", "clocks_before", "clocks_after")


def flat_rows(results: Mapping[str, Results]) -> list[dict[str, Any]]:
    """Every point as one flat row, all with the same columns; see firsttouch.load. The keys name the directories."""
    rows = [
        {"host": run_results.machine.host, "run": name, **_flat(plain(record))}
        for name, run_results in results.items()
        for record in run_results.records
    ]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name == "modelled":
            row |= {name: value and value["platform"], "modelled.digest": value and value["digest"]}
        elif name in _FLATTENED:
            row |= {f"{name}.{key}": item for key, item in (value or {}).items()}
        else:
            row[name] = value
    return row
