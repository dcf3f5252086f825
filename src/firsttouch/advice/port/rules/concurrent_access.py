"""The CPU writes a buffer while a kernel may run that names its block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

from firsttouch.advice.port.cpu_use import watched_ranges
from firsttouch.advice.port.places import counted
from firsttouch.advice.port.rule import Coverage, FindingRows, FindingWords, Hazard, ProgramState, is_wait
from firsttouch.profile.calls import HostUse
from firsttouch.program.partners import joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedLaunch, TracedRange, TracedStep
from firsttouch.program.watched import PAGE_BYTES

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
        self._watched: list[HostUse] = []
        """The looks at the host since a launch that is pending."""

    def take(self, number: int, step: TracedStep) -> None:
        if not self.state.pending:
            self._watched.clear()
        if isinstance(step, HostUse):
            if self.state.pending:
                self._written(number, step)
                self._watched.append(step)
        elif isinstance(step, TracedCopy) and step.way == "h2d":
            self._replaced(number, step)
        elif isinstance(step, TracedAllocation):
            self._samples.clear()

    def coverage(self) -> Coverage:
        run = self.state.run
        if not any(isinstance(step, HostUse) for step in run.steps):
            return Coverage(limit="nothing recorded" if self.state.watched else "not watched")
        watched, ranges = watched_ranges(run, self.state.all_partners)
        if watched == ranges or not run.launches:
            return Coverage()
        grounds = {"watched": str(watched), "ranges": counted(ranges, "range")}
        return Coverage(True, "partly watched", grounds) if watched else Coverage(limit="not while kernels ran")

    def _written(self, number: int, use: HostUse) -> None:
        if not use.writes:
            return
        for block, launch in self.state.pending.items():
            if launch.call.t > use.since or block not in self.state.alive:
                continue
            pages = _whole_pages(use.writes, self._partners(block, number))
            for start, end in self._spans_copied_back(number):
                pages.remove(start // PAGE_BYTES * PAGE_BYTES, -(-end // PAGE_BYTES) * PAGE_BYTES)
            if pages:
                again = self._bytes_copied_again(number, block, pages)
                row = self.row("written", "seen" if again else "possible", block)
                row.add(number, again or pages.total(), self.state.places.of(launch.call.site), block)

    def _partners(self, block: int, number: int) -> Ranges:
        """The partners of a living block; of those that take turns, the ones that pending launches may use."""
        life = self.state.partners(block)
        if not life.window:
            if id(life) not in self._all_host:
                self._all_host[id(life)] = life.all_host()
            return self._all_host[id(life)]
        used = Ranges()
        for start, end in life.host:
            used.add(start, end)
        for start, end in self._host_bytes_shown(block, number):
            for first, last in life.windows.common(start, end):
                used.add(first, last)
        return used

    def _host_bytes_shown(self, block: int, number: int) -> Iterator[tuple[int, int]]:
        """What of the host a block has the bytes of, for the launches since the last wait; and where the next copy back
        puts them.
        """
        steps, is_pending, is_named = self.state.run.steps, True, False
        for step in map(steps.__getitem__, range(number - 1, -1, -1)):
            if isinstance(step, TracedLaunch):
                is_named |= is_pending and any(use.block == block for use in step.uses)
            elif isinstance(step, TracedCopy) and step.device.block == block and step.way == "h2d" and is_named:
                yield from _host_side(step)
                is_named = False
            is_pending = is_pending and not is_wait(step)
            if not (is_pending or is_named):
                break
        after = map(steps.__getitem__, range(number, min(len(steps), number + _FAR)))
        back = (s for s in after if isinstance(s, TracedCopy) and s.way == "d2h" and s.device.block == block)
        for step in islice(back, 1):
            yield from _host_side(step)

    def _spans_copied_back(self, number: int) -> Iterable[tuple[int, int]]:
        """What copies to the host write from the last launch to the next one."""
        for step in (*self._steps_to_launch(number, -1), *self._steps_to_launch(number, 1)):
            if isinstance(step, TracedCopy) and step.way == "d2h":
                yield from _host_side(step)

    def _steps_to_launch(self, number: int, by: int) -> Iterable[TracedStep]:
        """The steps from one on to a launch."""
        steps = self.state.run.steps
        while 0 <= number < len(steps) and not isinstance(steps[number], TracedLaunch):
            yield steps[number]
            number += by

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
        if not may_pair(self.state.run.blocks[block], copy):
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
        return any(
            use.since >= launch.call.t and use.address <= start and end <= use.address + use.bytes
            for use in self._watched
        )


def _host_side(copy: TracedCopy) -> Iterator[tuple[int, int]]:
    return ((address, address + end - start) for start, end, address in joined(copy))


def _whole_pages(writes: Iterable[tuple[int, int]], partners: Ranges) -> Ranges:
    """The pages that were written and are in partners as a whole: others hold other data too."""
    pages = Ranges()
    for start, end in writes:
        for first, last in partners.common(start, end):
            pages.add(-(-first // PAGE_BYTES) * PAGE_BYTES, last // PAGE_BYTES * PAGE_BYTES)
    return pages
