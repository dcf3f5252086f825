"""The program asks how much memory of the device is free, which says nothing of unified memory."""

from __future__ import annotations

from firsttouch.advice.port.rule import FindingRow, FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.profile.calls import CudaQuery
from firsttouch.profile.trace import is_of_a_package
from firsttouch.program.trace import TracedAllocation, TracedStep


class FreeMemory(Hazard):
    """Calls of the program itself, not of a library of the vendor; and whether the same function then allocates. What a
    library of a package queries, it may do on its own account.
    """

    name = "free-memory"
    title = "free memory"
    order = 2
    words = {
        "asked": FindingWords("the program queries the free memory of the device"),
        "library": FindingWords("a library queries the free memory of the device"),
        "allocates": FindingWords(
            "the program queries the free memory of the device, and the same function then allocates, probably "
            "accordingly"
        ),
    }
    strategy = "also limit the size by the host's available memory (MemAvailable, the node's MemFree)"
    chapter = "free-memory"
    steps = (CudaQuery, TracedAllocation)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._asked: dict[str, FindingRow] = {}

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, CudaQuery) and not step.vendor:
            place = self.state.places.of(step.site)
            by_library = bool(step.site) and is_of_a_package(step.site[0].file)
            row = self.row("library", "possible", place) if by_library else self.row("asked", "seen", place)
            row.add(number, 0, place)
            if place.function and not by_library:
                self._asked[place.function] = row
        elif isinstance(step, TracedAllocation) and step.begins and self._asked:
            function = self.state.places.of(step.call.site).function
            if function in self._asked:
                self._asked.pop(function).variant = "allocates"
