"""A program in words: its blocks, and what both agents do with them, one step a line, with repeats folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from firsttouch.base.units import format_seconds, format_size
from firsttouch.program.program import (
    Access,
    AwaitAll,
    Combine,
    ExchangeMark,
    Item,
    Launch,
    LoopMark,
    Messages,
    Move,
    Program,
    Renew,
    Repeat,
    Swap,
)

MOST_LINES = 400
MOST_PIECES = 3
_INDENT = "  "
_NUMBER = re.compile(r" \(\d+\)$")


def program_lines(program: Program) -> list[str]:
    """A program in words. exact: recorded; assumed: a launch names the block, and nothing tells which bytes it uses."""
    lines = [f"program   {program.title}, {format_size(program.nbytes, 3)} in {len(program.blocks):,} blocks (exact)"]
    for (nbytes, role, name, often), alike in groupby(range(len(program.blocks)), lambda n: _alike(program, n)):
        first, *rest = alike
        numbers = f"{first}-{rest[-1]}" if rest else str(first)
        each = f", {len(rest) + 1:,} of them" if rest else ""
        times = f", {often:,} times" if often > 1 else ""
        lines.append(f"{_INDENT}{numbers:>7}  {format_size(nbytes, 3):>9}  {role:<8} {name}{each}{times}")
    for phase, items in (("initialise", program.initialise), ("compute", program.compute)):
        if items:
            lines += [phase, *_items(program, items, _INDENT)]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES:,} more lines; --json has all"]
    return lines


def _alike(program: Program, number: int) -> tuple[int, str, str, int]:
    """What is the same of blocks that one line allocates for the same purpose: its number is behind their names."""
    block = program.blocks[number]
    return block.nbytes, block.role, _NUMBER.sub("", block.name), block.times


def _items(program: Program, items: Sequence[Item], indent: str) -> Iterator[str]:
    """Items whose words are the same, such as launches of other grids, are one line."""
    for text, alike in groupby(items, lambda item: item if isinstance(item, Repeat) else _item(program, item)):
        if isinstance(text, Repeat):
            for repeat in alike:
                assert isinstance(repeat, Repeat)
                yield f"{indent}{repeat.count:,} times"
                yield from _items(program, repeat.body, indent + _INDENT)
        else:
            number = sum(1 for _ in alike)
            yield f"{indent}{f'{number:,} times: ' if number > 1 else ''}{text}"


def _item(program: Program, item: Item) -> str:
    match item:
        case Launch():
            seconds = "" if item.seconds is None else f" ({format_seconds(item.seconds)})"
            return f"{item.agent} {item.kernel or item.by}{seconds}: {_accesses(program, item.accesses)}"
        case Move():
            seconds = "" if item.seconds is None else f" in {format_seconds(item.seconds)}"
            return f"copy {item.way} {format_size(item.nbytes, 3)} of{_part(program, item)}{seconds} exact"
        case Swap():
            return f"{_name(program, item.first)} and {_name(program, item.second)} exchange their memory"
        case Renew():
            return f"{_name(program, item.block)} is freed and obtained again"
        case AwaitAll():
            return "wait"
        case Messages():
            sizes = ", ".join(format_size(size, 3) for size in item.sizes)
            return f"messages of {sizes} to other processes, and as many from them"
        case Combine():
            return "all processes combine a number of each"
        case ExchangeMark():
            return "an exchange begins" if item.begins else "an exchange ends"
        case LoopMark():
            return "an iteration begins" if item.begins else "an iteration ends"
    raise AssertionError(item)


def _name(program: Program, block: int) -> str:
    return f"{block} ({program.blocks[block].name})"


def _part(program: Program, item: Access | Move) -> str:
    """The block, and the bytes of it, if they are not all."""
    whole = item.start == 0 and item.end == program.blocks[item.block].nbytes
    bytes_range = "" if whole else f" [{format_size(item.start, 4)}, {format_size(item.end, 4)})"
    return f" {_name(program, item.block)}{bytes_range}"


def _accesses(program: Program, accesses: Sequence[Access]) -> str:
    phrases: list[str] = []
    before: tuple[object, ...] = ()
    first = last = -1
    for (block, verb, passes, certainty), alike in groupby(accesses, _kind):
        pieces = [*alike]
        whole = len(pieces) == 1 and pieces[0].nbytes == program.blocks[block].nbytes
        now = (*_alike(program, block), verb, passes, certainty) if whole else ()
        if whole and now == before and block == last + 1:
            last = block
            phrases[-1] = f"{verb} {first}-{last} ({_alike(program, block)[2]}){passes} {certainty}"
            continue
        before, first, last = now, block, block
        if len(pieces) > MOST_PIECES:
            size = format_size(sum(piece.nbytes for piece in pieces), 3)
            place = f" {size} of {_name(program, block)} in {len(pieces)} pieces"
            phrases.append(f"{verb}{place}{passes} {certainty}")
        else:
            phrases += [f"{verb}{_part(program, piece)}{passes} {certainty}" for piece in pieces]
    return ", ".join(phrases) or "nothing that is recorded"


def _kind(access: Access) -> tuple[int, str, str, str]:
    verb = "updates" if access.reads and access.writes else "writes" if access.writes else "reads"
    return access.block, verb, f" {access.passes:g} times" if access.passes != 1 else "", access.certainty
