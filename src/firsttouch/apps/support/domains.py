"""A space divided into blocks, one for each process."""

from __future__ import annotations

import math
from collections.abc import Sequence


def blocks_along(ranks: int, axes: int) -> tuple[int, ...]:
    """The number of blocks along each axis, as equal as possible, the most along the last."""
    counts = [1] * axes
    factor = 2
    while ranks > 1:
        while ranks % factor:
            factor += 1
        counts[counts.index(min(counts))] *= factor
        ranks //= factor
    return tuple(sorted(counts))


def block_of(rank: int, blocks: Sequence[int]) -> tuple[int, ...]:
    """The place of a process's block. Ranks count along the first axis first."""
    place = []
    for count in blocks:
        rank, at = divmod(rank, count)
        place.append(at)
    return tuple(place)


def rank_of(place: Sequence[int], blocks: Sequence[int]) -> int:
    """The process of a block. Places beyond an end begin again at the other."""
    return sum(
        at % count * math.prod(blocks[:axis]) for axis, (at, count) in enumerate(zip(place, blocks, strict=True))
    )


def share_of(items: int, parts: int, index: int) -> tuple[int, int]:
    """The first item and the number of items of one of several nearly equal parts."""
    first = items * index // parts
    return first, items * (index + 1) // parts - first


def extent_of(items: int, rank: int, ranks: int, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first item and the number of items along each axis of a process's block, of `items` along each."""
    blocks = blocks_along(ranks, axes)
    shares = [
        share_of(items, *blocks_and_position)
        for blocks_and_position in zip(blocks, block_of(rank, blocks), strict=True)
    ]
    return tuple(first for first, _ in shares), tuple(count for _, count in shares)


def neighbours(rank: int, ranks: int, axes: int) -> dict[int, int]:
    """The process behind each face of a block (-x, +x, -y, ...), unless the space ends there."""
    return behind_faces(rank, blocks_along(ranks, axes))


def behind_faces(rank: int, blocks: Sequence[int]) -> dict[int, int]:
    """The same for any numbers of blocks along the axes."""
    place = block_of(rank, blocks)
    behind: dict[int, int] = {}
    for face in range(2 * len(blocks)):
        at = [p + (2 * (face % 2) - 1) * (axis == face // 2) for axis, p in enumerate(place)]
        if 0 <= at[face // 2] < blocks[face // 2]:
            behind[face] = rank_of(at, blocks)
    return behind


def packed(numbers: Sequence[int]) -> int:
    """Up to three numbers below 2^21 as one argument of a kernel."""
    return sum(number << 21 * axis for axis, number in enumerate(numbers))
