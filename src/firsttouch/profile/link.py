"""How fast copies between host and device could be if the host's memory were page-locked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, TypeAlias

LinkWay: TypeAlias = Literal["h2d", "d2h"]


class LinkSpeed(Protocol):
    """What copies from and to page-locked memory take on a machine."""

    @property
    def source(self) -> str:
        """Where that is from: the directory of a run, or '' for the same trace."""

    def seconds(self, way: LinkWay, nbytes: int) -> float | None:
        """The time of a copy; None if it is not known."""


class TimedCopy(NamedTuple):
    way: LinkWay
    nbytes: int
    seconds: float


LARGE = 1 << 20
"""Bytes from which on a copy takes time in proportion to its bytes."""


class ReachedSpeed:
    """What the page-locked copies of a trace reached. A copy could take no longer than the quickest of at least as many
    bytes did, or than one of many bytes in proportion.
    """

    source = ""

    def __init__(self, locked: Iterable[TimedCopy]) -> None:
        self._by_way: dict[LinkWay, tuple[list[int], list[float], float | None]] = {}
        ordered = sorted(copy for copy in locked if copy.nbytes > 0 and copy.seconds > 0)
        for way in {copy.way for copy in ordered}:
            copies = [copy for copy in ordered if copy.way == way]
            least = list(accumulate((copy.seconds for copy in reversed(copies)), min))[::-1]
            rates = (copy.seconds / copy.nbytes for copy in copies if copy.nbytes >= LARGE)
            self._by_way[way] = [copy.nbytes for copy in copies], least, min(rates, default=None)

    def seconds(self, way: LinkWay, nbytes: int) -> float | None:
        sizes, least, by_byte = self._by_way.get(way, ([], [], None))
        i = bisect_left(sizes, nbytes)
        times = [*least[i : i + 1], *([by_byte * nbytes] if by_byte is not None and nbytes >= LARGE else [])]
        return min(times, default=None)
