"""NVIDIA's driver of unified memory: what leaves the GPU's memory when that is full.

Source: kernel-open/nvidia-uvm of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04. A chunk is 2 MiB of the
GPU's memory; all of it serves one block of managed memory.
"""

from __future__ import annotations

from typing import Final, Literal

from firsttouch.model.rules.releases import Release, is_since

DISCARDED_SINCE: Final[tuple[Release, ...]] = ((580, 65, 6),)
"""The first release with a list of chunks whose pages the program has discarded."""
PUBLISHED_SINCE: Final[tuple[Release, ...]] = ((515, 43, 4),)
"""The first release whose source is public. In 418.67 on a Power 9, pages of a buffer of twice the GPU's memory come
back by faults in each of five passes of a kernel (LutzCle/unified-memory-debugging).
"""

ChunkList = Literal["free", "unused", "discarded", "used"]
"""free: belongs to nobody. unused: its block has no page resident here. discarded: as the program said. used: some
pages are resident, in the order in which the latest of a chunk's became so.
"""


def chunk_lists(release: Release) -> tuple[ChunkList, ...]:
    """The lists from whose fronts chunks are taken, in order: the next one when one is empty.

    The list of used chunks is in the order in which pages became resident, not of their use: accesses to resident
    pages are not seen (TODO Bug 1765193). Memory used in turns that is larger than the GPU's then misses always.

    Source: uvm_pmm_gpu.c, pick_root_chunk_to_evict, since 595 with get_first_allocated_chunk; uvm_va_block.c,
    block_mark_memory_used.
    """
    return ("free", "unused", "discarded", "used") if is_since(release, DISCARDED_SINCE) else ("free", "unused", "used")


def keeps_mapping(
    release: Release, *, accessed_by: bool, preferred: bool, counts_accesses: bool, counters_enabled: bool
) -> bool:
    """Whether the GPU maps evicted pages where they are then, so that its next access is remote and does not fault.

    Args:
        accessed_by: the range has this advice for the GPU.
        preferred: the GPU is its preferred location, so that its next access is to bring the pages back.
        counts_accesses: the GPU has access counters.
        counters_enabled: these may move pages (access_counters.counters_enabled), whether they do with the host's pages
            or not.

    Source: uvm_va_block.c, uvm_va_block_evict_chunks, block_add_eviction_mappings,
    map_get_allowed_destinations for a preferred location.
    """
    counted = counts_accesses and counters_enabled and is_since(release, PUBLISHED_SINCE)
    return not preferred and (accessed_by or counted)
