"""The host arrays that copies join with blocks, each once where parts of it are joined with several blocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from firsttouch.profile.calls import PAGE_LOCKED, HostPlace
from firsttouch.program.partners import LifePartners, Partners
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import TracedRun

SIDE_BY_SIDE: tuple[HostPlace, ...] = ("static", "stack")
"""Where compilers put variables of their own beside each other."""


class LargestLife(NamedTuple):
    """The life of a block in which it has most partners, from the step `first` to before the step `last`."""

    block: int
    joint: LifePartners
    first: int
    last: int


def largest_lives(run: TracedRun, partners: Partners) -> list[LargestLife]:
    """Of each block, by its number."""
    largest = []
    for block, of_block in zip(run.blocks, partners, strict=True):
        lives = [
            LargestLife(block.number, joint, life.first, life.last)
            for joint, life in zip(of_block, block.lives, strict=True)
        ]
        none = LargestLife(block.number, LifePartners(), 0, 0)
        largest.append(max(lives, key=lambda life: life.joint.saves, default=none))
    return largest


@dataclass
class _Span:
    """Bytes of the host that are joined with `blocks`, which live between the steps `first` and `last`."""

    start: int
    end: int
    place: HostPlace
    first: int
    last: int
    blocks: list[int] = field(default_factory=list)
    number: int = -1

    def is_of_one_array_with(self, earlier: _Span) -> bool:
        """Whether it has bytes of one that begins before it, or adjoins it, while the blocks of both live. Later the
        program may have freed the array, and another one may be at its address.
        """
        if earlier.last <= self.first or self.last <= earlier.first:
            return False
        are_variables = self.place in SIDE_BY_SIDE or earlier.place in SIDE_BY_SIDE
        return self.start < earlier.end or (self.start == earlier.end and not are_variables)


def array_numbers(lives: Sequence[LargestLife]) -> dict[tuple[int, int], int]:
    """The number of the host array of each span, by the block and the first address."""
    spans: defaultdict[int, dict[tuple[int, int], _Span]] = defaultdict(dict)
    for block, joint, first, last in lives:
        places = {start: place for start, _, place in joint.spans_with_places()}
        for allocation, ranges in joint.spans_by_block.items():
            for start, end in ranges:
                span = spans[allocation].setdefault((start, end), _Span(start, end, places[start], first, last))
                span.first, span.last = min(span.first, first), max(span.last, last)
                span.blocks.append(block)
    numbers, arrays = dict[tuple[int, int], int](), 0
    for of_allocation in spans.values():
        reaching: list[_Span] = []
        for _, span in sorted(of_allocation.items()):
            reaching = [earlier for earlier in reaching if earlier.end >= span.start]
            span.number = min((e.number for e in reaching if span.is_of_one_array_with(e)), default=arrays)
            arrays += span.number == arrays
            reaching.append(span)
            numbers |= {(block, span.start): span.number for block in span.blocks}
    return numbers


def shared_bytes(lives: Sequence[LargestLife], kept: Mapping[int, Ranges]) -> Counter[int]:
    """How many of the host's bytes that are one with a block are so with an earlier block that still lives, by block.
    kept: those that stay beside each block, which are one with none.
    """
    owners, shared = RangeMap[int](), Counter[int]()
    """Until when the block lives that the host's bytes are one with."""
    for block, joint, first, last in sorted(lives, key=lambda life: life.first):
        for start, end in joint.host:
            for a, b, until in owners.overlapping(start, end):
                shared[block] += (min(b, end) - max(a, start)) * (until > first)
        for start, end in joint.host:
            for piece in kept[block].missing(start, end) if block in kept else [(start, end)]:
                owners.assign(*piece, last)
    return shared


def pageable_bytes(lives: Sequence[LargestLife]) -> int:
    """The bytes of the host that are joined with blocks and not page-locked, each once."""
    pageable = Ranges()
    for life in lives:
        whole = life.joint.all_host()
        for start, end, place in life.joint.spans_with_places():
            for piece in whole.common(start, end) if place not in PAGE_LOCKED else ():
                pageable.add(*piece)
    return pageable.total()
