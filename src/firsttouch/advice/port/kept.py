"""Which host arrays have to stay beside the buffer that copies join them with: as one, one side would lose what the
other still needs.

One array has what was written last, by either side. That is right as long as nobody uses the other side's older bytes:
the CPU what it had before kernels wrote the buffer, or kernels what was copied before the CPU wrote the host array.
What the CPU does between two copies of an array is known only as a whole, not before or after which launch, and a page
that it wrote it may have read before. It is taken to read what was copied back before the next kernel may write it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, get_args

from firsttouch.advice.port.port_findings import KeptBecause
from firsttouch.advice.port.shadowed import shadow_run
from firsttouch.advice.port.used_parts import UsedParts
from firsttouch.profile.calls import HostPlace, HostUse
from firsttouch.profile.recorded import CallSite
from firsttouch.program.partners import JoinedBytes, Partners, joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    NO_BLOCK,
    CopyWay,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
    beside_launches,
)
from firsttouch.program.watched import PAGE_BYTES, HostHistory

Key: TypeAlias = tuple[int, int]
"""A block and its life."""
CopyCall: TypeAlias = tuple[int, CopyWay, int]
"""A call that copies, by the number of its site, the direction and the block."""
_MOST_KNOWN = 4096
"""The most copies that are kept to be recognized, so that those which never recur take little memory."""
DOUBTS: frozenset[KeptBecause] = frozenset(("late", "unseen", "reset", "turns"))
"""What is not seen of host arrays that do not stay."""
_OF_THE_CPU: frozenset[KeptBecause] = frozenset(
    ("written", "changed", "read", "restores", "result", "rewritten", "late", "unseen", "reset")
)
"""What a shadow run tells surely."""
_STRENGTH: Mapping[KeptBecause, int] = {reason: -number for number, reason in enumerate(get_args(KeptBecause))}


def strongest(reasons: Iterable[KeptBecause]) -> KeptBecause | None:
    return max(reasons, key=_STRENGTH.__getitem__, default=None)


class CopySites:
    """Tells the calls of copies apart."""

    def __init__(self) -> None:
        self._numbers: dict[CallSite, int] = {}
        self._by_identity: dict[int, int] = {}  # since it takes long to compare them

    def of(self, copy: TracedCopy) -> CopyCall:
        site = copy.call.site
        if (number := self._by_identity.get(id(site))) is None:
            number = self._by_identity[id(site)] = self._numbers.setdefault(site, len(self._numbers))
        return number, copy.way, copy.device.block


class FilledBefore(NamedTuple):
    """A fill before a copy to the same buffer, by their steps. is_whole: copies overwrite all of it before its use."""

    fill: int
    copy: int
    is_whole: bool


@dataclass
class KeptArrays:
    """reasons: by the calls of copies, the strongest why these and their host array stay, or what is not seen of those
    that do not. fills: those that would destroy what the CPU has prepared for a copy that is dropped.
    """

    reasons: dict[CopyCall, KeptBecause] = field(default_factory=dict)
    fills: list[FilledBefore] = field(default_factory=list)

    def keeps(self, call: CopyCall) -> bool:
        return self.reasons.get(call, "unseen") not in DOUBTS


def kept_arrays(run: TracedRun, partners: Partners, sites: CopySites, apart: Iterable[CopyCall]) -> KeptArrays:
    """apart: calls whose copies stay anyway. Where an array stays, another block may be the one that is joined with it,
    so that one look is not enough.
    """
    kept, apart = KeptArrays(), set(apart)
    if (shadow := run.once(shadow_run)) is not None:
        for seen in shadow.found:
            if seen.hazard != "restored" and isinstance(copy := run.steps[seen.copy], TracedCopy):
                reason: KeptBecause = "differs" if seen.is_certain else "read" if seen.hazard == "read" else "rewritten"
                kept.reasons.setdefault(sites.of(copy), reason)
    while True:
        look = _Look(run, partners, sites, kept, apart)
        look.go()
        kept.reasons.update(look.found)
        if not look.found:
            kept.fills = look.fills
            kept.reasons = look.doubts | kept.reasons
            return kept


class _Side(NamedTuple):
    """The host's side of bytes that a block is joined with, since they were copied last. copy: the number of the step.

    written: why they are not the device's any more: the CPU wrote them, or a copy from another block did. is_late: it
    did so perhaps only after the last kernel that uses them. is_unordered: perhaps before a kernel that may write the
    device's side, or after it. over: whether the device had written and used its side,
    when that ended or got other bytes.
    """

    copy: int
    way: CopyWay
    call: CopyCall
    written: KeptBecause | None = None
    is_late: bool = False
    is_unordered: bool = False
    over: tuple[bool, bool] | None = None


class _KnownCopy(NamedTuple):
    """What is the same of copies that are alike. host: the host's sides of its parts. stays: both sides stay."""

    key: Key
    call: CopyCall
    parts: Sequence[JoinedBytes]
    host: Sequence[tuple[int, int]]
    stays: bool


class _Look:
    """One look at all steps, with what is known to stay."""

    def __init__(
        self, run: TracedRun, partners: Partners, sites: CopySites, kept: KeptArrays, apart: set[CopyCall]
    ) -> None:
        self._run, self._partners, self._sites, self._kept, self._apart = run, partners, sites, kept, apart
        self._is_watched = any(type(step) is HostUse for _, step in run.once(beside_launches))
        self._history = HostHistory()
        self._life: dict[int, int] = {}
        self._windows = {
            (block, life) for block, lives in enumerate(partners) for life, joint in enumerate(lives) if joint.window
        }
        self._alive: set[Key] = set()
        self._sides: defaultdict[Key, RangeMap[_Side]] = defaultdict(RangeMap)
        self._hosts: defaultdict[Key, RangeMap[int]] = defaultdict(RangeMap)
        """How far the host's bytes are that a block's bytes came from."""
        self._keys: RangeMap[frozenset[Key]] = RangeMap()
        """The blocks that the host's bytes are joined with."""
        self._owners: RangeMap[tuple[Key, CopyCall]] = RangeMap()
        self._written: dict[Key, int] = {}
        """The last step that may have written a block, and likewise the one that used it."""
        self._used_parts = run.once(UsedParts)
        self._written_parts: defaultdict[Key, Ranges] = defaultdict(Ranges)
        """What may have been written of a block: by a launch, up to where the next part begins that launches of the
        same kernel name.
        """
        self._used: dict[Key, int] = {}
        self._any = -1
        """The last launch of which it is not known what it uses."""
        self._changed: defaultdict[int, Ranges] = defaultdict(Ranges)
        """Of each block, the bytes of its host's side that were written since the device used it, or more."""
        self._fills: defaultdict[int, list[tuple[int, Ranges, list[int]]]] = defaultdict(list)
        """Of each block, the fills since it was used: their steps, what copies have not overwritten, and these copies.
        """
        self._came_back: defaultdict[Key, set[CopyCall]] = defaultdict(set)
        """Copies to host arrays that take turns, since the block got other bytes."""
        self._ranges: defaultdict[Key, dict[CopyCall, Ranges]] = defaultdict(dict)
        self._known: dict[tuple[int, int, int, HostPlace], _KnownCopy] = {}
        """Copies by what makes them alike."""
        shadow = run.once(shadow_run)
        self._looked = shadow.looked if shadow is not None else set[int]()
        """The blocks of which a shadow run tells what the CPU does."""
        self.found: dict[CopyCall, KeptBecause] = {}
        self.doubts: dict[CopyCall, KeptBecause] = {}
        self.fills: list[FilledBefore] = []

    def go(self) -> None:
        uses: object = None
        for number, step in enumerate(self._run.steps):
            if type(step) is TracedLaunch:
                if not step.call.captured and step.uses is not uses:
                    self._launch(number, step)
                    uses = step.uses if step.call.arguments is not None else None
                continue
            uses = None
            if type(step) is TracedCopy:
                self._copy(number, step)
            elif type(step) is TracedFill:
                filled = Ranges()
                for start, end in step.target.pieces:
                    filled.add(start, end)
                self._fills[step.target.block].append((number, filled, []))
            elif type(step) is TracedAllocation:
                self._allocation(step)
            elif type(step) is HostUse:
                self._host_use(step)
                self._history.watched(step)
        for block in [*self._fills]:
            self._end_fills(block)
        for key, sides in self._sides.items():
            for start, end, side in sides:
                self._end(key, start, end, side)
        self._spread()

    def _is_told(self, call: CopyCall, reason: KeptBecause) -> bool:
        return reason in _OF_THE_CPU and call[2] in self._looked

    def _keep(self, call: CopyCall, reason: KeptBecause) -> None:
        if self._is_told(call, reason) or call in self._apart or self._kept.keeps(call):
            return
        self.found[call] = max(reason, self.found.get(call, reason), key=_STRENGTH.__getitem__)

    def _doubt(self, call: CopyCall, reason: KeptBecause) -> None:
        if call not in self._apart and not self._is_told(call, reason):
            self.doubts[call] = max(reason, self.doubts.get(call, reason), key=_STRENGTH.__getitem__)

    def _spread(self) -> None:
        """All copies stay between a block and a host array that stays."""
        reasons = self._kept.reasons | self.found
        for ranges in self._ranges.values():
            for call, host in ranges.items():
                if (reason := reasons.get(call)) is not None:
                    for other, others in ranges.items():
                        stays = other in reasons or other in self._apart
                        if not stays and any(others.overlaps(start, end) for start, end in host):
                            self.found[other] = reason

    # ------------------------------------------------------------------------------------------------ the device

    def _key(self, block: int) -> Key:
        return block, self._life.get(block, 0)

    def _allocation(self, step: TracedAllocation) -> None:
        block = step.block
        if step.begins:
            self._life[block] = self._life.get(block, -1) + 1
            self._alive.add(self._key(block))
            return
        key = self._key(block)
        self._alive.discard(key)
        self._end_fills(block)
        self._changed.pop(block, None)
        for start, end, side in [*self._sides[key]]:
            self._leave(key, start, end, side)

    def _launch(self, number: int, step: TracedLaunch) -> None:
        if step.call.arguments is None:
            self._any = number
            for block in [*self._changed, *self._fills]:
                self._use(number, block)
        for use in step.uses:
            block = use.block
            key = block, self._life.get(block, 0)
            self._used[key] = number
            for call in self._came_back.pop(key, ()) if self._came_back else ():
                self._doubt(call, "turns")
            if block in self._changed or block in self._fills:
                self._use(number, block)
            if use.may_write:
                self._write(key, number, step.kernel, use.start)

    def _write(self, key: Key, number: int, kernel: str, start: int) -> None:
        """A launch may write the part of a block that begins at `start`."""
        self._written[key] = number
        end = self._used_parts.end(key[0], start, kernel)
        if start < end:
            self._written_parts[key].add(start, end)

    def _use(self, number: int, block: int) -> None:
        """The device uses a block, of which the host's side may have been written."""
        key = self._key(block)
        self._used[key] = number
        if block in self._fills:
            self._end_fills(block)
        for changed in self._changed.pop(block, ()):
            for start, end, side in self._sides[key].overlapping(*changed):
                if side.over is None and side.written is not None:
                    self._lose(side)
                    self._sides[key].assign(start, end, side._replace(written=None, is_late=False, is_unordered=False))

    def _lose(self, side: _Side) -> None:
        """The device uses bytes that the host's side does not have any more."""
        assert side.written is not None
        reason: KeptBecause = "interleaved" if side.is_unordered else side.written
        self._keep(side.call, reason if side.way == "h2d" else "changed")

    def _is_stale(self, key: Key, side: _Side) -> bool:
        """Whether the device may have written its side since the copy."""
        return side.over[0] if side.over else self._writer(key) > side.copy

    def _writer(self, key: Key) -> int:
        """The last step that may have written a block; -1 if there is none."""
        return max(self._written.get(key, -1), self._any)

    def _is_unordered(self, key: Key, side: _Side, use: HostUse) -> bool:
        """Whether the device may have written its side since the copy, and the watch does not tell if the CPU wrote
        before that or after.
        """
        if side.written == "written":
            return side.is_unordered
        writer = self._writer(key)
        return side.way == "h2d" and writer > side.copy and self._run.steps[writer].call.t > use.since  # type: ignore[union-attr]

    def _is_used(self, key: Key, side: _Side) -> bool:
        return side.over[1] if side.over else max(self._used.get(key, -1), self._any) > side.copy

    def _leave(self, key: Key, start: int, end: int, side: _Side) -> None:
        """The device's side ends, or gets other bytes. The CPU may still use the host's side."""
        if side.over is None:
            over = self._is_stale(key, side), self._is_used(key, side)
            self._sides[key].assign(start, end, side._replace(over=over))

    def _end_fills(self, block: int) -> None:
        """A block is used or ends, after fills and copies to it."""
        for number, left, copies in self._fills.pop(block, ()):
            if copies:
                self.fills.append(FilledBefore(number, copies[0], is_whole=not left))
            else:
                self._write_all(self._key(block), number)

    def _write_all(self, key: Key, number: int) -> None:
        self._written[key] = number
        self._written_parts[key].add(0, self._run.blocks[key[0]].nbytes)

    # ------------------------------------------------------------------------------------------------ copies

    def _copy(self, number: int, copy: TracedCopy) -> None:
        if copy.way == "d2d":
            self._use(number, copy.source.block)
            self._end_fills(copy.target.block)
            self._write_all(self._key(copy.target.block), number)
        elif copy.way != "h2h" and copy.device.block != NO_BLOCK:
            self._copy_between(number, copy)
            if self._is_watched:
                self._history.copied(copy, number)

    def _copy_between(self, number: int, copy: TracedCopy) -> None:
        # Sides of copies that are the same object are so in the same lives of their blocks.
        alike = id(copy.source), id(copy.target), id(copy.call.site), copy.call.host
        if (known := self._known.get(alike)) is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[alike] = self._new_copy(copy)
        key, call, parts, host, stays = known
        if stays or (not self._is_window(key) and self._is_owned_by_another(key, host)):
            self._copy_apart(number, copy, host, is_restoring=call in self._apart)
        elif copy.way == "d2h":
            if self._is_window(key):
                self._came_back[key].add(call)
            self._copy_back(number, key, call, host)
        else:
            self._copy_in(number, key, call, parts)

    def _new_copy(self, copy: TracedCopy) -> _KnownCopy:
        block, call, parts = copy.device.block, self._sites.of(copy), joined(copy)
        host = [(part.host, part.host + part.end - part.start) for part in parts]
        key = self._key(block)
        is_pair = may_pair(self._run.blocks[block], copy)
        if is_pair:
            ranges = self._ranges[key].setdefault(call, Ranges())
            for start, end in host:
                ranges.add(start, end)
        return _KnownCopy(key, call, parts, host, not is_pair or call in self._apart or self._kept.keeps(call))

    def _copy_apart(
        self, number: int, copy: TracedCopy, host: Sequence[tuple[int, int]], *, is_restoring: bool
    ) -> None:
        """The copy stays. Its host side may be one with another block; not with its own, if it is_restoring."""
        block = copy.device.block
        if copy.way == "d2h":
            self._use(number, block)
            self._overwrite(host)
            return
        for start, end in host:
            for key, _, _, side in self._joined_with(start, end):
                if (
                    not (is_restoring and key[0] == block)
                    and side.over is None
                    and side.written is None
                    and self._is_stale(key, side)
                ):
                    self._keep(side.call, "read")
        self._end_fills(block)
        self._write_all(self._key(block), number)

    def _copy_back(self, number: int, key: Key, call: CopyCall, host: Sequence[tuple[int, int]]) -> None:
        for start, end in host:
            for _, _, side in self._sides[key].overlapping(start, end):
                if side.over is None and side.written is not None:
                    self._lose(side)
        self._use(number, key[0])
        self._overwrite(host, key)
        for start, end in host:
            self._join(start, end, key, _Side(number, "d2h", call))

    def _copy_in(self, number: int, key: Key, call: CopyCall, parts: Sequence[JoinedBytes]) -> None:
        sides, hosts, is_window = self._sides[key], self._hosts[key], self._is_window(key)
        self._came_back.pop(key, None)
        for start, end, address in parts:
            last = address + end - start
            for _, left, copies in self._fills.get(key[0], ()):
                if left.overlaps(start, end):
                    left.remove(start, end)
                    copies.append(number)
            others = [(a, b, shift) for a, b, shift in hosts.overlapping(start, end) if shift != address - start]
            known = sides.overlapping(address, last)
            if not known and not is_window and (others or self._written_parts[key].overlaps(start, end)):
                self._keep(call, "prepared")
            if any(side.written == "written" and self._is_stale(key, side) for _, _, side in known):
                self._restore_part(call, address, last)
            for a, b, shift in others:
                for first, end_, side in [*sides.overlapping(max(a, start) + shift, min(b, end) + shift)]:
                    self._leave(key, first, end_, side)
            hosts.assign(start, end, address - start)
            self._join(address, last, key, _Side(number, "h2d", call))

    def _restore_part(self, call: CopyCall, start: int, end: int) -> None:
        """The CPU wrote some of the bytes since they were copied last, but others come back as they were."""
        known = self._history.since(start, end)
        old = sum(b - a for a, b, since in known if since.writes == "told" and since.unwritten is not None)
        if PAGE_BYTES <= old < end - start:
            self._keep(call, "restores")

    def _join(self, start: int, end: int, key: Key, side: _Side) -> None:
        sides = self._sides[key]
        if self._is_watched:
            for first, last, before in sides.overlapping(start, end):
                self._end(key, max(first, start), min(last, end), before._replace(is_late=False))
        sides.assign(start, end, side)
        if not self._is_window(key):
            self._owners.assign(start, end, (key, side.call))
        if key in (self._keys.exactly(start, end) or ()):
            return
        only = frozenset({key})

        def with_key(first: int, last: int, keys: frozenset[Key] | None) -> frozenset[Key]:
            if not keys or key in keys:
                return keys or only
            return only.union(other for other in keys if self._matters(other, first, last))

        self._keys.change(start, end, with_key)

    def _matters(self, key: Key, start: int, end: int) -> bool:
        """Whether something may still be found of bytes that a block is joined with."""
        return key in self._alive and any(
            side.call not in self.found for _, _, side in self._sides[key].overlapping(start, end)
        )

    def _is_window(self, key: Key) -> bool:
        return key in self._windows

    def _is_owned_by_another(self, key: Key, host: Iterable[tuple[int, int]]) -> bool:
        return any(
            owner != key and owner in self._alive and call not in self.found
            for start, end in host
            for _, _, (owner, call) in self._owners.overlapping(start, end)
        )

    def _joined_with(self, start: int, end: int, but: Key | None = None) -> Iterator[tuple[Key, int, int, _Side]]:
        """What blocks are joined with the host's bytes, and since when."""
        for first, last, keys in self._keys.overlapping(start, end):
            for key in keys if but is None else keys - {but}:
                for a, b, side in self._sides[key].overlapping(max(first, start), min(last, end)):
                    yield key, max(a, first, start), min(b, last, end), side

    def _overwrite(self, host: Iterable[tuple[int, int]], by: Key | None = None) -> None:
        """A copy writes the host's bytes, with which other blocks than `by` may be one."""
        for start, end in host:
            for key, first, last, side in [*self._joined_with(start, end, by)]:
                if side.over is None:
                    self._sides[key].assign(
                        first, last, side._replace(written="overwritten", is_late=False, is_unordered=False)
                    )
                    self._changed[key[0]].add(first, last)

    # ------------------------------------------------------------------------------------------------ the CPU

    def _host_use(self, use: HostUse) -> None:
        read, sides = use.read or 0, [*self._joined_with(use.address, use.address + use.bytes)]
        sizes = Counter[Key]()
        for key, start, end, _ in sides:
            sizes[key] += end - start
        for key, start, end, side in sides:
            pages, is_sure = _written_pages(use, start, end)
            if side.way == "h2d" and self._is_stale(key, side):
                # It may be the bytes of others that were read, and the first page and the last one hold other data too.
                if read > use.bytes - sizes[key] + 2 * PAGE_BYTES:
                    self._keep(side.call, "read")
                elif pages and is_sure:
                    self._keep(side.call, "result" if self._is_result_elsewhere(key, side) else "rewritten")
                elif read or pages:
                    self._doubt(side.call, "unseen")
            if not (pages and is_sure):
                continue
            is_late = side.way == "h2d" and self._is_used(key, side)
            if side.over is not None:
                if is_late:
                    self._doubt(side.call, "late")
                continue
            written = side._replace(written="written", is_late=is_late, is_unordered=self._is_unordered(key, side, use))
            for first, last in pages:
                self._sides[key].assign(first, last, written)
                self._changed[key[0]].add(first, last)

    def _is_result_elsewhere(self, key: Key, side: _Side) -> bool:
        """Whether the device's side of bytes that were copied to it came back to another host array since."""
        later = {other.copy for _, _, other in self._sides[key] if other.way == "d2h" and other.copy > side.copy}
        return any(
            max(start, first) < min(end, last) and host - start != address - first
            for number in later
            for start, end, host in self._parts(number)
            for first, last, address in self._parts(side.copy)
        )

    def _parts(self, number: int) -> list[JoinedBytes]:
        copy = self._run.steps[number]
        return [*joined(copy)] if type(copy) is TracedCopy else []

    def _end(self, key: Key, start: int, end: int, side: _Side) -> None:
        """Bytes are copied again, or the program ends."""
        if side.way != "h2d":
            return
        if side.is_late:
            self._doubt(side.call, "late")
        if self._is_watched and self._is_stale(key, side):
            known = self._history.since(start, end)
            if sum(b - a for a, b, since in known if since.reads != "told" and not since.used) >= PAGE_BYTES:
                self._doubt(side.call, "unseen")


def _written_pages(use: HostUse, start: int, end: int) -> tuple[list[tuple[int, int]], bool]:
    """What the CPU wrote of bytes, by whole pages of theirs; and whether there are such pages. If not, a page that it
    wrote holds other data too.
    """
    first, last = -(-start // PAGE_BYTES) * PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES
    is_sure = first < last
    if not is_sure:
        first, last = start, end
    pieces = ((max(a, first), min(b, last)) for a, b in use.writes)
    return [(a, b) for a, b in pieces if a < b], is_sure
