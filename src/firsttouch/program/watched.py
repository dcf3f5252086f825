"""What the CPU does with the host's bytes that copies join with blocks, as far as the host was watched (HostUse).

The watch tells of a range from one copy of it to the next, and from launches to waits within that time. Here the former
count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from firsttouch.profile.calls import HostUse
from firsttouch.program.layout import UnifiedPiece
from firsttouch.program.partners import joined
from firsttouch.program.program import Access, Certainty
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import CopyWay, TracedCopy, TracedLaunch, TracedRun, beside_launches

PAGE_BYTES = 4096
"""The unit in which the host is watched."""


Told: TypeAlias = Literal["told", "not yet", "gap"]
"""Whether the watch told of all time since a copy. not yet: it did up to the last copy of any bytes of the same range.
"""


class SinceCopy(NamedTuple):
    """What is known of bytes of the host since they were copied last. block: that they were copied with; copy: the
    number of the copy.

    reads, writes: how far the watch told what the CPU read, and wrote; used: it did either, or perhaps. unwritten: the
    number of the copy since which the bytes were not written, as far as the watch told; None: they were.
    """

    way: CopyWay
    block: int
    t: float
    copy: int
    unwritten: int | None
    reads: Told = "not yet"
    writes: Told = "not yet"
    used: bool = False


def has_looks(run: TracedRun) -> bool:
    """Whether any look at the host's memory was recorded; without one nothing is known of what the CPU does with it."""
    return any(type(step) is HostUse for _, step in run.once(beside_launches))


_LATE, _LATE_PER_BYTE = 0.02, 2.5e-10
"""Seconds from a copy to the begin of a window, which begins later if it takes longer; for journals before version 3.
"""


class HostHistory:
    """What the CPU did with the host's bytes since they were copied last. Takes steps in their order."""

    def __init__(self) -> None:
        self._bytes: RangeMap[SinceCopy] = RangeMap()
        self._ranges: RangeMap[int] = RangeMap()
        """The ranges that windows told of: the watch looks at all of one, or at none, before a part of it is copied."""

    def copied(self, copy: TracedCopy, number: int) -> None:
        """number: of the step."""
        for part in joined(copy):
            start, end = part.host, part.host + part.end - part.start
            before = self.since(start, end)
            for first, last, _ in self._ranges.overlapping(start, end):
                self._update(first, last, lambda since: since._replace(
                    reads=_after_copy(since.reads), writes=_after_copy(since.writes)))  # fmt: skip
            new = SinceCopy(copy.way, copy.device.block, copy.call.t, number, number)
            self._bytes.assign(start, end, new)
            for first, last, since in before if copy.way == "h2d" else ():  # which leaves the host's bytes as they are
                if since.unwritten is not None and since.writes == "told":
                    self._bytes.assign(first, last, new._replace(unwritten=since.unwritten))

    def watched(self, use: HostUse) -> None:
        """Takes what one window told."""
        start, end = use.address, use.address + use.bytes
        is_whole = not (use.was_gone or self._is_late(use))
        is_used = bool(use.read or use.writes)

        def told(since: SinceCopy) -> SinceCopy:
            reads = "told" if is_whole and use.read is not None and since.reads == "not yet" else since.reads
            writes = "told" if is_whole and since.writes == "not yet" else since.writes
            return since._replace(reads=reads, writes=writes, used=since.used or is_used)

        self._update(start, end, told)
        for first, last in use.writes:
            self._update(first, last, lambda since: since._replace(unwritten=None))
        self._ranges.assign(start, end, 0)

    def since(self, start: int, end: int) -> list[tuple[int, int, SinceCopy]]:
        """What is known of bytes [start, end), of those that were copied."""
        return [(max(a, start), min(b, end), since) for a, b, since in self._bytes.overlapping(start, end)]

    def all_since(self) -> Iterator[tuple[int, int, SinceCopy]]:
        """What is known of all bytes that were copied."""
        return iter(self._bytes)

    def is_unwritten(self, start: int, end: int, since: int) -> bool:
        """Whether the watch told that none of the bytes was written after the copy with the number `since`."""
        known = self.since(start, end)
        return sum(last - first for first, last, _ in known) == end - start and all(
            told.writes == "told" and told.unwritten is not None and told.unwritten <= since for _, _, told in known
        )

    def _update(self, start: int, end: int, change: Callable[[SinceCopy], SinceCopy]) -> None:
        for first, last, since in self.since(start, end):
            if (changed := change(since)) != since:
                self._bytes.assign(first, last, changed)

    def _is_late(self, use: HostUse) -> bool:
        if use.late is not None:
            return use.late
        if use.read is None:  # of a launch, perhaps
            return True
        copied = max((since.t for _, _, since in self.since(use.address, use.address + use.bytes)), default=use.since)
        return use.since - copied > _LATE + _LATE_PER_BYTE * use.bytes


def _after_copy(told: Told) -> Told:
    return "not yet" if told == "told" else "gap"


class HostWatch:
    """Where the host's bytes are in unified blocks, and since when they were watched."""

    def __init__(self, run: TracedRun) -> None:
        self._is_used = has_looks(run)
        self._within: set[int] = set()
        """Steps that tell of a part of the time of which a later one tells too."""
        self._read_is_known: set[int] = set()
        """Copies after which it is known what the CPU read of their bytes."""
        self._launches: list[float] = []
        self._copied_to: RangeMap[tuple[int, int, float]] = RangeMap()
        """Of the host's bytes: the unified block, how far they are from it, and when they were copied."""
        self._watched = Ranges()
        """Bytes that were watched since they were copied last."""
        if self._is_used:
            self._look_ahead(run)

    def _look_ahead(self, run: TracedRun) -> None:
        begins: dict[int, float] = {}
        following: RangeMap[bool] = RangeMap()
        self._launches = [step.call.t for step in run.steps if type(step) is TracedLaunch]
        for index in range(len(run.steps) - 1, -1, -1):
            step = run.steps[index]
            if type(step) is HostUse:
                if begins.get(step.address, float("inf")) <= step.since:
                    self._within.add(index)
                    continue
                begins[step.address] = step.since
                is_told = step.read is not None and not step.was_gone
                following.assign(step.address, step.address + step.bytes, is_told)
            elif type(step) is TracedCopy and step.way in ("h2d", "d2h"):
                for start, end in _host(step):
                    if any(is_read_known for _, _, is_read_known in following.overlapping(start, end)):
                        self._read_is_known.add(index)
                    following.assign(start, end, False)

    def copied(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> None:
        """Notes that a copy joins the host's bytes with these."""
        if not (self._is_used and pieces):
            return
        left = [(piece.block, piece.start, piece.end) for piece in pieces]
        for part in joined(copy):
            block, start, end = left[0]
            nbytes = part.end - part.start
            self._copied_to.assign(part.host, part.host + nbytes, (block, start - part.host, copy.call.t))
            self._watched.remove(part.host, part.host + nbytes)
            left[0] = (block, start + nbytes, end)
            if start + nbytes >= end and len(left) > 1:
                del left[0]

    def covers(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> bool:
        """Whether what the CPU wrote of the host's bytes since they were copied last is known.

        Of bytes that were copied to another block last, it writes this one too.
        """
        blocks = {piece.block for piece in pieces}
        return self._is_used and all(
            not self._watched.missing(start, end)
            and {block for _, _, (block, _, _) in self._copied_to.overlapping(start, end)} <= blocks
            for start, end in _host(copy)
        )

    def reads_after(self, index: int) -> bool:
        """Whether it is known what the CPU read of the bytes that a copy, the step `index`, brought back."""
        return index in self._read_is_known

    def used(self, index: int, step: HostUse) -> tuple[list[Access], list[Access]]:
        """What the CPU wrote, and what it read, of unified blocks. index: of the step."""
        if index in self._within:
            return [], []
        launch = self._launches[bisect_right(self._launches, step.since) - 1] if self._launches else step.since
        launched = launch <= step.since
        for start, end, (_, _, copied) in self._copied_to.overlapping(step.address, step.address + step.bytes):
            if not (launched and launch > copied):
                self._watched.add(start, end)
        writes = [access for first, last in step.writes for access in self._written(first, last)]
        reads, left = list[Access](), step.read or 0
        pieces = self._pieces(step.address, step.address + step.bytes) if left else []
        is_all = left >= sum(end - start for _, start, end in pieces)  # else it is not known which bytes were read
        for block, start, end in pieces:
            if size := min(left, end - start):
                certainty: Certainty = "exact" if is_all else "assumed"
                reads.append(Access(block, start, start + size, reads=True, writes=False, certainty=certainty))
                left -= size
        return writes, reads

    def _written(self, first: int, last: int) -> Iterator[Access]:
        """Accesses by pages that were written. A page that holds other data too does not tell whether these were."""
        for start, end, (block, shift, _) in self._copied_to.overlapping(first, last):
            start, end = max(first, start), min(last, end)
            is_known = -(-start // PAGE_BYTES) < end // PAGE_BYTES
            certainty: Certainty = "exact" if is_known else "assumed"
            least = None if is_known else 0
            yield Access(block, start + shift, end + shift, reads=False, writes=True, certainty=certainty, least=least)

    def _pieces(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """The parts of the host's bytes [first, last) that are in unified blocks."""
        return [
            (block, max(first, start) + shift, min(last, end) + shift)
            for start, end, (block, shift, _) in self._copied_to.overlapping(first, last)
        ]


def _host(copy: TracedCopy) -> Iterator[tuple[int, int]]:
    for part in joined(copy):
        yield part.host, part.host + part.end - part.start
