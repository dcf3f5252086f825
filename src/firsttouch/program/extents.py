"""Which blocks a program has, where that is not one for each allocation: a range of addresses that is mapped piece by
piece is one block, and a pool, of which the program's own allocator hands out parts, is as many as it has parts.

A piece is in the block of those that adjoin it in the same reserved range. Journals before version 3 do not tell these
ranges: there, a copy over the border of two allocations shows that they are pieces of one, since the driver refuses it
otherwise.

The parts of a pool are assumed, from what copies and launches name: each begins at such an address and ends at the
next. An array that is copied in pieces is no pool: its pieces are as far from each other on the host as on the device,
or go through one buffer of the host.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise

import msgspec

from firsttouch.profile.call_journal import VENDOR
from firsttouch.profile.calls import AnyCall, BlockCall, LaunchCall, MoveCall
from firsttouch.profile.living import Living
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.trace import is_of_a_package
from firsttouch.program.ranges import Ranges

MOST_PARTS = 8
"""An allocation of which copies and launches name more parts than this is a pool."""
LEAST_ALIGNMENT = 64
"""Parts that begin elsewhere are elements of an array, of which there may be many."""
ALIGNMENT = 256
"""Allocators begin what they hand out at multiples of this, of CUDA's own, or of more."""

_MOST_ADDED = 4096
"""The most copies that are kept so as not to add those like them again."""


class Extent(msgspec.Struct, eq=False):
    """An allocation, or a range that is mapped piece by piece. pieces: whether it is such a range. parts: where those
    of a pool begin, in order, from its own address on; empty if it is not divided. is_pool: an allocator of the program
    hands out parts of it.
    """

    address: int
    nbytes: int
    pieces: bool = False
    parts: Sequence[int] = ()
    is_pool: bool = False

    @property
    def end(self) -> int:
        return self.address + self.nbytes

    def units(self) -> Iterator[tuple[int, int]]:
        """The address and the bytes of each block."""
        yield from ((a, b - a) for a, b in pairwise([*(self.parts or [self.address]), self.end]))


def extents_of(calls: Sequence[AnyCall], temporaries: Set[int] = frozenset()) -> Mapping[int, Extent]:
    """The extents of allocations on the device, by the place of their call, if they are other than a block each.

    temporaries: the places of calls that allocate temporary storage of a library, of which each is one block.
    """
    found = dict(_mapped_ranges(calls))
    _find_pools(calls, found, temporaries)
    return found


# ---------------------------------------------------------------------------------------------------- mapped in pieces


class _Piece(msgspec.Struct, eq=False):
    place: int
    address: int
    nbytes: int
    reserved: int | None


def _begins_on_device(call: AnyCall) -> bool:
    return type(call) is BlockCall and call.begins and call.kind == "device" and call.bytes > 0


def _mapped_ranges(calls: Sequence[AnyCall]) -> Iterator[tuple[int, Extent]]:
    """The ranges of adjoining pieces, for each of their pieces."""
    for pieces in _pieces_by_range(calls):
        covered, extents = Ranges(), dict[int, Extent]()
        for piece in pieces:
            covered.add(piece.address, piece.address + piece.nbytes)
        for piece in pieces if len(pieces) > 1 else ():
            ((start, end),) = covered.overlapping(piece.address, piece.address + piece.nbytes)
            if end - start > piece.nbytes:
                yield piece.place, extents.setdefault(start, Extent(start, end - start, pieces=True))


def _pieces_by_range(calls: Sequence[AnyCall]) -> Iterable[list[_Piece]]:
    """The pieces of each reserved range, or of which copies show that they are in one."""
    by_number: dict[int, list[_Piece]] = defaultdict(list)
    unknown, joined = Living[_Piece](), dict[int, list[_Piece]]()
    for place, call in enumerate(calls):
        if type(call) is BlockCall:
            if not call.begins:
                unknown.remove(call.address)
            elif _begins_on_device(call) and call.reserved != 0:
                piece = _Piece(place, call.address, call.bytes, call.reserved)
                if piece.reserved is not None:
                    by_number[piece.reserved].append(piece)
                else:
                    unknown.add(call.address, piece)
                    joined[place] = [piece]
        elif type(call) is MoveCall and unknown.at and not call.captured and call.what in ("copy", "fill"):
            for address in (call.source, call.target):
                _join_crossed(unknown, joined, address, call.bytes * max(1, call.rows))
    return [*by_number.values(), *{id(pieces): pieces for pieces in joined.values()}.values()]


def _join_crossed(alive: Living[_Piece], joined: dict[int, list[_Piece]], address: int, nbytes: int) -> None:
    """Joins the allocations that adjoin each other and have all of some bytes."""
    first = alive.find(address)
    if first is None or first[1] + nbytes <= first[0].nbytes:
        return
    crossed, end = [first[0]], first[0].address + first[0].nbytes
    while end < address + nbytes and (following := alive.at.get(end)) is not None:
        crossed.append(following)
        end += following.nbytes
    if end < address + nbytes:
        return
    groups = {id(joined[piece.place]): joined[piece.place] for piece in crossed}
    together = [piece for group in groups.values() for piece in group]
    joined.update((piece.place, together) for piece in together if len(groups) > 1)


# --------------------------------------------------------------------------------------------------------------- pools


class _Named(msgspec.Struct, eq=False):
    """What names an allocation. allocator: the place in a library that allocates it.

    by_shift: the bytes that copies join with the host's, from the first to the last of those that are as far from
    these; begins, ends: where the host's side of such copies begins, by the address of the first byte, and by that
    behind the last one; others: bytes of copies and fills on the device; launched: addresses that launches name.
    """

    extent: Extent
    allocator: CallFrame | None
    by_shift: dict[int, tuple[int, int]] = {}
    begins: dict[int, set[int]] = {}
    ends: dict[int, set[int]] = {}
    others: set[tuple[int, int]] = set()
    launched: set[int] = set()

    @property
    def nbytes(self) -> int:
        return self.extent.nbytes

    def add_host_copy(self, start: int, end: int, host: int) -> None:
        first, last = self.by_shift.get(host - start, (start, end))
        self.by_shift[host - start] = min(start, first), max(end, last)
        self.begins.setdefault(start, set()).add(host)
        self.ends.setdefault(end, set()).add(host)

    def parts(self) -> tuple[list[int], int]:
        """Where parts begin, and how many of these launches name."""
        spans: list[tuple[int, int]] = []
        for start, end in sorted({*self.by_shift.values(), *self.others}):
            if spans and (start < spans[-1][1] or self._is_staged(start, spans[-1][1])):
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        begins = [start for start, _ in spans]
        apart = {a for a in self.launched if (n := bisect_right(begins, a)) == 0 or a >= spans[n - 1][1]}
        starts = sorted({*begins, *apart})
        return starts, len({bisect_right(starts, address) for address in self.launched})

    def _is_staged(self, start: int, end: int) -> bool:
        """Whether bytes go on where others end, and went through the same buffer of the host as these."""
        is_same = start == end and not self.begins.get(start, set()).isdisjoint(self.ends.get(end, ()))
        return is_same and start not in self.launched

    def is_pool(self, starts: Sequence[int], by_launches: int) -> bool:
        """Whether an allocator hands out its parts: many, or such as kernels get by their own addresses, which are
        aligned as those of allocations are.
        """
        is_aligned = all((start - self.extent.address) % ALIGNMENT == 0 for start in starts)
        are_launched = by_launches > 1 and self.launched.issuperset(start for start, _ in self.by_shift.values())
        are_apart = all((start - self.extent.address) % LEAST_ALIGNMENT == 0 for start in starts)
        return (len(starts) > MOST_PARTS and are_apart) or (are_launched and is_aligned)


def _find_pools(calls: Sequence[AnyCall], extents: dict[int, Extent], temporaries: Set[int]) -> None:
    """Finds the pools among allocations of which a copy from or to the host names a part."""
    candidates = {
        id(named.extent): named
        for named in _named_by_copies(calls, extents, temporaries)
        if any(end - start < named.nbytes for start, end in named.by_shift.values())
    }
    if candidates:
        _add_launches(calls, extents, candidates)
    parts = {key: named.parts() for key, named in candidates.items()}
    pools = {key for key, named in candidates.items() if named.is_pool(*parts[key])}
    allocators = {candidates[key].allocator for key in pools if len(parts[key][0]) > MOST_PARTS} - {None}
    for key, named in candidates.items():
        extent, (starts, by_launches) = named.extent, parts[key]
        is_of_library = named.allocator is not None and is_of_a_package(named.allocator.file)
        extent.is_pool = key in pools or is_of_library or named.allocator in allocators
        if extent.is_pool and by_launches != 1 and len(starts) > 1:
            extent.parts = [extent.address, *starts[1:]]
    for place, extent in [*extents.items()]:
        if not (extent.pieces or extent.is_pool):
            del extents[place]


def _library_frame(call: BlockCall) -> CallFrame | None:
    """The place in a shared library, which is not the vendor's, that allocates; None if that is in the program."""
    frame = next((frame for frame in call.site if not VENDOR.search(frame.file)), None)
    return frame if frame is not None and ".so" in frame.file.rpartition("/")[2] else None


def _named_by_copies(calls: Sequence[AnyCall], extents: dict[int, Extent], temporaries: Set[int]) -> list[_Named]:
    """What copies name of each allocation on the device. Gives each an extent."""
    alive, all_named, added = Living[_Named](), dict[int, _Named](), set[tuple[int, ...]]()
    for place, call in enumerate(calls):
        if type(call) is BlockCall:
            added.clear()
            if not call.begins:
                _end(alive, call.address)
            elif _begins_on_device(call) and place not in temporaries:
                extent = extents.setdefault(place, Extent(call.address, call.bytes))
                named = all_named.setdefault(id(extent), _Named(extent, _library_frame(call)))
                alive.add(extent.address, named)
        elif type(call) is MoveCall and not call.captured and call.what in ("copy", "fill"):
            key = (call.what == "fill", call.source, call.target, call.bytes, call.rows, call.source_pitch,
                   call.target_pitch)  # fmt: skip
            if key not in added:
                if len(added) >= _MOST_ADDED:
                    added.clear()
                added.add(key)
                _add_move(alive, call)
    return [*all_named.values()]


def _end(alive: Living[_Named], address: int) -> None:
    """An allocation ends. One that is mapped in pieces stays: it has no other bytes in its next life."""
    if (named := alive.at.get(address)) is not None and not named.extent.pieces:
        alive.remove(address)


def _add_move(alive: Living[_Named], call: MoveCall) -> None:
    target = alive.find(call.target)
    source = alive.find(call.source) if call.what == "copy" else None
    for found, address, pitch, other in (
        (target, call.target, call.target_pitch, call.source),
        (source, call.source, call.source_pitch, call.target),
    ):
        if found is None:
            continue
        named, rows = found[0], max(1, call.rows)
        nbytes = call.bytes + (rows - 1) * pitch if pitch else call.bytes * rows
        end = min(address + nbytes, named.extent.end)
        if call.what == "copy" and (target is None) != (source is None):
            named.add_host_copy(address, end, other)
        else:
            named.others.add((address, end))


def _add_launches(calls: Sequence[AnyCall], extents: Mapping[int, Extent], candidates: Mapping[int, _Named]) -> None:
    """Adds the addresses that launches name of some allocations."""
    alive, seen = Living[_Named](), set[int]()
    for place, call in enumerate(calls):
        if type(call) is BlockCall:
            if not call.begins:
                _end(alive, call.address)
                seen.clear()
            elif (extent := extents.get(place)) is not None:
                named = candidates.get(id(extent))
                if alive.at.get(extent.address) is not named:
                    alive.remove(extent.address)
                    seen.clear()
                    if named is not None:
                        alive.add(extent.address, named)
        elif type(call) is LaunchCall and call.arguments is not None and id(call.arguments) not in seen:
            seen.add(id(call.arguments))
            for word in call.arguments.words:
                if (found := alive.find(word.address)) is not None:
                    found[0].launched.add(word.address)
