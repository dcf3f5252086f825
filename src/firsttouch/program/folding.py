"""Folds a long sequence of items as it comes: what recurs becomes a Repeat, also within what recurs.

Items are compared by number; native/profile/folder.hpp folds the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from firsttouch import _core
from firsttouch.program.program import AwaitAll, Item, Launch, Move, Repeat

LONGEST = 4096
"""The most items of a round, of which each may be a Repeat."""
CANDIDATES = 16
"""How many of an item's last places are tried as the end of the round before."""
MOST = 20_000
"""The most items of a phase, so that its price does not take minutes."""


class Folder:
    """The items that were added, folded. The core folds their numbers."""

    def __init__(self) -> None:
        self._folder = _core.NumberFolder(LONGEST, CANDIDATES)
        self._numbers: dict[Item, int] = {}
        self._items: dict[int, Item] = {}
        self.append, self.append_timed = self._folder.append, self._folder.append_timed
        """Append an item by its number, the second one with the seconds that it took."""

    def __len__(self) -> int:
        return len(self._folder)

    def add(self, item: Item) -> None:
        """Append an item."""
        self.append(self.number(item))

    def number(self, item: Item) -> int:
        """The number by which `append` knows an item."""
        number = self._numbers.get(item)
        if number is None:
            number = self._numbers[item] = self._folder.add()
            self._items[number] = item
        return number

    def mean_seconds(self, number: int) -> float | None:
        """The mean of what an item took each time; None if that was never told."""
        total, count = self._folder.seconds(number)
        return total / count if count else None

    def items(self, finished: Callable[[int, Item], Item] = lambda number, item: item) -> tuple[Item, ...]:
        """What was added, folded. finished: what an item is in the end, from its number and what was added."""
        made_items: dict[int, Item] = {}
        return tuple(self._item(number, made_items, finished) for number in self._folder.sequence())

    def _item(self, number: int, made_items: dict[int, Item], finished: Callable[[int, Item], Item]) -> Item:
        if number not in made_items:
            if number in self._items:
                made_items[number] = finished(number, self._items[number])
            else:
                count, body = self._folder.repeat(number)
                made_items[number] = Repeat(count, tuple(self._item(n, made_items, finished) for n in body))
        return made_items[number]


def grouped(items: Iterable[Item]) -> tuple[Item, ...]:
    """Items with the launches of the GPU between two others put together, in the order in which each comes first."""
    folder, group, waits = Folder(), dict[Launch, int](), False

    def flush() -> None:
        nonlocal waits
        for launch, count in group.items():
            folder.add(launch if count == 1 else Repeat(count, (launch,)))
        if waits:
            folder.add(AwaitAll())
        group.clear()
        waits = False

    for item in items:
        counts = _launches_of(item)
        if counts is None:
            flush()
            folder.add(item)
            continue
        waits = waits or not counts
        for launch, count in counts.items():
            group[launch] = group.get(launch, 0) + count
    flush()
    return folder.items()


def _launches_of(item: Item) -> dict[Launch, int] | None:
    """The launches of an item that only launches kernels, none if it waits for them; None of all others."""
    if isinstance(item, AwaitAll):
        return {}
    if isinstance(item, Launch):
        return {item: 1} if item.agent == "gpu" else None
    if not isinstance(item, Repeat):
        return None
    counts: dict[Launch, int] = {}
    for each in item.body:
        of_body = _launches_of(each)
        if of_body is None:
            return None
        for launch, count in of_body.items():
            counts[launch] = counts.get(launch, 0) + item.count * count
    return counts


class FoldedPhase:
    """The items of a phase, and the times of those that have any."""

    def __init__(self) -> None:
        self.folder = Folder()
        self.is_grouped = False

    def append(self, number: int, seconds: float | None) -> None:
        """Append an item by its number."""
        if seconds is None:
            self.folder.append(number)
        else:
            self.folder.append_timed(number, seconds)

    def items(self) -> tuple[Item, ...]:
        """What was appended. Items have the mean time of all that are like them. Where too little recurs, kernels that
        run between two things that the host does are in the order in which each ran first.
        """
        items = self.folder.items(self._finished)
        self.is_grouped = len(items) > MOST
        return grouped(items) if self.is_grouped else items

    def _finished(self, number: int, item: Item) -> Item:
        seconds = self.folder.mean_seconds(number)
        return item if seconds is None or not isinstance(item, Launch | Move) else replace(item, seconds=seconds)
