"""A copy of part of a block, where no other bytes take their turn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from firsttouch.advice.port.host_arrays import SIDE_BY_SIDE
from firsttouch.advice.port.port_findings import FindingCertainty
from firsttouch.advice.port.rule import FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.program.partners import may_pair
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    MAPPED_GRANULE,
    NO_BLOCK,
    STATIC_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRange,
    TracedRun,
    TracedStep,
)
from firsttouch.program.watched import PAGE_BYTES

WHOLE = 0.99
"""The part of a block from which on a copy is one of the whole."""
_PADDING = 512
"""Rows of a block may be up to so many bytes longer than those that are copied. Source: the alignment of textures, to
which cudaMallocPitch rounds rows.
"""


def used_sizes(run: TracedRun) -> list[int]:
    """The sizes of the blocks. Of memory that is mapped, which is rounded up to granules, up to the last byte that is
    copied or filled, if less than a granule is left. Take it with `run.once`.
    """
    ends = defaultdict[int, int](int)
    if any(block.is_mapped for block in run.blocks):
        for step in run.steps:
            sides = (
                [step.device] if isinstance(step, TracedCopy) else [step.target] if isinstance(step, TracedFill) else []
            )
            for side in sides:
                ends[side.block] = max(ends[side.block], side.end)
    return [
        end if block.is_mapped and block.nbytes - (end := ends[block.number]) < MAPPED_GRANULE else block.nbytes
        for block in run.blocks
    ]


def is_whole(size: int, side: TracedRange) -> bool:
    """Whether a range is all of a block of a size but for padding."""
    padded = side.pitch if side.nbytes < side.pitch < side.nbytes + _PADDING else side.nbytes
    return side.rows * padded >= WHOLE * size


def in_turn(run: TracedRun) -> set[int]:
    """The steps that copy parts of a block which together are all of it: one after another in one direction, each with
    bytes that the others do not have for the most part. Parts of less than a page, between which kernels were launched,
    are no turn: their pages move for each.
    """
    turns, found, launches, sizes = dict[tuple[int, str], _Turn](), set[int](), 0, run.once(used_sizes)
    for number, step in enumerate(run.steps):
        if isinstance(step, TracedLaunch):
            launches += 1
        elif isinstance(step, TracedAllocation):
            turns.pop((step.block, "h2d"), None)
            turns.pop((step.block, "d2h"), None)
        elif isinstance(step, TracedCopy) and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            key, size = (step.device.block, step.way), sizes[step.device.block]
            turn = turns.get(key)
            if is_whole(size, step.device):
                turns.pop(key, None)
                continue
            if turn is None or not turn.goes_on(step.device, launches):
                turn = turns[key] = _Turn()
            turn.add(number, step.device, launches)
            if turn.covered.total() >= WHOLE * size:
                found |= turn.steps
                turn.steps.clear()
    return found


@dataclass
class _Turn:
    """Copies of parts of a block, the bytes that they have, and how many launches there were before the last one."""

    steps: set[int] = field(default_factory=set)
    covered: Ranges = field(default_factory=Ranges)
    launches: int = 0

    def goes_on(self, part: TracedRange, launches: int) -> bool:
        if part.total < PAGE_BYTES and launches > self.launches:
            return False
        return 2 * sum(self.covered.bytes_in(start, end) for start, end in part.pieces) < part.total

    def add(self, number: int, part: TracedRange, launches: int) -> None:
        self.steps.add(number)
        self.launches = launches
        for start, end in part.pieces:
            self.covered.add(start, end)


class PartialTransfer(Hazard):
    """Copies of less than a block; likely, where two blocks are filled from adjacent bytes of the host that are not of
    two page-locked allocations; only possible if these are static or on the stack.
    """

    name = "partial"
    title = "partial transfer"
    order = 3
    words = {
        "h2d": FindingWords("only part of a buffer is copied to the device"),
        "d2h": FindingWords("only part of a buffer is copied back"),
        "adjacent": FindingWords(
            "two buffers are filled from adjacent host memory, probably parts of one array",
            "they are two arrays that happen to be adjacent",
        ),
    }
    strategy = "allocate that part separately, so that only its pages move"
    chapter = "partial-transfers"
    steps = (TracedCopy,)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._begins: dict[tuple[int, int], tuple[int, int]] = {}
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}
        """By the host's allocation, NO_BLOCK if the program did not get it from CUDA, and the address."""
        self._joined: set[frozenset[int]] = set()
        self._in_turn, self._sizes = state.run.once(in_turn), state.run.once(used_sizes)

    def take(self, number: int, step: TracedStep) -> None:
        if not isinstance(step, TracedCopy) or step.way not in ("h2d", "d2h"):
            return
        block = self.state.run.blocks[step.device.block]
        if block.kind in STATIC_KINDS or block.kind == "array" or block.in_pool:
            return
        size = self._sizes[block.number]
        if not is_whole(size, step.device):
            window = self.state.partners(block.number).window
            if window.total() < WHOLE * size and number not in self._in_turn:
                place = self.state.places.of(step.call.site)
                row = self.row(step.way, "seen", (block.number, place))
                row.add(number, step.device.total, place, block.number)
        elif step.way == "h2d" and may_pair(block, step) and step.host.rows == 1:
            self._find_adjacent(number, step, block)

    def _find_adjacent(self, number: int, copy: TracedCopy, block: TracedBlock) -> None:
        start, nbytes = copy.call.source, copy.host.total
        allocation = copy.host.block if copy.call.host == "pinned" else NO_BLOCK
        for block_edges, edge in ((self._ends, start), (self._begins, start + nbytes)):
            neighbour, life = block_edges.get((allocation, edge), (block.number, 0))
            pair = frozenset((neighbour, block.number))
            if len(pair) == 2 and self.state.alive.get(neighbour) == life and pair not in self._joined:
                self._joined.add(pair)
                place = self.state.places.of(copy.call.site)
                certainty: FindingCertainty = "possible" if copy.call.host in SIDE_BY_SIDE else "likely"
                self.row("adjacent", certainty, pair).add(number, nbytes, place, neighbour, block.number)
        here = block.number, self.state.alive[block.number]
        self._begins[allocation, start] = self._ends[allocation, start + nbytes] = here
