"""The first hazard: the CPU writes a buffer while a kernel may run that names its block."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from firsttouch.portability.hazards import Findings, ProgramState, Rule
from firsttouch.profile.calls import HostUse
from firsttouch.workload.partners import joined, may_pair
from firsttouch.workload.range_map import RangeMap
from firsttouch.workload.trace import (
    TracedAllocation,
    TracedCopy,
    TracedLaunch,
    TracedRange,
    TracedStep,
)
from firsttouch.workspace.ranges import Ranges

PAGE_BYTES = 4096
_WRITES = "the CPU writes it between a launch that names its block and the next wait"
_PREPARES = "the CPU prepares other bytes for a block that a kernel may still use"


class ConcurrentAccess(Rule):
    """Where the host was watched (--host), from a launch on: whole pages of a partner that the CPU wrote before the
    next wait, but for those that a copy to the host wrote. Seen, if the program copies them again; if it does not, it
    may have given the memory back, so that this is only possible. Where the host was not watched: likely, where other
    bytes are copied to where they replace those that a pending kernel reads.
    """

    kinds = (HostUse, TracedCopy, TracedAllocation)

    def __init__(self, state: ProgramState, findings: Findings) -> None:
        super().__init__(state, findings)
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

    def _written(self, number: int, use: HostUse) -> None:
        if not use.writes:
            return
        for block, launch in self.state.pending.items():
            if launch.call.t > use.since or block not in self.state.alive:
                continue
            pages = _whole_pages(use.writes, self._partners(block))
            for start, end in self._copied_back(number):
                pages.remove(start // PAGE_BYTES * PAGE_BYTES, -(-end // PAGE_BYTES) * PAGE_BYTES)
            if pages:
                again = self._copied_again(number, block, pages)
                found = self.findings.of("concurrent", "seen" if again else "possible", _WRITES, apart=block)
                found.add(number, again or pages.total(), self.state.places.of(launch.call.site), block)

    def _partners(self, block: int) -> Ranges:
        life = self.state.partners(block)
        if id(life) not in self._all_host:
            self._all_host[id(life)] = life.all_host()
        return self._all_host[id(life)]

    def _copied_back(self, number: int) -> Iterable[tuple[int, int]]:
        """What copies to the host write from the last launch to the next one."""
        for step in (*self._from(number, -1), *self._from(number, 1)):
            if isinstance(step, TracedCopy) and step.way == "d2h":
                for start, end, address in joined(step):
                    yield address, address + end - start

    def _from(self, number: int, by: int) -> Iterable[TracedStep]:
        """The steps from one on to a launch."""
        steps = self.state.run.steps
        while 0 <= number < len(steps) and not isinstance(steps[number], TracedLaunch):
            yield steps[number]
            number += by

    @cached_property
    def _last_copies(self) -> dict[int, RangeMap[int]]:
        """By block, the last step that copies each byte of the host from or to it."""
        last: dict[int, RangeMap[int]] = {}
        for number, step in enumerate(self.state.run.steps):
            if isinstance(step, TracedCopy) and step.way in ("h2d", "d2h"):
                of_block = last.setdefault(step.device.block, RangeMap())
                for start, end, address in joined(step):
                    of_block.assign(address, address + end - start, number)
        return last

    def _copied_again(self, number: int, block: int, pages: Ranges) -> int:
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
            reading = "they were prepared before the launch"
            found = self.findings.of("concurrent", "likely", _PREPARES, reading, apart=block)
            found.add(number, copy.device.total, self.state.places.of(copy.call.site), block)

    def _was_watched(self, copy: TracedCopy, launch: TracedLaunch) -> bool:
        """Whether the host was looked at from the launch on, where the bytes of a copy come from."""
        start, end = copy.call.source, copy.call.source + copy.host.end - copy.host.start
        return any(
            use.since >= launch.call.t and use.address <= start and end <= use.address + use.bytes
            for use in self._watched
        )


def _whole_pages(writes: Iterable[tuple[int, int]], partners: Ranges) -> Ranges:
    """The pages that were written and are in partners as a whole: others hold other data too."""
    pages = Ranges()
    for start, end in writes:
        for first, last in partners.common(start, end):
            pages.add(-(-first // PAGE_BYTES) * PAGE_BYTES, last // PAGE_BYTES * PAGE_BYTES)
    return pages
