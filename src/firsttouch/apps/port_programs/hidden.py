"""port-hidden: the nearest of records that are appended to a vector, whose allocator nobody sees.

A vector doubles its block when it is full, and copies what it holds. With copies to the device, that is memory of the
host, and the device holds a block of the final size. If the vector itself is unified memory, each of its blocks is new
to CPU and device: pages are touched twice, and at the last doubling half as much again is held. The ported form
reserves the final size at once.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, words
from firsttouch.apps.port_programs.program import BY_FORM, FormRun, PortProgram, codebook, fact
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.base import WorkerRules
from firsttouch.experiments.contract.common import MMAP_EVERY_BLOCK
from firsttouch.records.schema import Scalar

if TYPE_CHECKING:
    from firsttouch.apps.port_programs.parts import WordArray

PIECE = 16 * 1024
"""Bytes that are appended at a time."""
HERE = (500_000, 250_000)
MORE_FAULTS = 1.3
"""The hazard is observed if so many times as many page faults as with a reserved block were counted."""


class GrowingVector:
    """A block of unified or host memory that doubles when it is full, as std::vector does.

    allocate: obtains a block. peak_bytes, blocks: the most bytes held at once, and the number of blocks obtained.
    """

    def __init__(self, allocate: Callable[[int], _core.Buffer], reserved: int = PIECE) -> None:
        self._allocate, self.block = allocate, allocate(reserved)
        self.used, self.peak_bytes, self.blocks = 0, reserved, 1

    def append(self, piece: WordArray) -> None:
        if self.used + piece.nbytes > self.block.size:
            old, self.block = self.block, self._allocate(2 * self.block.size)
            self.peak_bytes, self.blocks = max(self.peak_bytes, old.size + self.block.size), self.blocks + 1
            words(self.block)[: self.used // WORD] = words(old)[: self.used // WORD]
            old.free()
        words(self.block)[self.used // WORD : (self.used + piece.nbytes) // WORD] = piece
        self.used += piece.nbytes


class GrowingRecords(PortProgram):
    """Nearest neighbour over a growing vector. Source: IISWC 2025 Sec. III-C, allocations inside containers."""

    name = "port-hidden"
    order = 96
    question = "What does a growing container do in unified memory?"
    hazard = "a growing vector obtains new pages at every doubling"
    strategy = "reserves the vector's final size in unified memory"
    naive_is_right = True
    size = 8 * 1024**2
    figures = (BY_FORM,)
    worker = WorkerRules(environment=lambda factors: MMAP_EVERY_BLOCK)
    codebook = codebook(peak_bytes="B", blocks="", faults="", reserved_faults="")

    def expected(self, size: int) -> Sequence[int]:
        return _nearest_by_cpu(size)

    def discrete(self, parts: Parts, size: int) -> FormRun:
        vector = _filled(GrowingVector(parts.on_host), size)
        half = size // 2
        with ExitStack() as alive:
            host, device = alive.enter_context(vector.block), alive.enter_context(parts.on_device(size))
            out, distances = alive.enter_context(parts.on_device(half)), alive.enter_context(parts.on_host(half))
            parts.copy(device, host, size)
            parts.launch("port_distances", half // WORD, device, half // WORD, *HERE, out)
            parts.copy(distances, out, half)
            parts.wait()
            return FormRun(_nearest(words(distances)), counters=_counted(vector))

    def naive(self, parts: Parts, size: int) -> FormRun:
        reserved = parts.once("reserved", lambda: _faults_of_reserved(parts, size))
        before = _faults()
        vector = _filled(GrowingVector(parts.unified), size)
        faults = _faults() - before
        result, facts = _launched(parts, vector, size), [fact("vector", vector.block)]
        vector.block.free()
        hazard = ""
        if reserved and faults >= MORE_FAULTS * reserved:
            held = f"{vector.blocks} blocks, {format_size(vector.peak_bytes)} at once for {format_size(size)}"
            hazard = f"growing took {held}, and {faults / reserved:.1f} times the page faults of a reserved block"
        return FormRun(result, hazard, {**_counted(vector), "faults": faults, "reserved_faults": reserved}, facts)

    def ported(self, parts: Parts, size: int) -> FormRun:
        _records(size // WORD)
        before = _faults()
        vector = _filled(GrowingVector(parts.unified, size), size)
        faults = _faults() - before
        result, facts = _launched(parts, vector, size), [fact("vector", vector.block)]
        vector.block.free()
        return FormRun(result, counters={**_counted(vector), "faults": faults}, buffers=facts)


def _faults_of_reserved(parts: Parts, size: int) -> int:
    _records(size // WORD)
    before = _faults()
    with _filled(GrowingVector(parts.unified, size), size).block:
        return _faults() - before


def _filled(vector: GrowingVector, size: int) -> GrowingVector:
    records = _records(size // WORD)
    for start in range(0, records.size, PIECE // WORD):
        vector.append(records[start : start + PIECE // WORD])
    return vector


@cache
def _records(count: int) -> WordArray:
    """Coordinates below 2^20, word by word. They exist before page faults are counted."""
    import numpy as np

    made: WordArray = np.arange(count, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**20)
    return made


def _launched(parts: Parts, vector: GrowingVector, size: int) -> list[int]:
    half = size // 2
    with parts.unified(half) as out:
        parts.launch("port_distances", half // WORD, vector.block, half // WORD, *HERE, out)
        parts.wait()
        return _nearest(words(out))


def _nearest(distances: WordArray) -> list[int]:
    """The index of the nearest record, and its distance."""
    at = int(distances.argmin())
    return [at, int(distances[at])]


@cache
def _nearest_by_cpu(size: int) -> Sequence[int]:
    import numpy as np

    records = _records(size // WORD)
    x, y = records[0::2] - np.uint64(HERE[0]), records[1::2] - np.uint64(HERE[1])
    return _nearest(x * x + y * y)


def _counted(vector: GrowingVector) -> dict[str, Scalar]:
    return {"peak_bytes": vector.peak_bytes, "blocks": vector.blocks}


def _faults() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


PROGRAM = GrowingRecords()
