"""A stencil on a GPU with less memory than data, of which others published times and counts (less_memory.json): what
the driver's rules count, and what they make of it with the times of h200-pcie.

Thread blocks of 16 x 16 go through the grid in rows of blocks. As many as fit on the GPU run at once, and fault on
their pages in no order. A batch holds as many pages as batches did when all data were in the GPU's memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.pages import Kind, Order
from firsttouch.model.platform import load_platform
from firsttouch.model.rules.uvm import BLOCK_BYTES, copies, density_prefetch

PUBLISHED: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("less_memory.json").read_bytes())
PAGE, LEAVES, TILE = 4096, 512, 16
ROW = 4 * PUBLISHED["side"]
GRID = ROW * PUBLISHED["side"]
BLOCKS = 2 * GRID / BLOCK_BYTES
BANDS = 22
"""Rows of thread blocks that are counted: those of eight blocks of memory in each grid."""
NO_TREE = 100
"""The threshold of the tree that no part of a block exceeds."""


class PerBlock(NamedTuple):
    """Counts of a sweep, for each block of memory."""

    batches: float
    services: float
    copies: float


def per_sweep(what: str, how: str) -> float:
    first, last = PUBLISHED[what][how]
    return float((last - first) / PUBLISHED["sweeps"])


def pages_of_a_batch() -> int:
    recorded = PUBLISHED["in_memory"]
    return round(recorded["pages"] / recorded["batches"])


def wanted() -> Iterator[list[tuple[int, int]]]:
    """The pages (grid, page) that each wave of thread blocks needs, in no order."""
    anyhow = random.Random(1)
    width = PUBLISHED["resident_threads"] // TILE**2 * TILE * 4
    for top in range(0, BANDS * TILE, TILE):
        for a in range(0, ROW, width):
            b = min(ROW, a + width)
            rows = [(0, top + i) for i in range(TILE + 2)] + [(1, top + i) for i in range(1, TILE + 1)]
            pages = {(g, p) for g, r in rows for p in range((r * ROW + a) // PAGE, -(-(r * ROW + b) // PAGE))}
            yield anyhow.sample(sorted(pages), len(pages))


@cache
def counted(threshold: int) -> PerBlock:
    there: dict[tuple[int, int], int] = {}
    batches = services = moved = copied = 0
    for wave in wanted():
        while missing := [(g, p) for g, p in wave if not there.get((g, p // LEAVES), 0) >> p % LEAVES & 1]:
            batches += 1
            faulted: dict[tuple[int, int], int] = {}
            for grid, page in missing[: pages_of_a_batch()]:
                key = (grid, page // LEAVES)
                faulted[key] = faulted.get(key, 0) | 1 << page % LEAVES
            for key, pages in faulted.items():
                before = there.get(key, 0)
                more = density_prefetch(before, pages, LEAVES, threshold=threshold) & ~before
                there[key] = before | pages | more
                services += 1
                copied += copies(pages | more, pages)
                moved += (pages | more).bit_count()
    blocks = moved / LEAVES
    return PerBlock(batches / blocks, services / blocks, copied / blocks)


def saved(batch: float, service: float, copy: float) -> float:
    """The seconds that the tree saves in a sweep, of times in ns. What a sweep moves, and evicts, is the same."""
    many, few = counted(NO_TREE), counted(51)
    each = (many.batches - few.batches) * batch + (many.services - few.services) * service
    return BLOCKS * (each + (many.copies - few.copies) * copy) / 1e9


@pytest.mark.slow
def test_all_pages_of_each_sweep_fault_again() -> None:
    """Each sweep evicts what the next needs first. One fault a page was recorded several times, by the same factor as
    in memory."""
    memory = ManagedMemory(Kind(PAGE, (595, 84), threshold=NO_TREE), PUBLISHED["memory_mib"] >> 1)
    evicted, slices = PageMoves(PAGE), 64
    for grid in (0, 1):
        memory.allocate(grid, GRID)
        memory.touch(grid, "cpu", [(0, GRID)], PageMoves(PAGE), evicted, writes=True)
    for _ in range(3):
        moves = PageMoves(PAGE)
        for at in range(slices):
            part = [(GRID * at // slices, GRID * (at + 1) // slices)]
            for grid in (0, 1):
                memory.touch(grid, "gpu", part, moves, evicted, writes=grid == 1, order=Order(0, LEAVES))
    in_memory = PUBLISHED["in_memory"]
    recorded = per_sweep("faults", "no tree") / in_memory["faults"] * in_memory["pages"]
    assert moves.counts.faults == pytest.approx(recorded, rel=0.03)


def test_a_batch_has_faults_in_as_many_blocks_as_were_recorded() -> None:
    recorded = PUBLISHED["recorded"]
    many = counted(NO_TREE)
    assert many.services / many.batches == pytest.approx(recorded["blocks"] / recorded["batches"], rel=0.05)


def published_saving() -> float:
    return per_sweep("seconds", "no tree") - per_sweep("seconds", "tree")


def test_what_the_tree_saves_is_at_most_what_batches_and_services_of_first_touches_took() -> None:
    """Later sweeps take less, since pages that were evicted are not mapped by the CPU."""
    recorded = PUBLISHED["recorded"]
    batch, service = recorded["ns_of_batches"] / recorded["batches"], recorded["ns_of_blocks"] / recorded["blocks"]
    assert published_saving() < saved(batch, service, 0) < 1.6 * published_saving()


def test_what_the_tree_saves_is_less_than_the_times_of_another_host_make_of_it() -> None:
    """Missed: within a factor of 1.5 with the times of h200-pcie. They are of a virtual machine, whose CPU takes over
    three times as long for a service with its copies; no data sheet has a time of that kind. This fails when they fit.
    """
    rates = load_platform("h200-pcie")
    batch, service, copy = (rates.quantity(f"uvm.{name}").value for name in ("batch", "service", "copy"))
    assert 3 < saved(batch, service, copy) / published_saving() < 6
    recorded, many = PUBLISHED["recorded"], counted(NO_TREE)
    one = recorded["ns_of_blocks"] / recorded["blocks"]
    assert service + copy * many.copies / many.services > 3 * one
