"""The only writer of DIR/profile.jsonl, and how long profiles are thinned while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from firsttouch import __version__
from firsttouch.base.encoding import encode_json, host_name
from firsttouch.base.errors import UsageError
from firsttouch.base.files import as_usage_error
from firsttouch.profile import schema

OF_OTHERS = ("profile.jsonl", "results.jsonl", "marks.jsonl")
"""Files that a directory must not hold yet."""
ROWS_PER_LEVEL = 1 << 18
LONGEST_SPAN, LONGEST_SPAN_OF_PROCESS = 1.0, 60.0


class Writer:
    """Appends lines. `flush` writes what was added with one system call, so that a kill loses what came since the last.

    Raises:
        UsageError: the directory can't be written, or holds results.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failure = ""
        """Why writing failed; from then on nothing is written."""
        self._lines: list[bytes] = []
        with as_usage_error("write", directory, "a directory that can be written"):
            directory.mkdir(parents=True, exist_ok=True)
            if existing := next((name for name in OF_OTHERS if (directory / name).exists()), ""):
                raise UsageError(f"{directory} holds results already ({existing}); give --out a directory without any")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(directory / schema.FILE, flags, 0o644)

    def add(self, line: schema.ProfileLine) -> None:
        self._lines.append(encode_json(line))

    def flush(self) -> None:
        """Writes all lines. After a failure, such as a full disk, the file keeps the complete lines before."""
        data, self._lines = b"".join(line + b"\n" for line in self._lines), []
        try:
            while data and not self.failure:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.failure = f"{self.directory / schema.FILE} can't be written: {error.strerror}"

    def close(self) -> None:
        self.flush()
        os.close(self._file)


def header(
    *,
    command: Sequence[str],
    pid: int,
    attached: bool,
    clock: float,
    interval: float,
    layers: Iterable[schema.LayerState],
    gpus: Sequence[schema.ProfiledGpu],
    nodes: Sequence[schema.Node],
    rank: str = "",
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> schema.Header:
    """The first line of a profile that begins now on this machine. layers: those besides sampling."""
    return schema.Header(
        schema=schema.SCHEMA,
        version=__version__,
        command=list(command),
        pid=pid,
        attached=attached,
        started=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        clock=clock,
        interval=interval,
        host=host_name(),
        rank=rank,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        environment=dict(environment or {}),
        settings=dict(settings or {}),
        layers=[schema.LayerState("sampling", True), *layers],
        gpus=list(gpus),
        nodes=list(nodes),
    )


class Pace:
    """How much profiles are thinned, so that their size grows with the logarithm of the time.

    All readings are kept until ROWS_PER_LEVEL rows were written. From then on, of each span of time those with the
    least and the most of the first column remain; the span doubles each time as many rows were written again.
    """

    def __init__(self, interval: float) -> None:
        self._interval, self._rows = interval, 0
        self.span = 0.0

    def count(self, rows: int) -> None:
        self._rows += rows
        if self._rows > ROWS_PER_LEVEL:
            self.span, self._rows = max(4 * self._interval, 2 * self.span), 0


class Track:
    """The readings of some counters of one thing, of which those that changed are written.

    longest: seconds of the longest span of which two readings remain.
    """

    def __init__(self, name: str, columns: Sequence[str], pace: Pace, longest: float = LONGEST_SPAN) -> None:
        self._name, self._columns, self._pace, self._longest = name, list(columns), pace, longest
        self._last: tuple[float | None, ...] = ()
        self._rows: list[list[float | int | None]] = []
        self._least: list[float | int | None] = []
        self._most: list[float | int | None] = []

    def add(self, t: float, values: tuple[float | None, ...]) -> None:
        """Adds a reading at `t` seconds. The first value must be a number if profiles get long."""
        if values == self._last:
            return
        self._last = values
        row = [round(t, 5), *values]
        span = min(self._pace.span, self._longest)
        if not span and not self._least:
            self._rows.append(row)
            return
        if self._least and (not span or t // span != (self._least[0] or 0.0) // span):
            self._close()
        if not self._least:
            self._least = self._most = row
        elif (row[1] or 0) < (self._least[1] or 0):
            self._least = row
        elif (row[1] or 0) >= (self._most[1] or 0):
            self._most = row

    def _close(self) -> None:
        pair = [self._least, self._most]
        self._rows += sorted(pair, key=lambda row: row[0] or 0.0) if self._least is not self._most else pair[:1]
        self._least = self._most = []

    def take(self, *, last: bool = False) -> schema.Samples | None:
        """The rows since the last call; last: with those of the span that has not ended."""
        if last and self._least:
            self._close()
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        self._pace.count(len(rows))
        return schema.Samples(of=self._name, columns=self._columns, rows=rows)
