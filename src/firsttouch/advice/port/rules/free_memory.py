"""The program asks how much memory of the device is free, which says nothing of unified memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from firsttouch.advice.port.rule import FindingRow, FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.profile.calls import QueryCall
from firsttouch.profile.trace import is_of_a_package
from firsttouch.program.trace import TracedAllocation, TracedBlock, TracedStep

LARGE_SHARE = 0.25
"""The part of the free memory from which on what a function allocates is taken to follow from it: programs that fill
the memory leave some free, or divide it among a few arrays, and free some of them again.
"""


@dataclass
class _FreeAsked:
    """A query, and the living blocks that its function allocated since, with their bytes together."""

    row: FindingRow
    free: int
    blocks: set[int] = field(default_factory=set)
    held: int = 0

    def add(self, block: TracedBlock) -> None:
        self.blocks.add(block.number)
        self.held += block.nbytes
        if self.held >= LARGE_SHARE * self.free:
            share = f"{100 * self.held / self.free:.0f} %" if self.held <= self.free else "more than all"
            self.row.variant, self.row.certainty, self.row.grounds = "allocates", "likely", {"share": share}

    def remove(self, block: TracedBlock) -> None:
        if block.number in self.blocks:
            self.blocks.remove(block.number)
            self.held -= block.nbytes


class FreeMemory(Hazard):
    """Calls of the program itself, not of a library of the vendor. That sizes follow from what is free is likely if the
    same function then allocates a large share of it. What a library of a package queries, it may do on its own account.
    """

    name = "free-memory"
    title = "free memory"
    order = 2
    words = {
        "asked": FindingWords("the program queries the free memory of the device", is_note=True),
        "library": FindingWords("a library queries the free memory of the device"),
        "allocates": FindingWords(
            "the program queries the free memory of the device, and the same function then allocates {share} of it",
            "the sizes do not follow from it",
        ),
    }
    strategy = "also limit the size by the host's available memory (MemAvailable, the node's MemFree)"
    chapter = "free-memory"
    steps = (QueryCall, TracedAllocation)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._asked: dict[str, _FreeAsked] = {}
        """The last query of each function."""

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, QueryCall) and not step.vendor:
            place = self.state.places.of(step.site)
            by_library = bool(step.site) and is_of_a_package(step.site[0].file)
            row = self.row("library", "possible", place) if by_library else self.row("asked", "seen", place)
            row.add(number, 0, place)
            if place.function and not by_library:
                self._asked[place.function] = _FreeAsked(row, step.free)
        elif isinstance(step, TracedAllocation) and self._asked:
            block = self.state.run.blocks[step.block]
            if not step.begins:
                for asked in self._asked.values():
                    asked.remove(block)
            elif (function := self.state.places.of(step.call.site).function) in self._asked and not block.on_host:
                self._asked[function].add(block)
