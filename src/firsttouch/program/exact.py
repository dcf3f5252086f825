"""Which bytes the kernels of a traced program use: from a second run under the Sanitizer API, matched with the first.

Launches are matched by their order; their kernels, grids and blocks of threads must be the same, and so must the sizes
of the allocations and copies before each. From the first that differs on, nothing is exact. Blocks are matched by their
kind, size and order, since their addresses may differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from firsttouch.profile.calls import Arguments, LaunchShape
from firsttouch.profile.exact import ExactBlock, ExactCalls, ExactLaunch, ExactMove
from firsttouch.profile.recorded import MemoryKind
from firsttouch.program.exact_run import ExactRun, UsedBlock, UsedPiece
from firsttouch.program.trace import (
    STATIC_KINDS,
    TracedAllocation,
    TracedCopy,
    TracedLaunch,
    TracedMapping,
    TracedRun,
    TracedUse,
)

MOST_PIECES = 64
"""If a launch uses a block in more pieces, the nearest are joined: the driver moves some of such bytes together anyway.
"""
_KINDS: Mapping[MemoryKind, str] = {
    "device": "device", "managed": "managed", "pinned": "pinned", "device_static": "static", "managed_static": "static"
}  # fmt: skip
_Event: TypeAlias = tuple[str, int]
"""An allocation or a copy: its kind and its bytes."""
_Instance: TypeAlias = tuple[str, int, int]
"""An allocation: kind, bytes, and its place among those alike."""


def told(run: TracedRun, exact: ExactRun) -> TracedRun:
    """The run with launches that name only the blocks that they used, from the first used byte on, and whether they
    wrote.
    """
    equal_uses: dict[tuple[TracedUse, ...], tuple[TracedUse, ...]] = {}

    def used(step: TracedLaunch, blocks: tuple[UsedBlock, ...]) -> TracedLaunch:
        named = {use.block: use for use in step.uses}
        uses = tuple(
            replace(
                named.get(block.block, TracedUse(block.block, 0, "pointer")),
                start=block.pieces[0].start,
                may_write=any(piece.writes for piece in block.pieces),
            )
            for block in blocks
            if block.pieces
        )
        return replace(step, uses=equal_uses.setdefault(uses, uses))

    steps = list(run.steps)
    for number, blocks in exact.uses.items():
        if isinstance(step := steps[number], TracedLaunch):
            steps[number] = used(step, blocks)
    return replace(run, steps=steps, exact=exact)


class _Place(msgspec.Struct, gc=False):
    """A launch, and the allocations and copies since the last one."""

    step: int
    kernel: str
    shape: LaunchShape | None
    before: list[_Event]
    launch: TracedLaunch


def match(run: TracedRun, processes: Sequence[ExactCalls]) -> ExactRun | None:
    """What the launches of a process use, from that process of the second run which did the same for the longest. None
    if there was no second run.
    """
    if not processes:
        return None
    first = list(_places(run))
    matched = [_Match(run, first, calls).run() for calls in processes]
    return max(matched, key=lambda each: (each.matched, each.recorded))


def _places(run: TracedRun) -> Iterator[_Place]:
    before: list[_Event] = []
    for number, step in enumerate(run.steps):
        if isinstance(step, TracedAllocation):
            if _is_whole(step) and (kind := _KINDS.get(step.call.kind)) in ("device", "managed"):
                before.append((kind, step.call.bytes))
        elif isinstance(step, TracedMapping):
            if step.call.begins and not step.offset:
                before.append(("device", step.call.bytes))
        elif isinstance(step, TracedCopy):
            if step.way in ("h2d", "d2h") and not step.call.captured:
                before.append((step.way, step.device.total))
        elif isinstance(step, TracedLaunch) and not step.call.captured:
            shape = None if step.call.graph else run.shapes.get(step.call.correlation)
            yield _Place(number, step.kernel, shape, before, step)
            before = []


def _is_whole(step: TracedAllocation) -> bool:
    """Whether an allocation begins, of which others may be parts; not a range that is mapped in pieces."""
    return step.begins and not step.offset and step.change > 0


class _Match:
    """Goes through both runs once."""

    def __init__(self, run: TracedRun, first: Sequence[_Place], calls: ExactCalls) -> None:
        self._run, self._first_launches, self._calls = run, first, calls
        self._blocks = _instances(run)
        lost = [f"{calls.left_out:,} records of the second run had no room in its journal"] if calls.left_out else []
        self._exact = ExactRun(len(first), notices=tuple(dict.fromkeys([*calls.notices, *lost])))
        self._recorded: dict[object, list[tuple[UsedBlock, ...]]] = defaultdict(list)
        self._numbers: dict[Arguments | None, int] = {}
        self._number_by_identity: dict[int, int] = {}
        """The numbers of arguments by their identity, as equal ones are mostly the same object."""
        self._not_recorded: list[tuple[int, object, bool]] = []
        """Launches that were not looked at, what they have in common with others, and whether a graph made them."""

    def run(self) -> ExactRun:
        exact, counts = self._exact, Counter[tuple[str, int]]()
        alive: dict[int, _Instance] = {}
        before: list[_Event] = []
        for step in self._calls.steps:
            if isinstance(step, ExactBlock):
                if not step.begins:
                    alive.pop(step.address, None)
                    continue
                alive[step.address] = (step.kind, step.bytes, counts[step.kind, step.bytes])
                counts[step.kind, step.bytes] += 1
                before.append((step.kind, step.bytes))
            elif isinstance(step, ExactMove):
                before.append((step.way, step.bytes))
            elif exact.matched == len(self._first_launches):
                exact.ended = f"the second run went on after the {exact.matched} launches of the first"
                break
            elif difference := self._difference(self._first_launches[exact.matched], step, before):
                exact.ended = (
                    f"the second run differs from launch {exact.matched + 1} of {exact.launches} on: {difference}"
                )
                break
            else:
                self._add(self._first_launches[exact.matched], step, alive)
                exact.matched, before = exact.matched + 1, []
        if not exact.ended and exact.matched < exact.launches:
            exact.ended = f"the second run ended after {exact.matched} of {exact.launches} launches"
        self._fill_in_alike()
        return exact

    def _difference(self, first: _Place, second: ExactLaunch, before: Sequence[_Event]) -> str:
        """How a launch differs from that of the first run, or ''. CUDA's own allocations may lie between."""
        if first.kernel and first.kernel != second.kernel:
            return f"it launched {second.kernel}, the first run {first.kernel}"
        if first.shape is not None and first.shape != (second.grid, second.block):
            return f"the grid of {second.kernel} is {second.grid} of {second.block} threads"
        rest = iter(before)
        missing = next((event for event in first.before if event not in rest), None)
        if missing is None:
            return ""
        event_words = "a copy" if missing[0] in ("h2d", "d2h") else "an allocation"
        return f"{event_words} of {missing[1]} bytes is not there before {second.kernel}"

    def _add(self, place: _Place, launch: ExactLaunch, alive: Mapping[int, _Instance]) -> None:
        self._exact.outside += launch.outside
        common = (launch.kernel, launch.grid, launch.block, self._number(place.launch.call.arguments))
        if launch.used is None or launch.opaque:
            self._exact.opaque += launch.opaque
            self._not_recorded.append((place.step, common, launch.of_graph))
            return
        pieces: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = defaultdict(lambda: ([], []))
        for use in launch.used:
            instance = alive.get(use.address)
            blocks = self._blocks.get(instance) if instance and instance[1] == use.bytes else None
            if blocks is None:
                self._exact.elsewhere += sum(end - start for start, end in (*use.reads, *use.writes))
            for block in blocks or ():
                for into, used_pieces in zip(pieces[block.number], (use.reads, use.writes), strict=True):
                    into += block.within(used_pieces)
        uses = [
            _used(number, sorted(reads), sorted(writes))
            for number, (reads, writes) in pieces.items()
            if reads or writes or self._run.blocks[number].in_pool != "part"
        ]
        if launch.outside:
            uses += self._static_variables(place.launch, {used.block for used in uses})
        self._exact.recorded += 1
        self._exact.uses[place.step] = found = tuple(sorted(uses, key=lambda used: used.block))
        self._recorded[common].append(found)

    def _number(self, arguments: Arguments | None) -> int:
        """The same for equal arguments."""
        number = self._number_by_identity.get(id(arguments))
        if number is None:
            number = self._number_by_identity[id(arguments)] = self._numbers.setdefault(arguments, len(self._numbers))
        return number

    def _static_variables(self, launch: TracedLaunch, used_numbers: set[int]) -> list[UsedBlock]:
        """The static variables that a launch may use."""
        blocks = ((use, self._run.blocks[use.block]) for use in launch.uses if use.block not in used_numbers)
        return [
            UsedBlock(use.block, (UsedPiece(use.start, block.nbytes, True, use.may_write, 0),), assumed=True)
            for use, block in blocks
            if block.kind in STATIC_KINDS
        ]

    def _fill_in_alike(self) -> None:
        """Launches that were not looked at use what launches like them use, if that is always the same."""
        always: dict[object, bool] = {}
        for step, common, of_graph in self._not_recorded:
            recorded_uses = self._recorded.get(common, [])
            if common not in always:
                always[common] = bool(recorded_uses) and all(uses == recorded_uses[0] for uses in recorded_uses)
            if always[common]:
                self._exact.alike += 1
                self._exact.uses[step] = recorded_uses[0]
            elif recorded_uses:
                self._exact.varying += 1
            else:
                self._exact.graphs += of_graph


class _Part(msgspec.Struct):
    """What an allocation has of a block: its bytes [start, end), which are `shift` further on in the block."""

    number: int
    start: int
    end: int
    shift: int

    def within(self, pieces: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The parts of pieces of the allocation that are in the block."""
        for start, end in pieces:
            if self.start < end and start < self.end:
                yield max(start, self.start) + self.shift, min(end, self.end) + self.shift


def _instances(run: TracedRun) -> dict[_Instance, list[_Part]]:
    """What each allocation has of blocks: one block, or the parts of a pool, or of a range that is mapped in pieces."""
    counts, blocks = Counter[tuple[str, int]](), dict[_Instance, list[_Part]]()
    latest: list[_Part] = []
    for step in run.steps:
        if not isinstance(step, TracedAllocation | TracedMapping) or not step.call.begins:
            continue
        kind = _KINDS.get(step.call.kind)
        if kind is None or (isinstance(step, TracedAllocation) and not step.change):
            continue
        if not step.offset:
            blocks[kind, step.call.bytes, counts[kind, step.call.bytes]] = latest = []
            counts[kind, step.call.bytes] += 1
        if isinstance(step, TracedMapping):
            end = step.offset + step.end - step.start
            latest.append(_Part(step.block, step.offset, end, step.start - step.offset))
        else:
            latest.append(_Part(step.block, step.offset, step.offset + run.blocks[step.block].nbytes, -step.offset))
    return blocks


def _used(block: int, reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]) -> UsedBlock:
    """Pieces that are read, written or both, in order; no more than MOST_PIECES."""
    edges = sorted({edge for piece in (*reads, *writes) for edge in piece})
    pieces: list[UsedPiece] = []
    r = w = 0
    for start, end in pairwise(edges):
        while r < len(reads) and reads[r][1] <= start:
            r += 1
        while w < len(writes) and writes[w][1] <= start:
            w += 1
        is_read = r < len(reads) and reads[r][0] <= start
        is_written = w < len(writes) and writes[w][0] <= start
        if not (is_read or is_written):
            continue
        last = pieces[-1] if pieces else None
        if last and last.end == start and (last.reads, last.writes) == (is_read, is_written):
            pieces[-1] = UsedPiece(last.start, end, is_read, is_written)
        else:
            pieces.append(UsedPiece(start, end, is_read, is_written))
    read, written = (sum(end - start for start, end in way) for way in (reads, writes))
    used = sum(piece.end - piece.start for piece in pieces)
    is_scattered = len(pieces) > MOST_PIECES
    return UsedBlock(block, _join_pieces(pieces) if is_scattered else tuple(pieces), read, written, used, is_scattered)


def _join_pieces(pieces: Sequence[UsedPiece]) -> tuple[UsedPiece, ...]:
    """Fewer pieces: those with the smallest gaps between them become one, with the gap."""
    between = sorted(range(1, len(pieces)), key=lambda i: pieces[i - 1].end - pieces[i].start)
    cuts = [0, *sorted(between[: MOST_PIECES - 1]), len(pieces)]
    groups = [pieces[first:last] for first, last in pairwise(cuts)]
    return tuple(
        UsedPiece(
            group[0].start,
            group[-1].end,
            any(piece.reads for piece in group),
            any(piece.writes for piece in group),
            sum(piece.end - piece.start for piece in group),
        )
        for group in groups
    )
