"""What the CPU does with the host's bytes after they were copied, where it was watched (--host)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from firsttouch.profile.calls import HostUse
from firsttouch.program.partners import Partners, joined
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import NO_BLOCK, TracedCopy, TracedLaunch, TracedRun
from firsttouch.program.watched import last_free


@dataclass
class CpuUse:
    """Of a block's copies. unread: bytes that were copied back, and that the CPU neither read nor wrote before they
    were copied again or the program ended, or began to free memory. read_again: bytes that the CPU read after they were
    copied to the device, the most between two copies.
    """

    unread: int = 0
    read_again: int = 0


def cpu_use(run: TracedRun) -> dict[int, CpuUse]:
    """How the CPU uses the copied bytes of each block, as far as it is known."""
    uses: defaultdict[int, CpuUse] = defaultdict(CpuUse)
    if not any(isinstance(step, HostUse) for step in run.steps):
        return uses
    copied: RangeMap[tuple[str, int]] = RangeMap()
    left_alone: RangeMap[bool] = RangeMap()
    freed = last_free(run)
    for step in run.steps:
        if isinstance(step, HostUse) and step.read is not None:
            first, last = step.address, step.address + step.bytes
            ends_early = step.was_gone and step.t < freed
            left_alone.assign(first, last, step.read == 0 and not step.writes and not ends_early)
            _count_read(copied, step, uses)
        elif isinstance(step, TracedCopy) and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            for part in joined(step):
                last = part.host + part.end - part.start
                _count_unused(copied, left_alone, part.host, last, uses)
                copied.assign(part.host, last, (step.way, step.device.block))
    for first, last, _ in list(left_alone):
        _count_unused(copied, left_alone, first, last, uses)
    return uses


def _count_unused(
    copied: RangeMap[tuple[str, int]],
    left_alone: RangeMap[bool],
    start: int,
    end: int,
    uses: defaultdict[int, CpuUse],
) -> None:
    """Counts the bytes of a range that were copied back and are not used any more."""
    for first, last, is_unread in left_alone.overlapping(start, end):
        for begin, stop, (way, block) in copied.overlapping(max(first, start), min(last, end)) if is_unread else ():
            if way == "d2h":
                uses[block].unread += min(stop, last, end) - max(begin, first, start)
    left_alone.remove(start, end)


def _count_read(copied: RangeMap[tuple[str, int]], use: HostUse, uses: defaultdict[int, CpuUse]) -> None:
    """Adds what was read of bytes that were copied to the device last. Which bytes of a range it were is not known."""
    read = use.read or 0
    sizes: defaultdict[int, int] = defaultdict(int)
    for start, end, (way, block) in copied.overlapping(use.address, use.address + use.bytes) if read else ():
        size = min(end, use.address + use.bytes) - max(start, use.address)
        if way == "h2d":
            sizes[block] += min(size, read)
        read -= min(size, read)
    for block, size in sizes.items():
        uses[block].read_again = max(uses[block].read_again, size)


def watched_ranges(run: TracedRun, joined: Partners) -> tuple[int, int]:
    """Of how many partners of blocks it is known whether the CPU wrote them while a kernel could run, and of how many
    there are.
    """
    launches = [step.call.t for step in run.steps if isinstance(step, TracedLaunch)]
    watched = Ranges()
    for step in run.steps:
        if isinstance(step, HostUse):
            place = bisect_left(launches, step.since)
            ran = place < len(launches) and launches[place] < step.t
            if ran and (step.read is None or not step.writes):
                watched.add(step.address, step.address + step.bytes)
    ranges = {piece for lives in joined for life in lives for piece in life.all_host()}
    return sum(not watched.missing(start, end) for start, end in ranges), len(ranges)
