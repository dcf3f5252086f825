"""Patterns of memory use, for advice about a program that is not an application of firsttouch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from firsttouch.advice.accesses import Access, Block, Declared
from firsttouch.units import format_size
from firsttouch.workspace.workspace import Agent, Declaration, Role

ITERATIONS = 10
SPREAD, PICKED = "per-64KiB", 128 / 65536
"""Sparse touches, in the words of the experiment migration, and the part of the bytes that they use."""
BYTE = np.dtype(np.uint8)


class _Builder:
    """Makes declared accesses, one launch at a time."""

    def __init__(self, title: str) -> None:
        self.declared = Declared(title, [])
        self._launches = 0

    def buffer(self, name: str, nbytes: int, role: Role, ends_on: Agent | None = None) -> int:
        index = len(self.declared.blocks)
        starts_on: Agent | None = None if role == "output" else "cpu"
        declaration = Declaration(name, BYTE, (nbytes,), role, "both", starts_on, ends_on)
        self.declared.blocks.append(Block(index, declaration))
        self.declared.computing[name] = self.declared.ending[name] = index
        if starts_on:
            self._use("initialise", "cpu", index, reads=False, writes=True)
        return index

    def _use(
        self, phase: str, agent: Agent, index: int, *, reads: bool, writes: bool, spread: str = "", passes: float = 1
    ) -> None:
        end = self.declared.blocks[index].declaration.nbytes
        self._launches += 1
        access = Access(phase, self._launches, agent, index, 0, end, reads, writes, passes, spread=spread)  # type: ignore[arg-type]
        self.declared.accesses.append(access)

    def pick(self, index: int) -> None:
        """A kernel reads one line of each stretch."""
        self._use("compute", "gpu", index, reads=True, writes=False, spread=SPREAD, passes=PICKED)

    def launch(self, agent: Agent, *, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> None:
        for index in dict.fromkeys((*reads, *writes)):
            self._use("compute", agent, index, reads=index in reads, writes=index in writes)


def _stream(b: _Builder, size: int) -> None:
    source, result = b.buffer("input", size // 2, "input"), b.buffer("output", size // 2, "output", "cpu")
    b.launch("gpu", reads=(source,), writes=(result,))


def _iterate(b: _Builder, size: int) -> None:
    data = b.buffer("data", size, "inout", "cpu")
    for _ in range(ITERATIONS):
        b.launch("gpu", reads=(data,), writes=(data,))


def _reduce(b: _Builder, size: int) -> None:
    data = b.buffer("input", size, "input")
    for _ in range(ITERATIONS):
        b.launch("gpu", reads=(data,))


def _feed(b: _Builder, size: int) -> None:
    data = b.buffer("input", size, "inout")
    for i in range(ITERATIONS):
        if i:
            b.launch("cpu", writes=(data,))
        b.launch("gpu", reads=(data,))


def _alternate(b: _Builder, size: int) -> None:
    data = b.buffer("data", size, "inout", "cpu")
    for _ in range(ITERATIONS):
        b.launch("gpu", reads=(data,), writes=(data,))
        b.launch("cpu", reads=(data,), writes=(data,))


def _sparse(b: _Builder, size: int) -> None:
    b.pick(b.buffer("input", size, "inout"))


def _generate(b: _Builder, size: int) -> None:
    result = b.buffer("output", size, "output", "cpu")
    for _ in range(ITERATIONS):
        b.launch("gpu", writes=(result,))


@dataclass(frozen=True)
class Pattern:
    """meaning: what the program does, in words that follow 'a program that'."""

    meaning: str
    build: Callable[[_Builder, int], None]


PATTERNS: Mapping[str, Pattern] = {
    "stream": Pattern("reads each input once in a kernel and each result once on the CPU", _stream),
    "iterate": Pattern(f"writes data on the CPU, updates them in {ITERATIONS} kernels, and reads them back", _iterate),
    "read-many": Pattern(f"writes data on the CPU and reads them in {ITERATIONS} kernels", _reduce),
    "feed": Pattern(f"writes new data on the CPU before each of {ITERATIONS} kernels", _feed),
    "alternate": Pattern(f"updates the same data in a kernel and on the CPU in turn, {ITERATIONS} times", _alternate),
    "sparse": Pattern("writes data on the CPU, of which a kernel reads one line in each 64 KiB, once", _sparse),
    "generate": Pattern("generates data in kernels, and reads them on the CPU", _generate),
}
USUAL = "iterate"
"""The pattern for which advice is given if none is named."""


def declared_for(pattern: str, size: int) -> Declared:
    """The accesses of a pattern with `size` bytes of buffers."""
    builder = _Builder(f"{pattern}, {format_size(size)}")
    PATTERNS[pattern].build(builder, size)
    return builder.declared
