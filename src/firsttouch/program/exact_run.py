"""What the launches of a traced run use exactly, as a second run told it."""

from __future__ import annotations

import msgspec

from firsttouch.program.program import Access, Certainty


class UsedPiece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Bytes [start, end) of a block, and how they are used. least: how many certainly are; None: all."""

    start: int
    end: int
    reads: bool
    writes: bool
    least: int | None = None

    def access(self, block: int, start: int, end: int) -> Access:
        """The access to a part of its bytes, which are [start, end) of a block of the program."""
        least = None if self.least is None else max(0, self.least - (self.end - self.start - (end - start)))
        certainty: Certainty = "exact" if least is None else "assumed"
        return Access(block, start, end, self.reads, self.writes, certainty=certainty, least=least)


class UsedBlock(msgspec.Struct, frozen=True):
    """What a launch uses of a block, by number. read, written, used: bytes that are read, written, or either.

    scattered: its pieces are joined, with bytes between them that are not used. assumed: it is a static variable, whose
    address the second run does not tell; the launch used memory outside all other blocks.
    """

    block: int
    pieces: tuple[UsedPiece, ...]
    read: int = 0
    written: int = 0
    used: int = 0
    scattered: bool = False
    assumed: bool = False


class ExactRun(msgspec.Struct):
    """uses: what launches use, by the numbers of their steps. matched: of `launches`. recorded: those that were looked
    at; alike: others with the kernel, grid and blocks of such, all of which used the same bytes; varying: others with
    the kernel, grid and blocks of such that did not; their bytes are not exact.

    outside: accesses beside all blocks. elsewhere: bytes of blocks that the first run does not have. opaque: launches
    that were left out because a tensor map says where they copy; graphs: those left out because the kernels of a graph
    are not told apart. ended: why the rest is not exact, and notices: what
    kept the second run from telling, in sentences.
    """

    launches: int
    uses: dict[int, tuple[UsedBlock, ...]] = {}
    matched: int = 0
    recorded: int = 0
    alike: int = 0
    varying: int = 0
    outside: int = 0
    elsewhere: int = 0
    opaque: int = 0
    graphs: int = 0
    ended: str = ""
    notices: tuple[str, ...] = ()
