"""A buffer that shares memory with the CPU is copied all the same, where a mapping would do."""

from __future__ import annotations

from firsttouch.advice.port.rule import FindingWords, Hazard
from firsttouch.program.trace import NO_BLOCK, TracedCopy, TracedStep


class SharedCopy(Hazard):
    """By buffer and call."""

    name = "shared-copy"
    title = "copy of shared memory"
    order = 6
    api = "OpenCL"
    words = {
        "made": FindingWords("a buffer that was made to be shared (CL_MEM_ALLOC_HOST_PTR) is copied, not mapped"),
        "given": FindingWords("a buffer that is the program's own memory (CL_MEM_USE_HOST_PTR) is copied, not mapped"),
        "svm": FindingWords("shared virtual memory is copied, which the CPU can use where it is"),
    }
    strategy = "map the buffer, use it where it is, and unmap it, in place of the copies"
    chapter = "copies-of-shared-memory"
    steps = (TracedCopy,)

    def take(self, number: int, step: TracedStep) -> None:
        if not isinstance(step, TracedCopy) or step.way not in ("h2d", "d2h") or step.device.block == NO_BLOCK:
            return
        sharing = self.state.run.blocks[step.device.block].sharing
        if not sharing or step.call.cause != "call":
            return
        kind = next((kind for kind in ("given", "made") if kind in sharing), "svm")
        place = self.state.places.of(step.call.site)
        self.row(kind, "seen", (step.device.block, place)).add(number, step.device.total, place, step.device.block)
