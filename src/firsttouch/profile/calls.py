"""What a traced program asked of CUDA, in its order: the calls that journals of version 2 and later hold.

Addresses are those of the process. Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from firsttouch.profile.recorded import CallSite, CopyDirection, FailedCalls, MemoryKind, Runtime

HostPlace: TypeAlias = Literal["other", "stack", "static", "pinned", "registered", "managed"]
"""Where the host side of a copy is: in a thread's stack, in the data of a loaded file, or in memory that CUDA knows."""
PAGE_LOCKED: frozenset[HostPlace] = frozenset(("pinned", "registered"))
"""Places from which copies need no memory of the driver in between."""
OF_CALL = 0xFFFFFFFF
"""Of a correlation, what all have that one call moved or launched, each of which has a number of its own above it."""
MoveKind: TypeAlias = Literal["copy", "fill", "prefetch", "advice"]
CopyCause: TypeAlias = Literal["call", "creation", "mapping"]
"""What made a copy: a call that copies, the creation of a buffer, or a mapping of one or its end."""
KernelAccess: TypeAlias = Literal["", "reads", "writes", "both"]
"""What a kernel does with memory; '' is unknown."""
Sharing: TypeAlias = Literal["given", "made", "coarse", "fine", "atomic"]
"""How a block is shared with the CPU: memory that the program gave, that was made to be shared, or shared virtual
memory by its granularity.
"""
WaitKind: TypeAlias = Literal["stream", "event", "context", "copy", "free"]


class ArgumentWord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """8 bytes of a launch's parameters that are an address in a block, or in the range of device addresses.

    parameter: its place among them; offset: of the word within it, which is 0 for a plain pointer. access: of the
    kernel, as the runtime states it.
    """

    parameter: int
    offset: int
    address: int
    access: KernelAccess = ""


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """What launches of a kernel name. kernel: as the compiler mangled it. sizes_known: whether the driver told the
    size of each parameter, so that structures by value were searched too; else 8 bytes of each were.
    """

    kernel: str
    words: tuple[ArgumentWord, ...] = ()
    sizes_known: bool = False


class LaunchCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A kernel was launched. correlation: by which `durations` has its time on the GPU; 0: unknown. captured: into a
    graph, so that it did not run; graph: one of the launches of a graph. arguments: None if they are not known. kernel:
    its name as the compiler mangled it, where `arguments` does not have it.
    """

    t: float
    correlation: int
    arguments: Arguments | None
    kernel: str = ""
    site: CallSite = ()
    captured: bool = False
    graph: bool = False
    cooperative: bool = False


class MoveCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A copy, a fill, a prefetch or an advice was asked for.

    source: 0 of what is no copy. bytes: of a row; rows and pitches: of copies in two or three dimensions; else rows is
    1. host: where the host side of a copy is. blocking: the call returned when the copy was done. sample: a hash of
    `sampled_bytes` of the source of a copy to the device, or of the target of a blocking copy back, after it; before:
    of that target before the copy; None: not taken. sampled_whole: both are of all bytes (--check-copies). graph: of a
    graph that was launched. advice: its number in the driver's terms; device: of a prefetch or an advice, -1 for the
    CPU. began: of the call, which returned at `t`; None: unknown. cause: of a copy.
    """

    t: float
    correlation: int
    what: MoveKind
    source: int
    target: int
    bytes: int
    rows: int = 1
    source_pitch: int = 0
    target_pitch: int = 0
    blocking: bool = False
    host: HostPlace = "other"
    thread: int = 0
    stream: int = 0
    sample: int | None = None
    before: int | None = None
    advice: int = 0
    device: int = -1
    captured: bool = False
    graph: bool = False
    sampled_whole: bool = False
    direction: CopyDirection = "unknown"
    site: CallSite = ()
    began: float | None = None
    cause: CopyCause = "call"

    @property
    def of_call(self) -> int:
        """The correlation of the call, which may move several times."""
        return self.correlation & OF_CALL

    @property
    def sampled_bytes(self) -> int:
        """How many bytes of the copy a sample covers: all up to 8 KiB, or if that was asked for; else pieces of 64
        bytes, evenly spread, one each 2 KiB, but 128 at least and 1,024 at most.
        """
        copied = self.bytes * self.rows
        return copied if copied <= 8 << 10 or self.sampled_whole else 64 * min(max(copied // (2 << 10), 128), 1024)


class PointersCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A copy to the device, or a structure in it, held addresses of blocks. target: where they are on the device."""

    t: float
    correlation: int
    target: int
    addresses: tuple[int, ...]


class BlockCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Memory that the program obtained through a runtime, or gave back. bytes: 0 where it ends. registered: of the kind
    "pinned", memory that the program had before. reserved: the number of the range of addresses, which the program
    reserved, that it is mapped into; 0: of none; None: not recorded, as in journals before version 3. sharing: empty if
    it is the device's own; access: of kernels, as the program asked for; host: the address of the memory that the
    program gave, 0 for none.
    """

    t: float
    correlation: int
    address: int
    bytes: int
    begins: bool
    kind: MemoryKind
    device: int = 0
    registered: bool = False
    site: CallSite = ()
    name: str = ""
    reserved: int | None = None
    sharing: frozenset[Sharing] = frozenset()
    access: KernelAccess = ""
    host: int = 0


class WaitCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The program waited for the device. stack: the thread's stack pointer, below which no frame is alive. began: when
    it called; None: unknown. Asking whether work has ended is a wait too, once it has, but takes no time.
    """

    t: float
    thread: int
    what: WaitKind
    stack: int
    site: CallSite = ()
    began: float | None = None


class QueryCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The program asked how much memory of the device is free. vendor: a library of the vendor did."""

    t: float
    free: int
    total: int
    site: CallSite = ()
    vendor: bool = False


class HostUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the CPU wrote, and whether it read, of a host range between two moments (--host).

    The moments are two copies of the range, a launch and the next wait, or the last copy and the last look at it. Where
    looking would have taken too much of the run, there is no record of that time.

    writes: pieces [start, end) of addresses, in whole pages; the first and the last one may reach beyond the range, and
    hold other data there. read: bytes of pages that were read and not written; None: not known, as from a launch on.
    Of 16 MiB and more that were copied to the device, a sixteenth of the pages tells it. was_gone: the memory was given
    back later, without a last look at it. late: what was done between a copy of some of the range and `since` is not
    known; None: not told, by journals before version 3.
    """

    since: float
    t: float
    address: int
    bytes: int
    writes: tuple[tuple[int, int], ...]
    read: int | None = None
    was_gone: bool = False
    late: bool | None = None


DifferenceKind: TypeAlias = Literal["changed", "read", "replaced", "restored", "ended", "unseen"]


class HostDifference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What would differ if an array of the host, `bytes` at `address`, and what copies join it with at `device` were
    one memory (--shadow). Both were equal last at `copied`.

    kind: between `since` and `t` the CPU changed bytes, or read pages of which the block has newer bytes; at `t` a copy
    to the host replaced bytes that the CPU had changed, which it did from `since` on; or a copy to the device replaced
    newer bytes of the block by those that it had before; or the watch of the array ended; or it was unseen whether the
    CPU read newer bytes of the block, or a copy replaced them. after, before: the two calls; for what the CPU had
    changed, the calls around that are `after` and the copy. site: of the instruction that
    first wrote one of the pages, and its callers; () if it is not known. pages: [start, end) of addresses. differing:
    bytes. some: only some of the pages were read, it is not known which. is_partial: not everything was looked at;
    was_gone: the memory was given back after the last look. in_heap: it is in a heap of malloc, where it stays mapped
    when it is given back.
    """

    kind: DifferenceKind
    since: float
    t: float
    copied: float
    address: int
    bytes: int
    device: int
    differing: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    after: CallSite = ()
    before: CallSite = ()
    site: CallSite = ()
    some: bool = False
    is_partial: bool = False
    was_gone: bool = False
    in_heap: bool = False


class MappedView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A mapping of memory of the device, through which the CPU uses it, begins or ends. host: where the CPU finds it.
    use: what the CPU may do with it; waits: the call returned when it was mapped.
    """

    t: float
    address: int
    bytes: int
    begins: bool
    use: KernelAccess
    waits: bool = False
    site: CallSite = ()
    host: int = 0


class FoldedCalls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last `calls` calls, an iteration of a loop, were made `times` times more, at other times. A sample of theirs
    was the same each time, or equals none of any other call.
    """

    t: float
    calls: int
    times: int


AnyCall: TypeAlias = (
    LaunchCall | MoveCall | PointersCall | BlockCall | WaitCall | QueryCall | HostUse | MappedView | FoldedCalls
)


Dimensions: TypeAlias = tuple[int, int, int]
LaunchShape: TypeAlias = tuple[Dimensions, Dimensions]
"""The grid and the block of threads of a launch."""


class TracedCalls(msgspec.Struct):
    """The calls of a process. pid: of the process. calls: in its order. durations: seconds on the GPU of what has a
    correlation, kernels and copies. incomplete: what is missing, in sentences; is_partial: records are. shapes: of
    kernels, by correlation. failed: calls that returned an error, which are not among `calls`. runtimes: that it used,
    but for CUDA. journal: where they were read.
    """

    pid: int
    calls: list[AnyCall]
    durations: dict[int, float] = {}
    incomplete: tuple[str, ...] = ()
    is_partial: bool = False
    shapes: dict[int, LaunchShape] = {}
    runtimes: list[Runtime] = []
    failed: tuple[FailedCalls, ...] = ()
    journal: Path | None = None
    differences: tuple[HostDifference, ...] | None = None

    def counted(self) -> Iterator[tuple[AnyCall, int]]:
        """Each call, and how many it stands for."""
        times: dict[int, int] = {}
        for place, call in enumerate(self.calls):
            if isinstance(call, FoldedCalls):
                times |= dict.fromkeys(range(place - call.calls, place), 1 + call.times)
        return ((call, times.get(place, 1)) for place, call in enumerate(self.calls))
