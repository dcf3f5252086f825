"""Where the pages of managed memory are, and what touches, prefetches and evictions of them do: a page map.

A buffer is a row of blocks of 2 MiB. Neighbouring blocks in the same state are one run, and what an access does to a
block in a state is computed once, so that a sweep over gigabytes takes a few steps. The rules are those of
`rules/uvm.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from firsttouch.model.rules.eviction import keeps_mapping
from firsttouch.model.rules.uvm import (
    BIG_PAGE_BYTES,
    BLOCK_BYTES,
    FAULTS_OF_BLOCK,
    THRESHOLD,
    Destination,
    Policy,
    copies,
    density_prefetch,
    filled,
    fills_block,
    residency,
    span,
    takes_along,
)

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent

PagesOfThread = tuple[int, int, int]
"""A part of an access within a block: pages [first, end), and when it begins, in pages that its thread took before."""


class BlockState(NamedTuple):
    """Of one block: the pages in either memory, and those that each agent can access without a fault. held: memory of
    the GPU belongs to it, which it keeps when its pages leave, until others need it.
    """

    cpu: int = 0
    gpu: int = 0
    cpu_maps: int = 0
    gpu_maps: int = 0
    held: bool = False


EMPTY = BlockState()
VARIANTS = 16
"""The number of orders without pattern that are tried. Their counts differ by a few faults a block; the mean is used.
"""


class Order(NamedTuple):
    """In which order an agent touches pages of a block. variant: None in order, else a number of one without pattern.
    at_once: how many faults are served together.
    """

    variant: int | None = None
    at_once: int = 1


IN_ORDER, SCATTERED = Order(), Order(0)
PARALLEL = Order(0, at_once=FAULTS_OF_BLOCK)
"""Of a parallel kernel."""


class Kind(NamedTuple):
    """What decides besides a block's state: its pages, the driver's rules, and what each agent reaches.

    page: bytes. release: of the driver. coherent: whether the CPU can access the GPU's memory. maps_evicted: whether
    the GPU can access pages that left its memory for others, where they are then (rules/eviction.py).
    """

    page: int
    release: tuple[int, ...]
    policy: Policy = Policy()
    coherent: bool = False
    threshold: int = THRESHOLD
    maps_evicted: bool = False

    def reaches(self, agent: Agent) -> tuple[Agent, ...]:
        return ("cpu", "gpu") if agent == "gpu" or self.coherent else ("cpu",)

    @property
    def leaves(self) -> int:
        """Pages of a whole block."""
        return BLOCK_BYTES // self.page


class Counts(NamedTuple):
    """What an access did, in pages but for services and copies.

    services: of faults; faults: the faults in them. to_gpu, to_cpu: what moved; faulted_to_gpu, faulted_to_cpu: what of
    it had faulted; copies_to_gpu, copies_to_cpu: in so many copies. new_cpu, new_gpu: what was populated. mapped: what
    an agent now uses in the other's memory. dropped: copies of duplicated pages that ended.
    """

    services: int = 0
    faults: int = 0
    to_gpu: int = 0
    to_cpu: int = 0
    faulted_to_gpu: int = 0
    faulted_to_cpu: int = 0
    copies_to_gpu: int = 0
    copies_to_cpu: int = 0
    new_cpu: int = 0
    new_gpu: int = 0
    mapped: int = 0
    dropped: int = 0

    def plus(self, other: Counts, times: int = 1) -> Counts:
        if times == 1:  # most often
            return Counts._make(map(add, self, other))
        return Counts._make([a + b * times for a, b in zip(self, other, strict=True)])


def _opposite(agent: Agent) -> Agent:
    return "gpu" if agent == "cpu" else "cpu"


def _after_arrival(
    state: BlockState, to: Agent, arriving: int, faulted: int, *, duplicate: bool, map_for: Agent | None
) -> tuple[BlockState, Counts]:
    """A block after pages arrived in a memory. arriving: all these pages, of which some faulted; those that are nowhere
    are populated. map_for: the agent that can access them then.
    """
    there, away = (state.cpu, state.gpu) if to == "cpu" else (state.gpu, state.cpu)
    maps = {"cpu": state.cpu_maps, "gpu": state.gpu_maps}
    moved, new = arriving & away & ~there, arriving & ~away & ~there
    there |= arriving
    dropped = 0
    if not duplicate:
        dropped = (arriving & away & ~moved).bit_count()
        away &= ~arriving
        maps[_opposite(to)] &= ~arriving
    if map_for is not None:
        maps[map_for] |= arriving
    in_cpu, in_gpu = (there, away) if to == "cpu" else (away, there)
    pages, part, n = moved.bit_count(), (moved & faulted).bit_count(), copies(moved, faulted)
    counts = (
        Counts(to_cpu=pages, faulted_to_cpu=part, copies_to_cpu=n, new_cpu=new.bit_count(), dropped=dropped)
        if to == "cpu"
        else Counts(to_gpu=pages, faulted_to_gpu=part, copies_to_gpu=n, new_gpu=new.bit_count(), dropped=dropped)
    )
    return BlockState(in_cpu, in_gpu, maps["cpu"], maps["gpu"], state.held or in_gpu > 0), counts


def serve(
    state: BlockState, agent: Agent, faulted: int, leaves: int, kind: Kind, writes: bool
) -> tuple[BlockState, Counts]:
    """A block after one service of an agent's faults on a set of pages."""
    policy, total = kind.policy, Counts(services=1, faults=faulted.bit_count())
    mine, theirs = (state.cpu, state.gpu) if agent == "cpu" else (state.gpu, state.cpu)
    groups: tuple[tuple[int, Agent | None], ...] = (
        (faulted & mine, agent),
        (faulted & theirs & ~mine, _opposite(agent)),
        (faulted & ~theirs & ~mine, None),
    )
    going: dict[Destination, int] = {}
    for pages, resident in groups:
        if pages:
            to = residency(agent, writes=writes, resident=resident, policy=policy, reaches=kind.reaches(agent))
            going[to] = going.get(to, 0) | pages
    for (place, duplicate), pages in going.items():
        there = state.cpu if place == "cpu" else state.gpu
        arriving = pages
        if fills_block(place, policy, state.cpu | state.gpu):
            arriving = filled(leaves)
        elif takes_along(place, policy, kind.release):
            big = max(1, BIG_PAGE_BYTES // kind.page)
            more = density_prefetch(there, pages, leaves, big=big, threshold=kind.threshold)
            if place == "cpu":
                more &= ~(there & state.cpu_maps)
            arriving |= more
        state, counts = _after_arrival(state, place, arriving, pages, duplicate=duplicate, map_for=agent)
        total = total.plus(counts)
        if place != agent:
            total = total.plus(Counts(mapped=pages.bit_count()))
    return state, total


def missing(state: BlockState, agent: Agent, pages: int, writes: bool) -> int:
    """The pages of a set on which an agent faults: those it has no access to, and if it writes, duplicated ones."""
    accessible = state.cpu_maps if agent == "cpu" else state.gpu_maps
    return pages & ~(accessible & ~(state.cpu & state.gpu) if writes else accessible)


@lru_cache(maxsize=1 << 16)
def touch(
    state: BlockState, agent: Agent, pages: int, leaves: int, kind: Kind, writes: bool, order: Order = IN_ORDER
) -> tuple[BlockState, Counts]:
    """A block after an agent touched a set of its pages."""
    total = Counts()
    while left := missing(state, agent, pages, writes):
        faulted = left & -left if order.variant is None else _scattered(left, order, leaves)
        state, counts = serve(state, agent, faulted, leaves, kind, writes)
        total = total.plus(counts)
    return state, total


@lru_cache(maxsize=1 << 14)
def touch_alike(
    state: BlockState, agent: Agent, pages: int, leaves: int, kind: Kind, writes: bool, order: Order, blocks: int
) -> tuple[BlockState, Counts]:
    """So many blocks in one state after an agent touched the same set of pages in each, and their counts together.
    Those that are touched in no order differ in where it begins, but hardly in where it ends.
    """
    if order.variant is None:
        after, counts = touch(state, agent, pages, leaves, kind, writes, order)
        return after, Counts().plus(counts, blocks)
    total = Counts()
    for variant in range(min(blocks, VARIANTS)):
        each = order._replace(variant=variant)
        after, counts = touch(state, agent, pages, leaves, kind, writes, each)
        total = total.plus(counts, (blocks - variant - 1) // VARIANTS + 1)
    return after, total


@lru_cache(maxsize=1 << 10)
def _permutation(leaves: int, variant: int) -> tuple[int, ...]:
    """The pages of a block in an order without pattern."""
    return tuple(sorted(range(leaves), key=lambda page: blake2b(bytes(f"{variant}.{page}", "ascii")).digest()))


def _scattered(left: int, order: Order, leaves: int) -> int:
    chosen, count = 0, order.at_once
    for page in _permutation(leaves, order.variant or 0):
        if left >> page & 1:
            chosen |= 1 << page
            count -= 1
            if not count:
                break
    return chosen


@lru_cache(maxsize=1 << 14)
def touch_parts(
    state: BlockState, agent: Agent, segments: tuple[PagesOfThread, ...], leaves: int, kind: Kind, writes: bool
) -> tuple[BlockState, Counts]:
    """A block after several threads touched parts of it, each in order. The thread that begins in the block comes
    before the one that arrives there.
    """
    total = Counts()
    for first, end, _ in sorted(segments, key=lambda segment: (segment[2], segment[0])):
        state, counts = touch(state, agent, span(first, end), leaves, kind, writes)
        total = total.plus(counts)
    return state, total


@lru_cache(maxsize=1 << 14)
def migrate(state: BlockState, to: Agent, leaves: int, kind: Kind) -> tuple[BlockState, Counts]:
    """A block after a call that moves all of it to a memory, where pages that nobody has touched are populated.

    Source: uvm_va_block.c, uvm_va_block_migrate_locked.
    """
    return _after_arrival(state, to, filled(leaves), filled(leaves), duplicate=kind.policy.read_mostly, map_for=to)


@lru_cache(maxsize=1 << 12)
def evict(state: BlockState, kind: Kind) -> tuple[BlockState, Counts]:
    """A block after the driver took it out of the GPU's memory: all its pages there, changed or not, go to the CPU's,
    mapped by nobody or by the GPU.

    Source: uvm_va_block.c, uvm_va_block_evict_chunks.
    """
    counted = kind.maps_evicted
    keeps = keeps_mapping(
        kind.release,
        accessed_by="gpu" in kind.policy.accessed_by,
        preferred=kind.policy.preferred == "gpu",
        counts_accesses=counted,
        counters_enabled=counted,
    )
    after, counts = _after_arrival(
        state, "cpu", state.gpu, state.gpu, duplicate=False, map_for="gpu" if keeps else None
    )
    return after._replace(held=False), counts


@dataclass
class BufferPages:
    """The blocks of one buffer, as runs of blocks in equal states: where each begins, and its state."""

    nbytes: int
    kind: Kind
    starts: list[int] = field(default_factory=lambda: [0])
    states: list[BlockState] = field(default_factory=lambda: [EMPTY])

    def __post_init__(self) -> None:
        self.blocks = -(-self.nbytes // BLOCK_BYTES)
        self._whole_leaves = self.kind.leaves
        self._last_leaves = -(-self.nbytes // self.kind.page) - (self.blocks - 1) * self._whole_leaves

    def leaves(self, block: int) -> int:
        """The pages of a block: of the last one, as many as the buffer needs."""
        return self._whole_leaves if block < self.blocks - 1 else self._last_leaves

    def pieces(self, first: int, end: int) -> Iterator[tuple[int, int, BlockState]]:
        """The runs of blocks [first, end), of which one never has a partial block and whole ones."""
        run = bisect_right(self.starts, first) - 1
        last = self.blocks - 1
        split = last if self._last_leaves < self._whole_leaves else last + 1
        found = []
        while first < end:
            until = min(end, self.starts[run + 1] if run + 1 < len(self.starts) else self.blocks)
            if first < split < until:
                found.append((first, split, self.states[run]))
                first = split
            found.append((first, until, self.states[run]))
            first, run = until, run + 1
        return iter(found)

    def assign(self, first: int, end: int, state: BlockState) -> None:
        """Set the state of blocks [first, end)."""
        begin = bisect_right(self.starts, first) - 1
        stop = bisect_right(self.starts, end - 1) - 1
        after = self.states[stop]
        stop_end = self.starts[stop + 1] if stop + 1 < len(self.starts) else self.blocks
        starts, states = [first], [state]
        if self.starts[begin] < first:
            starts.insert(0, self.starts[begin])
            states.insert(0, self.states[begin])
        if end < stop_end:
            starts.append(end)
            states.append(after)
        self.starts[begin : stop + 1], self.states[begin : stop + 1] = starts, states
        self._merge(begin, begin + len(starts) + 1)

    def _merge(self, first: int, end: int) -> None:
        for i in range(min(end, len(self.starts) - 1), max(0, first - 1), -1):
            if self.states[i] == self.states[i - 1]:
                del self.starts[i], self.states[i]

    def pages_in(self, place: Agent) -> int:
        """Pages in a memory."""
        return self.pages_where(0, self.nbytes, lambda state: state.cpu if place == "cpu" else state.gpu)

    def bytes_where(self, start: int, end: int, select: Callable[[BlockState], int]) -> int:
        """The bytes of the pages of bytes [start, end) that are in the set which `select` makes of a block's state."""
        return min(self.pages_where(start, end, select) * self.kind.page, self.nbytes)

    def pages_where(self, start: int, end: int, select: Callable[[BlockState], int]) -> int:
        """The number of these pages."""
        size, first_page, end_page = self.kind.leaves, start // self.kind.page, -(-end // self.kind.page)
        first, last, total = first_page // size, (end_page - 1) // size, 0
        for a, b, state in self.pieces(first, last + 1):
            chosen = select(state) & filled(self.leaves(a))
            total += (b - a) * chosen.bit_count()
            if a == first:
                total -= (chosen & filled(first_page - first * size)).bit_count()
            if b == last + 1:
                total -= (chosen >> end_page - last * size).bit_count()
        return total

    def bytes_of(self, first: int, end: int) -> int:
        """The bytes of the GPU's memory that blocks [first, end) take: of a partial one, its big pages."""
        last = self.leaves(end - 1) * self.kind.page
        return (end - 1 - first) * BLOCK_BYTES + -(-last // BIG_PAGE_BYTES) * BIG_PAGE_BYTES

    def held(self) -> Iterator[tuple[int, int]]:
        """The stretches of blocks to which memory of the GPU belongs."""
        return ((first, end) for first, end, state in self.pieces(0, self.blocks) if state.held)


def shares(nbytes: int, threads: int, item: int = 1) -> list[tuple[int, int]]:
    """The bytes [start, end) of each thread: items are cut into equal shares (base/kernels/prelude.host.h)."""
    items = max(1, nbytes // item)
    cuts = [items * member // threads * item for member in range(threads)] + [nbytes]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def split_blocks(
    parts: Iterable[tuple[int, int]], kind: Kind
) -> tuple[list[tuple[int, int]], dict[int, tuple[PagesOfThread, ...]]]:
    """What parts of a buffer, in order, each touched in order by a thread, do to its blocks: stretches of blocks that
    one thread alone touches whole, and the segments of every other block.
    """
    size = kind.leaves
    pages = [(start // kind.page, -(-end // kind.page)) for start, end in parts]
    segments: dict[int, list[PagesOfThread]] = {}
    reached = -1
    for first, end in pages:
        low, high = first // size, (end - 1) // size
        for block in {low, high}:
            if first > block * size or end < (block + 1) * size or block <= reached:
                segments.setdefault(block, [])
        reached = high
    whole: list[tuple[int, int]] = []
    for first, end in pages:
        low, high = first // size, (end - 1) // size
        for block in sorted({low, high} & segments.keys()):
            a, b = max(first, block * size), min(end, (block + 1) * size)
            segments[block].append((a - block * size, b - block * size, a - first))
        begin, stop = low + (low in segments), high + (high not in segments)
        if begin < stop:
            whole.append((begin, stop))
    return whole, {block: tuple(several) for block, several in segments.items()}
