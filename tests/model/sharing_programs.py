"""Programs of one buffer that both agents use, and how often the terms of an estimate say so."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch.model.terms import Term
from firsttouch.program.declarations import Agent
from firsttouch.program.program import Access, Block, Launch, Program, Repeat

SIZE = 1 << 30


def program(writes_first: Agent, passes: int, ends_on: Agent | None = "cpu", spread: str = "") -> Program:
    """An agent writes a buffer, then kernels read and write it."""
    block = Block("data", SIZE, "inout", "both", starts_on=writes_first, ends_on=ends_on)
    write = Launch(writes_first, (Access(0, 0, SIZE, False, True),))
    kernel = Launch("gpu", (Access(0, 0, SIZE, True, True, spread=spread),))
    return Program("passes", (block,), (write,), (Repeat(passes, (kernel,)),))


def across(memory: str) -> str:
    """The term for kernels that use memory of the host where it is."""
    return f"use of {memory} memory across the link"


def used(terms: Iterable[Term], what: str) -> float:
    """How often all bytes are used so, in all phases."""
    return sum(term.bytes for term in terms if what in term.what) / SIZE
