"""Memory that the program gives to a buffer, which a driver may copy in silence because of where it begins or ends."""

from __future__ import annotations

from firsttouch.advice.port.rule import FindingWords, Hazard
from firsttouch.program.trace import TracedAllocation, TracedStep

PAGE_BYTES, LINE_BYTES = 4096, 64
"""What drivers that share such memory need of its address and of its size. Source: Intel's guide to zero copy in OpenCL
("Getting the Most from OpenCL 1.2: How to Increase Performance by Minimizing Buffer Copies on Intel Processor
Graphics").
"""


class Misaligned(Hazard):
    """By buffer."""

    name = "misaligned"
    title = "misaligned memory"
    order = 7
    api = "OpenCL"
    words = {
        "address": FindingWords(
            "memory that does not begin at a page is given to a buffer (CL_MEM_USE_HOST_PTR): the driver may copy it",
            "this driver shares it nevertheless",
        ),
        "size": FindingWords(
            "memory of a size that is no multiple of 64 bytes is given to a buffer (CL_MEM_USE_HOST_PTR): the driver "
            "may copy it",
            "this driver shares it nevertheless",
        ),
    }
    strategy = "allocate it by CL_MEM_ALLOC_HOST_PTR and map it, or with 4,096-byte alignment and 64-byte multiples"
    chapter = "misaligned-memory"
    steps = (TracedAllocation,)

    def take(self, number: int, step: TracedStep) -> None:
        if not isinstance(step, TracedAllocation) or not step.begins or not step.call.host:
            return
        wrong = "address" if step.call.host % PAGE_BYTES else "size" if step.call.bytes % LINE_BYTES else ""
        if wrong:
            place = self.state.places.of(step.call.site)
            self.row(wrong, "likely", step.block).add(number, step.call.bytes, place, step.block)
