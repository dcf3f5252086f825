"""Prices the steps of a program on memory whose pages the driver moves to the agent that touches them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Price, Time, Unmeasured
from firsttouch.model.managed import PageMoves
from firsttouch.model.page_steps import CountingSettings, PageSteps, stated_settings
from firsttouch.model.pages import BufferPages, Counts
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import IN_KERNELS, NEW_GPU_PAGES, NO_ACCESS, NO_LAUNCH, Pricing
from firsttouch.model.rules.uvm import BLOCK_BYTES, blocks_at_once
from firsttouch.program import steps
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
MAPPED = "mapping of pages on which kernels fault"
EVICTED = "pages that leave the GPU's memory for others"
REMOTE = "use of the GPU's memory by the CPU, across the link"
SLOW_TURN, SLOW_UPDATE = 300e3, 1e3
"""Nanoseconds that a turn, and an atomic update in it, may take where they were not measured: those of H100s."""


class Moving(Pricing):
    """Memory whose pages the driver moves to the agent that touches them. Which move, and what leaves the GPU's memory
    for them, follows from the page map.

    queued: the pages that kernels use for which the CPU has not waited. settings: what decides what pages do; by
    default what the machine states, with as much of the GPU's memory as is needed.
    """

    def __init__(
        self,
        program: Program,
        strategy: Strategy,
        prices: Prices,
        entry: AllocatorInfo,
        *,
        settings: CountingSettings | None = None,
        **how: Any,
    ) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.name = strategy.allocator
        settings = settings or stated_settings(prices.machine, prices.device)
        if settings.kind.coherent and not self._has_cpu_remote():
            settings = replace(settings, kind=settings.kind._replace(coherent=False))
        self.pages = PageSteps(settings)
        self.page = settings.kind.page
        self.queued = [Ranges() for _ in program.blocks]
        self.page_maps.append(self.queued)
        self._together: list[tuple[steps.Use, Access]] = []

    def _has_cpu_remote(self) -> bool:
        """Whether the CPU's use of the GPU's memory is known. Where it is not, pages move as if it had none."""
        with suppress(Unmeasured):
            return bool(self.prices["cpu_remote", self.name])
        return False

    def state(self) -> Hashable:
        return (super().state(), self.pages.memory.state())

    def swap(self, first: int, second: int) -> None:
        super().swap(first, second)
        self.pages.memory.swap(first, second)
        self.iterations.later.swap(first, second)

    def _moves(self) -> PageMoves:
        return PageMoves(self.page)

    def _buffer(self, buffer: int) -> BufferPages:
        return self.pages.memory.buffers[buffer]

    # ------------------------------------------------------------------------------------------------ launches

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        """Where the CPU does not wait for kernels, both agents run at once, and pages of which both use bytes move as
        often as either touches them.
        """
        waits = any(isinstance(step, steps.Wait) for _, access_steps in prepared for step in access_steps)
        if launch.agent == "cpu" and self.phase == "compute" and not waits:
            for access, _ in prepared:
                if access.block in self.pages.memory.buffers and not self._buffer(access.block).kind.policy.read_mostly:
                    pages = self.queued[access.block]
                    self.terms.counts["used_at_once"] += pages.bytes_in(*self._whole_pages(access.block, access))
        if launch.agent == "gpu" and self.phase == "compute":
            self.terms.counts["by_kernels"] += int(sum((a.end - a.start) * a.passes for a, _ in prepared))
        super().launch(launch, prepared)

    def finish_uses(self) -> None:
        """The uses of a kernel take place together."""
        uses, self._together = self._together, []
        if not uses:
            return
        before = self.terms.time_of(self.phase)
        absent = [self._absent(step) for step, _ in uses]
        beside = sum(absent) / max(absent) if any(absent) else 1.0
        reached = [self._in_cpu_memory(step) for step, _ in uses]
        evicted = self._moves()
        moves = self.pages.use(uses, self.current, self.phase, evicted)
        for (step, access), missing, there, each in zip(uses, absent, reached, moves, strict=True):
            start = self.terms.time_of(self.phase)
            self._price_across(step, access, there + each.counts.mapped * self.page)
            strided = self.program.blocks[step.buffer].strided
            at_once = beside * (blocks_at_once(-(-missing // BLOCK_BYTES)) if strided else 1)
            self.price_gpu_faults(step, access, each.counts, missing, at_once)
            later = self.iterations.later
            if access.passes < 1 and self.current.kernel == SEQUENCE:  # later ones use the rest
                later.put(step.buffer, self.terms.time_of(self.phase) - start)
            later.take(step.buffer, access.passes)
        self._price_evictions(evicted)
        self.note_kernel_time(self.terms.time_of(self.phase) - before)

    def use_by_gpu(self, step: steps.Use) -> None:
        self.terms.counts["used_by_gpu"] += step.end - step.start
        self.queued[step.buffer].add(*self._whole_pages(step.buffer, step))
        self._together.append((step, self.access))

    def _absent(self, step: steps.Use) -> int:
        """The bytes of a kernel's use whose pages are not on the GPU, and that it cannot reach."""
        if self._is_small(step.buffer):
            return 0
        return self._buffer(step.buffer).bytes_where(step.start, step.end, lambda s: ~(s.gpu | s.gpu_maps))

    def _in_cpu_memory(self, step: steps.Use) -> int:
        """The bytes of a kernel's use whose pages are in the CPU's memory, where it can reach them."""
        return self._buffer(step.buffer).bytes_where(step.start, step.end, lambda s: s.gpu_maps & ~s.gpu)

    def _price_across(self, step: steps.Use, access: Access, there: int) -> None:
        """Pages on the CPU that the GPU can access are used across the link, as page-locked memory is."""
        nbytes = min(there, step.end - step.start) * access.passes
        if nbytes:
            locked = common_allocator("page-locked")
            used = [self.prices["remote", "h2d", locked]] if step.reads else []
            used += [self.prices["remote", "d2h", locked]] if step.writes else []
            price = max(used, key=lambda p: p.of(nbytes).value)
            self.terms.add(self.phase, f"use of {self.name} memory across the link", price, nbytes)
            self.crossed += price.of(nbytes)
            if step.reads:
                self.read_across(nbytes)

    def price_gpu_faults(self, step: steps.Use, access: Access, counts: Counts, missing: int, at_once: float) -> None:
        """missing: bytes of the use that were not on the GPU. at_once: see _in_batches."""
        buffer, policy = step.buffer, self._buffer(step.buffer).kind.policy
        new, moved = counts.new_gpu * self.page, counts.to_gpu * self.page
        if access.spread and moved:  # its prices are by the bytes of all pages, touched or not
            moved = max(moved, missing - new)
        if new:
            whole_blocks = policy.preferred == "gpu"
            price = self.prices.gpu_touch(self.name, whole_blocks=whole_blocks)
            time = price.of(new) if whole_blocks else self._in_batches(price.of(new), new, at_once)
            self.terms.add(self.phase, NEW_GPU_PAGES, price, new, time)
        self.terms.counts["updates", buffer] += access.updates
        if moved and self._is_small(buffer):
            self.terms.counts["faults", buffer] += 1
        elif moved:
            price = self.prices.gpu_fault(
                self.name,
                reads_only=not step.writes,
                read_mostly=policy.read_mostly and not step.writes,
                touch=access.spread or "dense",
            )
            time = price.of(moved) if access.spread else self._in_batches(price.of(moved), moved, at_once)
            time = time.at_least(self.prices.isolated_fault(self.name))
            self.terms.add(self.phase, GPU_FAULTS, price, moved, time)
        if mapped := counts.mapped * self.page:
            price = self.prices.gpu_mapping(self.name, reads_only=not step.writes, touch=access.spread or "dense")
            self.terms.add(self.phase, MAPPED, price, mapped)

    def _in_batches(self, time: Time, nbytes: int, at_once: float) -> Time:
        """The time of a kernel's faults, without the batches of faults that they share. at_once: so many buffers it
        goes through side by side, each in the time of the largest, times the blocks of each on which it faults at once.
        """
        with suppress(Unmeasured):
            return time.beyond(self.prices["gpu_batches", self.name].of(nbytes).times(1 - 1 / at_once))
        return time

    def _price_evictions(self, evicted: PageMoves) -> None:
        if evicted_bytes := evicted.counts.to_cpu * self.page:
            price = self.prices.eviction(self.name)
            self.terms.add(self.phase, EVICTED, price, evicted_bytes, price.of(evicted_bytes), evicted.blocks)

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

    # ------------------------------------------------------------------------------------------------ steps

    def allocate(self, step: steps.Allocate) -> None:
        super().allocate(step)
        if step.file and self._is_priced(step.buffer):
            self.pages.memory.allocate(step.buffer, step.nbytes)
            whole = steps.Use(step.buffer, "cpu", 0, step.nbytes, reads=False, writes=True)
            self.pages.use([(whole, NO_ACCESS)], NO_LAUNCH, self.phase, self._moves())

    def allocate_placed(self, step: steps.Allocate) -> None:
        """The calls are quick; what takes time is the first touch."""
        self.pages.memory.allocate(step.buffer, step.nbytes)

    def free_placed(self, step: steps.Free) -> None:
        """Price the calls that free the memory, if the run has measured them."""
        for agent, nbytes in self.pages.memory.free(step.buffer).items():
            with suppress(Unmeasured):
                price = self.prices["touched_free", agent, self.name]
                self.terms.add("free", f"free {self.name} memory on the {agent.upper()}", price, nbytes)

    def prefault(self, step: steps.Prefault) -> None:
        self.use_by_cpu(steps.Use(step.buffer, "cpu", 0, step.nbytes, reads=False, writes=True))

    def advise(self, step: steps.Advise) -> None:
        """What it takes is that the driver goes through the pages that are there."""
        self.pages.memory.advise(step.buffer, step.hint, self._moves())
        if populated := self._buffer(step.buffer).pages_in("cpu") * self.page:
            price = self.prices["advise", step.hint, self.name]
            self.terms.add(self.phase, f"advice {step.hint}", price, populated)

    def prefetch(self, step: steps.Prefetch) -> None:
        moves, evicted = self._moves(), self._moves()
        self.pages.memory.prefetch(step.buffer, step.to, moves, evicted)
        if moved := moves.counts.to_cpu * self.page:
            self.terms.add(self.phase, "prefetch to the CPU", self.prices.prefetch_back(self.name), moved)
        if moved := moves.counts.to_gpu * self.page:
            price = self.prices["prefetch", self.name]
            copy = self.prices["copy", "h2d", common_allocator("page-locked")]
            time = price.of(moved).at_least(copy.of(moved))
            self.terms.add(self.phase, "prefetch to the GPU", price, moved, time)
        self._price_evictions(evicted)

    def wait(self, step: steps.Wait) -> None:
        for pages in self.queued:
            pages.clear()

    def use_by_cpu(self, step: steps.Use) -> None:
        evicted = self._moves()
        (moves,) = self.pages.use([(step, self.access)], self.current, self.phase, evicted)
        self._price_evictions(evicted)
        counts = moves.counts
        if new := (counts.new_cpu + counts.new_gpu) * self.page:
            parallel = self.parallel
            price = self.prices["moving_touch", self.name] if parallel else self.prices.host_touch(parallel=False)
            self.terms.add(self.phase, f"first touch of {self.name} pages by the CPU", price, new)
        moved = (counts.to_cpu + counts.dropped) * self.page
        if moved and self._is_small(step.buffer):
            self.terms.counts["turns", step.buffer] += 1
        elif moved:
            price = self.prices.cpu_fault(self.name, each_page=self.phase == "readback")
            time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
            self.terms.add(self.phase, "faults of the CPU on pages that are on the GPU", price, moved, time)
        if there := self._buffer(step.buffer).bytes_where(step.start, step.end, lambda s: s.gpu & ~s.cpu):
            self.terms.add(self.phase, REMOTE, self.prices["cpu_remote", self.name], there * self.access.passes)

    def _is_small(self, buffer: int) -> bool:
        return self.program.blocks[buffer].nbytes <= SMALL_BLOCK

    def _whole_pages(self, buffer: int, used: steps.Use | Access) -> tuple[int, int]:
        """The bytes of a use, rounded to whole pages."""
        nbytes = self.program.blocks[buffer].nbytes
        return used.start // self.page * self.page, min(nbytes, -(-used.end // self.page) * self.page)
