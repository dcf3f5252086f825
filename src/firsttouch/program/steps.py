"""What happens to memory, as data: the steps that the ledger decides on, the executor carries out, and prices price.

`buffer` is the position of a buffer among those that were declared. Ranges [start, end) are in bytes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from firsttouch.program.declarations import Agent


class Allocate(NamedTuple):
    """Obtain a block for one side, or one that both use. file: it is a mapping of the buffer's file."""

    buffer: int
    side: Literal["host", "device", "shared"]
    allocator: str
    nbytes: int
    file: bool = False


class Prefault(NamedTuple):
    """Touch every page of a buffer from the CPU. file: read them instead of writing."""

    buffer: int
    nbytes: int
    file: bool


class Advise(NamedTuple):
    """Give the driver a hint about a buffer."""

    buffer: int
    hint: str


class MapFile(NamedTuple):
    """Map the file of a buffer, to copy it from there."""

    buffer: int
    nbytes: int


class CopyFile(NamedTuple):
    """Copy the mapped file into its buffer, with so many CPU threads."""

    buffer: int
    nbytes: int
    threads: int


class Copy(NamedTuple):
    """Copy a range between a host array and a device array, which begins at byte `window` of the host array. source:
    the buffer that has the host array, if another does.
    """

    buffer: int
    start: int
    end: int
    to: Agent
    window: int = 0
    source: int | None = None


class Map(NamedTuple):
    """Map a buffer for the CPU."""

    buffer: int


class Unmap(NamedTuple):
    buffer: int


class Flush(NamedTuple):
    """Flush the CPU's write-combining buffers."""


class Wait(NamedTuple):
    """Wait until all queued work has ended."""


class Prefetch(NamedTuple):
    """Prefetch a whole buffer: to the GPU in a separate stream, to the CPU in the default stream."""

    buffer: int
    nbytes: int
    to: Agent


class EndPrefetches(NamedTuple):
    """Mark the end of the prefetches in their stream."""


class Join(NamedTuple):
    """Make work that is queued from now on wait for that mark."""


class Use(NamedTuple):
    """An agent uses a range. at_once: the CPU does so while kernels use it."""

    buffer: int
    agent: Agent
    start: int
    end: int
    reads: bool
    writes: bool
    at_once: bool = False


class ReadPages(NamedTuple):
    """The CPU reads one byte of each page of a buffer."""

    buffer: int
    nbytes: int


class Free(NamedTuple):
    """Return a block. The fields are those of Allocate."""

    buffer: int
    side: Literal["host", "device", "shared"]
    allocator: str
    nbytes: int
    file: bool = False


Step: TypeAlias = (
    Allocate
    | Prefault
    | Advise
    | MapFile
    | CopyFile
    | Copy
    | Map
    | Unmap
    | Flush
    | Wait
    | Prefetch
    | EndPrefetches
    | Join
    | Use
    | ReadPages
    | Free
)
