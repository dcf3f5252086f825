"""What kernels use, from a second run of the program under NVIDIA's Sanitizer API
(native/profile/inject/front/cuda/exact.hpp).

Its journals are in a folder of the profile, because the order of what the program does is that of this run alone; a
view matches it with the first (program/exact.py). Bytes are known in granules of 64 KiB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from firsttouch.profile.calls import Dimensions
from firsttouch.profile.journal import JournalFile, journal_files

FOLDER = "exact"
"""The folder of a profile's directory that holds the second run."""
GRANULE = 1 << 16
_OF_MODULE, _MANAGED, _PINNED = 0x1, 0x2, 0x8
"""Flags of a block: SANITIZER_MEMORY_FLAG_* of sanitizer_callbacks.h."""
ExactWay: TypeAlias = Literal["h2d", "d2h", "d2d", "fill"]
_COPIES: tuple[ExactWay, ...] = get_args(ExactWay)


class ExactBlock(msgspec.Struct, frozen=True, gc=False):
    """Memory that the program obtained through CUDA, or gave back. static: a variable of a module."""

    address: int
    bytes: int
    begins: bool
    kind: Literal["device", "managed", "pinned", "static"]


class ExactMove(msgspec.Struct, frozen=True, gc=False):
    """A copy or a fill. target: an address."""

    way: ExactWay
    target: int
    bytes: int


class ExactUse(msgspec.Struct, frozen=True):
    """What a launch used of a block, in whole granules but for the block's end: pieces [start, end) of its bytes."""

    address: int
    bytes: int
    reads: tuple[tuple[int, int], ...] = ()
    writes: tuple[tuple[int, int], ...] = ()


class ExactLaunch(msgspec.Struct):
    """A kernel ran. used: of each block that it used at all; None: it was not looked at, or the program ended before
    that was known. outside: accesses beside all blocks. opaque: whether a tensor map says where it copies, which the
    patch does not see.
    """

    kernel: str
    grid: Dimensions
    block: Dimensions
    of_graph: bool = False
    used: list[ExactUse] | None = None
    outside: int = 0
    opaque: bool = False


ExactStep: TypeAlias = ExactBlock | ExactMove | ExactLaunch


class ExactCalls(msgspec.Struct):
    """What a process did in the second run, in order. notices: what kept it from being seen, in sentences. left_out:
    records for which there was no room.
    """

    pid: int
    steps: list[ExactStep]
    notices: list[str] = []
    left_out: int = 0

    @property
    def launches(self) -> list[ExactLaunch]:
        return [step for step in self.steps if isinstance(step, ExactLaunch)]


def read_exact(directory: Path) -> list[ExactCalls]:
    """What the processes of the second run did; empty if a profile has none.

    Raises:
        UsageError: A file is no journal, or contains what the library does not write.
    """
    return [_ExactReader(path).read() for path in journal_files(directory / FOLDER)]


class _ExactReader:
    """Reads one journal."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self._into = ExactCalls(0, [])
        self._texts = {0: ""}
        self._launches: dict[int, ExactLaunch] = {}
        self._uses: dict[int, dict[tuple[int, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]]] = {}
        """Of launches that were looked at and not fetched yet: reads and writes by block."""

    def read(self) -> ExactCalls:
        file = self._file
        receivers: dict[int, Callable[[memoryview], None]] = {}
        try:
            for kind, content in file.records():
                if not receivers:
                    receivers = {
                        file.layout[name].kind: receive
                        for name, receive in (
                            ("text", self._text),
                            ("notice", self._notice),
                            ("step", self._step),
                            ("grid", self._grid),
                            ("used", self._used),
                            ("fetched", self._fetched),
                        )
                        if name in file.layout
                    }
                if receive := receivers.get(kind):
                    receive(content)
        except (struct.error, KeyError):
            raise file.broken() from None
        self._into.pid, self._into.left_out = file.pid, file.left_out
        return self._into

    def _string(self, content: memoryview, name: str, size: int) -> str:
        start = self._file.layout[name].size
        if start + size > len(content):
            raise self._file.broken()
        return bytes(content[start : start + size]).decode(errors="replace")

    def _text(self, content: memoryview) -> None:
        record = self._file.layout["text"].read(content)
        self._texts[record.number] = self._string(content, "text", record.bytes)

    def _notice(self, content: memoryview) -> None:
        record = self._file.layout["notice"].read(content)
        self._into.notices.append(self._string(content, "notice", record.bytes))

    def _step(self, content: memoryview) -> None:
        record = self._file.layout["step"].read(content)
        if record.what in (1, 2):
            kinds = ((_OF_MODULE, "static"), (_MANAGED, "managed"), (_PINNED, "pinned"))
            kind = next((name for flag, name in kinds if record.flags & flag), "device")
            self._into.steps.append(ExactBlock(record.address, record.bytes, record.what == 1, kind))  # type: ignore[arg-type]
        elif 3 <= record.what < 3 + len(_COPIES):
            self._into.steps.append(ExactMove(_COPIES[record.what - 3], record.address, record.bytes))

    def _grid(self, content: memoryview) -> None:
        record = self._file.layout["grid"].read(content)
        launch = ExactLaunch(
            self._texts[record.name],
            (record.grid_x, record.grid_y, record.grid_z),
            (record.block_x, record.block_y, record.block_z),
            bool(record.of_graph),
            opaque=bool(record.tensor),
        )
        self._into.steps.append(launch)
        if record.looked:
            self._launches[record.launch] = launch
            self._uses[record.launch] = {}

    def _used(self, content: memoryview) -> None:
        record, run = self._file.layout["used"].read(content), self._file.layout["run"]
        start = self._file.layout["used"].size
        uses = self._uses[record.launch].setdefault((record.address, record.bytes), ([], []))
        if start + record.runs * run.size > len(content):
            raise self._file.broken()
        for number in range(record.runs):
            piece = run.read(content, start + number * run.size)
            begin, end = piece.first * GRANULE, min((piece.first + piece.count) * GRANULE, record.bytes)
            if not begin < end:
                raise self._file.broken()
            uses[bool(record.written)].append((begin, end))

    def _fetched(self, content: memoryview) -> None:
        record = self._file.layout["fetched"].read(content)
        launch = self._launches.pop(record.launch)
        launch.used = [
            ExactUse(address, size, tuple(reads), tuple(writes))
            for (address, size), (reads, writes) in sorted(self._uses.pop(record.launch).items())
        ]
        launch.outside, launch.opaque = record.outside, launch.opaque or record.opaque > 0
