"""The CPU writes a buffer while a kernel may run that names its block."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import cached_property

from firsttouch.advice.port.cpu_use import watched_ranges
from firsttouch.advice.port.places import counted
from firsttouch.advice.port.rule import Coverage, FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.advice.port.shadowed import shadow_run
from firsttouch.profile.calls import HostUse
from firsttouch.program.partners import joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    MANAGED_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedLaunch,
    TracedRange,
    TracedRun,
    TracedStep,
    is_wait,
)
from firsttouch.program.watched import PAGE_BYTES, has_looks

_FAR = 10_000
"""Steps after which a copy back is not looked for any more."""


class ConcurrentAccess(Hazard):
    """Where the host was watched (--host), from a launch on: whole pages of a partner that the CPU wrote before the
    next wait, but for those that a copy to the host wrote. Seen, if the program copies them again; if it does not, it
    may have given the memory back, so that this is only possible. Where the host was not watched: likely, where other
    bytes are copied to where they replace those that a pending kernel reads.
    """

    name = "concurrent"
    title = "concurrent access"
    order = 1
    words = {
        "written": FindingWords(
            "the CPU writes it after a kernel launch that may use it, before the next synchronization"
        ),
        "prepared": FindingWords(
            "the CPU prepares new data for a buffer that a kernel may still use",
            "the data were prepared before the launch",
        ),
    }
    strategy = "use two buffers alternately, and let the CPU wait for an event before it writes"
    chapter = "concurrent-access"
    limits = {
        "unified": "{buffers} of memory that both sides use, which nobody watched",
        "not watched": "judged by copies only, without --host",
        "nothing recorded": "judged by copies only, since no look at host memory was recorded",
        "not while kernels ran": "judged by copies only, since no host memory was watched while kernels ran",
        "partly watched": "{watched} of {ranges} of host memory were watched while kernels ran",
    }
    steps = (HostUse, TracedCopy, TracedAllocation)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._samples: dict[tuple[TracedRange, int], int | None] = {}
        self._all_host: dict[int, Ranges] = {}
        """Of each life, by its identity."""
        self._looks = _Looks()
        """The looks at the host since a launch that is pending."""
        self._between = 0, 0, Ranges()
        """The last steps between launches that were asked for, and the pages that their copies to the host write."""
        self._shown = _ShownBytes(state.run)
        shadow = state.run.once(shadow_run)
        self._looked = shadow.looked if shadow is not None else set[int]()
        """The blocks of which a shadow run tells what the CPU writes (both_sides.py)."""

    def take(self, number: int, step: TracedStep) -> None:
        if not self.state.pending:
            self._looks.clear()
        if isinstance(step, HostUse):
            if self.state.pending:
                self._written(number, step)
                self._looks.add(step)
        elif isinstance(step, TracedCopy) and step.way == "h2d":
            self._replaced(number, step)
        elif isinstance(step, TracedAllocation):
            self._samples.clear()

    def coverage(self) -> Coverage:
        run = self.state.run
        if unwatched := [block for block in run.blocks if self._is_of_both_sides(block)]:
            return Coverage(False, "unified", {"buffers": counted(len(unwatched), "buffer")})
        if not has_looks(run):
            return Coverage(limit="nothing recorded" if self.state.watched else "not watched")
        watched, ranges = watched_ranges(run, self.state.all_partners)
        if watched == ranges or not run.launches:
            return Coverage()
        grounds = {"watched": str(watched), "ranges": counted(ranges, "range")}
        return Coverage(True, "partly watched", grounds) if watched else Coverage(limit="not while kernels ran")

    def _is_of_both_sides(self, block: TracedBlock) -> bool:
        """Whether kernels may get memory that the CPU can use at the same time: the watch is of what copies join."""
        is_reachable = block.kind in MANAGED_KINDS or block.kind == "pinned"
        return is_reachable and not block.is_of_vendor and self.state.use.blocks[block.number].launches > 0

    def _written(self, number: int, use: HostUse) -> None:
        if not use.writes:
            return
        for block, launch in self.state.pending.items():
            if launch.call.t > use.since or block not in self.state.alive or block in self._looked:
                continue
            pages = Ranges()
            for written in use.writes:
                for start, end in _whole_pages(self._partners(block, number, *written)):
                    for first, last in self._pages_copied_back(number).missing(start, end):
                        pages.add(first, last)
            if pages:
                again = self._bytes_copied_again(number, block, pages)
                row = self.row("written", "seen" if again else "possible", block)
                row.add(number, again or pages.total(), self.state.places.of(launch.call.site), block)

    def _partners(self, block: int, number: int, start: int, end: int) -> Iterable[tuple[int, int]]:
        """What of the host's bytes [start, end) are partners of a living block; of those that take turns, the ones that
        pending launches may use.
        """
        life = self.state.partners(block)
        if not life.window:
            if id(life) not in self._all_host:
                self._all_host[id(life)] = life.all_host()
            return self._all_host[id(life)].common(start, end)
        used = Ranges()
        for first, last in life.host.common(start, end):
            used.add(first, last)
        for low, high in self._shown.of(block, number, start, end):
            for first, last in life.windows.common(low, high):
                used.add(first, last)
        return used

    def _pages_copied_back(self, number: int) -> Ranges:
        """The pages that copies to the host write from the last launch to the next one."""
        begin, end, pages = self._between
        if begin <= number < end:
            return pages
        steps, begin, end, pages = self.state.run.steps, number, number, Ranges()
        while begin > 0 and not isinstance(steps[begin - 1], TracedLaunch):
            begin -= 1
        while end < len(steps) and not isinstance(steps[end], TracedLaunch):
            end += 1
        for step in map(steps.__getitem__, range(begin, end)):
            if isinstance(step, TracedCopy) and step.way == "d2h":
                for start, stop in _host_side(step):
                    pages.add(start // PAGE_BYTES * PAGE_BYTES, -(-stop // PAGE_BYTES) * PAGE_BYTES)
        self._between = begin, end, pages
        return pages

    @cached_property
    def _last_copies(self) -> dict[int, RangeMap[int]]:
        """For each block, the last step that copies each byte of the host from or to it."""
        last: dict[int, RangeMap[int]] = {}
        for number, step in enumerate(self.state.run.steps):
            if isinstance(step, TracedCopy) and step.way in ("h2d", "d2h"):
                of_block = last.setdefault(step.device.block, RangeMap())
                for start, end, address in joined(step):
                    of_block.assign(address, address + end - start, number)
        return last

    def _bytes_copied_again(self, number: int, block: int, pages: Ranges) -> int:
        """How many bytes of some pages a later step copies from or to the block."""
        again = Ranges()
        for first, last in pages:
            for start, end, when in self._last_copies[block].overlapping(first, last):
                if when > number:
                    again.add(max(start, first), min(end, last))
        return again.total()

    def _replaced(self, number: int, copy: TracedCopy) -> None:
        block = copy.device.block
        if block in self._looked or not may_pair(self.state.run.blocks[block], copy):
            return
        key = copy.device, copy.call.source
        before, now = self._samples.get(key), copy.call.sample
        self._samples[key] = now
        window = self.state.partners(block).window
        in_window = any(window.overlaps(start, end) for start, end in copy.device.pieces)
        changed = before is not None and now is not None and before != now
        launch = self.state.pending.get(block)
        if launch is not None and (in_window or changed) and not self._was_watched(copy, launch):
            row = self.row("prepared", "likely", block)
            row.add(number, copy.device.total, self.state.places.of(copy.call.site), block)

    def _was_watched(self, copy: TracedCopy, launch: TracedLaunch) -> bool:
        """Whether the host was looked at from the launch on, where the bytes of a copy come from."""
        start, end = copy.call.source, copy.call.source + copy.host.end - copy.host.start
        return self._looks.cover(start, end, launch.call.t)


class _Looks:
    """Looks at the host. Of those at the same range, the one counts that begins last."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}
        self._addresses: dict[int, list[int]] = {}
        """Of ranges of each length, by the bits that it takes, in order."""
        self._sizes: dict[tuple[int, int], list[int]] = {}
        """The lengths of ranges, by address and the bits."""

    def clear(self) -> None:
        for table in (self._since, self._addresses, self._sizes):
            table.clear()

    def add(self, use: HostUse) -> None:
        key, bits = (use.address, use.bytes), use.bytes.bit_length()
        if key not in self._since:
            sizes = self._sizes.setdefault((use.address, bits), [])
            if not sizes:
                insort(self._addresses.setdefault(bits, []), use.address)
            sizes.append(use.bytes)
        self._since[key] = max(use.since, self._since.get(key, use.since))

    def cover(self, start: int, end: int, since: float) -> bool:
        """Whether one of them begins at a time or later, and is of all bytes [start, end)."""
        for bits, addresses in self._addresses.items():
            near = addresses[bisect_left(addresses, end - (1 << bits)) : bisect_right(addresses, start)]
            looks = ((address, size) for address in near for size in self._sizes[address, bits])
            if any(sum(look) >= end and self._since[look] >= since for look in looks):
                return True
        return False


class _ShownBytes:
    """The host's bytes that blocks show which copies fill in turn."""

    def __init__(self, run: TracedRun) -> None:
        self._run, self._steps, self._next = run, run.steps, 0
        self._filled: dict[int, TracedCopy] = {}
        """The last copy to each block."""
        self._named: dict[int, tuple[TracedCopy, Ranges]] = {}
        """What blocks show to the launches since the last wait, and the last copy of it."""

    def of(self, block: int, number: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What of the host's bytes [start, end) a block shows to the launches from the last wait to the step `number`,
        which never decreases; and what the next copy back puts there.
        """
        for step in map(self._steps.__getitem__, range(self._next, number)):
            self._advance(step)
        self._next = number
        if block in self._named:
            yield from self._named[block][1].common(start, end)
        back = self._copies_back.get(block, [])
        place = bisect_left(back, number)
        if place < len(back) and self._run.place(back[place]) < self._run.place(number) + _FAR:
            step = self._steps[back[place]]
            assert isinstance(step, TracedCopy)
            for first, last in _host_side(step):
                yield max(first, start), min(last, end)

    def _advance(self, step: TracedStep) -> None:
        if isinstance(step, TracedLaunch):
            for block in (use.block for use in step.uses if use.block in self._filled):
                copy, (last_copy, shown) = self._filled[block], self._named.get(block, (None, Ranges()))
                if copy is not last_copy:
                    for start, end in _host_side(copy):
                        shown.add(start, end)
                    self._named[block] = copy, shown
        elif is_wait(step):
            self._named.clear()
        if isinstance(step, TracedCopy) and step.way == "h2d":
            self._filled[step.device.block] = step

    @cached_property
    def _copies_back(self) -> dict[int, list[int]]:
        """The numbers of the copies to the host from each block."""
        back: dict[int, list[int]] = {}
        for number, step in enumerate(self._steps):
            if isinstance(step, TracedCopy) and step.way == "d2h":
                back.setdefault(step.device.block, []).append(number)
        return back


def _host_side(copy: TracedCopy) -> Iterator[tuple[int, int]]:
    return ((address, address + end - start) for start, end, address in joined(copy))


def _whole_pages(pieces: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The pages that are in a piece as a whole: others hold other data too."""
    for first, last in pieces:
        yield -(-first // PAGE_BYTES) * PAGE_BYTES, last // PAGE_BYTES * PAGE_BYTES
