"""Which bytes of the host are copies of which bytes of the device, as copies join them, for each life of each block."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from firsttouch.profile.calls import HostPlace
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    MANAGED_KINDS,
    NO_BLOCK,
    STATIC_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedRun,
    beside_launches,
)

_NO_PAIR = STATIC_KINDS | MANAGED_KINDS | {"array"}
"""Kinds of blocks that cannot be one with memory of the host: static variables are, if declared otherwise."""


class JoinedBytes(NamedTuple):
    """Bytes [start, end) of a block that a copy joins with those of the host from address `host` on."""

    start: int
    end: int
    host: int


def joined(copy: TracedCopy) -> Sequence[JoinedBytes]:
    """The parts of a copy between host and device of which both sides are contiguous, in order."""
    is_back = copy.way == "d2h"
    source, target = copy.source, copy.target
    if source.rows == target.rows == 1:
        device = source if is_back else target
        address = copy.call.target if is_back else copy.call.source
        return (JoinedBytes(device.start, device.start + device.nbytes, address),)
    return [*_joined_rows(copy)]


def _joined_rows(copy: TracedCopy) -> Iterator[JoinedBytes]:
    shift = (copy.call.target if copy.way == "d2h" else copy.call.source) - copy.host.start
    device, host = iter(copy.device.pieces), iter(copy.host.pieces)
    (start, end), (first, last) = next(device), next(host)
    while True:
        size = min(end - start, last - first)
        yield JoinedBytes(start, start + size, first + shift)
        start, first = start + size, first + size
        try:
            if start == end:
                start, end = next(device)
            if first == last:
                first, last = next(host)
        except StopIteration:
            return


def may_pair(block: TracedBlock, copy: TracedCopy) -> bool:
    """Whether a copy makes its host side a partner. A variable of the stack is none: it lives as long as its call. Nor
    is what belongs to a block that a library of the vendor allocates, which the program cannot change.
    """
    return block.kind not in _NO_PAIR and copy.call.host != "stack" and not block.is_of_vendor


@dataclass
class LifePartners:
    """The partners of a block in one of its lives. host: addresses of the bytes that vanish in a unified version.

    window: bytes of the block that copies of one direction join with several parts of the host in turn, of about as
    many bytes each; there the block's bytes vanish, and those of the host, `windows`, stay. places: what memory the
    host's sides of copies are, by the first address of each.
    """

    host: Ranges = field(default_factory=Ranges)
    window: Ranges = field(default_factory=Ranges)
    windows: Ranges = field(default_factory=Ranges)
    spans_by_block: defaultdict[int, Ranges] = field(default_factory=lambda: defaultdict(Ranges))
    places: dict[int, HostPlace] = field(default_factory=dict)

    @property
    def saves(self) -> int:
        """Bytes that vanish if this block and its partners are one, at most."""
        return self.host.total() + self.window.total()

    def all_host(self) -> Ranges:
        """All bytes of the host that copies join with the block."""
        whole = Ranges()
        for start, end in (*self.host, *self.windows):
            whole.add(start, end)
        return whole

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The host's sides of copies in order, with what lies between rows. Neighbours are one only if they are in the
        same page-locked allocation, or in none.
        """
        return sorted(span for spans in self.spans_by_block.values() for span in spans)

    def spans_with_places(self) -> Iterator[tuple[int, int, HostPlace]]:
        """The spans in order, each with the place of its first copy."""
        addresses = sorted(self.places)
        for start, end in self.spans:
            yield start, end, self.places[addresses[bisect_left(addresses, start)]]


Partners = Sequence[Sequence[LifePartners]]
"""By the number of a block, and that of its life."""


def partners(run: TracedRun) -> Partners:
    """The partners of all blocks. Copies that are alike are looked at once."""
    alike: dict[tuple[int, int], dict[tuple[object, ...], TracedCopy]] = defaultdict(dict)
    life = Counter[int]()
    for _, step in run.once(beside_launches):
        if type(step) is TracedAllocation:
            life[step.block] += step.begins
        elif type(step) is TracedCopy and step.way in ("h2d", "d2h"):
            device, host = step.device, step.host
            block = device.block
            if block != NO_BLOCK and may_pair(run.blocks[block], step):
                key = (step.way, device, host, step.call.source if step.way == "h2d" else step.call.target)
                alike[block, life[block] - 1].setdefault(key, step)
    return [
        [_partners_in_life(list(alike.get((block.number, number), {}).values())) for number in range(len(block.lives))]
        for block in run.blocks
    ]


def _partners_in_life(copies: Sequence[TracedCopy]) -> LifePartners:
    into = LifePartners()
    parts = [(copy, joined(copy)) for copy in copies]
    for way in ("h2d", "d2h"):
        _find_windows([part for copy, joined_parts in parts if copy.way == way for part in joined_parts], into.window)
    for copy, joined_parts in parts:
        first_address = min(part.host for part in joined_parts)
        into.places.setdefault(first_address, copy.call.host)
        into.spans_by_block[copy.host.block].add(
            first_address, max(part.host + part.end - part.start for part in joined_parts)
        )
        for start, end, address in joined_parts:
            for first, last in into.window.missing(start, end):
                into.host.add(address + first - start, address + last - start)
            for first, last in into.window.common(start, end):
                into.windows.add(address + first - start, address + last - start)
    for start, end in into.host:
        into.windows.remove(start, end)
    return into


def _find_windows(parts: Sequence[JoinedBytes], window: Ranges) -> None:
    """Adds the bytes of a block that are joined with several parts of the host, each of about as many bytes: one part
    is not the place of a single number of another.
    """
    by_shift: dict[int, Ranges] = defaultdict(Ranges)
    for start, end, address in parts:
        by_shift[address - start].add(start, end)
    if len(by_shift) > 1:
        for start, end in _shared_halves([piece for ranges in by_shift.values() for piece in ranges]):
            window.add(start, end)


def _shared_halves(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What two ranges share, of each two that share half of the longer one. Some of it is left out where others cover
    it, so that the time does not grow with the number of pairs.

    Ranges in a cell have lengths within 1.5 times, and begin within a quarter of the shortest, so that all of them
    share their middle, and each two half of the longer one. What one of them shares with ranges of other cells and with
    none of its own is at the ends of the cell.
    """
    cells: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for start, end in ranges:
        quarter = max(1, (1 << (end - start).bit_length()) >> 3)
        cells[quarter, (end - start) // (2 * quarter), start // quarter].append((start, end))
    outermost = set[tuple[int, int]]()
    for cell in cells.values():
        if len(cell) > 1:
            yield sorted(start for start, _ in cell)[1], sorted(end for _, end in cell)[-2]
        outermost |= {min(cell), max(cell, key=itemgetter(1))}
    open_ranges: list[tuple[int, int]] = []
    for start, end in sorted(outermost):
        open_ranges = [earlier for earlier in open_ranges if earlier[1] > start]
        for first, last in open_ranges:
            if 2 * (min(end, last) - start) >= max(end - start, last - first):
                yield start, min(end, last)
        open_ranges.append((start, end))
