"""The page map of managed memory: what never happens, whatever is done."""

from __future__ import annotations

import random

import pytest

from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.pages import PARALLEL, Kind, shares
from firsttouch.model.rules.uvm import BLOCK_BYTES

KIND = Kind(4096, (580, 142))
SIZES = (5 * BLOCK_BYTES + 12_288, 40_960, 3 * BLOCK_BYTES)


def played(seed: int, capacity: int | None) -> tuple[ManagedMemory, PageMoves]:
    """Random touches, prefetches and advice on three buffers."""
    random_ = random.Random(seed)
    memory, moves = ManagedMemory(KIND, capacity), PageMoves(KIND.page)
    for buffer, nbytes in enumerate(SIZES):
        memory.allocate(buffer, nbytes)
    for _ in range(60):
        buffer = random_.randrange(len(SIZES))
        start, end = sorted(random_.sample(range(SIZES[buffer]), 2))
        act = random_.choice(("cpu", "cpu", "gpu", "gpu", "prefetch", "read-mostly"))
        if act == "prefetch":
            memory.prefetch(buffer, random_.choice(("cpu", "gpu")), moves, moves)
        elif act == "read-mostly":
            memory.advise(buffer, act, moves)
        elif act == "gpu":
            memory.touch(buffer, "gpu", [(start, end)], moves, moves, writes=random_.random() < 0.5, order=PARALLEL)
        else:
            parts = [(start + a, start + b) for a, b in shares(end - start, 4)]
            memory.touch(buffer, "cpu", parts, moves, moves, writes=random_.random() < 0.5)
        if capacity is not None:
            assert memory.held <= capacity
    return memory, moves


@pytest.mark.parametrize("capacity", [None, 9, 3])
@pytest.mark.parametrize("seed", range(4))
def test_pages_are_conserved_and_never_more_than_fit(seed: int, capacity: int | None) -> None:
    memory, moves = played(seed, capacity)
    counts = moves.counts
    in_gpu = sum(buffer.pages_in("gpu") for buffer in memory.buffers.values())
    in_cpu = sum(buffer.pages_in("cpu") for buffer in memory.buffers.values())
    both = sum(
        (end - first) * (state.cpu & state.gpu).bit_count()
        for buffer in memory.buffers.values()
        for first, end, state in buffer.pieces(0, buffer.blocks)
    )
    assert in_gpu + in_cpu - both == counts.new_cpu + counts.new_gpu
    assert sum(b.blocks for b in memory.buffers.values()) >= memory.held
    for buffer in [*memory.buffers]:
        memory.free(buffer)
    assert (memory.held, memory.gpu_bytes) == (0, 0)


def test_sweeps_over_more_than_fits_miss_always() -> None:
    # uvm_pmm_gpu.c: what became resident first leaves first, so that nothing is there when its turn comes.
    memory, touched, evicted = ManagedMemory(KIND, 8), PageMoves(4096), PageMoves(4096)
    memory.allocate(0, 10 * BLOCK_BYTES)
    memory.touch(0, "cpu", [(0, 10 * BLOCK_BYTES)], PageMoves(4096), evicted, writes=True)
    for _ in range(5):
        memory.touch(0, "gpu", [(0, 10 * BLOCK_BYTES)], touched, evicted, writes=True)
    assert touched.counts.to_gpu == 5 * 10 * 512
    assert evicted.counts.to_cpu == (5 * 10 - 8) * 512


def test_an_access_within_what_fits_moves_it_once() -> None:
    memory, touched, evicted = ManagedMemory(KIND, 10), PageMoves(4096), PageMoves(4096)
    memory.allocate(0, 10 * BLOCK_BYTES)
    memory.touch(0, "cpu", [(0, 10 * BLOCK_BYTES)], PageMoves(4096), evicted, writes=True)
    for _ in range(5):
        memory.touch(0, "gpu", [(0, 10 * BLOCK_BYTES)], touched, evicted, writes=True)
    assert (touched.counts.to_gpu, evicted.counts.to_cpu) == (10 * 512, 0)


def test_a_write_ends_the_copies_of_duplicated_pages() -> None:
    memory, moves = ManagedMemory(KIND), PageMoves(4096)
    memory.allocate(0, BLOCK_BYTES)
    memory.touch(0, "cpu", [(0, BLOCK_BYTES)], moves, moves, writes=True)
    memory.advise(0, "read-mostly", moves)
    memory.touch(0, "gpu", [(0, BLOCK_BYTES)], moves, moves, writes=False)
    assert (memory.buffers[0].pages_in("cpu"), memory.buffers[0].pages_in("gpu")) == (512, 512)
    before = moves.counts.services
    memory.touch(0, "cpu", [(0, BLOCK_BYTES)], moves, moves, writes=False)
    assert moves.counts.services == before
    memory.touch(0, "gpu", [(0, 4096)], moves, moves, writes=True)
    assert memory.buffers[0].pages_in("cpu") < 512


def test_memory_without_pages_is_taken_before_that_in_use() -> None:
    # uvm_pmm_gpu.c, pick_root_chunk_to_evict: what keeps the memory of pages that left goes first, though it came last.
    memory, evicted = ManagedMemory(KIND, 3), PageMoves(4096)
    for buffer in range(4):
        memory.allocate(buffer, BLOCK_BYTES)
    for buffer in range(3):
        memory.touch(buffer, "gpu", [(0, BLOCK_BYTES)], PageMoves(4096), evicted, writes=True)
    memory.touch(2, "cpu", [(0, BLOCK_BYTES)], PageMoves(4096), evicted, writes=True)
    assert memory.held == 3
    memory.touch(3, "gpu", [(0, BLOCK_BYTES)], PageMoves(4096), evicted, writes=True)
    assert (evicted.counts.to_cpu, memory.buffers[0].pages_in("gpu")) == (0, 512)


def test_what_got_pages_last_leaves_last() -> None:
    # uvm_va_block.c, block_mark_memory_used: a block goes to the end of the list when more of its pages arrive.
    memory, evicted = ManagedMemory(KIND, 2), PageMoves(4096)
    for buffer in range(3):
        memory.allocate(buffer, BLOCK_BYTES)
    for buffer, end in ((0, 4096), (1, BLOCK_BYTES), (0, BLOCK_BYTES), (2, BLOCK_BYTES)):
        memory.touch(buffer, "gpu", [(0, end)], PageMoves(4096), evicted, writes=True)
    assert [memory.buffers[buffer].pages_in("gpu") for buffer in range(3)] == [512, 0, 512]
