"""Which array of the host and which block of the device become one memory, from a traced run, and why others do not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import msgspec

from firsttouch.advice.port.dropped import CopiesByFate, copies_by_fate
from firsttouch.advice.port.found import program_state, search
from firsttouch.advice.port.places import Places, line_of
from firsttouch.advice.port.rules.both_sides import seen_text
from firsttouch.advice.port.rules.concurrent_access import ConcurrentAccess
from firsttouch.advice.port.shadowed import shadow_run
from firsttouch.advice.port.wording import KEPT
from firsttouch.advice.tried.recorded import UNWATCHED, NotedBlock, ProcessNotes
from firsttouch.profile.calls import HostDifference
from firsttouch.profile.traced import CallerTable, CallLocation
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
    time_of,
)

Apart: TypeAlias = Literal[
    "library",
    "offsets",
    "rows",
    "batched",
    "place",
    "allocated",
    "devices",
    "graph",
    "turns",
    "shared",
    "shadow",
    "restoring",
    "kept",
    "concurrent",
    "filled",
    "late",
    "moves",
    "paired",
]
"""Why an array and a block stay apart: the first of these that holds."""
SENTENCES: Mapping[Apart, str] = {
    "library": "the block belongs to a library of the vendor",
    "offsets": "copies join other offsets: a window or a part",
    "rows": "rows are copied, with gaps between them",
    "batched": "the array or the block is copied in a batch, which is not tried",
    "place": "the host's side is no array of at least 64 KiB from malloc or page-locked memory: it is small, on the "
    "stack, static, of a mapped file, a part of a pool, or aligned to more than 4 KiB",
    "allocated": "the block is allocated by a call that is not tried, such as cudaMallocAsync or cudaMallocPitch",
    "devices": "the program uses several devices, which is not tried",
    "graph": "the copies are captured into a graph, which is not tried",
    "turns": "another array is copied into the block",
    "shared": "the array is one with another block",
    "shadow": "one side is used while the other has newer bytes",
    "restoring": "a copy brings back old bytes after a launch",
    "kept": "one side needs what the other overwrites",
    "concurrent": "the CPU writes its array while a kernel may run",
    "filled": "the block is filled before the copy of what the CPU has prepared",
    "late": "the array is allocated after a kernel that may write the block",
    "moves": "the array moves (realloc) while its block lives",
    "paired": "one of the two is in a pair that copies more bytes",
}
FROM_THE_TRACE: frozenset[Apart] = frozenset(("restoring", "kept", "concurrent"))
"""What a shadow run may show to be no reason."""
_ORDER: Sequence[Apart] = get_args(Apart)


@dataclass
class Joined:
    """An array and a block that copies join. array: None if it is not watched. copies: numbers of the steps."""

    array: NotedBlock | None
    block: NotedBlock | None
    number: int
    copies: list[int] = field(default_factory=list)
    bytes_in: int = 0
    bytes_back: int = 0
    apart: dict[Apart, str] = field(default_factory=dict)
    """Why they stay apart, each with its sentence."""
    place: CallLocation | None = None
    block_place: CallLocation | None = None

    @property
    def bytes(self) -> int:
        return self.bytes_in + self.bytes_back

    @property
    def reason(self) -> Apart | None:
        return min(self.apart, key=_ORDER.index, default=None)

    def keep(self, reason: Apart, sentence: str = "") -> None:
        self.apart.setdefault(reason, sentence or SENTENCES[reason])

    @property
    def names(self) -> tuple[str, str]:
        """The lines of the first copy between both, and of the block's allocation."""
        return line_of(self.place) if self.place else "", line_of(self.block_place) if self.block_place else ""


@dataclass
class Plan:
    """pairs: that become one; apart: that stay, of those that copies join. device: the number of the GPU. is_hip: the
    program uses HIP. within: source and target of copies on the device, None of one that is not watched. filled: blocks
    that are filled.
    """

    pairs: list[Joined] = field(default_factory=list)
    apart: list[Joined] = field(default_factory=list)
    device: int = 0
    is_hip: bool = False
    within: Collection[tuple[NotedBlock | None, NotedBlock | None]] = ()
    filled: Collection[NotedBlock] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all pairs, each of the larger of both sides."""
        return sum(max(pair.array.bytes, pair.block.bytes) for pair in self.pairs if pair.array and pair.block)

    def text(self, queries: Mapping[str, bool | None], *, by_size: bool = False) -> str:
        """The plan as the library reads it. queries: as of `ProcessNotes`. by_size: memory of the driver is known by
        its size alone.
        """

        def known(block: NotedBlock | None) -> str:
            name = UNWATCHED if block is None else (by_size and block.by_size) or block.known
            return f"{name.key} {name.ordinal}"

        lines = [f"device {self.device}", *(["hip"] if self.is_hip else []), *(["by size"] if by_size else [])]
        for pair in self.pairs:
            assert pair.array is not None
            assert pair.block is not None
            host, block = pair.array, pair.block
            sides = f"{known(host)} {host.bytes} {known(block)} {block.bytes}"
            lines.append(f"pair {sides} {int(pair.bytes_in > 0)} {int(pair.bytes_back > 0)}")
        for joined in self.apart:
            for way, copied in ((0, joined.bytes_in), (1, joined.bytes_back)):
                if copied:
                    lines.append(f"copy {way} {known(joined.array)} {known(joined.block)}")
        arrays = {id(joined.array): joined.array for joined in (*self.pairs, *self.apart) if joined.array}
        lines += [f"array {known(array)} {array.bytes}" for array in arrays.values()]
        lines += [f"block {size}" for size in sorted({joined.block.bytes for joined in self.apart if joined.block})]
        lines += [f"within {known(source)} {known(target)}" for source, target in self.within]
        lines += [f"fill {known(block)}" for block in self.filled]
        lines += [f"query {int(is_block)} {key}" for key, is_block in queries.items() if is_block is not None]
        return "\n".join(lines) + "\n"


def plan_of(run: TracedRun, names: CallerTable, notes: ProcessNotes, *, watched: bool = False) -> Plan:
    """notes: what the library noted in the same run. watched: whether the host's memory was watched (--host)."""
    if run.differences is not None:
        alive = [difference for difference in run.differences if _is_of_its_array(difference, notes)]
        run = msgspec.structs.replace(run, differences=tuple(alive))
    state = program_state(run, names, watched=watched)
    rows, _ = search(state)
    fates = copies_by_fate(run, state.all_partners, {repeat.copy for repeat in state.repeated.restoring()})
    found = _NotedRun(run, state.places, notes)
    joined = [*found.joined.values()]
    _keep_by_shape(run, joined, found.launched)
    _keep_by_shadow(run, joined, state.places)
    _keep_by_fate(run, joined, fates)
    concurrent = {block for row in rows if row.rule is ConcurrentAccess and row.to_fix for block in row.blocks}
    filled = {run.steps[row.copy].device.block for row in fates.fills}  # type: ignore[union-attr]
    for each in joined:
        if each.number in concurrent:
            each.keep("concurrent")
        if each.number in filled:
            each.keep("filled")
    return replace(_chosen(joined, run), within=found.within.values(), filled=found.filled.values())


def _is_of_its_array(difference: HostDifference, notes: ProcessNotes) -> bool:
    """Whether the array was not given back before: what has its place may be other data."""
    noted = [array for array in notes.arrays if 0 <= difference.address - array.address < array.bytes]
    copied = [array for array in noted if array.begin <= difference.copied]
    last = max(copied, key=lambda array: array.begin, default=None)
    return difference.kind == "ended" or last is None or last.end is None or difference.since <= last.end


class _Alive:
    """The arrays of the host that are alive, as time goes on."""

    def __init__(self, arrays: Sequence[NotedBlock]) -> None:
        changes = [(array.begin, 1, number) for number, array in enumerate(arrays)]
        changes += [(array.end, 0, number) for number, array in enumerate(arrays) if array.end is not None]
        self._arrays, self._changes, self._next = arrays, sorted(changes), 0
        self._alive: list[tuple[int, int]] = []

    def at(self, t: float, address: int) -> NotedBlock | None:
        while self._next < len(self._changes) and self._changes[self._next][0] <= t:
            _, begins, number = self._changes[self._next]
            entry = self._arrays[number].address, number
            if begins:
                insort(self._alive, entry)
            elif entry in self._alive:
                self._alive.remove(entry)
            self._next += 1
        place = bisect_right(self._alive, (address, len(self._arrays))) - 1
        if place < 0:
            return None
        array = self._arrays[self._alive[place][1]]
        return array if address < array.address + array.bytes else None


def _allocated_at(blocks: Sequence[NotedBlock], t: float, *, is_hip: bool) -> NotedBlock | None:
    """The block of an address whose allocation is traced at the time `t`. Of CUDA the trace notes the time before the
    library does, within the call of the driver; of HIP after it, around that. Neither comes after the next allocation.
    """
    find = bisect_right if is_hip else bisect_left
    place = find(blocks, t, key=lambda block: block.begin) - is_hip
    return blocks[place] if 0 <= place < len(blocks) else None


class _NotedRun:
    """What a traced run has of noted arrays and blocks. joined: what copies join. launched: when a launch may first
    have written each block, within, filled: as of `Plan`; all by the identity of the notes.
    """

    def __init__(self, run: TracedRun, places: Places, notes: ProcessNotes) -> None:
        self.joined: dict[tuple[int, int, int], Joined] = {}
        self.launched: dict[int, float] = {}
        self.within: dict[tuple[int, int], tuple[NotedBlock | None, NotedBlock | None]] = {}
        self.filled: dict[int, NotedBlock] = {}
        self._run, self._places = run, places
        self._noted: defaultdict[int, list[NotedBlock]] = defaultdict(list)
        for block in notes.blocks:
            self._noted[block.address].append(block)
        self._arrays = _Alive(notes.arrays)
        self._now: dict[int, NotedBlock | None] = {}
        self._sites: dict[int, CallLocation] = {}
        for number, step in enumerate(run.steps):
            if type(step) is TracedAllocation and step.begins:
                self._allocated(step)
            elif type(step) is TracedLaunch:
                for use in step.uses:
                    if use.may_write and (written := self._now.get(use.block)) is not None:
                        self.launched.setdefault(id(written), step.call.t)
            elif type(step) is TracedFill:
                if filled := self._now.get(step.target.block):
                    self.filled[id(filled)] = filled
            elif type(step) is TracedCopy and step.way == "d2d":
                source, target = self._now.get(step.source.block), self._now.get(step.target.block)
                self.within[id(source), id(target)] = source, target
            elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
                self._copied(number, step)

    def _allocated(self, step: TracedAllocation) -> None:
        traced = self._run.blocks[step.block]
        known = self._noted.get(step.call.address) if traced.kind == "device" else None
        is_whole = known and not step.offset and traced.in_pool == ""
        is_hip = "HIP" in self._run.apis
        self._now[step.block] = _allocated_at(known, step.call.t, is_hip=is_hip) if known and is_whole else None
        self._sites[step.block] = self._places.in_program(step.call.site)

    def _copied(self, number: int, step: TracedCopy) -> None:
        traced_block = step.device.block
        address = step.call.source if step.way == "h2d" else step.call.target
        array = self._arrays.at(time_of(step), address)
        block = self._now.get(traced_block)
        key = id(array) if array else 0, id(block) if block else 0, traced_block
        each = self.joined.setdefault(key, Joined(array, block, traced_block))
        if each.place is None:
            each.place, each.block_place = self._places.in_program(step.call.site), self._sites.get(traced_block)
        each.copies.append(number)
        if step.way == "h2d":
            each.bytes_in += step.device.total
        else:
            each.bytes_back += step.device.total
        if array is not None and address - array.address != step.device.start:
            each.keep("offsets")


def _keep_by_shape(run: TracedRun, joined: Sequence[Joined], launched: Mapping[int, float]) -> None:
    several = len({block.device for block in run.blocks if not block.on_host}) > 1
    into: defaultdict[int, set[int]] = defaultdict(set)
    for each in joined:
        if each.bytes_in:
            into[id(each.block)].add(id(each.array))
    for each in joined:
        traced = run.blocks[each.number]
        copies = [step for number in each.copies if isinstance(step := run.steps[number], TracedCopy)]
        if several:
            each.keep("devices")
        if any(copy.device.rows > 1 or copy.host.rows > 1 for copy in copies):
            each.keep("rows")
        if any(copy.call.captured or copy.call.graph for copy in copies):
            each.keep("graph")
        if traced.is_of_vendor:
            each.keep("library")
        if (each.array and each.array.batched) or (each.block and each.block.batched):
            each.keep("batched")
        if each.block is None:
            each.keep("allocated")
        if each.array is None:
            each.keep("place")
        if each.block is None or each.array is None:
            continue
        if into[id(each.block)] - {id(each.array)}:
            each.keep("turns")
        if launched.get(id(each.block), each.array.begin) < each.array.begin:
            each.keep("late")
        if each.array.moved and (each.block.end is None or (each.array.end or 0.0) < each.block.end):
            each.keep("moves")


def _keep_by_shadow(run: TracedRun, joined: Sequence[Joined], places: Places) -> None:
    shadow = run.once(shadow_run)
    by_copy = {number: each for each in joined for number in each.copies}
    for seen in shadow.found if shadow is not None else ():
        if (each := by_copy.get(seen.copy)) is not None and seen.hazard != "restored":
            each.keep("shadow", seen_text(seen, places))


def _keep_by_fate(run: TracedRun, joined: Sequence[Joined], fates: CopiesByFate) -> None:
    restoring, shared, kept = set(fates.restoring), set(fates.shared), set(fates.kept)
    known = restoring | shared | kept | set(fates.dropped)
    for each in joined:
        for number in each.copies:
            if number in restoring:
                each.keep("restoring")
            elif number in shared:
                each.keep("shared")
            elif number in kept:
                reason = fates.reasons.get(number)
                words = KEPT[reason] if reason else None
                unless = f", unless {words.unless}" if words and words.unless else ""
                each.keep("kept", f"{words.text}{unless}" if words and words.text else "")
            elif number not in known:
                each.keep("place")


def _chosen(joined: Sequence[Joined], run: TracedRun) -> Plan:
    """Pairs by most bytes, so that each array and each block is in one."""
    device = next((block.device for block in run.blocks if not block.on_host), 0)
    plan = Plan(device=device, is_hip="HIP" in run.apis)
    taken: set[int] = set()
    for each in sorted(joined, key=lambda each: -each.bytes):
        if not each.apart and not {id(each.array), id(each.block)} & taken:
            taken |= {id(each.array), id(each.block)}
            plan.pairs.append(each)
            continue
        if not each.apart:
            each.keep("paired")
        plan.apart.append(each)
    return plan
