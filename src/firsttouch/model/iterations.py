"""The times of the iterations of a program's last timed loop, as marks in the stream of a measured run give them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from firsttouch.workspace.iteration_marks import MAX_MARKS


class IterationTimes:
    """The ns of each iteration, from the ns that the phase has taken so far.

    As in a measured run, the first begins before the first launch of the loop, after the copies that it needs.
    """

    def __init__(self) -> None:
        self.each: list[float] = []
        self._began: float | None = None
        self._waits = False
        self._rounds: list[int] = []
        self._since = 0

    def begin(self) -> None:
        """A loop begins."""
        self.each, self._began, self._waits = [], None, True
        self._rounds = [0 for _ in self._rounds]

    def launched(self, at: float) -> None:
        """Work of the GPU begins."""
        if self._waits and self._began is None:
            self._began = at

    def end(self, at: float) -> None:
        """An iteration ends."""
        if self._waits:
            self.each.append(at - (at if self._began is None else self._began))
            self._began = at

    def begin_round(self) -> None:
        self._rounds.append(len(self.each))

    def end_round(self) -> None:
        self._since = self._rounds.pop()

    def add_again(self, times: int, at: float) -> None:
        """So many rounds follow that are like the last one, after which the phase has taken `at`."""
        if again := self.each[self._since :]:
            self.each += again * times
            self._began = at

    def shown(self) -> Sequence[float]:
        """The ns of each, or the mean of each group if there are many."""
        size = max(1, ceil(len(self.each) / MAX_MARKS))
        groups = (self.each[i : i + size] for i in range(0, len(self.each), size))
        return [sum(group) / len(group) for group in groups]
