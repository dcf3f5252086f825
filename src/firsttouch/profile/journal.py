"""Journals of the library that drivers load into the target: what it wrote there, and how it gets there.

native/profile/inject/journal.hpp defines the format. Each process writes files of its own, journal-PID-N.bin. A journal
is untrusted input: names are text, sizes are checked, and one that ends within a record is read up to there.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from firsttouch.errors import UsageError
from firsttouch.events.log import VARIABLE as EVENTS
from firsttouch.events.log import MemoryEvent
from firsttouch.events.sums import Kind as EventKind
from firsttouch.machine.libraries import candidates
from firsttouch.profile.schema import LayerState, Mark

LIBRARY = "libfirsttouch_inject.so"
NVTX_VARIABLE, CUDA_VARIABLE = "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"
FOLDER_VARIABLE, TRACE_VARIABLE, CUPTI_VARIABLE = "FIRSTTOUCH_PROFILE", "FIRSTTOUCH_TRACE", "FIRSTTOUCH_PROFILE_CUPTI"

MemoryKind: TypeAlias = Literal[
    "unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"
]
"""Kinds of memory, as CUPTI numbers them. pinned includes registered memory. Source: cupti_activity.h."""
Direction: TypeAlias = Literal["h2d", "d2h", "d2d", "h2h", "p2p", "set", "unknown"]
"""Of a copy. d2d: within one GPU; p2p: between two; set: memory was filled."""
_MEMORY_KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
_DIRECTIONS: Mapping[int, Direction] = {
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


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A return address: the file of the program or library, and the offset in its memory image, such that the address
    is where the file was loaded plus the offset. Where no file is mapped, `file` is '' and `offset` the address.
    """

    file: str
    offset: int


CallSite: TypeAlias = tuple[Frame, ...]
"""Where a call came from, the innermost frame first. Frames of the driver, of CUPTI and of a shared CUDA runtime are
left out; those of a runtime that was linked statically are not. Empty: unknown.
"""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the program obtained through CUDA at `t`. device: the number of a GPU; name: of a static variable."""

    t: float
    address: int
    bytes: int
    kind: MemoryKind
    device: int
    site: CallSite = ()
    name: str = ""


class Free(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the program gave back at `t`. bytes: 0 where the driver does not state it."""

    t: float
    address: int
    bytes: int
    kind: MemoryKind
    device: int


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that the program asked for, or a fill of memory. source, target: kinds of memory; peers: the numbers of
    both GPUs of a copy between two.
    """

    start: float
    end: float
    bytes: int
    direction: Direction
    device: int
    stream: int
    source: MemoryKind = "unknown"
    target: MemoryKind = "unknown"
    peers: tuple[int, int] | None = None


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ran. name: as the compiler mangled it."""

    start: float
    end: float
    name: str
    device: int
    stream: int


class LayerNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of the library about what it does not record."""

    t: float
    layer: Literal["phases", "trace"]
    text: str


@dataclass
class ProcessJournal:
    """What one process wrote, in seconds of CLOCK_MONOTONIC. Marks are in the order of time; the rest is in the order
    in which the driver delivered it.
    """

    pid: int
    opened: float
    marks: list[Mark] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    events: list[MemoryEvent] = field(default_factory=list)
    notices: list[LayerNotice] = field(default_factory=list)
    lost: int = 0
    """Records for which CUPTI had no room."""
    left_out: int = 0
    """Records that are not in the journal, because it was full or the disk was."""
    traced: bool = False
    """Whether CUPTI recorded in this process."""


# The structures of native/profile/inject/journal.hpp, in its order.
_FILE = struct.Struct("<8s4I2Q")
_RECORD = struct.Struct("<IHxx")
_MARK = struct.Struct("<QqIHHB7x")
_NOTICE = struct.Struct("<QII")
_TEXT = struct.Struct("<II")
_CLOCKS = struct.Struct("<QQ")
_EVENT = struct.Struct("<5Q5I4x")
_MEMORY = struct.Struct("<3Q6I")
_COPY = struct.Struct("<3Q5I3Bx")
_KERNEL = struct.Struct("<2Q4I")
_SITE = struct.Struct("<II")
_FRAME = struct.Struct("<QI4x")
_CALL = struct.Struct("<QII")
_LOST = struct.Struct("<QQ")
_MAGIC = b"FTJRNL\r\n"
_VERSION = 1
_WHATS: tuple[Literal["begin", "end", "instant"], ...] = ("begin", "end", "instant")
_LAYERS: tuple[Literal["phases", "trace"], ...] = ("phases", "trace")
_NAME = re.compile(r"journal-\d+-\d+\.bin")
_AT_ONCE = 1 << 22


class JournalFile:
    """One journal, read from where the last call of `records` ended, so that one that still grows can be followed.

    Raises:
        UsageError: It is no journal, or it contains what the library does not write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = self.left_out = 0
        self.opened = 0.0
        self._offset = 0
        self._first = 0

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """The kind and the content of each complete record that was not returned yet."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if not self._read_header(file.read(_FILE.size)):
                    return
                while self._offset < size:
                    file.seek(self._offset)
                    block = file.read(_AT_ONCE)
                    before = self._offset
                    yield from self._of_block(block)
                    if self._offset == before:
                        return
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from None

    def _read_header(self, content: bytes) -> bool:
        if len(content) < _FILE.size or not content.strip(b"\0"):  # it was just created
            return False
        magic, version, first, chunk, pid, opened, self.left_out = _FILE.unpack(content)
        if magic != _MAGIC:
            raise self._wrong("is no journal of firsttouch")
        if version != _VERSION:
            raise self._wrong(f"has version {version} of the format; {_VERSION} is read")
        if first < _FILE.size or first % 8 or first > 1 << 20 or chunk > _AT_ONCE or pid > 1 << 31:
            raise self._wrong("has a broken header")
        self.pid, self.opened, self._first = pid, opened * 1e-9, first
        self._offset = max(self._offset, first)
        return True

    def _of_block(self, block: bytes) -> Iterator[tuple[int, memoryview]]:
        view, at = memoryview(block), 0
        while at + _RECORD.size <= len(block):
            size, kind = _RECORD.unpack_from(block, at)
            if size == 0 or at + size > len(block):
                return
            if size % 8:
                raise self._wrong(f"has a record of {size} bytes at {self._offset}")
            self._offset += size
            if kind:
                yield kind, view[at + _RECORD.size : at + size]
            at += size

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"{self.path} {what}; a profile's journals are those that its own run wrote")

    def broken(self) -> UsageError:
        """The error of a record whose content contradicts itself."""
        return self._wrong(f"has a broken record before byte {self._offset}")


def journal_files(directory: Path) -> list[Path]:
    """The journals of a profile's directory, by process."""
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    except OSError:
        return []
    return [directory / name for name in names if not (directory / name).is_symlink()]


def read_journals(directory: Path) -> list[ProcessJournal]:
    """All journals of a profile's directory.

    Raises:
        UsageError: A file is no journal, or contains what the library does not write.
    """
    return [_Reader(path).read() for path in journal_files(directory)]


class Following:
    """The marks and notices of a run that goes on, as they come. What CUPTI recorded is left to read_journals, because
    its times are known only after its next flush.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, JournalFile] = {}

    def poll(self) -> tuple[list[Mark], list[LayerNotice]]:
        """Those since the last call. A journal that is broken is left out from there on."""
        marks: list[Mark] = []
        notices: list[LayerNotice] = []
        for path in journal_files(self._directory):
            file = self._files.setdefault(path, JournalFile(path))
            try:
                for kind, content in file.records():
                    if kind == 1:
                        marks.append(_mark(file, content))
                    elif kind == 2:
                        notices.append(_notice(file, content))
            except (UsageError, struct.error):
                continue
        return marks, notices


def _text(file: JournalFile, content: memoryview, start: int, size: int) -> str:
    if start + size > len(content):
        raise file.broken()
    return bytes(content[start : start + size]).decode(errors="replace")


def _mark(file: JournalFile, content: memoryview) -> Mark:
    time, number, thread, name, domain, what = _MARK.unpack_from(content)
    if what >= len(_WHATS):
        raise file.broken()
    return Mark(
        t=time * 1e-9,
        kind=_WHATS[what],
        name=_text(file, content, _MARK.size, name),
        domain=_text(file, content, _MARK.size + name, domain),
        pid=file.pid,
        thread=thread,
        range=number,
        source="nvtx",
    )


def _notice(file: JournalFile, content: memoryview) -> LayerNotice:
    time, size, layer = _NOTICE.unpack_from(content)
    if layer >= len(_LAYERS):
        raise file.broken()
    return LayerNotice(t=time * 1e-9, layer=_LAYERS[layer], text=_text(file, content, _NOTICE.size, size))


class _Clock:
    """Converts stamps of CUPTI's clock to seconds of CLOCK_MONOTONIC: interpolates between the two nearest readings of
    both clocks, and extrapolates as if both had the same rate.
    """

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self._pairs = sorted(pairs)
        self._stamps = [stamp for stamp, _ in self._pairs]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __call__(self, stamp: int) -> float:
        i = bisect_right(self._stamps, stamp)
        first, first_time = self._pairs[max(i - 1, 0)]
        if i in (0, len(self._pairs)):
            return (first_time + stamp - first) * 1e-9
        last, last_time = self._pairs[i]
        return (first_time + (stamp - first) * (last_time - first_time) / (last - first)) * 1e-9


class _Reader:
    """Reads one journal as a whole: the clocks first, since records come before the reading that follows them."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self._texts: dict[int, str] = {0: ""}
        self._sites: dict[int, CallSite] = {0: ()}
        self._calls: dict[int, int] = {}
        self._clock = _Clock([])
        self._into = into = ProcessJournal(0, 0.0)
        self._add: Mapping[int, Callable[[memoryview], None]] = {
            1: lambda content: into.marks.append(_mark(self._file, content)),
            2: lambda content: into.notices.append(_notice(self._file, content)),
            3: self._add_text,
            5: self._add_event,
            6: self._add_memory,
            7: self._add_copy,
            8: self._add_kernel,
            9: self._add_site,
            10: self._add_call,
            11: self._add_lost,
        }

    def read(self) -> ProcessJournal:
        into = self._into
        try:
            clocks = JournalFile(self._file.path).records()
            self._clock = _Clock([_CLOCKS.unpack_from(content) for kind, content in clocks if kind == 4])
            into.traced = bool(self._clock)
            for kind, content in self._file.records():
                if (add := self._add.get(kind)) is not None:  # other kinds are of a later version
                    add(content)
        except struct.error:
            raise self._file.broken() from None
        into.pid, into.opened, into.left_out = self._file.pid, self._file.opened, self._file.left_out
        into.marks.sort(key=lambda mark: mark.t)
        return into

    def _add_text(self, content: memoryview) -> None:
        number, size = _TEXT.unpack_from(content)
        self._texts[number] = _text(self._file, content, _TEXT.size, size)

    def _add_site(self, content: memoryview) -> None:
        number, frames = _SITE.unpack_from(content)
        if _SITE.size + frames * _FRAME.size > len(content):
            raise self._file.broken()
        found = _FRAME.iter_unpack(content[_SITE.size : _SITE.size + frames * _FRAME.size])
        self._sites[number] = tuple(Frame(self._text_of(file), offset) for offset, file in found)

    def _add_call(self, content: memoryview) -> None:
        _, correlation, site = _CALL.unpack_from(content)
        self._calls[correlation] = site

    def _add_lost(self, content: memoryview) -> None:
        self._into.lost += _LOST.unpack_from(content)[1]

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

    def _span(self, start: int, end: int) -> tuple[float, float]:
        if not self._clock:
            raise self._file.broken()
        began = self._clock(start)
        return began, began if end == start else max(began, self._clock(end))

    def _add_event(self, content: memoryview) -> None:
        start, end, address, size, count, kind, cause, source, target, site = _EVENT.unpack_from(content)
        name = self._text_of(kind)
        if name not in _EVENT_KINDS:
            raise self._file.broken()
        began, ended = self._span(start, end)
        frames = self._site_of(site)
        self._into.events.append(
            MemoryEvent(
                name,  # type: ignore[arg-type]  # checked above
                began,
                ended,
                address,
                size,
                count,
                self._text_of(source),
                self._text_of(target),
                self._text_of(cause),
                f"{frames[0].file}+{frames[0].offset:#x}" if frames else "",
            )
        )

    def _add_memory(self, content: memoryview) -> None:
        stamp, address, size, operation, memory, device, correlation, site, name = _MEMORY.unpack_from(content)
        t, _ = self._span(stamp, stamp)
        kind = _memory_kind(memory)
        if operation == 1:
            called = self._site_of(self._calls.get(correlation, 0) or site)
            self._into.allocations.append(
                Allocation(
                    t=t,
                    address=address,
                    bytes=size,
                    kind=kind,
                    device=device,
                    site=called,
                    name=self._text_of(name),
                )
            )
        elif operation == 2:
            self._into.frees.append(Free(t=t, address=address, bytes=size, kind=kind, device=device))

    def _add_copy(self, content: memoryview) -> None:
        start, end, size, device, stream, _, giver, taker, direction, source, target = _COPY.unpack_from(content)
        began, ended = self._span(start, end)
        self._into.copies.append(
            Copy(
                start=began,
                end=ended,
                bytes=size,
                direction=_DIRECTIONS.get(direction, "unknown"),
                device=device,
                stream=stream,
                source=_memory_kind(source),
                target=_memory_kind(target),
                peers=(giver, taker) if giver != taker else None,
            )
        )

    def _add_kernel(self, content: memoryview) -> None:
        start, end, device, stream, _, name = _KERNEL.unpack_from(content)
        began, ended = self._span(start, end)
        self._into.kernels.append(
            Kernel(start=began, end=ended, name=self._text_of(name), device=device, stream=stream)
        )


def _memory_kind(number: int) -> MemoryKind:
    return _MEMORY_KINDS[number] if number < len(_MEMORY_KINDS) else "unknown"


def injected_library() -> Path:
    """Where the library is that drivers load into the target."""
    return Path(__file__).resolve().parents[1] / LIBRARY


def inject_environment(
    directory: Path, *, nvtx: bool, trace: bool, current: Mapping[str, str]
) -> tuple[dict[str, str], list[LayerState]]:
    """The variables to add to those of the target (`current`), and what then is seen of it.

    A variable that the user has set is never changed. directory: where journals are written; it must exist.
    """
    library = injected_library()
    states = []
    added: dict[str, str] = {}
    if nvtx:
        states.append(_state("phases", library, NVTX_VARIABLE, current, "NVTX ranges of the target"))
        if states[-1].active:
            added[NVTX_VARIABLE] = str(library)
    if trace:
        states.append(_state("trace", library, CUDA_VARIABLE, current, "CUDA calls of the target"))
        if states[-1].active and current.get(EVENTS) == "1":
            why = f"{EVENTS}=1 is set, with which programs of firsttouch record events themselves"
            states[-1] = LayerState(layer="trace", active=False, why=why, mend=f"unset {EVENTS}")
        if states[-1].active:
            added |= {
                CUDA_VARIABLE: str(library),
                TRACE_VARIABLE: "1",
                CUPTI_VARIABLE: ":".join(candidates("cupti")),
            }
    if added:
        added[FOLDER_VARIABLE] = os.path.abspath(directory)
    return added, states


def _state(
    layer: Literal["phases", "trace"], library: Path, variable: str, current: Mapping[str, str], what: str
) -> LayerState:
    if variable in current:
        why = f"{what} are not seen: {variable} is set already, so another tool is loaded"
        return LayerState(layer=layer, active=False, why=why, mend=f"unset {variable}")
    if not library.is_file():
        why = f"{what} are not seen: this installation has no {LIBRARY}"
        return LayerState(layer=layer, active=False, why=why, mend="pip install --force-reinstall firsttouch")
    return LayerState(layer=layer, active=True)
