"""Patterns of memory use, for advice about a program that is not an application of firsttouch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firsttouch.units import format_size
from firsttouch.workload.program import Access, Block, Item, Launch, Program, fold
from firsttouch.workspace.declarations import Agent, Role

ITERATIONS = 10
SPREAD, PICKED = "per-64KiB", 128 / 65536
"""Sparse touches, in the words of the experiment migration, and the part of the bytes that they use."""


class _Builder:
    """Makes a program, one launch at a time."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.initialise: list[Item] = []
        self.compute: list[Item] = []

    def buffer(self, name: str, nbytes: int, role: Role, ends_on: Agent | None = None) -> int:
        number = len(self.blocks)
        starts_on: Agent | None = None if role == "output" else "cpu"
        self.blocks.append(Block(name, nbytes, role, "both", starts_on, ends_on))
        if starts_on:
            self.initialise.append(Launch("cpu", (Access(number, 0, nbytes, reads=False, writes=True),)))
        return number

    def pick(self, number: int) -> None:
        """A kernel reads one line of each stretch."""
        end = self.blocks[number].nbytes
        self.compute.append(Launch("gpu", (Access(number, 0, end, True, False, PICKED, SPREAD),)))

    def launch(self, agent: Agent, *, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> None:
        used = dict.fromkeys((*reads, *writes))
        accesses = (Access(n, 0, self.blocks[n].nbytes, reads=n in reads, writes=n in writes) for n in used)
        fold(self.compute, Launch(agent, tuple(accesses)))


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


def program_for(pattern: str, size: int) -> Program:
    """The program of a pattern with `size` bytes of buffers."""
    builder = _Builder()
    PATTERNS[pattern].build(builder, size)
    title = f"{pattern}, {format_size(size)}"
    return Program(title, tuple(builder.blocks), tuple(builder.initialise), tuple(builder.compute))
