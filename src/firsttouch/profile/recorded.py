"""What journals of the injected library hold: marks, notices, and what CUPTI recorded of a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from firsttouch.profile.events.log import MemoryEvent
from firsttouch.profile.schema import Mark

MemoryKind: TypeAlias = Literal[
    "unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"
]
"""Kinds of memory, as CUPTI numbers them. pinned includes registered memory. Source: cupti_activity.h."""
CopyDirection: TypeAlias = Literal["h2d", "d2h", "d2d", "h2h", "p2p", "set", "unknown"]
"""Of a copy. d2d: within one GPU; p2p: between two; set: memory was filled."""


class CallFrame(msgspec.Struct, frozen=True, array_like=True):
    """A return address: the file of the program or library, and the offset in its memory image, such that the address
    is where the file was loaded plus the offset. Where no file is mapped, `file` is '' and `offset` the address.

    function: of a frame of Python, whose `file` is its source and `offset` the line in it; '' of all others.
    """

    file: str
    offset: int
    function: str = ""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """What a program asked for memory. api: 'OpenCL'; version: as it states it; device: its name. '' is unknown."""

    api: str
    version: str = ""
    device: str = ""
    architecture: str = ""


CallSite: TypeAlias = tuple[CallFrame, ...]
"""Where a call came from, the innermost frame first. Frames of the driver, of CUPTI and of a shared CUDA runtime are
left out; those of a runtime that was linked statically are not. The frames of Python, from the user's innermost one
on, follow those of the native code that it called. Empty: unknown.
"""


class RecordedAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the program obtained through CUDA at `t`. device: the number of a GPU; name: of a static variable."""

    t: float
    address: int
    bytes: int
    kind: MemoryKind
    device: int
    site: CallSite = ()
    name: str = ""


class RecordedFree(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the program gave back at `t`. bytes: 0 where the driver does not state it."""

    t: float
    address: int
    bytes: int
    kind: MemoryKind
    device: int


class RecordedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that the program asked for, or a fill of memory. source, target: kinds of memory; peers: the numbers of
    both GPUs of a copy between two. correlation: of the call that asked for it.
    """

    start: float
    end: float
    bytes: int
    direction: CopyDirection
    device: int
    stream: int
    source: MemoryKind = "unknown"
    target: MemoryKind = "unknown"
    peers: tuple[int, int] | None = None
    correlation: int = 0


class RecordedKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ran. name: as the compiler mangled it. correlation: of the call that launched it."""

    start: float
    end: float
    name: str
    device: int
    stream: int
    correlation: int = 0


class LayerNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of the library about what it does not record."""

    t: float
    layer: Literal["phases", "trace", "host"]
    text: str


class FailedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one function of the driver from one place that returned the same error. error: its number, as the driver
    has it; t: when the first did.
    """

    t: float
    function: str
    error: int
    calls: int
    site: CallSite = ()


@dataclass
class ProcessJournal:
    """What one process wrote, in seconds of CLOCK_MONOTONIC. Marks are in the order of time; the rest is in the order
    in which the driver delivered it.
    """

    pid: int
    opened: float
    marks: list[Mark] = field(default_factory=list)
    allocations: list[RecordedAllocation] = field(default_factory=list)
    frees: list[RecordedFree] = field(default_factory=list)
    copies: list[RecordedCopy] = field(default_factory=list)
    kernels: list[RecordedKernel] = field(default_factory=list)
    events: list[MemoryEvent] = field(default_factory=list)
    notices: list[LayerNotice] = field(default_factory=list)
    lost: int = 0
    """Records for which CUPTI had no room."""
    unfinished: int = 0
    """Copies and kernels that had not ended when the program or its context did."""
    failed: list[FailedCalls] = field(default_factory=list)
    left_out: int = 0
    """Records that are not in the journal, because it was full or the disk was."""
    damaged: bool = False
    """Whether records are missing, or may be others, since the file was damaged."""
    traced: bool = False
    """Whether calls of this process were recorded."""
    runtimes: list[Runtime] = field(default_factory=list)
    """Those that it used, but for CUDA."""
