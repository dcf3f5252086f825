"""Prices the steps of a program on memory whose pages the driver moves, where the CPU can also use the GPU's memory.

Pages that are advised to be on the GPU are made there, whoever touches them first, and stay there: the CPU uses them
across the link (uvm_va_block.c, block_select_processor_residency).
"""

from __future__ import annotations

from firsttouch.model.costs import Unmeasured
from firsttouch.model.moving import Moving
from firsttouch.model.pricing import missing_in_both
from firsttouch.program import steps

REMOTE = "use of the GPU's memory by the CPU, across the link"


class ReachedMoving(Moving):
    """Memory that moves, or stays on the GPU if that is advised."""

    def use_by_cpu(self, step: steps.Use) -> None:
        """Where the CPU's use of the GPU's memory is not known, pages move as if it had none."""
        buffer = step.buffer
        if not self.preferred[buffer] or self.read_mostly[buffer]:
            super().use_by_cpu(step)
            return
        try:
            across = self.prices["cpu_remote", self.name]
        except Unmeasured:
            super().use_by_cpu(step)
            return
        on_cpu, on_gpu, (start, end) = self.present[buffer], self.on_gpu[buffer], self._pages(buffer, step)
        if new := missing_in_both(on_cpu, on_gpu, start, end):
            price = self.prices["moving_touch", self.name]
            self.terms.add(self.phase, f"first touch of {self.name} pages by the CPU", price, new)
            for first, last in on_cpu.missing(start, end):
                on_gpu.add(first, last)
                self.in_gpu[buffer].add(first, last)
        if there := on_gpu.bytes_in(start, end) * self.access.passes:
            self.terms.add(self.phase, REMOTE, across, there)
