"""Folds a long sequence of items as it comes: what recurs becomes a Repeat, also within what recurs.

Items are compared by number, and stretches by a hash of their numbers, so that each costs the same however long the
loop is whose round it ends. A match of hashes is checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from msgspec.structs import replace

from firsttouch.program.program import AwaitAll, Item, Launch, Move, Repeat

LONGEST = 4096
"""The most items of a round, of which each may be a Repeat."""
CANDIDATES = 16
"""How many of an item's last places are tried as the end of the round before."""
MOST = 20_000
"""The most items of a phase, so that its price does not take minutes."""
_PRIME, _BASE = (1 << 61) - 1, 1_000_003


class Folder:
    """The items that were added, folded."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._items: list[Item | tuple[int, tuple[int, ...]]] = []
        """By number: an item, or the count of a repeat and the numbers of its body."""
        self._sequence: list[int] = []
        self._hashes = [0]
        """Of the first n numbers of the sequence."""
        self._powers = [1]
        self._places: dict[int, list[int]] = defaultdict(list)
        """Where each number is in the sequence; what is beyond its end, or has another number now, is out of date."""
        self._grown: tuple[int, int] | None = None
        """The number of the last repeat, and its only place."""
        self._awaited: dict[int, list[int]] = defaultdict(list)
        """By the length of the sequence: the places of repeats of which another round may end there."""

    def __len__(self) -> int:
        return len(self._sequence)

    def add(self, item: Item) -> None:
        """Append an item."""
        self.append(self._number(item, item))

    def number(self, item: Item) -> int:
        """The number by which `append` knows an item."""
        return self._number(item, item)

    def _number(self, key: Hashable, meaning: Item | tuple[int, tuple[int, ...]]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._items)
            self._items.append(meaning)
        return number

    def append(self, number: int) -> None:
        """Append an item by its number."""
        sequence = self._sequence
        sequence.append(number)
        self._hashes.append((self._hashes[-1] * _BASE + number + 1) % _PRIME)
        length = len(sequence)
        if length >= len(self._powers):
            self._powers.append(self._powers[-1] * _BASE % _PRIME)
        if not (self._extends_repeat(length) or self._begins_repeat(number, length)):
            places = self._places[number]
            while places and places[-1] >= length - 1:
                places.pop()
            places.append(length - 1)
            if len(places) > 4 * CANDIDATES:
                del places[: -2 * CANDIDATES]

    def _hash(self, start: int, end: int) -> int:
        return (self._hashes[end] - self._hashes[start] * self._powers[end - start]) % _PRIME

    def _extends_repeat(self, length: int) -> bool:
        """Whether the end of the sequence is one more round of the repeat before it, of which it becomes a part."""
        waiting = self._awaited.get(length)
        if not waiting:
            return False
        for place in [*waiting]:
            meaning = self._items[self._sequence[place]] if place < length else None
            if not isinstance(meaning, tuple) or place + 1 + len(meaning[1]) != length:
                waiting.remove(place)
            elif meaning[1] == tuple(self._sequence[place + 1 :]):
                self._replace(place, meaning[0] + 1, meaning[1])
                return True
        return False

    def _begins_repeat(self, number: int, length: int) -> bool:
        """Whether the end of the sequence recurs, and becomes a repeat of two rounds."""
        sequence, tried = self._sequence, 0
        for place in reversed(self._places.get(number, ())):
            size = length - 1 - place
            if size < 1 or sequence[place] != number:
                continue
            if size > LONGEST or 2 * size > length or tried == CANDIDATES:
                return False
            tried += 1
            begin, middle = length - 2 * size, length - size
            if sequence[begin] != sequence[middle] or sequence[place - size // 2] != sequence[length - 1 - size // 2]:
                continue
            if (
                self._hash(begin, middle) == self._hash(middle, length)
                and sequence[begin:middle] == sequence[middle:length]
            ):
                self._replace(begin, 2, tuple(sequence[middle:]))
                return True
        return False

    def _replace(self, begin: int, count: int, body: tuple[int, ...]) -> None:
        """From a place on, the sequence becomes a repeat. The number of one that grows is forgotten if only this place
        has it, so that a loop takes one number and not one a round.
        """
        if (
            count > 2
            and self._grown == (self._sequence[begin], begin)
            and self._sequence[begin] == len(self._items) - 1
        ):
            del self._numbers[count - 1, body], self._items[-1]
        del self._sequence[begin:], self._hashes[begin + 1 :]
        key = (count, body)
        self._grown = (len(self._items), begin) if key not in self._numbers else None
        self.append(self._number(key, key))
        if len(self._sequence) == begin + 1 and begin not in self._awaited[begin + 1 + len(body)]:
            self._awaited[begin + 1 + len(body)].append(begin)

    def items(self, finished: Callable[[int, Item], Item] = lambda number, item: item) -> tuple[Item, ...]:
        """What was added, folded. finished: what an item is in the end, from its number and what was added."""
        made_items: dict[int, Item] = {}
        return tuple(self._item(number, made_items, finished) for number in self._sequence)

    def _item(self, number: int, made_items: dict[int, Item], finished: Callable[[int, Item], Item]) -> Item:
        if number not in made_items:
            meaning = self._items[number]
            if isinstance(meaning, tuple):
                count, body = meaning
                made_items[number] = Repeat(count, tuple(self._item(n, made_items, finished) for n in body))
            else:
                made_items[number] = finished(number, meaning)
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
        self._seconds: dict[int, tuple[float, int]] = {}
        self.is_grouped = False

    def append(self, number: int, seconds: float | None) -> None:
        """Append an item by its number."""
        self.folder.append(number)
        if seconds is not None:
            total, count = self._seconds.get(number, (0.0, 0))
            self._seconds[number] = total + seconds, count + 1

    def items(self) -> tuple[Item, ...]:
        """What was appended. Items have the mean time of all that are like them. Where too little recurs, kernels that
        run between two things that the host does are in the order in which each ran first.
        """
        items = self.folder.items(self._finished)
        self.is_grouped = len(items) > MOST
        return grouped(items) if self.is_grouped else items

    def _finished(self, number: int, item: Item) -> Item:
        total, count = self._seconds.get(number, (0.0, 0))
        return replace(item, seconds=total / count) if count and isinstance(item, Launch | Move) else item
