"""Managed memory of one GPU and its host: its buffers' pages, what accesses and calls do to them, and what is counted.

Nothing here takes time: prices are put on the counts elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from firsttouch.model.pages import (
    IN_ORDER,
    BlockState,
    BufferPages,
    Counts,
    Kind,
    Order,
    evict,
    migrate,
    missing,
    split_blocks,
    touch,
    touch_alike,
    touch_parts,
)
from firsttouch.model.rules.eviction import chunk_lists
from firsttouch.model.rules.uvm import BLOCK_BYTES, filled, span

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent


@dataclass
class PageMoves:
    """What moved for one cause, and what the faults were: `counts` added up over blocks, with the bytes of a page.

    blocks: how many blocks it happened to.
    """

    page: int
    counts: Counts = field(default_factory=Counts)
    blocks: int = 0

    def add(self, counts: Counts, blocks: int = 1) -> None:
        self.counts = self.counts.plus(counts, blocks)
        self.blocks += blocks

    def include(self, other: PageMoves) -> None:
        self.counts, self.blocks = self.counts.plus(other.counts), self.blocks + other.blocks


_Blocks = tuple[int, int, int]
"""Blocks of a buffer: its number, the first block, and the end."""


class _Touch(NamedTuple):
    agent: Agent
    writes: bool
    order: Order


@dataclass
class ManagedMemory:
    """The pages of all managed buffers.

    capacity: the blocks that the GPU's memory holds; None: as many as there are. When it is full, one without pages
    goes first, and then the one whose latest page came longest ago, whatever was used since (rules/eviction.py).
    gpu_bytes: of the GPU's memory that belong to blocks.
    """

    kind: Kind
    capacity: int | None = None
    buffers: dict[int, BufferPages] = field(default_factory=dict)
    held: int = 0
    gpu_bytes: int = 0
    _used: deque[_Blocks] = field(default_factory=deque)
    _unused: deque[_Blocks] = field(default_factory=deque)

    def allocate(self, buffer: int, nbytes: int) -> None:
        self.buffers[buffer] = BufferPages(nbytes, self.kind)

    def free(self, buffer: int) -> dict[Agent, int]:
        """Returns the bytes of its pages in either memory, duplicated ones in both."""
        pages = self.buffers.pop(buffer)
        freed: dict[Agent, int] = {agent: pages.pages_in(agent) * self.kind.page for agent in ("gpu", "cpu")}
        for first, end in pages.held():
            self.held -= end - first
            self.gpu_bytes -= pages.bytes_of(first, end)
        self._used = deque(piece for piece in self._used if piece[0] != buffer)
        self._unused = deque(piece for piece in self._unused if piece[0] != buffer)
        return freed

    def swap(self, first: int, second: int) -> None:
        names = {first: second, second: first}
        self.buffers = {names.get(number, number): pages for number, pages in self.buffers.items()}
        self._used = deque((names.get(buffer, buffer), a, b) for buffer, a, b in self._used)
        self._unused = deque((names.get(buffer, buffer), a, b) for buffer, a, b in self._unused)

    def state(self) -> tuple[object, ...]:
        """All that later counts depend on."""
        pages = ((n, tuple(b.starts), tuple(b.states), b.kind) for n, b in sorted(self.buffers.items()))
        return (*pages, tuple(self._used), tuple(self._unused))

    def advise(self, buffer: int, hint: str, moves: PageMoves) -> None:
        """Give advice about a buffer: preferred-AGENT, accessed-by-AGENT or read-mostly."""
        pages, policy = self.buffers[buffer], self.buffers[buffer].kind.policy
        word, _, agent = hint.rpartition("-")
        place: Agent = "gpu" if agent == "gpu" else "cpu"
        if word == "preferred":
            policy = policy._replace(preferred=place)
        elif word == "accessed-by":
            policy = policy._replace(accessed_by=tuple(sorted({*policy.accessed_by, place})))
            self._map(pages, place, moves)
        elif hint == "read-mostly":
            policy = policy._replace(read_mostly=True)
        pages.kind = pages.kind._replace(policy=policy)

    def _map(self, pages: BufferPages, agent: Agent, moves: PageMoves) -> None:
        """Map for an agent what it reaches in the other's memory."""
        if "gpu" not in pages.kind.reaches(agent) or "cpu" not in pages.kind.reaches(agent):
            return
        for first, end, state in pages.pieces(0, pages.blocks):
            theirs = state.gpu & ~state.cpu if agent == "cpu" else state.cpu & ~state.gpu
            mapped_pages = state.cpu_maps if agent == "cpu" else state.gpu_maps
            if theirs & ~mapped_pages:
                all_mapped = mapped_pages | theirs
                after = state._replace(cpu_maps=all_mapped) if agent == "cpu" else state._replace(gpu_maps=all_mapped)
                pages.assign(first, end, after)
                moves.add(Counts(mapped=(theirs & ~mapped_pages).bit_count()), end - first)

    def touch(
        self,
        buffer: int,
        agent: Agent,
        parts: Sequence[tuple[int, int]],
        moves: PageMoves,
        evicted: PageMoves,
        *,
        writes: bool,
        order: Order = IN_ORDER,
        stride: int = 0,
    ) -> None:
        """An agent's threads touch parts [start, end) of a buffer, in bytes and in order.

        order: how each thread goes through its part. stride: only one page in as many bytes is touched.
        """
        pages, access = self.buffers[buffer], _Touch(agent, writes, order)
        if not parts:
            return
        whole = parts[0] if len(parts) == 1 else (min(a for a, _ in parts), max(b for _, b in parts))
        if not self.faults(buffer, agent, *whole, writes):
            return
        if order.variant is not None:
            parts = [whole]
        blocks, segments = split_blocks(parts, pages.kind)
        every_page = filled(pages.kind.leaves)
        if stride > pages.kind.page:
            every_page = sum(1 << page for page in range(0, pages.kind.leaves, stride // pages.kind.page))
        for first, end in blocks:
            self._sweep(buffer, first, end, access, every_page, moves, evicted)
        for block, several in segments.items():
            leaves, state = pages.leaves(block), self._state(pages, block)
            if order.variant is not None or every_page != filled(pages.kind.leaves):
                touched_pages = 0
                for a, b, _ in several:
                    touched_pages |= span(a, b)
                after, counts = touch(state, agent, touched_pages & every_page, leaves, pages.kind, writes, order)
            else:
                after, counts = touch_parts(state, agent, several, leaves, pages.kind, writes)
            self._settle(buffer, block, block + 1, state, after, evicted)
            moves.add(counts)

    def faults(self, buffer: int, agent: Agent, start: int, end: int, writes: bool) -> bool:
        """Whether an agent may fault on a page of the blocks of bytes [start, end)."""
        pages = self.buffers[buffer]
        first, last = start // BLOCK_BYTES, -(-end // BLOCK_BYTES)
        for block, _, state in pages.pieces(first, last):
            if missing(state, agent, filled(pages.leaves(block)), writes):
                return True
        return False

    def _state(self, pages: BufferPages, block: int) -> BlockState:
        return next(pages.pieces(block, block + 1))[2]

    def _sweep(
        self,
        buffer: int,
        first: int,
        end: int,
        access: _Touch,
        touched_pages: int,
        moves: PageMoves,
        evicted: PageMoves,
    ) -> None:
        """Touch these pages of each of the blocks [first, end)."""
        pages, (agent, writes, order) = self.buffers[buffer], access
        while first < end:
            _, until, state = next(pages.pieces(first, end))
            leaves = pages.leaves(first)
            access_arguments = (state, agent, touched_pages & filled(leaves), leaves, pages.kind, writes, order)
            after, _ = touch(*access_arguments)
            until = self._settle(buffer, first, until, state, after, evicted)
            moves.add(touch_alike(*access_arguments, until - first)[1])
            moves.blocks += until - first - 1
            first = until

    def prefetch(self, buffer: int, to: Agent, moves: PageMoves, evicted: PageMoves) -> None:
        """A call moves a whole buffer to a memory."""
        pages, first = self.buffers[buffer], 0
        while first < pages.blocks:
            _, until, state = next(pages.pieces(first, pages.blocks))
            after, counts = migrate(state, to, pages.leaves(first), pages.kind)
            until = self._settle(buffer, first, until, state, after, evicted)
            moves.add(counts, until - first)
            first = until

    def _settle(
        self, buffer: int, first: int, end: int, before: BlockState, after: BlockState, evicted: PageMoves
    ) -> int:
        """Give blocks [first, end) their new state, and the GPU's memory that it needs. Returns the end of those that
        have it: where others must leave first, as many as the next ones to leave make room for.
        """
        pages = self.buffers[buffer]
        if after.held and not before.held:
            if self.capacity is not None:
                end = self._make_room(first, end, evicted)
            self.held += end - first
            self.gpu_bytes += pages.bytes_of(first, end)
        if self.capacity is not None and (after.gpu & ~before.gpu or (before.gpu and not after.gpu)):
            if before.held:
                self._used = _without(self._used, buffer, first, end)
                self._unused = _without(self._unused, buffer, first, end)
            _append(self._used if after.gpu else self._unused, buffer, first, end)
        if after != before:
            pages.assign(first, end, after)
        return end

    def _make_room(self, first: int, end: int, evicted: PageMoves) -> int:
        assert self.capacity is not None
        if (free := self.capacity - self.held) > 0:
            return min(end, first + free)
        lists = {"unused": self._unused, "used": self._used}
        waiting = next(lists[name] for name in chunk_lists(self.kind.release) if lists.get(name))
        buffer, a, b = waiting.popleft()
        count = min(b - a, end - first)
        if a + count < b:
            waiting.appendleft((buffer, a + count, b))
        victims = self.buffers[buffer]
        for start, stop, state in [*victims.pieces(a, a + count)]:
            after, counts = evict(state, victims.kind)
            victims.assign(start, stop, after)
            evicted.add(counts, stop - start if counts.to_cpu else 0)
            self.gpu_bytes -= victims.bytes_of(start, stop)
        self.held -= count
        return first + count


def _append(stretches: deque[_Blocks], buffer: int, first: int, end: int) -> None:
    """Add blocks at the end, to the last stretch if they follow it."""
    if stretches and stretches[-1][0] == buffer and stretches[-1][2] == first:
        stretches[-1] = (buffer, stretches[-1][1], end)
    else:
        stretches.append((buffer, first, end))


def _without(stretches: deque[_Blocks], buffer: int, first: int, end: int) -> deque[_Blocks]:
    """The stretches without blocks [first, end) of a buffer."""
    kept: deque[_Blocks] = deque()
    for number, a, b in stretches:
        if number != buffer or b <= first or a >= end:
            kept.append((number, a, b))
        else:
            kept += [(number, x, y) for x, y in ((a, min(b, first)), (max(a, end), b)) if x < y]
    return kept
