"""Prices the steps of a program on memory whose pages the driver moves to the agent that touches them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Price, Time, Unmeasured
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import IN_KERNELS, NEW_GPU_PAGES, SMALLEST_PAGE, Pricing, missing_in_both
from firsttouch.program import steps
from firsttouch.program.declarations import Agent
from firsttouch.program.guidance import PREFERRED_GPU, READ_MOSTLY
from firsttouch.program.program import SEQUENCE, Access, Launch, Program
from firsttouch.program.ranges import Ranges
from firsttouch.program.replay import Prepared
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import AllocatorInfo

SMALL_BLOCK = 64 << 10
"""A block of at most so many bytes moves as a whole. If both agents use it in turns, the driver may delay them."""
UNMEASURED_TURNS = (
    "round trips between a kernel and the CPU through a small buffer were not measured in this run, and are estimated "
    "as faults; they may take far longer, and with atomic updates by thread groups milliseconds each (firsttouch run "
    "exchange)"
)
TURNS = "round trips between kernels and the CPU through small buffers"
GPU_FAULTS = "faults of the GPU on pages that are on the CPU"
SLOW_TURN, SLOW_UPDATE = 300e3, 1e3
"""Nanoseconds that a turn, and an atomic update in it, may take where they were not measured: those of H100s."""


class Moving(Pricing):
    """Memory whose pages the driver moves to the agent that touches them.

    on_gpu: the bytes of each buffer whose pages are on the GPU. copied: those of which both agents have a copy, after
    the advice read-mostly. queued: the pages that kernels use for which the CPU has not waited. preferred: the bytes
    that were advised to be on the GPU. in_cpu, in_gpu: those for which either memory was ever obtained; it is kept
    when pages move, until the buffer is freed (uvm_va_block.c, block_kill).
    """

    def __init__(self, program: Program, strategy: Strategy, prices: Prices, entry: AllocatorInfo, **how: Any) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.name = strategy.allocator
        self.page = int(prices.machine.facts.get("memory", {}).get("page_bytes") or SMALLEST_PAGE)
        self.on_gpu, self.copied, self.queued, self.read_mostly = ([Ranges() for _ in program.blocks] for _ in range(4))
        self.preferred = [Ranges() for _ in program.blocks]
        self.page_maps += [self.on_gpu, self.copied, self.queued, self.read_mostly, self.preferred]
        self.beside = 1.0
        self.in_cpu, self.in_gpu = ([Ranges() for _ in program.blocks] for _ in range(2))
        self.page_maps += [self.in_cpu, self.in_gpu]

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        """Where the CPU does not wait for kernels, both agents run at once, and pages of which both use bytes move as
        often as either touches them.
        """
        waits = any(isinstance(step, steps.Wait) for _, access_steps in prepared for step in access_steps)
        if launch.agent == "cpu" and self.phase == "compute" and not waits:
            for access, _ in prepared:
                if not self.read_mostly[access.block]:
                    pages = self.queued[access.block]
                    self.terms.counts["used_at_once"] += pages.bytes_in(*self._pages(access.block, access))
        if launch.agent == "gpu" and self.phase == "compute":
            self.terms.counts["by_kernels"] += int(sum((a.end - a.start) * a.passes for a, _ in prepared))
        if launch.agent == "gpu":
            faulting = [self._faulting(access) for access, _ in prepared]
            self.beside = sum(faulting) / max(faulting) if any(faulting) else 1.0
        super().launch(launch, prepared)

    def _faulting(self, access: Access) -> int:
        """The bytes of a kernel's access whose pages are not on the GPU."""
        start, end = self._pages(access.block, access)
        return 0 if self._is_small(access.block) else (end - start) - self.on_gpu[access.block].bytes_in(start, end)

    def _side_by_side(self, time: Time, nbytes: int) -> Time:
        """The time of a kernel's faults, without the batches of faults that its buffers share: it goes through them
        side by side, each in the time of the largest.
        """
        with suppress(Unmeasured):
            return time.beyond(self.prices["gpu_batches", self.name].of(nbytes).times(1 - 1 / self.beside))
        return time

    def run(self) -> None:
        super().run()
        self._price_turns()

    def _price_turns(self) -> None:
        """Price what happens to small blocks: turns of kernels and the CPU, and faults of kernels beside those."""
        counts, isolated = self.terms.counts, self.prices.isolated_fault
        for number, block in enumerate(self.program.blocks):
            turns, faults = counts["turns", number], counts["faults", number] - counts["turns", number]
            if turns:
                try:
                    price, time = self._turns(turns, counts["updates", number])
                except Unmeasured:
                    cpu, faults = self.prices.cpu_fault(self.name), counts["faults", number]
                    price = cpu.assuming(UNMEASURED_TURNS)
                    time = cpu.of(block.nbytes).at_least(isolated(self.name)).times(turns)
                    slow = turns * SLOW_TURN + counts["updates", number] * SLOW_UPDATE
                    time = Time(time.value, time.low, max(time.high, slow))
                self.terms.add("compute", TURNS, price, block.nbytes * turns, time, turns)
                counts[IN_KERNELS] += round(time.value)
            if faults > 0:
                price = self.prices.gpu_fault(self.name, reads_only=False)
                time = isolated(self.name).times(faults)
                self.terms.add("compute", GPU_FAULTS, price, block.nbytes * faults, time, faults)
                counts[IN_KERNELS] += round(time.value)

    def _turns(self, turns: int, updates: int) -> tuple[Price, Time]:
        """The price of turns and their time, with so many updates by atomics in all of them."""
        between = self.prices["own_pass", self.name].of(self.terms.counts["by_kernels"]).value / turns
        exchange = self.prices.exchange(self.name)
        time = exchange.of(turns, between)
        if not updates:
            return exchange.turns, time
        by_groups = self.prices.exchange(self.name, by_groups=True)
        more = by_groups.of(turns, between).beyond(time)
        return by_groups.turns, time + more.times(updates / turns / max(1, by_groups.updates))

    def allocate_placed(self, step: steps.Allocate) -> None:
        """The calls are quick; what takes time is the first touch."""

    def free_placed(self, step: steps.Free) -> None:
        """Price the calls that free the memory, if the run has measured them."""
        in_gpu, in_cpu = self.in_gpu[step.buffer].total(), self.in_cpu[step.buffer].total()
        if self.computing is None:  # what strategies differ in: memory that is kept for pages elsewhere is left out
            on_gpu, on_cpu = self.on_gpu[step.buffer], self.present[step.buffer]
            in_gpu, in_cpu = on_gpu.total(), sum(b - a for piece in on_cpu for a, b in on_gpu.missing(*piece))
        sides: tuple[tuple[Agent, int], ...] = (("gpu", in_gpu), ("cpu", in_cpu))
        for agent, nbytes in sides:
            with suppress(Unmeasured):
                price = self.prices["touched_free", agent, self.name]
                self.terms.add("free", f"free {self.name} memory on the {agent.upper()}", price, nbytes)

    def prefault(self, step: steps.Prefault) -> None:
        self.use_by_cpu(steps.Use(step.buffer, "cpu", 0, step.nbytes, reads=False, writes=True))

    def advise(self, step: steps.Advise) -> None:
        nbytes = self.program.blocks[step.buffer].nbytes
        if step.hint == PREFERRED_GPU:
            self.preferred[step.buffer].add(0, nbytes)
        if step.hint == READ_MOSTLY:
            self.read_mostly[step.buffer].add(0, nbytes)
            if populated := self.present[step.buffer].total():
                price = self.prices["advise", READ_MOSTLY, self.name]
                self.terms.add(self.phase, f"advice {READ_MOSTLY}", price, populated)

    def prefetch(self, step: steps.Prefetch) -> None:
        on_cpu, on_gpu = self.present[step.buffer], self.on_gpu[step.buffer]
        if step.to == "cpu":
            if moved := on_gpu.total():
                self.terms.add(self.phase, "prefetch to the CPU", self.prices.prefetch_back(self.name), moved)
                on_gpu.clear()
                on_cpu.add(0, step.nbytes)
                self.in_cpu[step.buffer].add(0, step.nbytes)
            return
        if populated := on_cpu.total():
            price = self.prices["prefetch", self.name]
            copy = self.prices["copy", "h2d", common_allocator("page-locked")]
            time = price.of(populated).at_least(copy.of(populated))
            self.terms.add(self.phase, "prefetch to the GPU", price, populated, time)
        if self.read_mostly[step.buffer]:
            for first, last in on_cpu:
                self.copied[step.buffer].add(first, last)
        else:
            on_cpu.clear()
        on_gpu.add(0, step.nbytes)
        self.in_gpu[step.buffer].add(0, step.nbytes)

    def wait(self, step: steps.Wait) -> None:
        for pages in self.queued:
            pages.clear()

    def use_by_cpu(self, step: steps.Use) -> None:
        buffer, (start, end) = step.buffer, self._pages(step.buffer, step)
        on_cpu, on_gpu, copied = self.present[buffer], self.on_gpu[buffer], self.copied[buffer]
        moved = on_gpu.bytes_in(start, end) - (0 if step.writes else copied.bytes_in(start, end))
        if new := missing_in_both(on_cpu, on_gpu, start, end):
            parallel = self.parallel
            price = self.prices["moving_touch", self.name] if parallel else self.prices.host_touch(parallel=False)
            self.terms.add(self.phase, f"first touch of {self.name} pages by the CPU", price, new)
        if moved > 0 and self._is_small(buffer):
            self.terms.counts["turns", buffer] += 1
        elif moved > 0:
            self.price_cpu_faults(moved)
        on_cpu.add(start, end)
        self.in_cpu[buffer].add(start, end)
        if step.writes or not self.read_mostly[buffer]:
            on_gpu.remove(start, end)
            copied.remove(start, end)

    def price_cpu_faults(self, moved: int) -> None:
        """Price the CPU's faults on so many bytes of pages that are on the GPU."""
        price = self.prices.cpu_fault(self.name, each_page=self.phase == "readback")
        time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
        self.terms.add(self.phase, "faults of the CPU on pages that are on the GPU", price, moved, time)

    def swap(self, first: int, second: int) -> None:
        super().swap(first, second)
        self.iterations.later.swap(first, second)

    def use_by_gpu(self, step: steps.Use) -> None:
        before = self.terms.time_of(self.phase)
        self._price_use_by_gpu(step)
        later, faults = self.iterations.later, self.terms.time_of(self.phase) - before
        if self.access.passes < 1 and self.current.kernel == SEQUENCE:  # later ones use the rest
            later.put(step.buffer, faults)
        later.take(step.buffer, self.access.passes)

    def _price_use_by_gpu(self, step: steps.Use) -> None:
        buffer, (start, end) = step.buffer, self._pages(step.buffer, step)
        on_cpu, on_gpu, copied = self.present[buffer], self.on_gpu[buffer], self.copied[buffer]
        self.terms.counts["used_by_gpu"] += end - start
        self.queued[buffer].add(start, end)
        new = missing_in_both(on_cpu, on_gpu, start, end)
        moved = (end - start) - on_gpu.bytes_in(start, end) - new
        duplicates = bool(self.read_mostly[buffer]) and not step.writes
        if new:
            price = self.prices.gpu_touch(self.name, whole_blocks=bool(self.preferred[buffer]))
            time = price.of(new) if self.preferred[buffer] else self._side_by_side(price.of(new), new)
            self.terms.add(self.phase, NEW_GPU_PAGES, price, new, time)
        self.terms.counts["updates", buffer] += self.access.updates
        if moved and self._is_small(buffer):
            self.terms.counts["faults", buffer] += 1
        elif moved:
            price = self.prices.gpu_fault(
                self.name, reads_only=not step.writes, read_mostly=duplicates, touch=self.access.spread or "dense"
            )
            time = price.of(moved) if self.access.spread else self._side_by_side(price.of(moved), moved)
            time = time.at_least(self.prices.isolated_fault(self.name))
            self.terms.add(self.phase, GPU_FAULTS, price, moved, time)
        on_gpu.add(start, end)
        self.in_gpu[buffer].add(start, end)
        if duplicates:
            copied.add(start, end)
        else:
            on_cpu.remove(start, end)
            copied.remove(start, end)

    def _is_small(self, buffer: int) -> bool:
        return self.program.blocks[buffer].nbytes <= SMALL_BLOCK

    def _pages(self, buffer: int, used: steps.Use | Access) -> tuple[int, int]:
        """The bytes of a use, rounded to whole pages."""
        nbytes = self.program.blocks[buffer].nbytes
        return used.start // self.page * self.page, min(nbytes, -(-used.end // self.page) * self.page)
