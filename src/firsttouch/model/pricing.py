"""Prices the steps of a program: where its pages are, and what each step and each use of them costs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol

from firsttouch.allocators.properties import common_allocator, is_plain_host, memory_of
from firsttouch.model.costs import Direction, Price, Prices, Time, Unmeasured
from firsttouch.model.terms import Terms
from firsttouch.records.schema import AllocatorInfo
from firsttouch.workload.program import Access, Launch, Program
from firsttouch.workload.replay import Prepared, Replay
from firsttouch.workspace import steps
from firsttouch.workspace.declarations import Agent, placement
from firsttouch.workspace.guidance import BY_ITSELF, PREFERRED_GPU, READ_MOSTLY, Placement
from firsttouch.workspace.ledger import Ledger
from firsttouch.workspace.ranges import Ranges
from firsttouch.workspace.strategies import Strategy, why_not_at_once

SMALLEST_PAGE = 4096
"""Bytes of a page where the records do not say."""
SMALL_BLOCK = 64 << 10
"""A block of at most so many bytes moves as a whole. If both agents use it in turns, the driver may delay them."""
UNMEASURED_TURNS = (
    "turns of a kernel and the CPU over a small block are not in this run, and are priced as faults; they may take far "
    "longer, and with atomic updates by thread groups milliseconds each (firsttouch run exchange)"
)
TURNS = "turns of kernels and the CPU over small blocks"
SMALL_COPIES = "copies of small blocks"
SLOW_TURN, SLOW_UPDATE = 300e3, 1e3
"""Nanoseconds that a turn, and an atomic update in it, may take where they are not measured: as on H100s."""
ONE_PASS = "a kernel uses bytes across the link once; what it reads again, and its caches do not hold, crosses again"
NO_LAUNCH = Launch("cpu", ())
"""What stands for the launch of steps that belong to none: they run on all threads."""
NO_ACCESS = Access(0, 0, 0, False, False)


class Computing(Protocol):
    """What the kernels and the CPU's code of a program take, beside what its memory does."""

    def launch(self, pricing: Pricing, launch: Launch) -> None:
        """Add the terms of a launch, after those of its accesses."""
        ...

    def crossing(self, access: Access) -> tuple[float, float, float] | None:
        """How often each byte that a kernel uses in memory of the host crosses the link, with bounds; None if that was
        not measured.
        """
        ...


class Pricing(Replay):
    """Prices what is common to all strategies: allocation, and the CPU's first touch of plain host memory.

    copy_control, place_scratch, guidance: those of the ledger. computing: what the program computes, if that is priced
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
        place_scratch: bool = False,
        guidance: Placement = BY_ITSELF,
        computing: Computing | None = None,
    ) -> None:
        ledger = Ledger(
            strategy,
            prices.device,
            place_scratch=place_scratch,
            copy_control=copy_control,
            guidance=guidance,
            strict=False,
        )
        super().__init__(program, ledger, in_turns=bool(why_not_at_once(strategy, prices.device)))
        self.strategy, self.prices, self.entry, self.device = strategy, prices, entry, prices.device
        self.on_apu = prices.device.capabilities.shares_host_memory
        self.places = [
            placement(d, strategy, place_scratch=place_scratch, copy_control=copy_control) for d in program.declarations
        ]
        self.computing = computing
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
        self.crossed = Time()
        """What crossed the link for the current launch."""

    # ------------------------------------------------------------------------------------------------ the replay

    def play(self, wanted: Iterable[steps.Step]) -> None:
        self.current, self.access = NO_LAUNCH, NO_ACCESS
        self._price(wanted)

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        self.current, self.crossed = launch, Time()
        for access, wanted in prepared:
            self.access = access
            self._price(wanted)
        if self.computing is not None:
            self.computing.launch(self, launch)

    def _price(self, wanted: Iterable[steps.Step]) -> None:
        for step in wanted:
            if action := self._actions.get(type(step)):
                action(step)

    def swap(self, first: int, second: int) -> None:
        for pages in self.page_maps:
            pages[first], pages[second] = pages[second], pages[first]

    def state(self) -> Hashable:
        return tuple(tuple(map(tuple, pages)) for pages in self.page_maps)

    def begin_round(self) -> None:
        self.terms.begin_round()

    def end_round(self) -> None:
        self.terms.end_round()

    def add_again(self, times: int) -> None:
        self.terms.add_again(times)

    # ------------------------------------------------------------------------------------------------ steps

    def allocate(self, step: steps.Allocate) -> None:
        """Allocation is priced for buffers that the strategy places; the others' is common to all."""
        if step.file:
            self.present[step.buffer].add(0, step.nbytes)
        elif self._is_priced(step.buffer):
            self.allocate_placed(step)
        elif self.computing is not None and self.is_up_front(step):
            self.price_call("allocate", step)

    def _is_priced(self, buffer: int) -> bool:
        """Whether a buffer is placed by the strategy. Blocks that are copied under any are too small to matter."""
        return self.places[buffer] == ("copies" if self.strategy.duplicated else "strategy")

    def allocate_placed(self, step: steps.Allocate) -> None:
        if self.is_up_front(step):
            self.price_call("allocate", step)
            self.present[step.buffer].add(0, step.nbytes)

    def is_up_front(self, step: steps.Allocate | steps.Free) -> bool:
        """Whether the pages of a block are there at once."""
        entry = self.device.allocator(step.allocator)
        return entry is not None and entry.on_demand is False and not is_plain_host(step.allocator)

    def price_call(self, call: Literal["allocate", "free"], step: steps.Allocate | steps.Free) -> None:
        price = self.prices.allocation(step.allocator, call)
        self.terms.add(self.phase, f"{call} {step.allocator} memory", price, step.nbytes)

    def prefault(self, step: steps.Prefault) -> None:
        self.touch_host(step.buffer, 0, step.nbytes)

    def advise(self, step: steps.Advise) -> None:
        """Advice is priced where pages move."""

    def copy_file(self, step: steps.CopyFile) -> None:
        self.terms.add(self.phase, "copy of a file", self.prices.host_copy(), step.nbytes)

    def copy(self, step: steps.Copy) -> None:
        """Under a strategy that does not copy: of a small block that both agents use in turns."""
        direction: Direction = "h2d" if step.to == "gpu" else "d2h"
        price = self.prices.copy(direction, common_allocator("host"))
        with suppress(Unmeasured):
            price = self.prices.lone_copy(direction, common_allocator("host"))
        self.terms.add(self.phase, SMALL_COPIES, price, step.end - step.start)

    def wait(self, step: steps.Wait) -> None:
        """Waiting takes no time of its own."""

    def prefetch(self, step: steps.Prefetch) -> None:
        """Prefetches are priced where pages move."""

    def use(self, step: steps.Use) -> None:
        place = self.places[step.buffer]
        if place == "cpu" or (place == "gpu" and self.on_apu):
            self.touch_host(step.buffer, step.start, step.end)
        elif self._is_priced(step.buffer):
            (self.use_by_cpu if step.agent == "cpu" else self.use_by_gpu)(step)

    def use_by_cpu(self, step: steps.Use) -> None:
        self.touch_host(step.buffer, step.start, step.end)

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
            price = self.prices.host_touch(parallel=self.current.by != "view")
            self.terms.add(self.phase, "first touch of host pages by the CPU", price, new)
            present.add(start, end)


class Copies(Pricing):
    """A host array and a device array of each buffer.

    on_device: the device memory that is host memory too, and whose pages are there.
    """

    def __init__(self, program: Program, strategy: Strategy, prices: Prices, entry: AllocatorInfo, **how: Any) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.host = strategy.host_arrays
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
        pages, nbytes = self.present[step.buffer], step.end - step.start
        direction = "copy in" if step.to == "gpu" else "copy back"
        price = self.prices.copy("h2d" if step.to == "gpu" else "d2h", self.host)
        new = nbytes - pages.bytes_in(step.start, step.end) if step.to == "cpu" else 0
        into_present = nbytes - (self._copy_into_new(new) if new else 0)
        time = price.of(into_present)
        with suppress(Unmeasured):
            time = time.at_least(
                self.prices.lone_copy("h2d" if step.to == "gpu" else "d2h", self.host).of(into_present)
            )
        self.terms.add(self.phase, f"{direction}, {self.host} host arrays", price, into_present, time)
        if new:
            pages.add(step.start, step.end)
        if step.to == "gpu":
            self._touch_device(step.buffer, step.start, step.end, parallel=False)

    def _copy_into_new(self, new: int) -> int:
        """Price a copy of so many bytes into host pages that nobody has touched. Returns how many of them are then
        priced: in a run that has not measured it, none, but their first touch is.
        """
        try:
            price = self.prices.copy_into_new(self.host)
        except Unmeasured:
            touch = self.prices.host_touch(parallel=False)
            self.terms.add(self.phase, "first touch of host pages by the copy", touch, new)
            return 0
        self.terms.add(self.phase, f"copy back into new pages, {self.host} host arrays", price, new)
        return new

    def _touch_device(self, buffer: int, start: int, end: int, *, parallel: bool) -> None:
        pages = self.on_device[buffer]
        if self.on_apu and (new := (end - start) - pages.bytes_in(start, end)):
            price = self.prices.host_touch(parallel=parallel)
            self.terms.add(self.phase, "first touch of the device array, which is host memory", price, new)
            pages.add(start, end)


class InPlace(Pricing):
    """One block of memory that both agents use where it is, which stays there."""

    def use_by_gpu(self, step: steps.Use) -> None:
        if memory_of(self.entry) != "device":
            self.use_across_the_link(step)

    def use_across_the_link(self, step: steps.Use) -> Time:
        """Price it. Returns the time of the bytes that cross."""
        name, nbytes, passes = self.strategy.allocator, step.end - step.start, self.access.passes
        used = [self.prices.remote("h2d", name)] * step.reads + [self.prices.remote("d2h", name)] * step.writes
        # The link carries both directions at once.
        price = max(used, key=lambda p: p.of(nbytes * passes).value)
        if crossing := self.computing and self.computing.crossing(self.access):
            value, low, high = (price.of(nbytes * passes * n) for n in crossing)
            all_passes = time = Time(value.value, low.low, high.high)
            passes *= crossing[0]
        else:
            price, all_passes = price.assuming(ONE_PASS), price.of(nbytes * passes)
            once = price.of(nbytes) if passes >= 1 else all_passes
            time = Time(all_passes.value, min(once.low, all_passes.low), all_passes.high)
        self.terms.add(self.phase, f"use of {name} memory across the link", price, nbytes * passes, time)
        self.crossed += time
        if updates := self.access.updates:
            with suppress(Unmeasured):
                plain, by_groups = self.prices.exchange(name), self.prices.exchange(name, by_groups=True)
                time = by_groups.of(1).beyond(plain.of(1)).times(updates / max(1, by_groups.updates))
                what = f"updates of {name} memory across the link by atomics"
                self.terms.add(self.phase, what, by_groups.turns, nbytes, time, updates)
        return all_passes


class Moving(Pricing):
    """Memory whose pages the driver moves to the agent that touches them.

    on_gpu: the bytes of each buffer whose pages are on the GPU. copied: those of which both agents have a copy, after
    the advice read-mostly. queued: the pages that kernels use for which the CPU has not waited. preferred: the bytes
    that were advised to be on the GPU.
    """

    def __init__(self, program: Program, strategy: Strategy, prices: Prices, entry: AllocatorInfo, **how: Any) -> None:
        super().__init__(program, strategy, prices, entry, **how)
        self.name = strategy.allocator
        self.page = int(prices.machine.facts.get("memory", {}).get("page_bytes") or SMALLEST_PAGE)
        self.on_gpu, self.copied, self.queued, self.read_mostly = ([Ranges() for _ in program.blocks] for _ in range(4))
        self.preferred = [Ranges() for _ in program.blocks]
        self.page_maps += [self.on_gpu, self.copied, self.queued, self.read_mostly, self.preferred]

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        """Where the CPU does not wait for kernels, both agents run at once, and pages of which both use bytes move as
        often as either touches them.
        """
        waits = any(isinstance(step, steps.Wait) for _, wanted in prepared for step in wanted)
        if launch.agent == "cpu" and self.phase == "compute" and not waits:
            for access, _ in prepared:
                if not self.read_mostly[access.block]:
                    pages = self.queued[access.block]
                    self.terms.counts["used_at_once"] += pages.bytes_in(*self._pages(access.block, access))
        if launch.agent == "gpu" and self.phase == "compute":
            self.terms.counts["by_kernels"] += int(sum((a.end - a.start) * a.passes for a, _ in prepared))
        super().launch(launch, prepared)

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
            if faults > 0:
                price = self.prices.gpu_fault(self.name, reads_only=False)
                time = isolated(self.name).times(faults)
                what = "faults of the GPU on pages that are on the CPU"
                self.terms.add("compute", what, price, block.nbytes * faults, time, faults)

    def _turns(self, turns: int, updates: int) -> tuple[Price, Time]:
        """The price of turns and their time, with so many updates by atomics in all of them."""
        between = self.prices.own_pass(self.name).of(self.terms.counts["by_kernels"]).value / turns
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
        on_gpu, on_cpu = self.on_gpu[step.buffer], self.present[step.buffer]
        only_on_cpu = sum(last - first for a, b in on_cpu for first, last in on_gpu.missing(a, b))
        sides: tuple[tuple[Agent, int], ...] = (("gpu", on_gpu.total()), ("cpu", only_on_cpu))
        for agent, nbytes in sides:
            with suppress(Unmeasured):
                price = self.prices.touched_free(self.name, agent)
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
                price = self.prices.advise(self.name, READ_MOSTLY)
                self.terms.add(self.phase, f"advice {READ_MOSTLY}", price, populated)

    def prefetch(self, step: steps.Prefetch) -> None:
        on_cpu, on_gpu = self.present[step.buffer], self.on_gpu[step.buffer]
        if step.to == "cpu":
            if moved := on_gpu.total():
                self.terms.add(self.phase, "prefetch to the CPU", self.prices.prefetch_back(self.name), moved)
                on_gpu.clear()
                on_cpu.add(0, step.nbytes)
            return
        if populated := on_cpu.total():
            price = self.prices.prefetch(self.name)
            copy = self.prices.copy("h2d", common_allocator("page-locked"))
            time = price.of(populated).at_least(copy.of(populated))
            self.terms.add(self.phase, "prefetch to the GPU", price, populated, time)
        if self.read_mostly[step.buffer]:
            for first, last in on_cpu:
                self.copied[step.buffer].add(first, last)
        else:
            on_cpu.clear()
        on_gpu.add(0, step.nbytes)

    def wait(self, step: steps.Wait) -> None:
        for pages in self.queued:
            pages.clear()

    def use_by_cpu(self, step: steps.Use) -> None:
        buffer, (start, end) = step.buffer, self._pages(step.buffer, step)
        on_cpu, on_gpu, copied = self.present[buffer], self.on_gpu[buffer], self.copied[buffer]
        moved = on_gpu.bytes_in(start, end) - (0 if step.writes else copied.bytes_in(start, end))
        if new := missing_in_both(on_cpu, on_gpu, start, end):
            view = self.current.by == "view"
            price = self.prices.host_touch(parallel=False) if view else self.prices.moving_touch(self.name)
            self.terms.add(self.phase, f"first touch of {self.name} pages by the CPU", price, new)
        if moved > 0 and self._is_small(buffer):
            self.terms.counts["turns", buffer] += 1
        elif moved > 0:
            price = self.prices.cpu_fault(self.name, each_page=self.phase == "readback")
            time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
            self.terms.add(self.phase, "faults of the CPU on pages that are on the GPU", price, moved, time)
        on_cpu.add(start, end)
        if step.writes or not self.read_mostly[buffer]:
            on_gpu.remove(start, end)
            copied.remove(start, end)

    def use_by_gpu(self, step: steps.Use) -> None:
        buffer, (start, end) = step.buffer, self._pages(step.buffer, step)
        on_cpu, on_gpu, copied = self.present[buffer], self.on_gpu[buffer], self.copied[buffer]
        self.terms.counts["used_by_gpu"] += end - start
        self.queued[buffer].add(start, end)
        new = missing_in_both(on_cpu, on_gpu, start, end)
        moved = (end - start) - on_gpu.bytes_in(start, end) - new
        duplicates = bool(self.read_mostly[buffer]) and not step.writes
        if new:
            price = self.prices.gpu_touch(self.name, whole_blocks=bool(self.preferred[buffer]))
            self.terms.add(self.phase, "first touch of new pages by the GPU", price, new)
        self.terms.counts["updates", buffer] += self.access.updates
        if moved and self._is_small(buffer):
            self.terms.counts["faults", buffer] += 1
        elif moved:
            price = self.prices.gpu_fault(
                self.name, reads_only=not step.writes, read_mostly=duplicates, touch=self.access.spread or "dense"
            )
            time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
            self.terms.add(self.phase, "faults of the GPU on pages that are on the CPU", price, moved, time)
        on_gpu.add(start, end)
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


def missing_in_both(a: Ranges, b: Ranges, start: int, end: int) -> int:
    """Bytes of [start, end) that are in neither of two sets."""
    return sum(last - first for gap in a.missing(start, end) for first, last in b.missing(*gap))
