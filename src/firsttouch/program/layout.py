"""Where the bytes of a traced program are in a unified version of it: which blocks that has, and what each holds.

A block of the device and the host's bytes that are copied to it and from it are one block. Where other bytes of the
host are copied in turn to the same bytes of a block, it is a window on them: then the host's bytes are the block, and a
launch that names the window uses the part of them that was copied there last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from firsttouch.program.partners import LifePartners, Partners, joined
from firsttouch.program.range_map import RangeMap
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    STATIC_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
)

OWN = -1


@dataclass
class UnifiedBlock:
    """A block of the unified version. own: the traced block that it is, OWN if it is memory of the host.

    extents: of the host, in order, one after the other.
    """

    number: int
    nbytes: int
    own: int = OWN
    extents: list[tuple[int, int]] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Where each extent is in the block."""

    def offset(self, start: int, end: int) -> int | None:
        """The offset of bytes [start, end) of the host; None if the block does not have them all."""
        index = bisect_right(self.extents, start, key=lambda extent: extent[0]) - 1
        if index < 0 or end > self.extents[index][1]:
            return None
        return self.begins[index] + start - self.extents[index][0]


@dataclass
class UnifiedPiece:
    """Bytes [start, end) of a unified block."""

    block: int
    start: int
    end: int


def is_window(life: LifePartners) -> bool:
    """Whether most of what is copied to or from a block goes through a window."""
    return 2 * life.window.total() > life.window.total() + life.host.total() and bool(life.window)


class Layout:
    """Which unified block has the bytes of each traced block, as the program goes on.

    used: numbers of the traced blocks that kernels or copies use.
    """

    def __init__(self, run: TracedRun, partners: Partners, used: set[int]) -> None:
        self._run, self._partners = run, partners
        self.blocks: list[UnifiedBlock] = []
        self.own: dict[int, UnifiedBlock] = {}
        """By the number of a traced block that is one."""
        self._windows: dict[int, UnifiedBlock] = {}
        """By the number of a traced block that is a window."""
        self._shown_by_window: dict[int, RangeMap[int]] = {}
        """Of each window, what it shows: how far from its own bytes those of the unified block are."""
        self._copies_back: dict[int, list[tuple[int, TracedCopy | None]]] = {}
        """The copies back from each window, the next one last, and None where it ends."""
        windows = {block.number for block in run.blocks if any(map(is_window, partners[block.number]))} & used
        for number in sorted(used - windows):
            block = self._add(UnifiedBlock(len(self.blocks), run.blocks[number].nbytes, number))
            self.own[number] = block
        self._join(windows)
        if windows:
            self._find_copies_back(windows)

    def _add(self, block: UnifiedBlock) -> UnifiedBlock:
        self.blocks.append(block)
        return block

    def _join(self, windows: set[int]) -> None:
        """The host's bytes of windows that share any are one block."""
        groups: dict[int, tuple[Ranges, set[int]]] = {number: (Ranges(), {number}) for number in windows}
        last, group = 0, -1
        pieces = ((*piece, n) for n in windows for life in self._partners[n] for piece in (*life.host, *life.windows))
        for start, end, number in sorted(pieces):
            if start < last and groups[number] is not groups[group]:
                smaller, larger = sorted((groups[number], groups[group]), key=lambda of_group: len(of_group[1]))
                for first, stop in smaller[0]:
                    larger[0].add(first, stop)
                larger[1].update(smaller[1])
                groups |= dict.fromkeys(smaller[1], larger)
            groups[number][0].add(start, end)
            last, group = max(last, end), number
        for number in sorted(windows):
            ranges, members = groups[number]
            if number < max(members):
                continue
            extents, begins, nbytes = list(ranges), list[int](), 0
            for start, end in extents:
                begins.append(nbytes)
                nbytes += end - start
            block = self._add(UnifiedBlock(len(self.blocks), nbytes, OWN, extents, begins))
            for number in members:
                self._windows[number], self._shown_by_window[number] = block, RangeMap()

    def _find_copies_back(self, windows: set[int]) -> None:
        for index in range(len(self._run.steps) - 1, -1, -1):
            step = self._run.steps[index]
            if type(step) is TracedCopy and step.way == "d2h" and step.device.block in windows:
                self._copies_back.setdefault(step.device.block, []).append((index, step))
            elif type(step) is TracedAllocation and not step.begins and step.block in windows:
                self._copies_back.setdefault(step.block, []).append((index, None))

    # ------------------------------------------------------------------------------------------------ as it goes on

    def is_window(self, number: int) -> bool:
        return number in self._windows

    def block_of(self, number: int) -> int:
        """The unified block of a traced block that is copied."""
        return (self.own.get(number) or self._windows[number]).number

    def copied(self, copy: TracedCopy) -> list[UnifiedPiece]:
        """The bytes of a copy between host and device, which a window then shows. Those of a window are left out if the
        host's side is no partner of it.
        """
        number = copy.device.block
        if number not in self._windows:
            whole_block = self.own[number].number
            return [UnifiedPiece(whole_block, start, end) for start, end in copy.device.pieces]
        pieces = []
        for start, end, shift in self._on_host(number, copy):
            pieces.append(UnifiedPiece(self._windows[number].number, start + shift, end + shift))
            if copy.way == "h2d":
                self._shown_by_window[number].assign(start, end, shift)
        return pieces

    def _on_host(self, number: int, copy: TracedCopy) -> Iterator[tuple[int, int, int]]:
        """The bytes of a window that a copy joins with its unified block, and the distance to the block's bytes."""
        for start, end, host in joined(copy):
            if (offset := self._windows[number].offset(host, host + end - start)) is not None:
                yield start, end, offset - start

    def used(self, index: int, number: int, start: int, end: int | None = None) -> list[UnifiedPiece]:
        """The bytes [start, end) of a block, or all from `start` on. Of a window, what it shows; if nothing, where its
        bytes are copied to next. index: of the step.
        """
        end = self._run.blocks[number].nbytes if end is None else end
        if (whole_block := self.own.get(number)) is not None:
            return [UnifiedPiece(whole_block.number, start, end)] if start < end else []
        block = self._windows.get(number)
        if block is None:
            return []
        shown = list(self._shown_by_window[number].overlapping(start, end))
        if not shown:
            later = self._copies_back.get(number, [])
            while later and later[-1][0] < index:
                later.pop()
            copy = later[-1][1] if later else None
            shown = list(self._on_host(number, copy)) if copy else []
        parts = ((max(a, start), min(b, end), shift) for a, b, shift in shown)
        return [UnifiedPiece(block.number, a + shift, b + shift) for a, b, shift in parts if a < b]

    def ended(self, number: int) -> None:
        """A traced block ended."""
        if number in self._shown_by_window:
            self._shown_by_window[number].clear()

    def keeps(self, number: int, life: int) -> bool:
        """Whether a block that begins again is the same block in a unified version, as its bytes of the host are."""
        before, now = self._partners[number][life - 1 : life + 1]
        return number in self._windows or (bool(now.host) and list(before.host) == list(now.host))


def used_blocks(run: TracedRun) -> set[int]:
    """The traced blocks that kernels name, or that are copied or filled on the device. Static variables count only if
    they are copied or filled, since a library may have many.
    """
    used, seen = set[int](), set[int]()
    for step in run.steps:
        if type(step) is TracedLaunch:
            if id(step.uses) not in seen:
                seen.add(id(step.uses))
                used |= {u.block for u in step.uses if u.by != "symbol" or run.blocks[u.block].kind not in STATIC_KINDS}
        elif type(step) is TracedCopy:
            used |= {s.block for s in (step.source, step.target) if not on_host(run, s.block)}
        elif type(step) is TracedFill:
            used.add(step.target.block)
    return used


def on_host(run: TracedRun, number: int) -> bool:
    return number < 0 or run.blocks[number].on_host


NameOf = Callable[[TracedBlock], str]


def unique(names: Sequence[str]) -> list[str]:
    """Names, with a number where several are equal."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def name_of(block: TracedBlock) -> str:
    """The name of a block if nothing is known of its call."""
    return block.name or f"block {block.number}"
