"""The rules of four hazards: free memory, partial transfers, stack and static variables."""

from __future__ import annotations

from firsttouch.advice.port.hazards import Findings, Occurrences, ProgramState, Rule
from firsttouch.profile.calls import CudaQuery, CudaWait
from firsttouch.program.partners import may_pair
from firsttouch.program.trace import (
    NO_BLOCK,
    STATIC_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedFill,
    TracedRange,
    TracedStep,
)

WHOLE = 0.99
"""The part of a block from which on a copy is one of the whole."""
_PADDING = 512
"""Rows of a block may be up to so many bytes longer than those that are copied. Source: the alignment of textures, to
which cudaMallocPitch rounds rows.
"""


def is_whole(block: TracedBlock, side: TracedRange) -> bool:
    """Whether a range is all of a block but for padding."""
    padded = side.pitch if side.nbytes < side.pitch < side.nbytes + _PADDING else side.nbytes
    return side.rows * padded >= WHOLE * block.nbytes


class FreeMemory(Rule):
    """The program itself asks how much memory of the device is free, which says nothing of unified memory."""

    kinds = (CudaQuery, TracedAllocation)
    _TEXT = "that of the device is asked for"

    def __init__(self, state: ProgramState, findings: Findings) -> None:
        super().__init__(state, findings)
        self._asked: dict[str, Occurrences] = {}

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, CudaQuery) and not step.vendor:
            place = self.state.places.of(step.site)
            found = self.findings.of("free-memory", "seen", self._TEXT, apart=place)
            found.add(number, 0, place)
            if place.function:
                self._asked[place.function] = found
        elif isinstance(step, TracedAllocation) and step.begins and self._asked:
            function = self.state.places.of(step.call.site).function
            if function in self._asked:
                self._asked.pop(function).text = f"{self._TEXT}; the same function then allocates, likely by it"


class PartialTransfer(Rule):
    """A copy of part of a block, where no other bytes take their turn. Likely, where two blocks are filled from
    adjacent bytes of the host.
    """

    kinds = (TracedCopy,)

    def __init__(self, state: ProgramState, findings: Findings) -> None:
        super().__init__(state, findings)
        self._begins: dict[int, tuple[int, int]] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._joined: set[frozenset[int]] = set()

    def take(self, number: int, step: TracedStep) -> None:
        if not isinstance(step, TracedCopy) or step.way not in ("h2d", "d2h"):
            return
        block = self.state.run.blocks[step.device.block]
        if block.kind in STATIC_KINDS or block.kind == "array" or block.number in self.state.pooled:
            return
        if not is_whole(block, step.device):
            window = self.state.partners(block.number).window
            if window.total() < WHOLE * block.nbytes:
                text = f"part of a block, copied {'to the device' if step.way == 'h2d' else 'back'}"
                place = self.state.places.of(step.call.site)
                found = self.findings.of("partial", "seen", text, apart=(block.number, place))
                found.add(number, step.device.total, place, block.number)
        elif step.way == "h2d" and may_pair(block, step) and step.host.rows == 1:
            self._find_adjacent(number, step, block)

    def _find_adjacent(self, number: int, copy: TracedCopy, block: TracedBlock) -> None:
        start, nbytes = copy.call.source, copy.host.total
        for block_edges, edge in ((self._ends, start), (self._begins, start + nbytes)):
            neighbour, life = block_edges.get(edge, (block.number, 0))
            pair = frozenset((neighbour, block.number))
            if len(pair) == 2 and self.state.alive.get(neighbour) == life and pair not in self._joined:
                self._joined.add(pair)
                text = "two blocks are filled from adjacent bytes of the host, parts of one array"
                reading = "two arrays lie side by side"
                found = self.findings.of("partial", "likely", text, reading, apart=pair)
                found.add(number, nbytes, self.state.places.of(copy.call.site), neighbour, block.number)
        self._begins[start] = self._ends[start + nbytes] = block.number, self.state.alive[block.number]


class StackVariable(Rule):
    """A copy from or to a variable of a function, which ends with it. Where the copy does not block: whether it ended
    before the thread's next wait, whose stack pointer tells.
    """

    kinds = (TracedCopy, CudaWait)

    def __init__(self, state: ProgramState, findings: Findings) -> None:
        super().__init__(state, findings)
        self._waiting: list[tuple[int, TracedCopy]] = []

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, TracedCopy) and step.call.host == "stack" and step.way in ("h2d", "d2h"):
            if step.call.blocking:
                self._add_finding(number, step, "harmless as long as its copies block")
            else:
                self._waiting.append((number, step))
        elif isinstance(step, CudaWait) and self._waiting:
            self._waited(step.thread, step.stack)
        elif isinstance(step, TracedCopy) and step.call.blocking and self._waiting:
            self._waited(step.call.thread, 0)

    def finish(self) -> None:
        for number, copy in self._waiting:
            self._judge_copy(number, copy, 0)

    def _waited(self, thread: int, stack: int) -> None:
        """stack: the thread's stack pointer; 0: unknown."""
        for earlier, copy in [row for row in self._waiting if row[1].call.thread == thread]:
            self._judge_copy(earlier, copy, stack)
        self._waiting = [row for row in self._waiting if row[1].call.thread != thread]

    def _judge_copy(self, number: int, copy: TracedCopy, stack: int) -> None:
        address = copy.call.target if copy.way == "d2h" else copy.call.source
        ended = "and its function has ended before the wait" if address < stack else "and used until a wait"
        self._add_finding(number, copy, f"copied without blocking, {ended}")

    def _add_finding(self, number: int, copy: TracedCopy, text: str) -> None:
        place = self.state.places.of(copy.call.site)
        found = self.findings.of("stack", "seen", text, apart=place)
        found.add(number, copy.device.total, place, copy.device.block)


class StaticVariable(Rule):
    """A copy from or to a static variable of the device, or one of the host, which cannot be allocated otherwise."""

    kinds = (TracedCopy, TracedFill)

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, TracedFill):
            self._device(number, step.target, step)
        elif isinstance(step, TracedCopy):
            self._device(number, step.target, step)
            self._device(number, step.source, step)
            of_device = step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK
            if of_device and step.call.host == "static":
                text = "of the host"
                block = step.device.block
                place = self.state.places.of(step.call.site)
                found = self.findings.of("static", "seen", text, apart=place)
                found.add(number, step.device.total, place, block)

    def _device(self, number: int, side: TracedRange, step: TracedCopy | TracedFill) -> None:
        block = self.state.run.blocks[side.block] if side.block != NO_BLOCK else None
        if block is not None and block.kind == "device_static":
            found = self.findings.of("static", "seen", "of the device", apart=block.number)
            found.add(number, side.total, self.state.places.of(step.call.site), block.number)
