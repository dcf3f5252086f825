"""Reads the journals of the library that drivers load into the target.

native/profile/inject/core/records.def defines the format, and the core tells of it. Each process writes files of its
own, journal-PID-N.bin. A journal is untrusted input: names are text, sizes are checked, and one that ends within a
record is read up to there.
"""

from __future__ import annotations

import os
import re
import struct
from array import array
from bisect import bisect_right
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import signature
from itertools import compress
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec.structs import replace

from firsttouch import _core
from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular
from firsttouch.base.units import format_size
from firsttouch.profile.events.log import MemoryEvent
from firsttouch.profile.events.sums import EventKind as EventKind
from firsttouch.profile.recorded import (
    CallFrame,
    CallSite,
    CopyDirection,
    FailedCalls,
    LayerNotice,
    MemoryKind,
    ProcessJournal,
    RecordedAllocation,
    RecordedCopy,
    RecordedFree,
    RecordedKernel,
    Runtime,
)
from firsttouch.profile.schema import Mark

if TYPE_CHECKING:
    import numpy as np

# The profiler imports no numpy, whose threads need address space that a limit may not leave.
_MEMORY_KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
DIRECTIONS: Mapping[int, CopyDirection] = {
    1: "h2d",
    2: "d2h",
    3: "h2d",  # into an array
    4: "d2h",
    5: "d2d",
    6: "d2d",
    7: "d2d",
    8: "d2d",
    9: "h2h",
    10: "p2p",
    255: "set",
}
_EVENT_KINDS = frozenset(get_args(EventKind))
_MAGIC = b"FTJRNL\r\n"
_WHATS: tuple[Literal["begin", "end", "instant"], ...] = ("begin", "end", "instant")
_LAYERS: tuple[Literal["phases", "trace", "host"], ...] = ("phases", "trace", "host")
_NAME = re.compile(r"journal-\d+-\d+\.bin")
_VERSIONED = re.compile(r"(?:_v\d+)?(?:_pt[ds][sz])?$")
"""What the name of a function of the driver has at its end, beside what programs write."""
_AT_ONCE = 1 << 22
_WORK = ("launch", "move", "copy", "kernel")
PlaceColumn: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""A column of whole numbers."""
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.void]]"
"""Structures, of which `rows[field]` is a column."""


class Structure:
    """A structure of a journal. kind: of the records that begin with it, 0 if it is no record by itself."""

    def __init__(self, name: str, kind: int, layout: str, fields: tuple[str, ...]) -> None:
        form = struct.Struct(layout)
        self.kind, self.size = kind, form.size
        self._layout = layout
        self.fields, self.unpack = fields, form.unpack_from
        self._make: Callable[[tuple[Any, ...]], Any] = namedtuple(name, fields)._make  # type: ignore[attr-defined]

    def read(self, content: bytes | memoryview, offset: int = 0) -> Any:
        """The fields by name. Raises struct.error if the content is too short."""
        return self._make(self.unpack(content, offset))

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The structure as an element of an array, with its fields by name."""
        import numpy as np

        formats, offsets, at = [], [], 0
        for number, letter in re.findall(r"(\d*)([a-zA-Z])", self._layout):
            if letter != "x":
                formats.append(f"S{number}" if letter == "s" else np.dtype(f"<{letter}"))
                offsets.append(at)
            at += struct.calcsize(f"<{number}{letter}")
        columns = {"names": self.fields, "formats": formats, "offsets": offsets, "itemsize": self.size}
        return np.dtype(columns)  # type: ignore[call-overload, no-any-return]

    def passed_to(self, receive: Callable[..., None]) -> Callable[[memoryview], None]:
        """A function that calls `receive` with the fields that its parameters name; quicker than `read`. The last
        parameters keep their defaults where this version has no such field.
        """
        parameters = signature(receive).parameters.values()
        names = [p.name for p in parameters if p.default is p.empty or p.name in self.fields]
        places = [self.fields.index(name) for name in names]
        chosen = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
        unpack = self.unpack
        return lambda content: receive(*chosen(unpack(content)))


@cache
def layout_of(version: int) -> Mapping[str, Structure]:
    """The structures of a version of the format, by their names in the table. Raises ValueError for another version."""
    return {name: Structure(name, *about) for name, about in _core.journal_layout(version).items()}


class JournalFile:
    """One journal. A further call of `records` goes on where the last one ended.

    Raises:
        UsageError: It is no journal, or it contains what the library does not write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layout = layout_of(1)  # the header of a file is the same in all versions
        self.pid = self.left_out = self.version = 0
        self.opened = 0.0
        self._is_cut = self._is_padded = False
        """Whether the file ends within a record, of which the library writes the size last, and whether the last one
        that was read fills a chunk.
        """
        self._first = self._chunk = 0
        self._offset = self.reached = 0
        """Up to where records were taken, and the end of the last one that was."""
        self._complete = 0, 0
        """How many bytes of records there are, and their sum, as the header states them from version 3 on."""

    def records(self, *kinds: int) -> Iterator[tuple[int, memoryview]]:
        """The kind and the content of each complete record that was not returned yet; of these, if kinds are given."""
        for block in self.blocks():
            yield from block.records(*kinds)

    def blocks(self) -> Iterator[JournalBlock]:
        """The complete records that were not returned yet, many at a time."""
        try:
            with os.fdopen(open_regular(self.path, os.O_RDONLY), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if not self._read_header(file.read(_PAGE)):
                    return
                while self._offset < size:
                    file.seek(self._offset)
                    block = file.read(_AT_ONCE)
                    *places, size_of_records, is_broken = _core.scan_records(block)
                    records = JournalBlock(self, block, self._offset, *places)
                    yield records
                    self._offset += size_of_records
                    self.reached = self._offset
                    if is_broken:
                        (size,) = struct.unpack_from("<I", block, size_of_records)
                        raise self._error(f"has a record of {size} bytes at {self._offset}")
                    if not size_of_records:
                        self._is_cut = any(block[:4])
                        return
                    self._is_padded = records.end < size_of_records
        except OSError as error:
            raise self._unreadable(error) from None

    def damage(self) -> str:
        """What happened to the file after it was written, in a sentence; '' if nothing is known of that.

        To be called when all records were read. Of versions before 3, the header does not state how many there are:
        then what the library never leaves tells of it.
        """
        size = self.path.stat().st_size
        if not self.version:
            return _NO_HEADER if size > _PAGE else ""
        if self.version >= 3:
            stated, total = self._complete
            if missing := max(0, self._first + stated - self._offset):
                return f"{format_size(missing)} of the {format_size(stated)} of the journal are missing: it was damaged"
            return "" if self._sum(stated) == total else _CHANGED
        if self._is_cut:
            return _CUT
        chunks, rest = divmod(size - self._first, self._chunk)
        is_short = rest > 0 or (self._is_padded and self._offset == size and not self.left_out)
        has_hole = self._offset < self._first + (chunks - 1) * self._chunk and not self.left_out
        return _SHORT if is_short else _HOLE if has_hole else ""

    def _sum(self, size: int) -> int:
        """The sum of the first bytes of the records."""
        total = 0
        try:
            with os.fdopen(open_regular(self.path, os.O_RDONLY), "rb", buffering=0) as file:
                file.seek(self._first)
                while size > 0 and (block := file.read(min(size, _AT_ONCE))):
                    total, size = _core.add_to_journal_sum(total, block), size - len(block)
        except OSError as error:
            raise self._unreadable(error) from None
        return total

    def _unreadable(self, error: OSError) -> UsageError:
        return UsageError(f"{self.path} cannot be read: {error.strerror}")

    def _read_header(self, content: bytes) -> bool:
        form = self.layout["file"]
        if len(content) < form.size or not content.strip(b"\0"):  # it was just created
            return False
        header = form.read(content)
        if header.magic != _MAGIC:
            raise self._error("is no journal of firsttouch")
        try:
            self.layout = layout_of(header.version)
        except ValueError as error:
            raise self._error(f"has version {header.version} of the format; {error}") from None
        first = header.header_bytes
        is_broken = first < form.size or first % 8 or first > 1 << 20
        if is_broken or header.chunk_bytes > _AT_ONCE or header.process > 1 << 31:
            raise self._error("has a broken header")
        self.pid, self.opened, self.left_out = header.process, header.opened * 1e-9, header.left_out
        self.version = header.version
        self._offset = max(self._offset, first)
        self._first, self._chunk = first, max(1, header.chunk_bytes)
        if self.version >= 3:
            complete = self.layout["file"].read(content).complete
            self._complete = (complete >> 32) * 8, complete & 0xFFFFFFFF
        return True

    def _error(self, problem: str) -> UsageError:
        return UsageError(f"{self.path} {problem}; a profile's journals are those that its own run wrote")

    def broken(self) -> UsageError:
        """The error of a record whose content contradicts itself."""
        return self._error(f"has a broken record before byte {self.reached}")


@dataclass(frozen=True)
class JournalBlock:
    """Complete records of a journal, one after the other. begin: where they are in the file.

    offsets, ends: in `content`, of what follows the header of each record, u32; kinds: their kinds, u16.
    """

    file: JournalFile
    content: bytes
    begin: int
    offsets: bytes
    ends: bytes
    kinds: bytes

    def records(self, *kinds: int) -> Iterator[tuple[int, memoryview]]:
        """The kind and the content of each record, or of those of these kinds."""
        view, chosen = memoryview(self.content), frozenset(kinds)
        of_all = array("H", self.kinds)
        rows = zip(of_all, array("I", self.offsets), array("I", self.ends), strict=True)
        for kind, offset, end in compress(rows, map(chosen.__contains__, of_all)) if chosen else rows:
            self.file.reached = self.begin + end
            yield kind, view[offset:end]

    @property
    def end(self) -> int:
        """The end of the last record that has a kind, in `content`."""
        return array("I", self.ends[-4:])[0] if self.ends else 0

    def last(self, *kinds: int) -> int:
        """The kind of the last record of these kinds; 0 if there is none."""
        chosen = frozenset(kinds)
        return next((kind for kind in reversed(array("H", self.kinds)) if kind in chosen), 0)

    def rows(self, form: Structure) -> tuple[PlaceColumn, Rows]:
        """The records of a kind: their places in the file, and what they begin with, by field."""
        import numpy as np

        chosen = np.frombuffer(self.kinds, "<u2") == form.kind
        offsets = np.frombuffer(self.offsets, "<u4")[chosen].astype(np.int64)
        ends = np.frombuffer(self.ends, "<u4")[chosen]
        if (is_short := ends - offsets < form.size).any():
            self.file.reached = self.begin + int(ends[is_short][0])
            raise self.file.broken()
        words = np.frombuffer(self.content, "<u8", len(self.content) // 8)
        content = words[offsets[:, None] // 8 + np.arange(form.size // 8)]
        return offsets + self.begin, content.view(form.dtype).reshape(len(offsets))


def journal_files(directory: Path) -> list[Path]:
    """The journals of a profile's directory, by process."""
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    except OSError:
        return []
    return [directory / name for name in names if not (directory / name).is_symlink()]


def read_journals(directory: Path, *, with_activities: bool = True) -> list[ProcessJournal]:
    """All journals of a profile's directory. with_activities: with the times of copies and kernels.

    Raises:
        UsageError: A file is no journal, or contains what the library does not write.
    """
    left_out = () if with_activities else ("copy", "kernel")
    return [JournalReader(path).read(left_out) for path in journal_files(directory)]


def _text(file: JournalFile, content: memoryview, start: int, size: int) -> str:
    if start + size > len(content):
        raise file.broken()
    return bytes(content[start : start + size]).decode(errors="replace")


def _mark(file: JournalFile, content: memoryview) -> Mark:
    form = file.layout["mark"]
    record = form.read(content)
    if record.what >= len(_WHATS):
        raise file.broken()
    return Mark(
        t=record.time * 1e-9,
        kind=_WHATS[record.what],
        name=_text(file, content, form.size, record.name_bytes),
        domain=_text(file, content, form.size + record.name_bytes, record.domain_bytes),
        pid=file.pid,
        thread=record.thread,
        range=record.range,
        source="nvtx",
    )


def notice(file: JournalFile, content: memoryview) -> LayerNotice:
    """A record of this kind."""
    form = file.layout["notice"]
    record = form.read(content)
    if record.layer >= len(_LAYERS):
        raise file.broken()
    text = _text(file, content, form.size, record.bytes)
    return LayerNotice(t=record.time * 1e-9, layer=_LAYERS[record.layer], text=text)


class _Clock:
    """Converts stamps of CUPTI's clock to seconds of CLOCK_MONOTONIC: interpolates between the two nearest readings of
    both clocks, and extrapolates as if both had the same rate.
    """

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self._pairs = sorted(pairs)
        self._stamps = [stamp for stamp, _ in self._pairs]
        self._between = range(0)
        """The stamps between the two readings that were last used, which are mostly those of the next stamp too."""
        self._first = self._first_time = 0
        self._ratio = 0, 1

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __call__(self, stamp: int) -> float:
        if stamp not in self._between:
            self._find(stamp)
        time, stamps = self._ratio
        return (self._first_time + (stamp - self._first) * time / stamps) * 1e-9

    def spans(self, starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[float, float]]:
        """The same of many pairs of stamps. None ends before it starts."""
        last, t = None, 0.0
        for start, end in zip(starts, ends, strict=True):
            if start != last:
                last, t = start, self(start)
            yield t, t if end == start else max(t, self(end))

    def _find(self, stamp: int) -> None:
        i = bisect_right(self._stamps, stamp)
        self._first, self._first_time = self._pairs[max(i - 1, 0)]
        if i in (0, len(self._pairs)):
            self._between, self._ratio = range(0), (1, 1)
        else:
            last, last_time = self._pairs[i]
            self._between = range(self._first, last)
            self._ratio = last_time - self._first_time, last - self._first


_PAGE = 4096
"""Bytes that hold the header of any version."""
_SHORT = "the journal is shorter than it was written: it was damaged, and what came later is not in it"
_HOLE = "the journal has a hole: it was damaged, and what came later is not in it"
_CHANGED = "the journal was changed after it was written: its numbers may be wrong"
_NO_HEADER = "a journal has no header: it was damaged, and nothing of its process is known"
_CUT = "the journal ends within a record: it was cut, and what came later is not in it"
_NO_END = "the journal has no end: its process was killed or it was damaged, and what came later is not in it"


class JournalReader:
    """Reads one journal as a whole: the clocks first, since records come before the reading that follows them."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self._texts: dict[int, str] = {0: ""}
        self._sites: dict[int, CallSite] = {0: ()}
        self._calls: dict[int, int] = {}
        self._failed: dict[int, FailedCalls] = {}
        """By correlation."""
        self._clock = _Clock([])
        self._is_traced = False
        self._has_end = True
        """Whether the clocks were read after all work, as they are at the end of a process."""
        self._into = ProcessJournal(0, 0.0)

    def read(self, left_out: Sequence[str] = ()) -> ProcessJournal:
        """left_out: kinds of records."""
        into = self._into
        try:
            before = JournalFile(self._file.path)
            self._read_clocks(before)
            into.traced = self._is_traced
            self._read_records(before.layout, left_out)
        except struct.error:
            raise self._file.broken() from None
        if damage := self._damage():
            into.damaged = True
            into.notices.append(LayerNotice(t=self._file.opened, layer="trace", text=damage))
        into.failed = self._failed_calls()
        into.pid, into.opened, into.left_out = self._file.pid, self._file.opened, self._file.left_out
        into.marks.sort(key=lambda mark: mark.t)
        return into

    def _read_clocks(self, file: JournalFile) -> None:
        clocks = layout_of(1)["clocks"].kind
        readings = list[memoryview]()
        for block in file.blocks():
            self._is_traced |= "runtime" in file.layout and block.last(file.layout["runtime"].kind) > 0
            readings += [content for _, content in block.records(clocks)]
            last = block.last(clocks, *(file.layout[name].kind for name in _WORK if name in file.layout))
            self._has_end = last == clocks if last else self._has_end
        pairs = map(file.layout["clocks"].read, readings)
        self._clock = _Clock([(pair.stamp, pair.time) for pair in pairs])
        self._is_traced |= bool(self._clock)

    def _damage(self) -> str:
        """As of the file; and whether the last records are missing, of a journal that does not state its length."""
        is_open = self._clock and not self._has_end and self._file.version < 3
        return self._file.damage() or (_NO_END if is_open else "")

    def _read_records(self, layout: Mapping[str, Structure], left_out: Sequence[str]) -> None:
        adders = self._adders(layout)
        many = {name: add for name, add in (("copy", self._add_copies), ("kernel", self._add_kernels))
                if name in layout and name not in left_out}  # fmt: skip
        for block in self._file.blocks():
            for kind, content in block.records(*adders):  # other kinds are of a later version
                adders[kind](content)
            for name, add in many.items():
                if block.last(layout[name].kind):
                    add(block.rows(layout[name])[1])

    def _adders(self, layout: Mapping[str, Structure]) -> dict[int, Callable[[memoryview], None]]:
        """What adds the content of a record, by its kind."""
        adders: dict[str, Callable[[memoryview], None]] = {
            "mark": lambda content: self._into.marks.append(_mark(self._file, content)),
            "notice": lambda content: self._into.notices.append(notice(self._file, content)),
            "text": self._add_text,
            "site": self._add_site,
        }
        of_fields: dict[str, Callable[..., None]] = {
            "event": self._add_event,
            "memory": self._add_memory,
            "call": self._add_call,
            "lost": self._add_lost,
            "runtime": self._add_runtime,
            "unfinished": self._add_unfinished,
            "failure": self._add_failure,
        }
        adders |= {name: layout[name].passed_to(add) for name, add in of_fields.items() if name in layout}
        return {layout[name].kind: add for name, add in adders.items()}

    def _add_runtime(self, api: int, version: int, device: int, architecture: int) -> None:
        self._into.runtimes.append(self._runtime_of(api, version, device, architecture))

    def _runtime_of(self, api: int, version: int, device: int, architecture: int) -> Runtime:
        name = self._text_of
        return Runtime(api=name(api), version=name(version), device=name(device), architecture=name(architecture))

    def _add_text(self, content: memoryview) -> None:
        form = self._file.layout["text"]
        record = form.read(content)
        self._texts[record.number] = _text(self._file, content, form.size, record.bytes)

    def _add_site(self, content: memoryview) -> None:
        form, frame = self._file.layout["site"], self._file.layout["frame"]
        record = form.read(content)
        if form.size + record.frames * frame.size > len(content):
            raise self._file.broken()
        frames = (frame.read(content, form.size + i * frame.size) for i in range(record.frames))
        self._sites[record.number] = tuple(
            CallFrame(self._text_of(f.file), f.offset, self._text_of(f.function) if self._file.version > 2 else "")
            for f in frames
        )

    def _add_call(self, correlation: int, site: int) -> None:
        self._calls[correlation] = site

    def _add_lost(self, records: int) -> None:
        self._into.lost += records

    def _add_unfinished(self, records: int) -> None:
        self._into.unfinished += records

    def _add_failure(self, time: int, function: int, error: int, correlation: int, site: int) -> None:
        name, frames = _VERSIONED.sub("", self._text_of(function)), self._site_of(site)
        self._failed[correlation] = FailedCalls(t=time * 1e-9, function=name, error=error, calls=1, site=frames)

    def _failed_calls(self) -> list[FailedCalls]:
        """Those that failed, alike ones together, in the order of the first."""
        alike: dict[tuple[object, ...], FailedCalls] = {}
        for failed in sorted(self._failed.values(), key=attrgetter("t")):
            key = failed.function, failed.error, failed.site
            known = alike.get(key)
            alike[key] = failed if known is None else replace(known, calls=known.calls + 1)
        return [*alike.values()]

    def _text_of(self, number: int) -> str:
        try:
            return self._texts[number]
        except KeyError:
            raise self._file.broken() from None

    def _site_of(self, number: int) -> CallSite:
        try:
            return self._sites[number]
        except KeyError:
            raise self._file.broken() from None

    def _time_of(self, stamp: int) -> float:
        if not self._clock:
            raise self._file.broken()
        return self._clock(stamp)

    def _span_of(self, start: int, end: int) -> tuple[float, float]:
        t = self._time_of(start)
        return t, t if end == start else max(t, self._clock(end))

    def _add_event(
        self,
        kind: int,
        start_stamp: int,
        end_stamp: int,
        address: int,
        bytes: int,
        count: int,
        source: int,
        target: int,
        cause: int,
        site: int,
    ) -> None:
        name = self._text_of(kind)
        if name not in _EVENT_KINDS:
            raise self._file.broken()
        span = self._span_of(start_stamp, end_stamp)
        frames = self._site_of(site)
        texts = self._text_of(source), self._text_of(target), self._text_of(cause)
        code = f"{frames[0].file}+{frames[0].offset:#x}" if frames else ""
        event = MemoryEvent(name, *span, address, bytes, count, *texts, code)  # type: ignore[arg-type]  # checked above
        self._into.events.append(event)

    def _add_memory(
        self,
        stamp: int,
        address: int,
        bytes: int,
        operation: int,
        memory: int,
        device: int,
        correlation: int,
        site: int,
        name: int,
    ) -> None:
        t, kind = self._time_of(stamp), memory_kind(memory)
        if correlation in self._failed:
            return
        if operation == 1:
            self._into.allocations.append(
                RecordedAllocation(
                    t=t,
                    address=address,
                    bytes=bytes,
                    kind=kind,
                    device=device,
                    site=self._site_of(self._calls.get(correlation, 0) or site),
                    name=self._text_of(name),
                )
            )
        elif operation == 2:
            self._into.frees.append(RecordedFree(t=t, address=address, bytes=bytes, kind=kind, device=device))

    def _add_copies(self, rows: Rows) -> None:
        """Copies of a block, of which other records were added: a call that failed has made none."""
        names = "bytes", "direction", "device", "stream", "source", "target", "source_device", "target_device"
        columns = (rows[name].tolist() for name in (*names, "correlation"))
        self._into.copies += [
            RecordedCopy(
                start=start,
                end=end,
                bytes=nbytes,
                direction=DIRECTIONS.get(direction, "unknown"),
                device=device,
                stream=stream,
                source=memory_kind(source),
                target=memory_kind(target),
                peers=(from_device, to_device) if from_device != to_device else None,
                correlation=correlation,
            )
            for (
                (start, end), nbytes, direction, device, stream, source, target, from_device, to_device, correlation
            ) in zip(self._spans_of(rows), *columns, strict=True)
            if correlation not in self._failed
        ]  # fmt: skip

    def _add_kernels(self, rows: Rows) -> None:
        """Kernels of a block, as for copies."""
        columns = (rows[name].tolist() for name in ("name", "device", "stream", "correlation"))
        text = self._text_of
        self._into.kernels += [
            RecordedKernel(start=start, end=end, name=text(name), device=device, stream=stream, correlation=correlation)
            for (start, end), name, device, stream, correlation in zip(self._spans_of(rows), *columns, strict=True)
            if correlation not in self._failed
        ]

    def _spans_of(self, rows: Rows) -> Iterator[tuple[float, float]]:
        if not self._clock:
            raise self._file.broken()
        return self._clock.spans(rows["start_stamp"].tolist(), rows["end_stamp"].tolist())


def memory_kind(number: int) -> MemoryKind:
    """A kind of memory by CUPTI's number."""
    return _MEMORY_KINDS[number] if number < len(_MEMORY_KINDS) else "unknown"
