"""Where memory was touched first, by its address, and by how many threads: from sampled page faults.

A traced program tells by address which host buffers it copies. With the sampled faults of the same run, each of them
has the lines that touched it first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firsttouch.profile.callers import plain_name
from firsttouch.profile.schema import TOUCH_GRANULE, TouchSamples

if TYPE_CHECKING:
    from firsttouch.profile.content import Profile

MOST_ROWS = 200_000
"""Of a profile; later touches are only counted."""


class TouchRecorder:
    """Collects sampled touches and makes the lines `touch` of them: neighbours that one thread touched are one row."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._counts: Counter[tuple[int, int, int, int]] = Counter()
        self._threads: dict[tuple[int, int], int] = {}
        self._of_process: Counter[int] = Counter()
        self._rows = 0

    def add(self, site: int, key: int, thread: int, address: int) -> None:
        """Adds a sample. key: of the process."""
        number = self._threads.get((key, thread))
        if number is None:
            number = self._threads[key, thread] = self._of_process[key]
            self._of_process[key] += 1
        self._counts[key, site, number, address // TOUCH_GRANULE] += 1

    def flush(self, t: float) -> list[TouchSamples]:
        """The line of what came since the last call; none if nothing came."""
        if not self._counts:
            return []
        rows: list[tuple[int, int, int, int, int, int]] = []
        for (key, site, thread, granule), count in sorted(self._counts.items()):
            last = rows[-1] if rows else None
            if last and last[:3] == (site, key, thread) and last[3] + last[4] == granule:
                rows[-1] = (*last[:4], last[4] + 1, last[5] + count)
            else:
                rows.append((site, key, thread, granule, 1, count))
        self._counts.clear()
        kept = rows[: max(0, MOST_ROWS - self._rows)]
        self._rows += len(kept)
        return [TouchSamples(t=t, every=self._every, rows=kept, left_out=sum(row[5] for row in rows[len(kept) :]))]


class TouchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a program that touched pages first. function: '' if unknown; source, line: '' and 0 if unknown.

    file: the program or library. through: the function of the C library that touched the page, if the place is a call
    of it. headers: as of `Symbol`. samples: how many of its touches were sampled; since: when the first of them had
    been, in seconds.
    """

    function: str
    source: str
    line: int
    file: str
    through: str = ""
    headers: tuple[str, ...] = ()
    samples: int
    since: float = 0.0


class RangeTouches(msgspec.Struct, frozen=True, kw_only=True):
    """Who touched a range first. places: those with most samples first; threads: how many, as far as was sampled.

    samples: how many page faults in it were sampled, one of `every`; 0: nothing is known.
    """

    places: tuple[TouchPlace, ...] = ()
    threads: int = 0
    samples: int = 0
    every: int = 0


class TouchIndex:
    """The touches of a process of a profile, by address. sampled: whether page faults were sampled at all."""

    def __init__(self, profile: Profile, pid: int) -> None:
        layers = [state.active for state in profile.header.layers if state.layer == "faults"]
        self.sampled = bool(profile.touches) or any(layers)
        self._profile = profile
        keys = {process.key for process in profile.processes.values() if process.pid == pid}
        rows = [(row, line.every, line.t) for line in profile.touches for row in line.rows if row[1] in keys]
        rows.sort(key=lambda row: row[0][3])
        self._rows = rows
        self._starts = [row[3] for row, *_ in rows]
        self._reach = list(accumulate((row[3] + row[4] for row, *_ in rows), max))
        self._places: dict[int, TouchPlace] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def of(self, start: int, end: int) -> RangeTouches:
        """Of the addresses from `start` to before `end`, in whole granules of 64 KiB."""
        first, last = start // TOUCH_GRANULE, (end - 1) // TOUCH_GRANULE
        samples: defaultdict[int, float] = defaultdict(float)
        since: dict[int, float] = {}
        threads: set[int] = set()
        every = 0
        number = bisect_right(self._starts, last) - 1
        while number >= 0 and self._reach[number] > first:
            (site, _, thread, granule, granules, count), every_of_row, t = self._rows[number]
            common = min(granule + granules, last + 1) - max(granule, first)
            if common > 0:
                samples[site] += count * common / granules
                since[site] = min(t, since.get(site, t))
                threads.add(thread)
                every = every_of_row
            number -= 1
        places: Counter[TouchPlace] = Counter()
        earliest: dict[TouchPlace, float] = {}
        for site, amount in samples.items():
            place = self._place(site)
            places[place] += max(1, round(amount))
            earliest[place] = min(since[site], earliest.get(place, since[site]))
        ranked = tuple(
            msgspec.structs.replace(place, samples=count, since=earliest[place])
            for place, count in places.most_common()
        )
        return RangeTouches(
            places=ranked, threads=len(threads), samples=sum(place.samples for place in ranked), every=every
        )

    def _place(self, number: int) -> TouchPlace:
        if (place := self._places.get(number)) is None:
            place = self._places[number] = self._named(number)
        return place

    def _named(self, number: int) -> TouchPlace:
        sites, symbols = self._profile.sites, self._profile.symbols
        site, through = sites.get(number), ""
        if site is not None and site.caller is not None and site.caller in sites:
            through = symbols[number].function if number in symbols else ""
            through, number = through or Path(site.file).name, site.caller
            site = sites[number]
        symbol = symbols.get(number)
        return TouchPlace(
            function=symbol.function if symbol else "",
            source=symbol.source if symbol else "",
            line=symbol.number if symbol else 0,
            file=site.file if site else "",
            through=plain_name(through),
            headers=tuple(symbol.headers) if symbol else (),
            samples=0,
        )
