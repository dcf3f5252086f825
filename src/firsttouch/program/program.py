"""A program's use of memory as data: its buffers, and the launches of both agents in order, with repeats folded.

Of a traced program (traced.py), some accesses are assumed, and its copies and allocations are kept as it does them.

A program says nothing about strategies or devices. It is stored as JSON (`encode`, `decode`) of the schema SCHEMA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.program.declarations import Agent, ArraySides, Declaration, Role

SCHEMA: Final = "firsttouch-program/1"
SMALL_LAUNCH = 4096
"""Items up to which one CPU thread is faster than waking all of them."""
RANDOM = "random"
"""The spread of an access that takes all bytes in no order."""
SEQUENCE = "sequence"
"""The kernel of a launch that stands for some of a sequence, which use other parts of arrays than the rest."""
Certainty: TypeAlias = Literal["exact", "assumed"]
"""How an access is known: recorded, or named by an argument and otherwise not seen."""
CopiedWay: TypeAlias = Literal["h2d", "d2h", "d2d", "fill"]
LONGEST_BODY = 64
"""The most items of a repeat that is found without being told that a loop begins."""


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What programs consist of."""


class Block(_Item, frozen=True):
    """A buffer, as an application declares it (program/declarations.py).

    times: how often the program obtains it; each time but the first is a Renew among the items. strided: whether
    kernels fault on many blocks of the driver at once.
    """

    name: str
    nbytes: int
    role: Role
    sides: Literal["both", "cpu", "gpu"]
    starts_on: Agent | None = None
    ends_on: Agent | None = None
    advice: tuple[str, ...] | None = None
    file: bool = False
    copies: ArraySides = "both"
    times: int = 1
    strided: bool = False

    @classmethod
    def of(cls, d: Declaration) -> Block:
        return cls(d.name, d.nbytes, d.role, d.sides, d.starts_on, d.ends_on, d.advice, d.file, d.copies)

    @property
    def declaration(self) -> Declaration:
        """The buffer in bytes, without its type and shape."""
        import numpy as np

        shape = (self.nbytes,)
        return Declaration(
            self.name,
            np.dtype(np.uint8),
            shape,
            self.role,
            self.sides,
            self.starts_on,
            self.ends_on,
            self.advice,
            self.file,
            self.copies,
        )


class Access(_Item, frozen=True):
    """The use of bytes [start, end) of a block, by its number.

    passes: how often the bytes are used. spread: only a few bytes in each stretch are, in the words of the experiment
    migration; passes is then the part that is used. updates: of a word by atomics, of
    which each thread group of the kernel makes one. rows: in so many equal parts, of each of which every thread of the
    CPU takes its share; one where an item is in one place. places, apart: the bytes are in so many places, each so
    many bytes from the next; 0: they follow each other. certainty: `assumed` if the range is not recorded, or
    whether it is read and written is not. least: bytes that are certainly used; None: all.
    """

    block: int
    start: int
    end: int
    reads: bool
    writes: bool
    passes: float = 1.0
    spread: str = ""
    updates: int = 0
    rows: int = 1
    places: int = 0
    apart: int = 0
    certainty: Certainty = "exact"
    least: int | None = None

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    @property
    def certain_bytes(self) -> int:
        """The bytes that are certainly used."""
        return self.nbytes if self.least is None else min(self.least, self.nbytes)


class Launch(_Item, frozen=True, tag="launch"):
    """One launch, view or load, with its accesses in the order in which they are prepared.

    by: a parallel kernel (or a library call), single-threaded numpy code, or a copy of a file. threads: of the kernel
    in all; 0 if unknown. at_once: the CPU runs it while kernels use the same bytes. items: that the CPU's threads
    share; 0 if unknown. seconds: on the GPU, the mean of like launches where it was traced; None: not measured.
    """

    agent: Agent
    accesses: tuple[Access, ...]
    by: Literal["kernel", "view", "file"] = "kernel"
    kernel: str = ""
    threads: int = 0
    at_once: bool = False
    items: int = 0
    seconds: float | None = None


class Move(_Item, frozen=True, tag="move"):
    """A copy, or a fill of memory, as a traced program does it itself. Under a strategy it does not happen: what it
    means is said by the launches beside it.

    start, end: where it is in the block; nbytes: without what lies between its rows. pinned: the host's side is
    page-locked. new: bytes of pages of the host that are touched for it first, by the CPU before a copy to the device,
    by the copy itself on the way back. seconds: on the GPU, the mean of like copies; None: not measured.
    """

    way: CopiedWay
    block: int
    start: int
    end: int
    nbytes: int
    pinned: bool = False
    new: int = 0
    seconds: float | None = None


class Renew(_Item, frozen=True, tag="renew"):
    """A block is given back and obtained again, without what it held."""

    block: int


class Obtained(_Item, frozen=True):
    """Memory that a traced program obtains itself, and how often. pinned: of the host; else of the device. alone: the
    device alone uses it, and nothing is copied to it or from it.
    """

    nbytes: int
    times: int = 1
    pinned: bool = False
    alone: bool = False


class Swap(_Item, frozen=True, tag="swap"):
    """Two blocks exchange their memory."""

    first: int
    second: int


class AwaitAll(_Item, frozen=True, tag="wait"):
    """The program itself waits for all queued work."""


class ExchangeMark(_Item, frozen=True, tag="exchange-mark"):
    """An exchange with other processes ends, from packing to unpacked; with `begins`, one begins."""

    begins: bool = False


class Messages(_Item, frozen=True, tag="messages"):
    """This process sends messages to others of the application, and receives as many, all at once, and waits for them.
    sizes: bytes of each that it receives.
    """

    sizes: tuple[int, ...]


class Combine(_Item, frozen=True, tag="combine"):
    """All processes of the application combine a number of each, and wait for the result."""


class LoopMark(_Item, frozen=True, tag="mark"):
    """An iteration of a loop that is timed ends; with `begins`, such a loop begins."""

    begins: bool = False


class Repeat(_Item, frozen=True, tag="repeat"):
    """The same items, several times."""

    count: int
    body: tuple[Item, ...]


Exchanging: TypeAlias = ExchangeMark | Messages | Combine
"""What several processes of an application do together."""
Item: TypeAlias = Launch | Swap | AwaitAll | Exchanging | LoopMark | Move | Renew | Repeat


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """title: its name and size. initialise, compute: what happens in these phases. assumptions: what is not exact, in
    sentences. tiled: whether it can work on parts of its data that fit on the device. rounds: how many are assumed of
    each loop that ends when data say so; 0: no loop does. obtained: what a traced program allocates itself. iterations:
    how often it initialises, computes and reads back, with the same buffers.
    """

    title: str
    blocks: tuple[Block, ...]
    initialise: tuple[Item, ...] = ()
    compute: tuple[Item, ...] = ()
    assumptions: tuple[str, ...] = ()
    tiled: bool = False
    rounds: int = 0
    obtained: tuple[Obtained, ...] = ()
    iterations: int = 1
    schema: Literal["firsttouch-program/1"] = SCHEMA

    @property
    def declarations(self) -> list[Declaration]:
        return [block.declaration for block in self.blocks]

    @property
    def nbytes(self) -> int:
        """The bytes of its buffers."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def launches(self) -> int:
        """How many launches it makes."""
        return _launches(self.initialise) + _launches(self.compute)


def message_sizes(items: Sequence[Item]) -> Counter[int]:
    """How many messages of how many bytes a process receives, but for empty ones."""
    sizes: Counter[int] = Counter()
    for item in items:
        if isinstance(item, Repeat):
            sizes.update({size: item.count * n for size, n in message_sizes(item.body).items()})
        elif isinstance(item, Messages):
            sizes.update(size for size in item.sizes if size)
    return sizes


def _launches(items: Sequence[Item]) -> int:
    counts = (i.count * _launches(i.body) if isinstance(i, Repeat) else isinstance(i, Launch) for i in items)
    return sum(counts)


def launch_alike(first: Program | None, second: Program | None) -> bool:
    """Whether two programs launch the same, whatever bytes they access."""
    return first is not None and second is not None and _shape(first.compute) == _shape(second.compute)


def _shape(items: Sequence[Item]) -> tuple[object, ...]:
    """The launches of items and how often they are repeated, without what they access."""
    return tuple(
        (item.count, _shape(item.body))
        if isinstance(item, Repeat)
        else (item.agent, item.by, item.kernel)
        if isinstance(item, Launch)
        else item
        for item in items
    )


def fold(items: list[Item], item: Item) -> None:
    """Append an item to a list, whose end becomes a Repeat where it recurs."""
    items.append(item)
    for n in range(1, min(LONGEST_BODY, len(items) - 1) + 1):
        before = items[-n - 1]
        if isinstance(before, Repeat) and len(before.body) == n and before.body == tuple(items[-n:]):
            items[-n - 1 :] = [Repeat(before.count + 1, before.body)]
            return
        if before == item and 2 * n <= len(items) and items[-2 * n : -n] == items[-n:]:
            repeat = Repeat(2, tuple(items[-n:]))
            del items[-2 * n :]
            fold(items, repeat)
            return


def append_body(items: list[Item], body: Sequence[Item], times: int = 1) -> None:
    """Append one round of a loop, or several that are equal."""
    whole, last = tuple(body), items[-1] if items else None
    if not whole or times < 1:
        return
    if isinstance(last, Repeat) and last.body == whole:
        items[-1] = Repeat(last.count + times, whole)
    elif times == 1 and tuple(items[-len(whole) :]) != whole:
        items += whole
    else:
        if tuple(items[-len(whole) :]) == whole:
            del items[-len(whole) :]
            times += 1
        items.append(Repeat(times, whole))


def encode(program: Program) -> bytes:
    """The JSON of a program."""
    return encode_json(program)


def decode(text: bytes, source: str) -> Program:
    """The program that JSON holds. source: what it is called in messages. Raises UsageError if it is none."""
    try:
        program = msgspec.json.decode(text, type=Program)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{source} is not a program of schema {SCHEMA}: {error}") from None
    _check(program.blocks, (*program.initialise, *program.compute), source)
    return program


def _check(blocks: Sequence[Block], items: Sequence[Item], source: str) -> None:
    """Raise UsageError for an item that names no block, or bytes outside one."""
    for item in items:
        if isinstance(item, Repeat):
            if item.count < 1:
                raise UsageError(f"{source}: a repeat has a count of {item.count}")
            _check(blocks, item.body, source)
            continue
        named = (
            (item.first, item.second) if isinstance(item, Swap) else (item.block,) if isinstance(item, Renew) else ()
        )
        ranges = item.accesses if isinstance(item, Launch) else (item,) if isinstance(item, Move) else ()
        for number in (*named, *(a.block for a in ranges)):
            if not 0 <= number < len(blocks):
                raise UsageError(f"{source}: there is no block {number}; there are {len(blocks)}")
        for a in ranges:
            if not 0 <= a.start <= a.end <= blocks[a.block].nbytes:
                raise UsageError(f"{source}: bytes {a.start} to {a.end} are outside block {blocks[a.block].name}")
