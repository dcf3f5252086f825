"""NVIDIA's driver of unified memory: which pages move, where they go, and in how many copies.

Source: kernel-open/nvidia-uvm of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04. A block is what the driver
manages at once: up to 2 MiB of virtual memory, aligned to that. Sets of its pages are whole numbers: page i is bit i.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent


BLOCK_BYTES: Final = 2 << 20
"""UVM_VA_BLOCK_SIZE (uvm_va_block_types.h)."""
BIG_PAGE_BYTES: Final = 64 << 10
"""UVM_BIG_PAGE_SIZE (uvm_perf_prefetch.c): the pages of as many bytes around a fault count as present."""
THRESHOLD: Final = 51
"""UVM_PREFETCH_THRESHOLD_DEFAULT (uvm_perf_prefetch.c): per cent of a part of a block."""


COUNTED_STEP: Final = 128 << 20
"""The vendor's management library counts the memory of managed pages in such steps, beside what the step has free that
the context began: 16 to 41 MiB in evidence/results/h200-apps-1 to -8, more than 92 on another machine with the same
GPU.
"""
BATCH_FAULTS: Final = 256
"""UVM_PERF_FAULT_BATCH_COUNT_DEFAULT (uvm_gpu_replayable_faults.c): the driver fetches as many faults at once."""
FAULTS_OF_BLOCK: Final = 2
"""Of one block in a batch: with two, the services and copies a block are about those that events of parallel kernels
show.
"""
STAYS_PREFERRED: Final = (590, 44, 1)
"""The release since which faults take nothing along out of the preferred location (uvm_perf_prefetch.c)."""


def blocks_at_once(blocks: int) -> int:
    """Of how many blocks a batch serves faults, if a kernel faults on all these at once."""
    return max(1, min(blocks, BATCH_FAULTS // FAULTS_OF_BLOCK))


def filled(count: int) -> int:
    """The set of the first so many pages."""
    return (1 << count) - 1


def span(first: int, end: int) -> int:
    """The set of pages [first, end)."""
    return filled(end) & ~filled(first)


def runs(pages: int) -> Iterator[tuple[int, int]]:
    """The stretches [first, end) of neighbouring pages in a set, in order."""
    position = 0
    while pages:
        skipped = (pages & -pages).bit_length() - 1
        pages >>= skipped
        length = (~pages & (pages + 1)).bit_length() - 1
        yield position + skipped, position + skipped + length
        pages >>= length
        position += skipped + length


def density_prefetch(
    resident: int, faulted: int, leaves: int, *, big: int = 16, threshold: int = THRESHOLD, grow: bool = True
) -> int:
    """The pages that a service of faults takes along, without those that faulted; some may be there already.

    Over the pages of a block lies a binary tree. From each page that faulted upwards, the largest part of which more
    than `threshold` per cent are at the destination, or arrive, comes whole.

    Args:
        resident: the pages that are at the destination already.
        leaves: the pages of the block.
        big: pages of a big page, all of which count as arriving if one faulted.
        grow: whether big pages count so; not where the host's page tables are used (uvm_perf_prefetch_compute_ats).

    Source: uvm_perf_prefetch.c, compute_prefetch_mask and what it calls.
    """
    arriving = resident | faulted
    if grow:
        step = big if leaves >= big else leaves
        for first in range(0, leaves, step):
            unit = span(first, min(first + step, leaves))
            if faulted & unit:
                arriving |= unit
    prefetched, rest = 0, faulted
    while rest:
        page = (rest & -rest).bit_length() - 1
        first, end = _largest_dense(arriving, page, leaves, threshold)
        prefetched |= span(first, end)
        if end == leaves:
            break
        rest &= rest - 1
    return prefetched & ~faulted


def _largest_dense(there: int, page: int, leaves: int, threshold: int) -> tuple[int, int]:
    best, size = (page, page), 1
    while True:
        first = page // size * size
        end = min(first + size, leaves)
        if (there & span(first, end)).bit_count() * 100 > (end - first) * threshold:
            best = (first, end)
        if first == 0 and end == leaves:
            return best
        size *= 2


def counted(nbytes: int) -> int:
    """The bytes that the vendor's management library counts, of so many that belong to managed pages: the nearest
    number of steps, which is at most one off.
    """
    return (nbytes + COUNTED_STEP // 2) // COUNTED_STEP * COUNTED_STEP


class Policy(NamedTuple):
    """What the driver was advised about a range. accessed_by: the agents that get mappings of it wherever it is."""

    preferred: Agent | None = None
    accessed_by: tuple[Agent, ...] = ()
    read_mostly: bool = False


class Destination(NamedTuple):
    """Where pages go that an agent faulted on. duplicated: the other agent keeps its copy."""

    place: Agent
    duplicated: bool = False


def residency(
    agent: Agent, *, writes: bool, resident: Agent | None, policy: Policy, reaches: tuple[Agent, ...]
) -> Destination:
    """Where a page goes on which an agent faulted.

    Args:
        resident: where the page is; None if nobody has touched it.
        reaches: the memories that the agent can access, its own among them.

    Source: uvm_va_block.c, block_select_processor_residency, in its order; without thrashing, which is another rule,
    and without what only memory of the system's allocator (HMM) or another process meets.
    """
    if policy.read_mostly:
        return Destination(agent, duplicated=not writes)
    if agent == policy.preferred:
        return Destination(agent)
    if resident is None:
        return Destination(policy.preferred if policy.preferred in reaches and policy.preferred else agent)
    if agent in policy.accessed_by and resident in reaches:
        return Destination(resident)
    if resident != agent and policy.preferred in reaches and policy.preferred:
        return Destination(policy.preferred)
    return Destination(agent)


def takes_along(destination: Agent, policy: Policy, release: tuple[int, ...]) -> bool:
    """Whether faults take other pages along: since 590.44.01 not out of the preferred location.

    Source: uvm_perf_prefetch.c, should_apply_prefetch_logic, without confidential computing; releases to 580.142 have
    no such condition.
    """
    return release < STAYS_PREFERRED or policy.preferred in (None, destination)


def fills_block(destination: Agent, policy: Policy, populated: int) -> bool:
    """Whether the first touch of a block brings all of it: at the preferred location, if nothing of it is anywhere.

    Source: uvm_perf_prefetch.c, uvm_perf_prefetch_prenotify_fault_migrations.
    """
    return policy.preferred == destination and not populated


def copies(moved: int, faulted: int) -> int:
    """How many copies, each with a record of its own, move a set of pages of which some faulted: one for each stretch
    of neighbours that all faulted or were all taken along.

    Source: uvm_va_block.c, block_copy_resident_pages_between.
    """
    return sum(1 for part in (moved & faulted, moved & ~faulted) for _ in runs(part))
