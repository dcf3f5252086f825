"""The times of the iterations of a program's last timed loop, as marks in the stream of a measured run give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil

from firsttouch.program.execution.iteration_marks import MAX_MARKS


class IterationTimes:
    """The ns of each iteration, from the ns that the phase has taken so far.

    As in a measured run, the first begins before the first launch of the loop, after the copies that it needs.
    later: time that the phase has taken, but which belongs to launches that follow.
    """

    def __init__(self) -> None:
        self.later = Later()
        self._runs = list[tuple[tuple[float, ...], int]]()
        """Iterations one after the other, and how often they follow each other."""
        self._began: float | None = None
        self._waits = False
        self._rounds: list[int] = []
        self._since = 0

    @property
    def count(self) -> int:
        return sum(len(each) * times for each, times in self._runs)

    @property
    def total(self) -> float:
        """The ns of all of them."""
        return sum(sum(each) * times for each, times in self._runs)

    def begin(self) -> None:
        """A loop begins."""
        self._runs, self._began, self._waits = [], None, True
        self._rounds = [0 for _ in self._rounds]

    def launched(self, elapsed: float) -> None:
        """Work of the GPU begins. elapsed: without what belongs to later launches."""
        if self._waits and self._began is None:
            self._began = elapsed

    def end(self, elapsed: float) -> None:
        """An iteration ends."""
        elapsed -= self.later.total
        if self._waits:
            self._runs.append(((elapsed - (elapsed if self._began is None else self._began),), 1))
            self._began = elapsed

    def begin_round(self) -> None:
        self._rounds.append(len(self._runs))
        self.later.begin_round()

    def end_round(self) -> None:
        self._since = self._rounds.pop()
        self.later.end_round()

    def add_again(self, times: int, elapsed: float) -> None:
        """So many rounds follow that are like the last one, after which the phase has taken `elapsed`."""
        last = sum(self.later.taken.values())
        shares = [*self.later.take_again(times)]
        if again := tuple(ns for each, n in self._runs[self._since :] for ns in each * n):
            for share, alike in shares:  # a round may have less of it than the one before
                self._runs.append(((*again[:-1], max(0.0, again[-1] - last + share)), alike))
            self._began = elapsed - self.later.total

    def shown(self) -> Sequence[float]:
        """The ns of each, or the mean of each group if there are many."""
        count = self.count
        size = max(1, ceil(count / MAX_MARKS))
        ends = [*range(0, count, size), count]
        until = [*self._sums(ends)]
        return [(b - a) / (end - start) for (a, b), (start, end) in zip(pairwise(until), pairwise(ends), strict=True)]

    def _sums(self, counts: Iterable[int]) -> Iterator[float]:
        """The ns of the first iterations, for rising counts."""
        runs, before, total = iter(self._runs), 0, 0.0
        each, times = next(runs, ((), 0))
        for count in counts:
            while count > before + len(each) * times:
                before, total = before + len(each) * times, total + sum(each) * times
                each, times = next(runs)
            rounds, rest = divmod(count - before, len(each)) if each else (0, 0)
            yield total + rounds * sum(each) + sum(each[:rest])


class IterationReads:
    """The bytes that kernels read in each iteration of the last timed loop, by where these are: in the device's memory,
    or in the host's, across the link.
    """

    def __init__(self) -> None:
        self._by_memory = {"device": IterationTimes(), "link": IterationTimes()}
        self._totals = dict.fromkeys(self._by_memory, 0.0)
        self._began: list[Mapping[str, float]] = []
        self._of_round: Mapping[str, float] = {}

    def begin(self) -> None:
        """A loop begins."""
        for iterations in self._by_memory.values():
            iterations.begin()

    def launched(self, **read: float) -> None:
        """A kernel reads so many bytes of each memory."""
        for memory, nbytes in read.items():
            self._by_memory[memory].launched(self._totals[memory])
            self._totals[memory] += nbytes

    def end(self) -> None:
        """An iteration ends."""
        for memory, iterations in self._by_memory.items():
            iterations.end(self._totals[memory])

    def begin_round(self) -> None:
        self._began.append({**self._totals})
        for iterations in self._by_memory.values():
            iterations.begin_round()

    def end_round(self) -> None:
        began = self._began.pop()
        self._of_round = {memory: total - began[memory] for memory, total in self._totals.items()}
        for iterations in self._by_memory.values():
            iterations.end_round()

    def add_again(self, times: int) -> None:
        """So many rounds follow that are like the last one."""
        for memory, iterations in self._by_memory.items():
            self._totals[memory] += times * self._of_round[memory]
            iterations.add_again(times, self._totals[memory])

    def shown(self) -> Mapping[str, Sequence[float]]:
        """The bytes of each, or the mean of each group if there are many; nothing if all are of one memory."""
        if not all(iterations.total for iterations in self._by_memory.values()):
            return {}
        return {memory: iterations.shown() for memory, iterations in self._by_memory.items()}


class Later:
    """The ns of the faults of launches that use a part of a buffer, where all of it was priced at the first one: each
    launch has them for its own part.
    """

    def __init__(self) -> None:
        self.left: dict[int, float] = {}
        """By buffer, what has not been given to a launch."""
        self.taken: dict[int, float] = {}
        """By buffer, what launches of the last round took."""
        self._whole: dict[int, float] = {}
        self._rounds: list[dict[int, float]] = []

    @property
    def total(self) -> float:
        return sum(self.left.values())

    def put(self, buffer: int, ns: float) -> None:
        """A launch is priced for all of a buffer that it, and others after it, use."""
        self.left[buffer] = self._whole[buffer] = self.left.get(buffer, 0.0) + ns

    def take(self, buffer: int, part: float) -> None:
        """A launch uses a part of a buffer."""
        if left := self.left.get(buffer, 0.0):
            share = min(left, part * self._whole[buffer])
            self.left[buffer] = left - share
            for of_round in self._rounds:
                of_round[buffer] = of_round.get(buffer, 0.0) + share

    def swap(self, first: int, second: int) -> None:
        for by_buffer in (self.left, self._whole):
            by_buffer[first], by_buffer[second] = by_buffer.get(second, 0.0), by_buffer.get(first, 0.0)

    def begin_round(self) -> None:
        self._rounds.append({})

    def end_round(self) -> None:
        self.taken = self._rounds.pop()

    def take_again(self, times: int) -> Iterator[tuple[float, int]]:
        """So many rounds take what the last one took, while there is some. What each takes, and how many of them do."""
        while times:
            share = 0.0
            for buffer, ns in self.taken.items():
                part = min(self.left.get(buffer, 0.0), ns)
                self.left[buffer] = self.left.get(buffer, 0.0) - part
                share += part
            alike = 1 if share else times
            yield share, alike
            times -= alike
