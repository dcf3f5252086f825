"""Chips whose CPU and GPU share one memory, without a common cache: which caches hold which memory, and when they are
written back.

Source: Dashti and Fedorova, "Analyzing Memory Management Methods on Integrated CPU-GPU Systems" (ISMM 2017), whose
statements the papers' file integrated-2017 restates: rows allocation.tk1.*, allocation.kaveri.*, machine.kaveri.bus.*.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

CacheCoherence = Literal["none", "bus"]
"""none: no hardware keeps the caches of CPU and GPU alike. bus: a GPU's accesses to some memory take a bus that holds
them against the CPU's caches.
"""
SharedMemory = Literal["device", "locked", "moving", "coherent", "atomic"]
"""device: of the device, or page-locked and mapped for one agent at a time. locked: page-locked, used by both where it
is. moving: managed. coherent: fine-grained. atomic: fine-grained, coherent while kernels run.
"""


class MemoryCaching(NamedTuple):
    """Which agents' caches hold memory. flushed: the driver writes them back when a kernel begins and ends."""

    cpu: bool
    gpu: bool
    flushed: bool = False


def caching(coherence: CacheCoherence, memory: SharedMemory) -> MemoryCaching:
    """How memory is cached on a chip.

    Without hardware, page-locked memory is coherent because neither agent caches it, and managed memory because the
    caches are flushed. With a bus, coherent memory is flushed when kernels end, and what is coherent while they run is
    not in the GPU's caches.
    """
    if memory == "device":
        return MemoryCaching(cpu=True, gpu=True)
    if memory == "locked" and coherence == "none":
        return MemoryCaching(cpu=False, gpu=False)
    if memory == "atomic" and coherence == "bus":
        return MemoryCaching(cpu=True, gpu=False)
    return MemoryCaching(cpu=True, gpu=True, flushed=True)
