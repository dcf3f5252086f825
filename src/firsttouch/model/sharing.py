"""Prices the steps of a program on memory that both agents use where it is: of one memory that both have, or of the
host's page tables, where the agent that touches a page first decides in whose memory it is; and which memory that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from firsttouch.machine.allocators.properties import memory_of, moves_pages, stays_movable
from firsttouch.model.costs import Price, Time, Unmeasured
from firsttouch.model.moving import REMOTE, Moving
from firsttouch.model.page_steps import host_page
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import NEW_GPU_PAGES, Copies, InPlace, Pricing, missing_in_both
from firsttouch.model.rules.access_counters import NAMED_BYTES, RANGE_BYTES, notifications, present_after
from firsttouch.program import steps
from firsttouch.program.program import Launch, Program
from firsttouch.program.ranges import Ranges
from firsttouch.program.replay import Prepared
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, as_number

WORD = 4
"""The least bytes that a thread's access uses."""
LINE_BYTES = 128
"""The bytes that one access of a GPU moves across the link."""
MAPPING = "faults of the GPU on pages that are there and not in its page table"
FLUSHES = "caches written back around kernels"


class OneMemoryPricing(InPlace):
    """Memory of a chip that CPU and GPU share.

    mapped: the bytes of each buffer whose pages are in the GPU's page table. used: by kernels since caches were written
    back.
    """

    def __init__(self, program: Program, strategy: Strategy, prices: Prices, entry: AllocatorInfo, **how: Any) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.mapped = [Ranges() for _ in program.blocks]
        self.page_maps.append(self.mapped)

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        super().launch(launch, prepared)
        if launch.agent == "gpu":
            used = sum(access.end - access.start for access, _ in prepared if self._is_priced(access.block))
            with suppress(Unmeasured):
                self._add(FLUSHES, self.prices["cache_flush", self.strategy.allocator], used)

    def use_by_cpu(self, step: steps.Use) -> None:
        super().use_by_cpu(step)
        self._use_uncached(step)

    def use_by_gpu(self, step: steps.Use) -> None:
        present, mapped = self.present[step.buffer], self.mapped[step.buffer]
        missing = mapped.missing(step.start, step.end)
        if new := sum(last - first - present.bytes_in(first, last) for first, last in missing):
            self._touch_by_gpu(step, new)
        there = sum(last - first for first, last in missing) - new
        if there and self.entry.on_demand:
            self._map_by_gpu(step, there)
        mapped.add(step.start, step.end)
        self._use_uncached(step)
        self._use_slow_memory(step)

    def _map_by_gpu(self, step: steps.Use, there: int) -> None:
        """Mapping pages that are there is priced if its price is known."""
        with suppress(Unmeasured):
            price = self.prices.gpu_fault(self.strategy.allocator, reads_only=not step.writes)
            time = price.of(there).at_least(self._single_fault())
            if time.high:
                self.terms.add(self.phase, MAPPING, price, there, time)

    def _touch_by_gpu(self, step: steps.Use, new: int) -> None:
        """A kernel's first touch of new pages is priced as the CPU's if its price is not known, or if the CPU runs the
        kernels.
        """
        if self.device.capabilities.on_host_processor:
            self.touch_host(step.buffer, step.start, step.end)
            return
        try:
            price = self.prices.gpu_touch(self.strategy.allocator)
        except Unmeasured:
            self.touch_host(step.buffer, step.start, step.end)
            return
        time = price.of(new).at_least(self._single_fault())
        self.terms.add(self.phase, NEW_GPU_PAGES, price, new, time)
        self.present[step.buffer].add(step.start, step.end)

    def _single_fault(self) -> Time:
        with suppress(Unmeasured):
            return self.prices.isolated_fault(self.strategy.allocator)
        return Time()

    def _use_uncached(self, step: steps.Use) -> None:
        """Each pass over memory that the agent's caches do not hold takes longer."""
        with suppress(Unmeasured):
            price = self.prices["uncached", step.agent, self.strategy.allocator]
            nbytes = (step.end - step.start) * self.access.passes
            self._add(f"use of uncached memory by the {step.agent.upper()}", price, nbytes)

    def _add(self, what: str, price: Price, nbytes: float, time: Time | None = None) -> None:
        """Add a term, unless it takes no time."""
        if (price.of(nbytes) if time is None else time).high:
            self.terms.add(self.phase, what, price, nbytes, time)

    def _use_slow_memory(self, step: steps.Use) -> None:
        """Kernels take longer than in the device's usual memory, because they wait for translations and for coherence,
        or because caches do not hold what they use again. Other threads may hide it all (Vesely et al., ISPASS 2016).
        """
        try:
            slow, usual = self.prices["slow_pass", self.strategy.allocator], self.prices["usual_pass"]
        except Unmeasured:
            return
        once, nbytes = step.end - step.start, (step.end - step.start) * self.access.passes
        parts = self.computing.crossing(self.access, self.strategy.allocator) if self.computing else None
        value, _, most = (self._longer(slow, usual, once, nbytes * part) for part in parts or (1.0, 1.0, 1.0))
        time = Time(value.value, 0.0, most.high)
        self._add(f"use of {self.strategy.allocator} memory by the GPU", slow, nbytes, time)

    def _longer(self, slow: Price, usual: Price, once: int, nbytes: float) -> Time:
        """What uses take beyond those of usual memory. An access moves a line at most, whatever a profile of a short
        kernel says. What is not slower is not cached: usual memory moves the same bytes once.
        """
        moved = min(nbytes, once * max(1.0, self.access.passes) * self._words_of_line)
        in_usual = moved if slow.of(moved).value > usual.of(moved).value else min(moved, once)
        return slow.of(moved).beyond(usual.of(in_usual))

    @property
    def _words_of_line(self) -> float:
        return (as_number(self.device.facts.get("line_bytes")) or LINE_BYTES) / WORD


class FirstTouchPricing(InPlace):
    """Memory of the host's page tables, which a GPU with memory of its own uses too: a page is in the memory of the
    agent that touched it first, and the other agent uses it across the link. Access counters may move it to the GPU.

    on_gpu: the bytes of each buffer whose pages are in the GPU's memory; counted: those that counters moved there.
    Where it has no room, pages are made in the host's (populate_on_cpu_alloc_failures in uvm_ats_faults.c), and nothing
    leaves it. capacity: bytes of it that these pages and the device's arrays may have; None: all.
    """

    def __init__(
        self,
        program: Program,
        strategy: Strategy,
        prices: Prices,
        entry: AllocatorInfo,
        *,
        capacity: int | None = None,
        **how: Any,
    ) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        all_bytes = as_number(prices.device.facts.get("memory_bytes"))
        self._capacity = all_bytes if capacity is None else float(capacity)
        self._arrays = 0
        self.page = host_page(prices.machine)
        self.on_gpu, self.counted = ([Ranges() for _ in program.blocks] for _ in range(2))
        self.page_maps += [self.on_gpu, self.counted]

    def allocate(self, step: steps.Allocate) -> None:
        super().allocate(step)
        self._arrays += self._on_device(step)

    def free(self, step: steps.Free) -> None:
        super().free(step)
        self._arrays -= self._on_device(step)
        self.on_gpu[step.buffer].clear()
        self.counted[step.buffer].clear()

    def _on_device(self, step: steps.Allocate | steps.Free) -> int:
        entry = self.device.allocator(step.allocator)
        return step.nbytes if entry is not None and memory_of(entry) == "device" else 0

    def _room(self) -> int:
        """The bytes of whole pages for which the GPU's memory has room."""
        if self._capacity is None:
            return sum(block.nbytes for block in self.program.blocks)
        free = self._capacity - self._arrays - sum(pages.total() for pages in self.on_gpu)
        return max(0, int(free)) // self.page * self.page

    def use_by_cpu(self, step: steps.Use) -> None:
        start, end = self._pages(step)
        on_gpu = self.on_gpu[step.buffer]
        for first, last in on_gpu.missing(start, end):
            self.touch_host(step.buffer, first, last)
        if there := on_gpu.bytes_in(step.start, step.end) * self.access.passes:
            try:
                price = self.prices["cpu_remote", self.strategy.allocator]
            except Unmeasured:
                price = self.prices.cpu_fault(self.strategy.allocator)
            self.terms.add(self.phase, REMOTE, price, there)

    def use_by_gpu(self, step: steps.Use) -> None:
        on_cpu, on_gpu, (start, end) = self.present[step.buffer], self.on_gpu[step.buffer], self._pages(step)
        if new := missing_in_both(on_cpu, on_gpu, start, end):
            self.terms.add(self.phase, NEW_GPU_PAGES, self.prices.gpu_touch(self.strategy.allocator), new)
        for first, last in on_cpu.missing(start, end):
            for gap_first, gap_last in on_gpu.missing(first, last):
                fits = min(gap_last, gap_first + self._room())
                on_gpu.add(gap_first, fits)
                on_cpu.add(fits, gap_last)
        remote, during = on_cpu.common(step.start, step.end), Time()
        for first, last in remote:
            during += self.use_across_the_link(step._replace(start=first, end=last))
        if remote:
            self._count(step, remote, during)

    def _count(self, step: steps.Use, remote: Sequence[tuple[int, int]], during: Time) -> None:
        """Move pages whose accesses were counted to the GPU. A page that is being moved is mapped by neither agent, so
        that the kernel waits; at least, the bytes cross the link once more.
        """
        passes, part = self.access.passes, 1.0
        if not self.access.spread:  # what a launch does not use of a range is left out as a whole
            passes, part = max(1.0, passes), min(1.0, passes)
        if not notifications(int(passes * RANGE_BYTES / LINE_BYTES)):
            return
        try:
            moves = self.prices["counter_moves", self.strategy.allocator]
        except Unmeasured:
            return
        buffer, there = step.buffer, sum(last - first for first, last in remote)
        counted = self.counted[buffer].bytes_in(step.start, step.end)
        share = _notified(counted / (counted + there))
        most = int(share * (counted + there)) - counted
        if self.access.spread and (whole := moves.of(there)).value > 0:  # further notifications while the kernel runs
            most = max(most, int(there * min(1.0, during.value / whole.value)))
        left = moved = min(int(most * part), there, self._room())
        for first, last in remote:
            last = min(last, first + left)
            self.present[buffer].remove(first, last)
            self.on_gpu[buffer].add(first, last)
            self.counted[buffer].add(first, last)
            left -= last - first
        if moved:
            across = self.prices["remote", "h2d", self.strategy.allocator].of(moved)
            time = moves.of(moved)
            with suppress(Unmeasured):
                service = self.prices["counter_service", self.strategy.allocator].of(1)
                time += service.times((counted + there) * part / RANGE_BYTES)
            time = Time(time.value, min(across.low, time.low), time.high)
            self.terms.add(self.phase, "pages moved to the GPU by access counters", moves, moved, time)

    def free_placed(self, step: steps.Free) -> None:
        if self.is_up_front(step):
            super().free_placed(step)
            return
        with suppress(Unmeasured):
            price = self.prices.host_free(self.strategy.allocator)
            touched = self.present[step.buffer].total() + self.on_gpu[step.buffer].total()
            self.terms.add("free", f"free {self.strategy.allocator} memory", price, touched)

    def _pages(self, step: steps.Use) -> tuple[int, int]:
        """The bytes of a use, rounded to whole pages."""
        nbytes = self.program.blocks[step.buffer].nbytes
        return step.start // self.page * self.page, min(nbytes, -(-step.end // self.page) * self.page)


def _notified(share: float) -> float:
    """The share of each range that the GPU has after one more notification of it."""
    pages = RANGE_BYTES // NAMED_BYTES
    return present_after(round(share * pages), pages) / pages


def moves(entry: AllocatorInfo, device: DeviceInfo) -> bool:
    """Whether the driver moves pages of an allocator on faults, between memories of which the device has one."""
    if device.capabilities.shares_host_memory:
        return False
    stated = moves_pages(entry)
    return entry.migrates_on_fault or (memory_of(entry) == "migrating" if stated is None else stated)


def pricing_kind(strategy: Strategy, entry: AllocatorInfo, device: DeviceInfo) -> type[Pricing]:
    """The class that prices a strategy whose allocator the device states as `entry`."""
    if strategy.duplicated:
        return Copies
    if device.capabilities.shares_host_memory:
        return OneMemoryPricing
    if moves(entry, device):
        return Moving
    return FirstTouchPricing if stays_movable(entry.name, device) else InPlace
