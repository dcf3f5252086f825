"""What the CPU does with the host's bytes after they were copied, where it was watched (--host)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from firsttouch.profile.calls import HostUse
from firsttouch.program.partners import Partners, joined
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import NO_BLOCK, TracedCopy, TracedLaunch, TracedRun, beside_launches
from firsttouch.program.watched import PAGE_BYTES, HostHistory, SinceCopy


@dataclass
class CpuUse:
    """Of a block's copies. unread: bytes that were copied back, and that the CPU neither read nor wrote before they
    were copied again or the program ended; unwatched: those of which that is not known, without copies of less than a
    page. read_again: bytes that the CPU read after they were copied to the device, the most between two copies.
    """

    unread: int = 0
    unwatched: int = 0
    read_again: int = 0


@dataclass
class CpuUses:
    """How the CPU uses copied bytes, as far as it is known. blocks: those of each block. unread: the copies to the host
    after which it neither read nor wrote any of their bytes before these were copied again or the program ended; used:
    those after which it did either, or perhaps.
    """

    blocks: defaultdict[int, CpuUse]
    unread: set[int]
    used: set[int]


def cpu_uses(run: TracedRun) -> CpuUses:
    """Take it with `run.once`."""
    uses, unread = CpuUses(defaultdict(CpuUse), set(), set()), Counter[int]()
    steps = run.once(beside_launches)
    if not any(type(step) is HostUse for _, step in steps):
        return uses
    history = HostHistory()
    for number, step in steps:
        if type(step) is HostUse:
            _count_read(history, step, uses.blocks)
            history.watched(step)
        elif type(step) is TracedCopy and step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK:
            for part in joined(step):
                _count_unused(history.since(part.host, part.host + part.end - part.start), uses, unread)
            history.copied(step, number)
    _count_unused(history.all_since(), uses, unread)
    for number, size in unread.items():
        copy = run.steps[number]
        assert isinstance(copy, TracedCopy)
        if size == copy.device.total:
            uses.unread.add(number)
    return uses


def _count_unused(known: Iterable[tuple[int, int, SinceCopy]], uses: CpuUses, unread: Counter[int]) -> None:
    """Counts bytes that were copied back, and that are copied again or not used any more; unread: by copy."""
    for first, last, since in known:
        if since.way != "d2h":
            continue
        if since.used:
            uses.used.add(since.copy)
        elif since.reads == since.writes == "told":
            uses.blocks[since.block].unread += last - first
            unread[since.copy] += last - first
        elif last - first >= PAGE_BYTES:
            uses.blocks[since.block].unwatched += last - first


def _count_read(history: HostHistory, use: HostUse, uses: defaultdict[int, CpuUse]) -> None:
    """Adds what was read of bytes that were copied to the device last. Which bytes of a range it were is not known."""
    read = use.read or 0
    sizes: defaultdict[int, int] = defaultdict(int)
    for start, end, since in history.since(use.address, use.address + use.bytes) if read else ():
        size = min(end - start, read)
        if since.way == "h2d":
            sizes[since.block] += size
        read -= size
    for block, size in sizes.items():
        uses[block].read_again = max(uses[block].read_again, size)


def watched_ranges(run: TracedRun, joined: Partners) -> tuple[int, int]:
    """Of how many partners of blocks it is known whether the CPU wrote them while a kernel could run, and of how many
    there are.
    """
    launches = [step.call.t for step in run.steps if type(step) is TracedLaunch]
    watched = Ranges()
    for step in run.steps:
        if type(step) is HostUse:
            place = bisect_left(launches, step.since)
            ran = place < len(launches) and launches[place] < step.t
            if ran and (step.read is None or not step.writes):
                watched.add(step.address, step.address + step.bytes)
    ranges = {piece for lives in joined for life in lives for piece in life.all_host()}
    return sum(not watched.missing(start, end) for start, end in ranges), len(ranges)
