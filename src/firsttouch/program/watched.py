"""What the CPU does with the host's bytes that copies join with blocks, as far as the host was watched (HostUse).

The watch tells of a range from one copy of it to the next, and from launches to waits within that time. Here the former
count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from firsttouch.profile.calls import HostUse
from firsttouch.program.layout import UnifiedPiece
from firsttouch.program.partners import joined
from firsttouch.program.program import Access, Certainty
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedLaunch, TracedRun, beside_launches

PAGE_BYTES = 4096
"""The unit in which the host is watched."""


def last_free(run: TracedRun) -> float:
    """When a program began to free memory of the device for the last time; infinite if it did not. A look at the host
    then tells all that the CPU did, in all likelihood, even if the host's memory was gone at the end.
    """
    freed = float("inf")
    for step in run.steps:
        if isinstance(step, TracedAllocation) and not step.begins:
            freed = min(freed, step.call.t)
        elif isinstance(step, TracedCopy | TracedLaunch):
            freed = float("inf")
    return freed


class HostWatch:
    """Where the host's bytes are in unified blocks, and since when they were watched."""

    def __init__(self, run: TracedRun) -> None:
        self._is_used = any(isinstance(step, HostUse) for _, step in run.once(beside_launches))
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
        self._launches = [step.call.t for step in run.steps if isinstance(step, TracedLaunch)]
        freed = last_free(run)
        for index in range(len(run.steps) - 1, -1, -1):
            step = run.steps[index]
            if isinstance(step, HostUse):
                if begins.get(step.address, float("inf")) <= step.since:
                    self._within.add(index)
                    continue
                begins[step.address] = step.since
                is_told = step.read is not None and not (step.was_gone and step.t < freed)
                following.assign(step.address, step.address + step.bytes, is_told)
            elif isinstance(step, TracedCopy) and step.way in ("h2d", "d2h"):
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
