"""Managed memory of one GPU and its host: its buffers' pages, what accesses and calls do to them, and what is counted.

Nothing here takes time: prices are put on the counts elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from firsttouch.model.pages import (
    IN_ORDER,
    BlockState,
    BufferPages,
    Counts,
    Kind,
    Order,
    evict,
    migrate,
    split_blocks,
    touch,
    touch_alike,
    touch_parts,
)
from firsttouch.model.rules.uvm import BLOCK_BYTES, Place, Policy, filled, span

Cause = Literal["fault", "prefetch", "eviction"]
"""Why pages move."""


@dataclass
class Moves:
    """What moved for one cause, and what the faults were: `counts` added up over blocks, with the bytes of a page.

    blocks: how many blocks it happened to.
    """

    page: int
    counts: Counts = Counts()
    blocks: int = 0

    def add(self, counts: Counts, blocks: int = 1) -> None:
        self.counts = self.counts.plus(counts, blocks)
        self.blocks += blocks


class _Touch(NamedTuple):
    agent: Place
    writes: bool
    order: Order


@dataclass
class ManagedMemory:
    """The pages of all managed buffers.

    capacity: the blocks that the GPU's memory holds; None: as many as there are. The one whose memory was obtained
    first goes first when it is full, whatever was used since.
    """

    kind: Kind
    capacity: int | None = None
    buffers: dict[int, BufferPages] = field(default_factory=dict)
    on_gpu: int = 0
    """Blocks that have memory of the GPU."""
    most_on_gpu: int = 0
    _order: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Stretches of blocks (buffer, first, end) in the order in which they got memory of the GPU."""

    def allocate(self, buffer: int, nbytes: int) -> None:
        self.buffers[buffer] = BufferPages(nbytes, self.kind)

    def free(self, buffer: int) -> None:
        pages = self.buffers.pop(buffer)
        self.on_gpu -= pages.blocks_with("gpu")
        self._order = deque(piece for piece in self._order if piece[0] != buffer)

    def swap(self, first: int, second: int) -> None:
        names = {first: second, second: first}
        self.buffers = {names.get(number, number): pages for number, pages in self.buffers.items()}
        self._order = deque((names.get(buffer, buffer), a, b) for buffer, a, b in self._order)

    def state(self) -> tuple[object, ...]:
        """All that later counts depend on."""
        pages = ((n, tuple(b.starts), tuple(b.states), b.kind) for n, b in sorted(self.buffers.items()))
        return (*pages, tuple(self._order) if self.capacity is not None else ())

    def advise(self, buffer: int, hint: str, moves: Moves) -> None:
        """Give advice about a buffer: preferred-AGENT, accessed-by-AGENT or read-mostly."""
        pages, policy = self.buffers[buffer], self.buffers[buffer].kind.policy
        word, _, agent = hint.rpartition("-")
        place: Place = "gpu" if agent == "gpu" else "cpu"
        if word == "preferred":
            policy = policy._replace(preferred=place)
        elif word == "accessed-by":
            policy = policy._replace(accessed_by=tuple(sorted({*policy.accessed_by, place})))
            self._map(pages, place, moves)
        elif hint == "read-mostly":
            policy = policy._replace(read_mostly=True)
        pages.kind = pages.kind._replace(policy=policy)

    def _map(self, pages: BufferPages, agent: Place, moves: Moves) -> None:
        """Map for an agent what it reaches in the other's memory."""
        if "gpu" not in pages.kind.reaches(agent) or "cpu" not in pages.kind.reaches(agent):
            return
        for first, end, state in pages.pieces(0, pages.blocks):
            theirs = state.gpu & ~state.cpu if agent == "cpu" else state.cpu & ~state.gpu
            known = state.cpu_maps if agent == "cpu" else state.gpu_maps
            if theirs & ~known:
                name = "cpu_maps" if agent == "cpu" else "gpu_maps"
                pages.assign(first, end, state._replace(**{name: known | theirs}))
                moves.add(Counts(mapped=(theirs & ~known).bit_count()), end - first)

    def touch(
        self,
        buffer: int,
        agent: Place,
        parts: Sequence[tuple[int, int]],
        moves: Moves,
        evicted: Moves,
        *,
        writes: bool,
        order: Order = IN_ORDER,
        stride: int = 0,
    ) -> None:
        """An agent's threads touch parts [start, end) of a buffer, in bytes and in order.

        order: how each thread goes through its part. stride: only one page in as many bytes is touched.
        """
        pages, access = self.buffers[buffer], _Touch(agent, writes, order)
        if order.variant is not None and parts:
            parts = [(min(a for a, _ in parts), max(b for _, b in parts))]
        whole, segments = split_blocks(parts, pages.kind)
        every = filled(pages.kind.leaves)
        if stride > pages.kind.page:
            every = sum(1 << page for page in range(0, pages.kind.leaves, stride // pages.kind.page))
        for first, end in whole:
            self._sweep(buffer, first, end, access, every, moves, evicted)
        for block, several in segments.items():
            leaves, state = pages.leaves(block), self._state(pages, block)
            if order.variant is not None or every != filled(pages.kind.leaves):
                wanted = 0
                for a, b, _ in several:
                    wanted |= span(a, b)
                after, counts = touch(state, agent, wanted & every, leaves, pages.kind, writes, order)
            else:
                after, counts = touch_parts(state, agent, several, leaves, pages.kind, writes)
            self._settle(buffer, block, block + 1, state, after, evicted)
            moves.add(counts)

    def _state(self, pages: BufferPages, block: int) -> BlockState:
        return next(pages.pieces(block, block + 1))[2]

    def _sweep(
        self, buffer: int, first: int, end: int, access: _Touch, wanted: int, moves: Moves, evicted: Moves
    ) -> None:
        """Touch blocks [first, end), of each the wanted pages."""
        pages, (agent, writes, order) = self.buffers[buffer], access
        while first < end:
            _, until, state = next(pages.pieces(first, end))
            leaves = pages.leaves(first)
            how = (state, agent, wanted & filled(leaves), leaves, pages.kind, writes, order)
            after, _ = touch(*how)
            until = self._settle(buffer, first, until, state, after, evicted)
            moves.add(touch_alike(*how, until - first)[1])
            moves.blocks += until - first - 1
            first = until

    def prefetch(self, buffer: int, to: Place, moves: Moves, evicted: Moves) -> None:
        """A call moves a whole buffer to a memory."""
        pages, first = self.buffers[buffer], 0
        while first < pages.blocks:
            _, until, state = next(pages.pieces(first, pages.blocks))
            after, counts = migrate(state, to, pages.leaves(first), pages.kind)
            until = self._settle(buffer, first, until, state, after, evicted)
            moves.add(counts, until - first)
            first = until

    def _settle(
        self, buffer: int, first: int, end: int, before: BlockState, after: BlockState, evicted: Moves
    ) -> int:
        """Give blocks [first, end) their new state, and the GPU's memory that it needs. Returns the end of those that
        have it: where others must leave first, as many as the longest waiting ones make room for.
        """
        pages = self.buffers[buffer]
        if after.gpu and not before.gpu:
            if self.capacity is not None:
                end = self._make_room(first, end, evicted)
            self._order.append((buffer, first, end))
            self.on_gpu += end - first
            self.most_on_gpu = max(self.most_on_gpu, self.on_gpu)
        elif before.gpu and not after.gpu:
            self.on_gpu -= end - first
            if self.capacity is not None:
                self._forget(buffer, first, end)
        if after != before:
            pages.assign(first, end, after)
        return end

    def _make_room(self, first: int, end: int, evicted: Moves) -> int:
        assert self.capacity is not None
        if free := self.capacity - self.on_gpu:
            return min(end, first + free)
        buffer, a, b = self._order.popleft()
        count = min(b - a, end - first)
        if a + count < b:
            self._order.appendleft((buffer, a + count, b))
        victims = self.buffers[buffer]
        for start, stop, state in [*victims.pieces(a, a + count)]:
            after, counts = evict(state)
            victims.assign(start, stop, after)
            evicted.add(counts, stop - start)
        self.on_gpu -= count
        return first + count

    def _forget(self, buffer: int, first: int, end: int) -> None:
        """Blocks that gave their memory back leave the order."""
        kept: deque[tuple[int, int, int]] = deque()
        for number, a, b in self._order:
            if number != buffer or b <= first or a >= end:
                kept.append((number, a, b))
                continue
            kept += [(number, x, y) for x, y in ((a, first), (end, b)) if x < y]
        self._order = kept

    def policy(self, buffer: int) -> Policy:
        return self.buffers[buffer].kind.policy

    def bytes_on_gpu(self) -> int:
        """The bytes of the GPU's memory that blocks hold: whole blocks, as one is obtained for one page too."""
        return self.on_gpu * BLOCK_BYTES
