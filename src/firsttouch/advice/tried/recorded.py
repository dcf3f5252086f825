"""What the library that `firsttouch try` preloads writes of a process: native/profile/tried."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec


class Known(NamedTuple):
    """An allocation as it is known in every run. key: a hash of its callers, its size and its thread, in hexadecimal.
    ordinal: its number among those of the same key.
    """

    key: str
    ordinal: int


UNWATCHED = Known("0", 0)
"""Memory that is not watched: smaller than 64 KiB, of the stack, static, or of an allocator of the program."""


@dataclass
class NotedBlock:
    """An array of the host, or a block of the device. Times are seconds of CLOCK_MONOTONIC. end: None if it was not
    given back. moved: it ended by realloc. batched: one of several copies that are asked for together names it.
    by_size: as memory of the driver is known by its size alone; None of memory of malloc.
    """

    known: Known
    bytes: int
    address: int
    begin: float
    end: float | None = None
    moved: bool = False
    batched: bool = False
    by_size: Known | None = None


class NotedCopy(NamedTuple):
    """A copy between both sides. thread: its number in the system. hash: of the bytes that it carries."""

    is_to_host: bool
    thread: int
    bytes: int
    hash: str


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What the library did in a run. left_out, made: copies between host and device that were left out and made, and
    their bytes; of the baseline, whose copies are not looked at, those of a plain run. joined_bytes: that an array and
    a block have in common. managed_peak: bytes of managed memory; device_peak: of other memory of the device.
    page_locked: bytes that were locked. refused_hints: prefetches and advice that the driver did not take. unmet: pairs
    of the plan that the run did not have. host_peak: the largest resident size in bytes; 0: unknown.
    """

    left_out: int = 0
    left_out_bytes: int = 0
    made: int = 0
    made_bytes: int = 0
    joined_bytes: int = 0
    managed_peak: int = 0
    device_peak: int = 0
    page_locked: int = 0
    refused_hints: int = 0
    unmet: int = 0
    host_peak: int = 0


@dataclass
class ProcessNotes:
    """arrays, blocks: in their order. queries: by the callers that ask of what kind memory is, whether that was a block
    of the device; None of those that ask about both sides. left: why the run left the plan, '' if it did not.
    impossible: why this machine cannot give it the memory of its strategy, '' if it can. counts: None of a process that
    did not end by itself.
    """

    pid: int
    arrays: list[NotedBlock] = field(default_factory=list)
    blocks: list[NotedBlock] = field(default_factory=list)
    copies: list[NotedCopy] = field(default_factory=list)
    queries: dict[str, bool | None] = field(default_factory=dict)
    left: str = ""
    impossible: str = ""
    counts: RunCounts | None = None


def read_notes(folder: Path) -> list[ProcessNotes]:
    """The notes of all processes of a run. A line that was not written to its end is left out."""
    return [_read(path) for path in sorted(folder.glob("tried-*"))]


def _read(path: Path) -> ProcessNotes:
    notes = ProcessNotes(int(path.name.rpartition("-")[2]))
    alive: dict[str, NotedBlock] = {}
    of_driver: Counter[int] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        kind, *words = line.split(" ")
        if kind == "A" and len(words) == 7:
            side, number, key, ordinal, size, address, t = words
            block = NotedBlock(Known(key.lstrip("0") or "0", int(ordinal)), int(size), int(address, 16), float(t))
            (notes.blocks if side == "d" else notes.arrays).append(block)
            alive[number] = block
            if side != "h":
                by_size = block.bytes << 1 | (side == "p")
                block.by_size = Known(f"{by_size:x}", of_driver[by_size])
                of_driver[by_size] += 1
        elif kind == "F" and len(words) == 4 and (ended := alive.pop(words[1], None)):
            ended.moved, ended.end = words[2] == "1", float(words[3])
        elif kind == "B" and len(words) == 2 and (batched := alive.get(words[1])):
            batched.batched = True
        elif kind == "Q" and len(words) == 2:
            is_block = words[0] == "d"
            notes.queries[words[1]] = is_block if notes.queries.get(words[1], is_block) == is_block else None
        elif kind == "C" and len(words) == 4:
            notes.copies.append(NotedCopy(words[0] == "d", int(words[1]), int(words[2]), words[3]))
        elif kind == "X":
            notes.left = " ".join(words)
        elif kind == "U":
            notes.impossible = " ".join(words)
        elif kind == "S":
            notes.counts = RunCounts(**{name: int(value) for name, _, value in (word.partition("=") for word in words)})
    return notes


def name_as(notes: ProcessNotes, again: ProcessNotes) -> None:
    """Gives allocations the names that they have in another run of the program. While a program is traced, calls of a
    CUDA runtime that is linked statically take other ways through it, so that their callers are others. Those that
    either run alone has are taken to be the same by their order, if there are as many of each size.
    """
    for mine, others in ((notes.arrays, again.arrays), (notes.blocks, again.blocks)):
        known, found = {block.known for block in mine}, {block.known for block in others}
        left: defaultdict[int, list[NotedBlock]] = defaultdict(list)
        names: defaultdict[int, list[Known]] = defaultdict(list)
        for block in mine:
            if block.known not in found:
                left[block.bytes].append(block)
        for block in others:
            if block.known not in known:
                names[block.bytes].append(block.known)
        for size, blocks in left.items():
            if len(blocks) == len(names[size]):
                for block, name in zip(blocks, names[size], strict=True):
                    block.known = name


class CopiedBytes(NamedTuple):
    """Copies of a run beside those of a plain one. equal, different: that carry the same bytes or others; unsure: which
    two plain runs do not agree on. missing: how many more the plain run has, or fewer if negative.
    """

    equal: int
    different: int
    unsure: int
    missing: int


def compare_copies(plain: Sequence[NotedCopy], again: Sequence[NotedCopy], tried: Sequence[NotedCopy]) -> CopiedBytes:
    """plain, again: of two plain runs. The copies of a thread are compared in their order. Threads of different runs
    are the same if they carry the same bytes, and otherwise by their order.
    """
    threads, others, found = (_by_thread(copies) for copies in (plain, again, tried))
    count: Counter[str] = Counter()
    for mine, another, its in zip(threads, _matched(threads, others), _matched(threads, found), strict=True):
        for number, carried in enumerate(mine):
            if number >= len(another) or another[number] != carried:
                count["unsure"] += 1
            elif number >= len(its):
                count["missing"] += 1
            else:
                count["equal" if its[number] == carried else "different"] += 1
    more = len(tried) - len(plain)
    return CopiedBytes(count["equal"], count["different"], count["unsure"], -more if more > 0 else count["missing"])


_Carried: TypeAlias = tuple[bool, int, str]


def _by_thread(copies: Sequence[NotedCopy]) -> list[list[_Carried]]:
    found: defaultdict[int, list[_Carried]] = defaultdict(list)
    for copy in copies:
        found[copy.thread].append((copy.is_to_host, copy.bytes, copy.hash))
    return [*found.values()]


def _matched(threads: Sequence[list[_Carried]], found: Sequence[list[_Carried]]) -> list[list[_Carried]]:
    """What is found of each thread; nothing of those that are not there."""
    left = [*found]
    matched: list[list[_Carried] | None] = []
    for mine in threads:
        place = next((place for place, its in enumerate(left) if its == mine), None)
        matched.append(None if place is None else left.pop(place))
    return [its if its is not None else left.pop(0) if left else [] for its in matched]
