"""port-free-memory: a program that keeps a block takes as large a batch as fits beside it.

The driver's counter of free device memory falls by each block of device memory. It does not fall by unified memory
whose pages are on the host, or that the driver does not manage. The ported form asks the operating system, and takes
the least of MemAvailable and, if the device has memory of its own, the driver's counter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, words
from firsttouch.apps.port_programs.program import BY_FORM, FormRun, PortProgram, codebook, fact
from firsttouch.base.errors import Unsupported
from firsttouch.base.units import MiB, format_size
from firsttouch.machine.tree import Tree
from firsttouch.machine.usage import host_usage
from firsttouch.records.schema import Scalar, as_number

KEPT, ADDED = 3, 4
MISSED_SHARE = 0.5
"""The counter misses the block if it fell by less than this fraction of its bytes."""


class BatchOfFreeMemory(PortProgram):
    """A batch sized by free memory. Source: IISWC 2025 Sec. III-C, memory capacity queries."""

    name = "port-free-memory"
    order = 92
    question = "What does the counter of free device memory say of unified memory?"
    hazard = "the driver's counter of free memory misses unified memory in use"
    strategy = "asks the operating system what is available"
    naive_is_right = True
    size = 64 * MiB
    figures = (BY_FORM,)
    codebook = codebook(seen_bytes="B", free_bytes="B", batch_bytes="B")

    def expected(self, size: int) -> Sequence[int]:
        return [KEPT * (size // WORD), (KEPT + ADDED) * (size // 4 // WORD)]

    def discrete(self, parts: Parts, size: int) -> FormRun:
        before = parts.device.memory()[1]
        with parts.on_host(size) as host, parts.on_device(size) as kept:
            words(host)[:] = KEPT
            parts.copy(kept, host, size)
            parts.wait()
            free = parts.device.memory()[1]
            batch_bytes = _batch(size, free)
            with parts.on_device(batch_bytes) as batch, parts.on_host(batch_bytes) as out:
                parts.copy(batch, kept, batch_bytes)
                parts.launch("port_add", batch_bytes // WORD, batch, batch_bytes // WORD, ADDED)
                parts.copy(out, batch, batch_bytes)
                parts.wait()
                result = [int(words(host).sum()), int(words(out).sum())]
        seen = before - free if parts.info.capabilities.reports_free_memory else None
        return FormRun(result, counters=_counted(seen, free, batch_bytes))

    def naive(self, parts: Parts, size: int) -> FormRun:
        if not parts.info.capabilities.reports_free_memory:
            raise Unsupported(f"the driver of {parts.info.name} has no counter of free memory")
        run = _unified(parts, size, lambda: parts.device.memory()[1], lambda: -parts.device.memory()[1])
        fallen_bytes = as_number(run.counters["seen_bytes"]) or 0
        hazard = (
            f"the driver's counter of free memory fell by {format_size(fallen_bytes)} for {format_size(size)} in use"
        )
        return replace(run, hazard=hazard if fallen_bytes < MISSED_SHARE * size else "")

    def ported(self, parts: Parts, size: int) -> FormRun:
        return _unified(parts, size, lambda: free_for_both(parts), _host_in_use)


def _unified(parts: Parts, size: int, ask: Callable[[], int], in_use: Callable[[], int]) -> FormRun:
    """The program with unified memory. ask: returns the bytes that are free. in_use: a count that rises by what the
    same source sees of a block.
    """
    before = in_use()
    with parts.unified(size) as kept:
        words(kept)[:] = KEPT
        seen, free = in_use() - before, ask()
        batch_bytes = _batch(size, free)
        with parts.unified(batch_bytes) as batch:
            words(batch)[:] = words(kept)[: batch_bytes // WORD]
            parts.launch("port_add", batch_bytes // WORD, batch, batch_bytes // WORD, ADDED)
            parts.wait()
            result, facts = [int(words(kept).sum()), int(words(batch).sum())], [fact("kept", kept)]
    return FormRun(result, counters=_counted(seen, free, batch_bytes), buffers=facts)


def free_for_both(parts: Parts) -> int:
    """The bytes that the CPU and kernels can still use: what the operating system has available; if the device has
    memory of its own, at most what that has free.
    """
    limits = [_core.host_available()]
    if not parts.info.capabilities.shares_host_memory:
        limits.append(parts.device.memory()[1])
    return min(limits)


def _host_in_use() -> int:
    """Without the free pages that the kernel keeps for each processor, which MemAvailable counts as used."""
    return host_usage(Tree())["host_free_and_lists"]


def _batch(size: int, free: int) -> int:
    """A quarter of what is kept, if so much is free. The program need not fill the machine to show what it was told."""
    if free < size // 4:
        raise _core.GuardRefused(f"{format_size(free)} are free, and the batch takes {format_size(size // 4)}")
    return size // 4


def _counted(seen: int | None, free: int, batch: int) -> dict[str, Scalar]:
    return {"seen_bytes": None if seen is None else max(0, seen), "free_bytes": free, "batch_bytes": batch}


PROGRAM = BatchOfFreeMemory()
