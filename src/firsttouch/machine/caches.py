"""How much of a stated last-level cache buffers are sized for."""

from __future__ import annotations

PER_PROCESSOR = 32 * 2**20
"""Bytes of last-level cache for each usable processor that buffers are sized to exceed, at most.

A virtual machine or a container with two processors may state the cache of the whole socket, such as 480 MiB. Filling
four times that by two processors would take most of a run.
"""


def sized_for(stated: int, processors: int) -> int:
    """Bytes of a last-level cache of `stated` bytes that buffers are sized for where so many processors fill them."""
    return min(stated, PER_PROCESSOR * processors) if processors > 0 else stated
