"""Prices the steps of a program on memory whose pages move, where they need more of the GPU's memory than there is.

What moves follows from the page map (managed.py), in which pages that became resident first leave first. Kernels that
use several buffers go through them side by side, which decides what is still there when it is used again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from firsttouch.model.managed import PageMoves
from firsttouch.model.moving import GPU_FAULTS, Moving
from firsttouch.model.page_steps import CountingSettings, PageSteps
from firsttouch.model.pages import Counts
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import NEW_GPU_PAGES
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program import steps
from firsttouch.program.guidance import READ_MOSTLY
from firsttouch.program.program import Access, Launch, Program
from firsttouch.program.replay import Prepared
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import AllocatorInfo

EVICTED = "pages that leave the GPU's memory for others"


class Crowded(Moving):
    """Memory that moves, of which the GPU's memory holds a part. settings: its capacity, and the driver's rules."""

    def __init__(
        self,
        program: Program,
        strategy: Strategy,
        prices: Prices,
        entry: AllocatorInfo,
        *,
        settings: CountingSettings,
        **how: Any,
    ) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.pages = PageSteps(settings)

    def state(self) -> Hashable:
        return (super().state(), self.pages.memory.state())

    def swap(self, first: int, second: int) -> None:
        super().swap(first, second)
        self.pages.memory.swap(first, second)

    def allocate_placed(self, step: steps.Allocate) -> None:
        super().allocate_placed(step)
        self.pages.memory.allocate(step.buffer, step.nbytes)

    def free_placed(self, step: steps.Free) -> None:
        super().free_placed(step)
        self.pages.memory.free(step.buffer)

    def advise(self, step: steps.Advise) -> None:
        self.pages.memory.advise(step.buffer, step.hint, PageMoves(self.page))
        if step.hint == READ_MOSTLY:
            populated = self.pages.memory.buffers[step.buffer].pages_in("cpu") * self.page
            self.terms.add(
                self.phase, f"advice {READ_MOSTLY}", self.prices["advise", READ_MOSTLY, self.name], populated
            )

    def prefetch(self, step: steps.Prefetch) -> None:
        moves, evicted = PageMoves(self.page), PageMoves(self.page)
        self.pages.memory.prefetch(step.buffer, step.to, moves, evicted)
        to_gpu = step.to == "gpu"
        price = self.prices["prefetch", self.name] if to_gpu else self.prices.prefetch_back(self.name)
        moved = (moves.counts.to_gpu if to_gpu else moves.counts.to_cpu) * self.page
        self.terms.add(self.phase, f"prefetch to the {step.to.upper()}", price, moved)
        self._price_evictions(evicted)
        (self.in_gpu if to_gpu else self.in_cpu)[step.buffer].add(0, step.nbytes)

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        """The uses of a kernel take place together."""
        uses = [
            (step, access)
            for access, access_steps in prepared
            for step in access_steps
            if isinstance(step, steps.Use) and step.agent == "gpu" and step.buffer in self.pages.memory.buffers
        ]
        if uses:
            together = {id(step) for step, _ in uses}
            prepared = [
                (a, [step for step in access_steps if id(step) not in together]) for a, access_steps in prepared
            ]
            before = self.terms.time_of(self.phase)
            self.iterations.launched(before)
            self._use_by_gpu(launch, uses)
            self.note_kernel_time(self.terms.time_of(self.phase) - before)
        super().launch(launch, prepared)

    def _use_by_gpu(self, launch: Launch, uses: Sequence[tuple[steps.Use, Access]]) -> None:
        self._price_remote(uses)
        counts = self._counted(launch, uses)
        for use, _ in uses:
            self.in_gpu[use.buffer].add(use.start, use.end)
            self.terms.counts["used_by_gpu"] += use.end - use.start
            self.queued[use.buffer].add(*self._pages(use.buffer, use))
        new, moved = counts.new_gpu * self.page, counts.to_gpu * self.page
        if new:
            self.terms.add(self.phase, NEW_GPU_PAGES, self.prices.gpu_touch(self.name), new)
        if moved:
            price = self.prices.gpu_fault(self.name, reads_only=not any(use.writes for use, _ in uses))
            self.terms.add(self.phase, GPU_FAULTS, price, moved)

    def _price_remote(self, uses: Sequence[tuple[steps.Use, Access]]) -> None:
        """Pages on the CPU that the GPU can access are used across the link."""
        for use, access in uses:
            pages = self.pages.memory.buffers[use.buffer]
            first, end = use.start // BLOCK_BYTES, -(-use.end // BLOCK_BYTES)
            there = sum((b - a) * (state.gpu_maps & ~state.gpu).bit_count() for a, b, state in pages.pieces(first, end))
            nbytes = min(there * self.page, use.end - use.start) * access.passes
            if nbytes:
                used = [self.prices["remote", "h2d", self.name]] if use.reads else []
                used += [self.prices["remote", "d2h", self.name]] if use.writes else []
                price = max(used, key=lambda p: p.of(nbytes).value)
                self.terms.add(self.phase, f"use of {self.name} memory across the link", price, nbytes)
                self.crossed += price.of(nbytes)

    def use_by_cpu(self, step: steps.Use) -> None:
        counts = self._counted(self.current, [(step, self.access)])
        self.in_cpu[step.buffer].add(step.start, step.end)
        new, moved = counts.new_cpu * self.page, counts.to_cpu * self.page
        if new:
            price = self.prices["moving_touch", self.name]
            self.terms.add(self.phase, f"first touch of {self.name} pages by the CPU", price, new)
        if moved:
            self.price_cpu_faults(moved)

    def _counted(self, launch: Launch, uses: Sequence[tuple[steps.Use, Access]]) -> Counts:
        """What uses do to pages. What leaves the GPU's memory for them is priced."""
        moves, evicted = PageMoves(self.page), PageMoves(self.page)
        self.pages.use(uses, launch, self.phase, moves, evicted)
        self._price_evictions(evicted)
        return moves.counts

    def _price_evictions(self, evicted: PageMoves) -> None:
        if evicted_bytes := evicted.counts.to_cpu * self.page:
            price = self.prices.eviction(self.name)
            self.terms.add(self.phase, EVICTED, price, evicted_bytes, price.of(evicted_bytes), evicted.blocks)
