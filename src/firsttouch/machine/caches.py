"""The size of the last-level cache that buffers must exceed."""

from __future__ import annotations

MAX_PER_PROCESSOR = 32 * 2**20
"""Upper bound of the last-level cache for each usable processor, in bytes.

A virtual machine or a container with two processors may report the cache of the whole socket, such as 480 MiB. Two
processors would need most of a run to fill four times that.
"""


def effective_cache_bytes(reported: int, processors: int) -> int:
    """The reported size of the last-level cache, limited to MAX_PER_PROCESSOR for each of the usable processors."""
    return min(reported, MAX_PER_PROCESSOR * processors) if processors > 0 else reported
