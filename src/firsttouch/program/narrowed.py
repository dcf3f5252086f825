"""Programs as they would be if kernels used fewer, or more, of the bytes than is assumed.

What a trace tells of a launch is the blocks that it names. Which of their bytes its kernel uses is assumed, between
those that it certainly uses and the whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from firsttouch.program.program import Access, Item, Launch, Program, Repeat


def is_assumed(program: Program) -> bool:
    """Whether it is assumed of any access of a kernel which bytes it uses."""
    return any(a.certainty == "assumed" for a in _kernel_accesses((*program.initialise, *program.compute)))


def with_share(program: Program, share: float) -> Program:
    """The program if kernels used this share of the bytes that are assumed and not certain, from the first on: 0 to 1.
    With 1, it is the program as it is assumed.
    """

    def narrowed(a: Access) -> Access | None:
        if a.certainty != "assumed":
            return a
        end = a.start + a.certain_bytes + round(share * (a.nbytes - a.certain_bytes))
        return msgspec.structs.replace(a, end=end) if end > a.start else None

    return program if share >= 1 else _with_accesses(program, narrowed)


def widest(program: Program) -> Program:
    """The program if kernels used all of each block of which they are assumed to use any."""

    def widened(a: Access) -> Access:
        if a.certainty != "assumed":
            return a
        return msgspec.structs.replace(a, start=0, end=program.blocks[a.block].nbytes)

    return _with_accesses(program, widened)


def _with_accesses(program: Program, change: Callable[[Access], Access | None]) -> Program:
    """The program with other accesses by its kernels."""

    def items(phase_items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(map(changed, phase_items))

    def changed(item: Item) -> Item:
        if isinstance(item, Repeat):
            return msgspec.structs.replace(item, body=items(item.body))
        if isinstance(item, Launch) and item.agent == "gpu":
            return msgspec.structs.replace(item, accesses=tuple(c for a in item.accesses if (c := change(a))))
        return item

    initialise, compute = items(program.initialise), items(program.compute)
    return msgspec.structs.replace(program, initialise=initialise, compute=compute)


def _kernel_accesses(items: Sequence[Item]) -> Iterator[Access]:
    for item in items:
        if isinstance(item, Repeat):
            yield from _kernel_accesses(item.body)
        elif isinstance(item, Launch) and item.agent == "gpu":
            yield from item.accesses
