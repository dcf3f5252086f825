"""Prices the steps of a program: where its pages are, and what each step and each use of them costs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from firsttouch.machine.allocators.properties import common_allocator, is_plain_host, memory_of
from firsttouch.model.costs import Ground, Time, Unmeasured
from firsttouch.model.iterations import IterationReads, IterationTimes
from firsttouch.model.prices import Call, Direction, Prices
from firsttouch.model.terms import Terms
from firsttouch.program import steps
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.ledger import Ledger
from firsttouch.program.phase_threads import PhaseThreads
from firsttouch.program.placement import placement
from firsttouch.program.program import Access, Exchanging, Launch, LoopMark, Program
from firsttouch.program.ranges import Ranges
from firsttouch.program.replay import Prepared, Replay
from firsttouch.program.strategies import Strategy, why_not_at_once
from firsttouch.records.schema import AllocatorInfo

COPY_IN, COPY_BACK, NEW_BY_COPY = "copy in", "copy back", "first touch of host pages by the copy"
"""The beginnings of the terms of copies to the device and back, and the term of new pages that a copy back touches
first.
"""
SMALL_COPIES = "copies of small buffers"
NEW_ON_DEVICE = "first touch of the device array, which is host memory"
NEW_GPU_PAGES = "first touch of new pages by the GPU"
ONE_PASS = "bytes cross the link once per kernel; those that it reads again and that its caches do not hold cross again"
IN_KERNELS = "in kernels"
"""The count of the ns that memory adds to kernels in the phase compute."""
NO_LAUNCH = Launch("cpu", ())
"""The launch of steps that belong to none: these run on all threads."""
NO_ACCESS = Access(0, 0, 0, False, False)


class Computing(Protocol):
    """What the kernels and the CPU's code of a program take, beside what its memory does.

    grounds: what that rests on. threads: of the CPU in each phase.
    """

    grounds: Sequence[Ground]
    threads: PhaseThreads

    def launch(self, pricing: Pricing, launch: Launch) -> None:
        """Add the terms of a launch, after those of its accesses."""
        ...

    def exchange(self, pricing: Pricing, item: Exchanging) -> None:
        """Add the terms of what the process does together with others; none if it is alone."""
        return

    def crossing(self, access: Access, allocator: str) -> tuple[float, float, float] | None:
        """How often each byte that a kernel uses in memory of the host crosses the link, or leaves memory that no cache
        holds; with bounds; None if that was not measured.
        """
        ...


class Pricing(Replay):
    """Prices what is common to all strategies: allocation, and the CPU's first touch of plain host memory.

    copy_control, guidance: those of the ledger. computing: what the program computes, if that is priced
    too; then also what is common to all strategies. present: the bytes of each buffer's memory on the CPU's side whose
    pages are there.
    """

    def __init__(
        self,
        program: Program,
        strategy: Strategy,
        prices: Prices,
        entry: AllocatorInfo,
        *,
        copy_control: bool = False,
        guidance: Placement = BY_ITSELF,
        computing: Computing | None = None,
        watch: Callable[[Replay], None] | None = None,
    ) -> None:
        ledger = Ledger(
            strategy,
            prices.device,
            copy_control=copy_control,
            guidance=guidance,
            strict=False,
        )
        super().__init__(program, ledger, in_turns=bool(why_not_at_once(strategy, prices.device)))
        self.strategy, self.prices, self.entry, self.device = strategy, prices, entry, prices.device
        self.host = strategy.host_arrays
        self.on_apu = prices.device.capabilities.shares_host_memory
        self.places = [placement(d, strategy, guidance, copy_control=copy_control) for d in program.declarations]
        """Of each buffer. Those that are swapped exchange it."""
        self.computing, self.watch = computing, watch
        self.terms = Terms()
        self.present = [Ranges() for _ in program.blocks]
        self.page_maps: list[list[Ranges]] = [self.present]
        """All that is known of each buffer's pages. Buffers that are swapped exchange it."""
        self._actions: dict[type, Callable[[Any], None]] = {
            steps.Allocate: self.allocate,
            steps.Prefault: self.prefault,
            steps.Advise: self.advise,
            steps.CopyFile: self.copy_file,
            steps.Copy: self.copy,
            steps.Wait: self.wait,
            steps.Prefetch: self.prefetch,
            steps.Use: self.use,
            steps.Free: self.free,
        }
        self.current, self.access = NO_LAUNCH, NO_ACCESS
        self.iterations = IterationTimes()
        self.crossed = Time()
        """What crossed the link for the current launch."""
        self.reads = IterationReads()
        self._in_host_memory = self._across = 0.0
        """The bytes of the current launch's reads that are in memory of the host, and those that cross the link."""

    # ------------------------------------------------------------------------------------------------ the replay

    def play(self, next_steps: Iterable[steps.Step]) -> None:
        self.current, self.access = NO_LAUNCH, NO_ACCESS
        self._price(next_steps)

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        self.current, self.crossed = launch, Time()
        self._in_host_memory = self._across = 0.0
        before = self.terms.time_of(self.phase) - self.iterations.later.total
        for access, access_steps in prepared:
            self.access = access
            self._price(access_steps)
        self.finish_uses()
        if launch.agent == "gpu":  # copies precede the kernel, faults are of it
            self.iterations.launched(self.terms.time_of(self.phase) if self.strategy.duplicated else before)
            declared = sum((a.end - a.start) * a.passes for a in launch.accesses if a.reads)
            self.reads.launched(device=declared - self._in_host_memory, link=self._across)
        if self.computing is not None:
            self.computing.launch(self, launch)

    def read_across(self, nbytes: float, crossings: float = 1.0) -> None:
        """The current kernel reads so many bytes in memory of the host, each of which crosses the link so often."""
        self._in_host_memory += nbytes
        self._across += nbytes * crossings

    def finish_uses(self) -> None:
        """All uses of a launch have been played."""

    def _price(self, next_steps: Iterable[steps.Step]) -> None:
        for step in next_steps:
            if action := self._actions.get(type(step)):
                action(step)

    def swap(self, first: int, second: int) -> None:
        for pages in self.page_maps:
            pages[first], pages[second] = pages[second], pages[first]
        self.places[first], self.places[second] = self.places[second], self.places[first]

    def forget(self, buffer: int) -> None:
        for pages in self.page_maps:
            pages[buffer].clear()

    def state(self) -> Hashable:
        return (*self.places, *(tuple(map(tuple, pages)) for pages in self.page_maps))

    def mark(self, mark: LoopMark) -> None:
        if mark.begins:
            self.iterations.begin()
            self.reads.begin()
        else:
            self.iterations.end(self.terms.time_of(self.phase))
            self.reads.end()

    def exchange(self, item: Exchanging) -> None:
        if self.computing is not None:
            self.computing.exchange(self, item)

    def begin_round(self) -> None:
        self.terms.begin_round()
        self.iterations.begin_round()
        self.reads.begin_round()

    def end_round(self) -> None:
        self.terms.end_round()
        self.iterations.end_round()
        self.reads.end_round()

    def add_again(self, times: int) -> None:
        self.terms.add_again(times)
        self.iterations.add_again(times, self.terms.time_of(self.phase))
        self.reads.add_again(times)

    # ------------------------------------------------------------------------------------------------ steps

    def allocate(self, step: steps.Allocate) -> None:
        """Allocation is priced for buffers that the strategy places; the others' is common to all."""
        if step.file:
            self.present[step.buffer].add(0, step.nbytes)
        elif self._is_priced(step.buffer):
            self.allocate_placed(step)
        elif self.computing is not None and self.is_up_front(step):
            self.price_call("allocate", step)
            if step.side == "device" and self._is_own(step.buffer):
                self.present[step.buffer].add(0, step.nbytes)

    def _is_priced(self, buffer: int) -> bool:
        """Whether a buffer is placed by the strategy."""
        return self.places[buffer] == ("copies" if self.strategy.duplicated else "strategy")

    def _is_own(self, buffer: int) -> bool:
        """Whether a buffer is device memory of its own. Small blocks that are copied under any strategy are not."""
        is_copied = self.places[buffer] == "copies" and self.program.blocks[buffer].role != "control"
        return self.places[buffer] == "gpu" or (is_copied and not self.strategy.duplicated)

    def allocate_placed(self, step: steps.Allocate) -> None:
        if self.is_up_front(step):
            self.price_call("allocate", step)
            self.present[step.buffer].add(0, step.nbytes)

    def is_up_front(self, step: steps.Allocate | steps.Free) -> bool:
        """Whether the pages of a block are there at once."""
        entry = self.device.allocator(step.allocator)
        return entry is not None and entry.on_demand is False and not is_plain_host(step.allocator)

    def price_call(self, call: Call, step: steps.Allocate | steps.Free) -> None:
        price = self.prices["allocation", call, step.allocator]
        self.terms.add(self.phase, f"{call} {step.allocator} memory", price, step.nbytes)

    def prefault(self, step: steps.Prefault) -> None:
        self.touch_host(step.buffer, 0, step.nbytes)

    def advise(self, step: steps.Advise) -> None:
        """Advice is priced where pages move."""

    def copy_file(self, step: steps.CopyFile) -> None:
        self.terms.add(self.phase, "copy of a file", self.prices["host_copy"], step.nbytes)

    def copy(self, step: steps.Copy) -> None:
        """Under a strategy that does not copy: of a small block that both agents use in turns, or of an array that is
        device memory of its own.
        """
        if self._is_own(step.buffer):
            self.copy_array(step)
            return
        direction: Direction = "h2d" if step.to == "gpu" else "d2h"
        price = self.prices["copy", direction, common_allocator("host")]
        with suppress(Unmeasured):
            lone = self.prices["lone_copy", direction, common_allocator("host")]
            price = lone if step.end - step.start >= lone.sizes[0] else price
        self.terms.add(self.phase, SMALL_COPIES, price, step.end - step.start)

    def copy_array(self, step: steps.Copy) -> None:
        """Between the host array of a buffer and its device array."""
        pages, nbytes = self.present[step.buffer], step.end - step.start
        direction = COPY_IN if step.to == "gpu" else COPY_BACK
        price = self.prices["copy", "h2d" if step.to == "gpu" else "d2h", self.host]
        new = nbytes - pages.bytes_in(step.start, step.end) if step.to == "cpu" else 0
        into_present = nbytes - (self._copy_into_new(new) if new else 0)
        time = price.of(into_present)
        with suppress(Unmeasured):
            lone = self.prices["lone_copy", "h2d" if step.to == "gpu" else "d2h", self.host]
            if into_present >= lone.sizes[0]:
                time = time.at_least(lone.of(into_present))
        self.terms.add(self.phase, f"{direction}, {self.host} host arrays", price, into_present, time)
        if new:
            pages.add(step.start, step.end)

    def _copy_into_new(self, new: int) -> int:
        """Price a copy of so many bytes into host pages that nobody has touched. Returns how many of them are then
        priced: none in a run that has not measured such copies, but their first touch is.
        """
        try:
            price = self.prices["copy_into_new", self.host]
        except Unmeasured:
            touch = self.prices.host_touch(parallel=False)
            self.terms.add(self.phase, NEW_BY_COPY, touch, new)
            return 0
        self.terms.add(self.phase, f"{COPY_BACK} into new pages, {self.host} host arrays", price, new)
        return new

    def wait(self, step: steps.Wait) -> None:
        """Waiting takes no time of its own."""

    def prefetch(self, step: steps.Prefetch) -> None:
        """Prefetches are priced where pages move."""

    def use(self, step: steps.Use) -> None:
        before = self.terms.time_of(self.phase)
        self._use(step)
        if step.agent == "gpu":
            self.note_kernel_time(self.terms.time_of(self.phase) - before)

    def note_kernel_time(self, ns: float) -> None:
        """What memory adds to a kernel is part of its time."""
        if self.phase == "compute":
            self.terms.counts[IN_KERNELS] += round(ns)

    def _use(self, step: steps.Use) -> None:
        place = self.places[step.buffer]
        if place == "cpu" or (self._is_own(step.buffer) and self.on_apu):
            self.touch_host(step.buffer, step.start, step.end)
        elif self._is_priced(step.buffer):
            (self.use_by_cpu if step.agent == "cpu" else self.use_by_gpu)(step)

    def use_by_cpu(self, step: steps.Use) -> None:
        self.touch_host(step.buffer, step.start, step.end)

    @property
    def parallel(self) -> bool:
        """Whether all threads of the CPU carry out the current launch."""
        by_one_thread = self.computing is not None and self.computing.threads.of(self.phase) == 1
        return self.current.by != "view" and not by_one_thread

    def use_by_gpu(self, step: steps.Use) -> None:
        raise NotImplementedError

    def free(self, step: steps.Free) -> None:
        if self._is_priced(step.buffer) and not step.file:
            self.free_placed(step)
        elif self.computing is not None and not step.file and self.is_up_front(step):
            self.price_call("free", step)

    def free_placed(self, step: steps.Free) -> None:
        if self.is_up_front(step):
            self.price_call("free", step)

    def touch_host(self, buffer: int, start: int, end: int) -> None:
        """The CPU's first touch of plain host memory."""
        present = self.present[buffer]
        if new := (end - start) - present.bytes_in(start, end):
            price = self.prices.host_touch(parallel=self.parallel)
            self.terms.add(self.phase, "first touch of host pages by the CPU", price, new)
            present.add(start, end)


class Copies(Pricing):
    """A host array and a device array of each buffer.

    on_device: the device memory that is host memory too, and whose pages are there.
    """

    def __init__(self, program: Program, strategy: Strategy, prices: Prices, entry: AllocatorInfo, **how: Any) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.on_device = [Ranges() for _ in program.blocks]
        self.page_maps.append(self.on_device)

    def allocate_placed(self, step: steps.Allocate) -> None:
        if step.side == "host":
            super().allocate_placed(step)
        elif not self.on_apu:
            with suppress(Unmeasured):
                self.price_call("allocate", step)
        elif self.is_up_front(step):
            self.price_call("allocate", step)
            self.on_device[step.buffer].add(0, step.nbytes)

    def free_placed(self, step: steps.Free) -> None:
        if step.side == "device" and not self.on_apu:
            with suppress(Unmeasured):
                self.price_call("free", step)
        elif step.side == "host" and is_plain_host(self.host) and not self.on_apu:
            if touched := self.present[step.buffer].total():
                self.terms.add("free", f"free {self.host} host arrays", self.prices.host_free(self.host), touched)
        else:
            super().free_placed(step)

    def use_by_gpu(self, step: steps.Use) -> None:
        self._touch_device(step.buffer, step.start, step.end, parallel=True)

    def copy(self, step: steps.Copy) -> None:
        self.copy_array(step)
        if step.to == "gpu":
            self._touch_device(step.buffer, step.start, step.end, parallel=False)

    def _touch_device(self, buffer: int, start: int, end: int, *, parallel: bool) -> None:
        pages = self.on_device[buffer]
        if self.on_apu and (new := (end - start) - pages.bytes_in(start, end)):
            price = self.prices.host_touch(parallel=parallel)
            self.terms.add(self.phase, NEW_ON_DEVICE, price, new)
            pages.add(start, end)


class InPlace(Pricing):
    """One block of memory that both agents use where it is, which stays there."""

    def use_by_gpu(self, step: steps.Use) -> None:
        if memory_of(self.entry) != "device":
            self.use_across_the_link(step)

    def use_across_the_link(self, step: steps.Use) -> Time:
        """Price a use across the link. Returns the time of the bytes that cross."""
        name, nbytes, passes, crossings = self.strategy.allocator, step.end - step.start, self.access.passes, 1.0
        used = [self.prices["remote", "h2d", name]] * step.reads + [self.prices["remote", "d2h", name]] * step.writes
        # The link carries both directions at once.
        price = max(used, key=lambda p: p.of(nbytes * passes).value)
        crossing = self.computing.crossing(self.access, name) if self.computing else None
        if crossing and self.computing:
            value, low, high = (price.of(nbytes * passes * n) for n in crossing)
            all_passes = time = Time(value.value, low.low, high.high)
            price, crossings = price.resting_on(self.computing.grounds), crossing[0]
        else:
            price, all_passes = price.assuming(ONE_PASS), price.of(nbytes * passes)
            once = price.of(nbytes) if passes >= 1 else all_passes
            time = Time(all_passes.value, min(once.low, all_passes.low), all_passes.high)
        self.terms.add(self.phase, f"use of {name} memory across the link", price, nbytes * passes * crossings, time)
        self.crossed += time
        if step.reads:
            self.read_across(nbytes * passes, crossings)
        if (updates := self.access.updates) and not crossing:
            with suppress(Unmeasured):
                plain, by_groups = self.prices.exchange(name), self.prices.exchange(name, by_groups=True)
                time = by_groups.of(1).beyond(plain.of(1)).times(updates / max(1, by_groups.updates))
                what = f"updates of {name} memory across the link by atomics"
                self.terms.add(self.phase, what, by_groups.turns, nbytes, time, updates)
        return all_passes


def missing_in_both(a: Ranges, b: Ranges, start: int, end: int) -> int:
    """Bytes of [start, end) that are in neither of two sets."""
    return sum(last - first for gap in a.missing(start, end) for first, last in b.missing(*gap))
