"""What each memory strategy adds to a program, from its declared accesses and the prices of one device.

Estimated is what the strategies differ in: allocation, first touches, copies, faults, prefetches, advice, and access
across the link. The time of kernels in the device's own memory and the CPU's work are common to all and not estimated.
Freeing memory that moves is estimated only where the run has measured it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

from firsttouch.advice.accesses import Access, Block, Declared
from firsttouch.advice.costs import Ground, Price, Prices, Time, Unmeasured
from firsttouch.allocators.properties import coherence, common_allocator, is_plain_host, memory_of, moves_pages
from firsttouch.harness.division import why_not_at_once
from firsttouch.records.schema import AllocatorInfo, DeviceInfo
from firsttouch.units import format_size
from firsttouch.workspace.guidance import BY_ITSELF, READ_MOSTLY, Guidance
from firsttouch.workspace.ranges import Ranges
from firsttouch.workspace.strategies import Strategy
from firsttouch.workspace.workspace import placement

SHARED_AT_ONCE = 0.05
"""If pages that both agents use at the same time are more than this part of what kernels access, how often they move is
a matter of timing, and only the least that happens is estimated."""
SMALLEST_PAGE = 4096
"""Bytes of a page where the records do not say."""
ONE_PASS = "a kernel uses bytes across the link once; what it reads again, and its caches do not hold, crosses again"
AT_ONCE = "both agents use the same pages at the same time, so how often pages move is a matter of timing"


@dataclass(frozen=True)
class Term:
    """One thing that a strategy adds in a phase: how much of it, its time in ms, and the grounds of its price."""

    phase: str
    what: str
    bytes: int
    count: int
    ms: float
    low: float
    high: float
    grounds: tuple[Ground, ...]


@dataclass
class _Sum:
    bytes: int = 0
    count: int = 0
    time: Time = field(default_factory=Time)
    price: Price | None = None


class NotEstimated(Exception):
    """The model does not cover this. The text is the reason.

    least: the terms of what happens at least, if that is known.
    """

    def __init__(self, reason: str, least: Sequence[Term] = ()) -> None:
        super().__init__(reason)
        self.least = least


class Impossible(Exception):
    """The strategy cannot run this program. The text is the reason."""


class _Terms:
    """Adds up what is priced, by phase and kind."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], _Sum] = {}

    def add(self, phase: str, what: str, price: Price, nbytes: float, time: Time | None = None, times: int = 1) -> None:
        if nbytes <= 0:
            return
        one = self._sums.setdefault((phase, what), _Sum(price=price))
        one.bytes, one.count = one.bytes + int(nbytes), one.count + times
        one.time += price.of(nbytes) if time is None else time

    def terms(self) -> list[Term]:
        found = []
        for (phase, what), s in self._sums.items():
            assert s.price is not None
            ms = s.time.times(1e-6)
            found.append(Term(phase, what, s.bytes, s.count, ms.value, ms.low, ms.high, s.price.grounds))
        return found


def estimate(declared: Declared, strategy: Strategy, prices: Prices) -> list[Term]:
    """The terms of a strategy.

    Raises:
        Unmeasured: the records lack a price.
        NotEstimated: the model does not cover this program under this strategy.
        Impossible: the strategy cannot run this program.
    """
    device = prices.device
    entry = device.allocator(strategy.allocator)
    assert entry is not None
    moving = not device.capabilities.shares_host_memory and (memory_of(entry) == "migrating" or moves_pages(entry))
    kind = _Copies if strategy.duplicated else _Moving if moving else _InPlace
    simulation = kind(declared, strategy, prices, entry)
    on_host, on_device = simulation.needs()
    if reason := _too_large(on_host, prices.machine.facts.get("memory", {}).get("total_bytes"), "the host"):
        raise Impossible(reason)
    if reason := _too_large(on_device, device.facts.get("memory_bytes"), device.name):
        if moving or (strategy.duplicated and declared.tiled):
            raise NotEstimated(f"{reason}, so that data may move more than once", simulation.run())
        raise Impossible(reason)
    return simulation.run()


def _too_large(nbytes: int, total: object, place: str) -> str:
    if not isinstance(total, int) or nbytes <= total:
        return ""
    return f"its buffers need {format_size(nbytes, 3)} of {place}, which has {format_size(total, 3)}"


class _Simulation:
    """Goes through the accesses of a program and prices what its memory does."""

    def __init__(self, declared: Declared, strategy: Strategy, prices: Prices, entry: AllocatorInfo) -> None:
        self.declared, self.strategy, self.prices, self.entry = declared, strategy, prices, entry
        self.device: DeviceInfo = prices.device
        self.terms = _Terms()
        self.present = [Ranges() for _ in declared.blocks]
        """The bytes of each block's memory on the CPU's side whose pages are there."""
        self.where = [placement(b.declaration, strategy, place_scratch=False) for b in declared.blocks]

    def run(self) -> list[Term]:
        for block in self.declared.blocks:
            self.allocate(block)
        computing = False
        for _, group in groupby(self.declared.accesses, key=lambda access: access.launch):
            accesses = list(group)
            if accesses[0].phase == "compute" and not computing:
                computing = True
                self.after_initialise()
            self.before(accesses)
            for access in accesses:
                self._use(access)
        if not computing:
            self.after_initialise()
        self.read_back([b for b in self.declared.blocks if b.declaration.ends_on == "cpu"])
        return self.terms.terms()

    def needs(self) -> tuple[int, int]:
        """The most bytes of host memory and of device memory that the buffers take; all are the host's if shared."""
        host = device = 0
        shared, kind = self.device.capabilities.shares_host_memory, memory_of(self.entry)
        moves = kind == "migrating" and not shared
        for block, where in zip(self.declared.blocks, self.where, strict=True):
            d = block.declaration
            in_device = where in ("gpu", "copies") or (where == "strategy" and kind != "host")
            comes_to_host = where == "strategy" and moves and "cpu" in (d.starts_on, d.ends_on)
            in_host = where == "copies" or not in_device or comes_to_host
            host, device = host + d.nbytes * in_host, device + d.nbytes * in_device
        return (host + device, 0) if shared else (host, device)

    def _use(self, access: Access) -> None:
        if access.simultaneous and (
            self.strategy.duplicated or self.strategy.coherence or coherence(self.entry) != "kernel"
        ):
            raise Impossible("the CPU cannot use its buffers while a kernel runs, which this program needs")
        if self.where[access.block] == "cpu" or (
            self.where[access.block] == "gpu" and self.device.capabilities.shares_host_memory
        ):
            self.touch_host(access)
        elif self.where[access.block] != "gpu":
            if access.by == "file":
                host = self.strategy.host_arrays if self.strategy.duplicated else self.strategy.allocator
                if is_plain_host(host):
                    self.present[access.block].add(access.start, access.end)
                else:
                    self.load(access)
            (self.cpu if access.agent == "cpu" else self.gpu)(access)

    def before(self, accesses: Sequence[Access]) -> None:
        """Called before the accesses of one launch."""

    def allocate(self, block: Block) -> None:
        """Price the calls that allocate and free a block."""

    def after_initialise(self) -> None:
        """Price what happens between the phases initialise and compute."""

    def cpu(self, access: Access) -> None:
        raise NotImplementedError

    def gpu(self, access: Access) -> None:
        raise NotImplementedError

    def read_back(self, blocks: Iterable[Block]) -> None:
        """Price what happens when the CPU reads whole results at the end. Blocks are those of the declarations."""
        for block in blocks:
            index = self.declared.ending.get(block.declaration.name, block.index)
            if self.where[index] in ("copies", "strategy"):
                whole = Access("compute", -1, "cpu", index, 0, block.declaration.nbytes, reads=True, writes=False)
                self.result(whole)

    def result(self, access: Access) -> None:
        self.cpu(access)

    def up_front(self, block: Block, entry: AllocatorInfo | None, pages: Ranges) -> bool:
        """Price the allocation of memory whose pages are there at once, and note in `pages` that they are."""
        if entry is None or entry.on_demand is not False or is_plain_host(entry.name):
            return False
        self.allocation(entry.name, block.declaration.nbytes)
        pages.add(0, block.declaration.nbytes)
        return True

    def allocation(self, name: str, nbytes: int) -> None:
        """Price the calls that allocate and free memory of an allocator."""
        self.terms.add("allocate", f"allocate {name} memory", self.prices.allocation(name, "allocate"), nbytes)
        self.terms.add("free", f"free {name} memory", self.prices.allocation(name, "free"), nbytes)

    def load(self, access: Access) -> None:
        """Price the copy of a file into memory. Where plain host memory serves, the file is mapped instead."""
        self.terms.add(access.phase, "copy of a file", self.prices.host_copy(), access.end - access.start)

    def touch_host(self, access: Access, phase: str = "") -> None:
        """The CPU's first touch of plain host memory."""
        present = self.present[access.block]
        new = sum(b - a for a, b in present.missing(access.start, access.end))
        if new:
            price = self.prices.host_touch(parallel=access.by != "view")
            self.terms.add(phase or access.phase, "first touch of host pages by the CPU", price, new)
            present.add(access.start, access.end)


def _other(agent: str) -> str:
    return "gpu" if agent == "cpu" else "cpu"


class _Copies(_Simulation):
    """A host array and a device array of each buffer."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.valid = [{"cpu": Ranges(), "gpu": Ranges()} for _ in self.declared.blocks]
        self.host = self.strategy.host_arrays
        self.on_device = [Ranges() for _ in self.declared.blocks]
        """Device memory that is host memory too, and whose pages are there."""

    def allocate(self, block: Block) -> None:
        if self.where[block.index] != "copies":
            return
        self.up_front(block, self.device.allocator(self.host), self.present[block.index])
        if self.device.capabilities.shares_host_memory:
            self.up_front(block, self.entry, self.on_device[block.index])
        else:
            with suppress(Unmeasured):
                self.allocation(self.entry.name, block.declaration.nbytes)

    def cpu(self, access: Access, phase: str = "") -> None:
        if access.reads:
            self._copy(access, "cpu", phase)
        self.touch_host(access, phase)
        self._written(access)

    def gpu(self, access: Access) -> None:
        if access.reads:
            self._copy(access, "gpu")
        self._touch_device(access, parallel=True)
        self._written(access)

    def result(self, access: Access) -> None:
        self.cpu(access, "readback")

    def read_back(self, blocks: Iterable[Block]) -> None:
        super().read_back(blocks)
        if is_plain_host(self.host) and not self.device.capabilities.shares_host_memory:
            for block in self.declared.blocks:
                touched = sum(b - a for a, b in self.present[block.index])
                if self.where[block.index] == "copies" and touched and not block.declaration.file:
                    self.terms.add("free", f"free {self.host} host arrays", self.prices.host_free(self.host), touched)

    def _written(self, access: Access) -> None:
        if access.writes:
            self.valid[access.block][access.agent].add(access.start, access.end)
            self.valid[access.block][_other(access.agent)].remove(access.start, access.end)

    def _copy(self, access: Access, to: str, phase: str = "") -> None:
        valid = self.valid[access.block]
        for start, end in valid[to].missing(access.start, access.end):
            valid[to].add(start, end)
            if not valid[_other(to)].overlaps(start, end):
                continue  # nobody has written it
            direction = "copy in" if to == "gpu" else "copy back"
            price = self.prices.copy("h2d" if to == "gpu" else "d2h", self.host)
            new = sum(b - a for a, b in self.present[access.block].missing(start, end)) if to == "cpu" else 0
            there = end - start - (self._copy_into_new(phase or access.phase, new) if new else 0)
            self.terms.add(phase or access.phase, f"{direction}, {self.host} host arrays", price, there)
            if new:
                self.present[access.block].add(start, end)
            if to == "gpu":
                self._touch_device(access, parallel=False)

    def _copy_into_new(self, phase: str, new: int) -> int:
        """Price a copy of so many bytes into host pages that nobody has touched. Returns how many of them are then
        priced: in a run that has not measured it, none, but their first touch is.
        """
        try:
            price = self.prices.copy_into_new(self.host)
        except Unmeasured:
            touch = self.prices.host_touch(parallel=False)
            self.terms.add(phase, "first touch of host pages by the copy", touch, new)
            return 0
        self.terms.add(phase, f"copy back into new pages, {self.host} host arrays", price, new)
        return new

    def _touch_device(self, access: Access, *, parallel: bool) -> None:
        if not self.device.capabilities.shares_host_memory:
            return
        pages = self.on_device[access.block]
        new = sum(b - a for a, b in pages.missing(access.start, access.end))
        if new:
            price = self.prices.host_touch(parallel=parallel)
            self.terms.add(access.phase, "first touch of the device array, which is host memory", price, new)
            pages.add(access.start, access.end)


class _InPlace(_Simulation):
    """One block of memory that both agents use where it is."""

    def allocate(self, block: Block) -> None:
        if self.where[block.index] == "strategy":
            there = self.up_front(block, self.entry, self.present[block.index])
            if self.strategy.prefault and not there:
                whole = Access(
                    "initialise", -1, "cpu", block.index, 0, block.declaration.nbytes, reads=False, writes=True
                )
                self.touch_host(whole, "allocate")

    def cpu(self, access: Access) -> None:
        self.touch_host(access)

    def gpu(self, access: Access) -> None:
        if self.device.capabilities.shares_host_memory:
            self.touch_host(access)
            return
        if memory_of(self.entry) == "device":
            return
        name, nbytes = self.strategy.allocator, access.end - access.start
        used = [self.prices.remote("h2d", name)] * access.reads + [self.prices.remote("d2h", name)] * access.writes
        # The link carries both directions at once.
        price = max(used, key=lambda p: p.of(nbytes).value).assuming(ONE_PASS)
        all_passes = price.of(nbytes).times(access.passes)
        once = price.of(nbytes) if access.passes >= 1 else all_passes
        time = Time(all_passes.value, min(once.low, all_passes.low), all_passes.high)
        self.terms.add(access.phase, f"use of {name} memory across the link", price, nbytes * access.passes, time)


class _Moving(_Simulation):
    """Memory whose pages the driver moves to the agent that touches them."""

    def __init__(self, declared: Declared, strategy: Strategy, prices: Prices, entry: AllocatorInfo) -> None:
        super().__init__(declared, strategy, prices, entry)
        self.name = strategy.allocator
        self.page = int(prices.machine.facts.get("memory", {}).get("page_bytes") or SMALLEST_PAGE)
        self.on_gpu = [Ranges() for _ in self.declared.blocks]
        self.copied = [Ranges() for _ in self.declared.blocks]
        """Bytes of which both agents have a copy, after the advice read-mostly."""
        self.guidance = [BY_ITSELF.of(b.declaration, self.strategy) for b in self.declared.blocks]
        self.reading: dict[int, Ranges] = {}
        self.writing: dict[int, Ranges] = {}
        """The bytes of blocks that kernels use for which the CPU has not waited."""
        self.used_by_gpu = self.used_at_once = 0
        self.pages_used: dict[int, Ranges] = {}
        """The pages of blocks that these kernels use."""
        self.in_turns = bool(why_not_at_once(strategy, prices.device))

    def guide(self, index: int) -> Guidance:
        return self.guidance[index]

    def allocate(self, block: Block) -> None:
        if self.where[block.index] == "strategy" and self.strategy.prefault:
            whole = Access("initialise", -1, "cpu", block.index, 0, block.declaration.nbytes, reads=False, writes=True)
            self.cpu(whole, "allocate")

    def after_initialise(self) -> None:
        for index in self.declared.computing.values():
            if self.where[index] != "strategy":
                continue
            nbytes, there = self.declared.blocks[index].declaration.nbytes, self.present[index]
            populated = sum(b - a for a, b in there)
            if READ_MOSTLY in self.guide(index).advice and populated:
                price = self.prices.advise(self.name, READ_MOSTLY)
                self.terms.add("initialise", f"advice {READ_MOSTLY}", price, populated)
            if "gpu" in self.guide(index).prefetch:
                if populated:
                    price = self.prices.prefetch(self.name)
                    copy = self.prices.copy("h2d", common_allocator("page-locked"))
                    time = price.of(populated).at_least(copy.of(populated))
                    self.terms.add("compute", "prefetch to the GPU", price, populated, time)
                if READ_MOSTLY in self.guide(index).advice:
                    for a, b in [*there]:
                        self.copied[index].add(a, b)
                else:
                    there.clear()
                self.on_gpu[index].add(0, nbytes)

    def cpu(self, access: Access, phase: str = "") -> None:
        phase = phase or access.phase
        index, (start, end) = access.block, self._pages(access)
        there, away = self.present[index], self.on_gpu[index]
        moved = _common(away, start, end) - (_common(self.copied[index], start, end) if not access.writes else 0)
        new = (end - start) - _covered(there, away, start, end)
        if new > 0:
            view = access.by == "view"
            price = self.prices.host_touch(parallel=False) if view else self.prices.moving_touch(self.name)
            self.terms.add(phase, f"first touch of {self.name} pages by the CPU", price, new)
        if moved > 0:
            price = self.prices.cpu_fault(self.name)
            time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
            self.terms.add(phase, "faults of the CPU on pages that are on the GPU", price, moved, time)
        there.add(start, end)
        if access.writes or not self._duplicates(index):
            away.remove(start, end)
            self.copied[index].remove(start, end)

    def gpu(self, access: Access) -> None:
        index, (start, end) = access.block, self._pages(access)
        there, here = self.present[index], self.on_gpu[index]
        self.used_by_gpu += end - start
        used = self.writing if access.writes else self.reading
        used.setdefault(index, Ranges()).add(access.start, access.end)
        self.pages_used.setdefault(index, Ranges()).add(start, end)
        missing = sum(b - a for a, b in here.missing(start, end))
        new = (end - start) - _covered(there, here, start, end)
        moved = missing - new
        if new > 0:
            self.terms.add(access.phase, "first touch of new pages by the GPU", self.prices.gpu_touch(self.name), new)
        if moved > 0:
            reads_only = not access.writes
            read_mostly = reads_only and self._duplicates(index) and access.phase == "compute"
            price = self.prices.gpu_fault(
                self.name, reads_only=reads_only, read_mostly=read_mostly, touch=access.spread or "dense"
            )
            time = price.of(moved).at_least(self.prices.isolated_fault(self.name))
            self.terms.add(access.phase, "faults of the GPU on pages that are on the CPU", price, moved, time)
        here.add(start, end)
        if self._duplicates(index) and not access.writes and access.phase == "compute":
            self.copied[index].add(start, end)
        else:
            there.remove(start, end)
            self.copied[index].remove(start, end)

    def result(self, access: Access) -> None:
        index = access.block
        moved = _common(self.on_gpu[index], access.start, access.end)
        if "cpu" in self.guide(index).prefetch and moved:
            self.terms.add("readback", "prefetch to the CPU", self.prices.prefetch_back(self.name), moved)
            self.on_gpu[index].remove(access.start, access.end)
            self.present[index].add(access.start, access.end)
        self._wait()
        self.cpu(access, "readback")

    def read_back(self, blocks: Iterable[Block]) -> None:
        self._wait()
        super().read_back(blocks)
        if self.used_at_once > SHARED_AT_ONCE * max(1, self.used_by_gpu):
            raise NotEstimated(AT_ONCE, self.terms.terms())
        self._free()

    def _free(self) -> None:
        """Price the calls that free the memory, if the run has measured them."""
        for index, (there, here) in enumerate(zip(self.present, self.on_gpu, strict=True)):
            if self.where[index] != "strategy":
                continue
            on_gpu = sum(b - a for a, b in here)
            only_on_cpu = sum(b - a for first, last in there for a, b in here.missing(first, last))
            with suppress(Unmeasured):
                price = self.prices.touched_free(self.name, "gpu")
                self.terms.add("free", f"free {self.name} memory on the GPU", price, on_gpu)
            with suppress(Unmeasured):
                price = self.prices.touched_free(self.name, "cpu")
                self.terms.add("free", f"free {self.name} memory on the CPU", price, only_on_cpu)

    def _duplicates(self, index: int) -> bool:
        return READ_MOSTLY in self.guide(index).advice

    def before(self, accesses: Sequence[Access]) -> None:
        """The CPU waits for kernels with which a launch of its own conflicts, as the Workspace does. Otherwise both
        agents run at once, and pages of which both use bytes move as often as either touches them.
        """
        if accesses[0].agent == "gpu":
            return
        if not any(access.simultaneous for access in accesses) and self._waits(accesses):
            self._wait()
            return
        for access in accesses:
            if access.block in self.pages_used and not self._duplicates(access.block):
                self.used_at_once += _common(self.pages_used[access.block], *self._pages(access))

    def _waits(self, accesses: Sequence[Access]) -> bool:
        return accesses[0].phase == "initialise" or self.in_turns or any(map(self._conflicts, accesses))

    def _pages(self, access: Access) -> tuple[int, int]:
        """The bytes of an access, rounded to whole pages."""
        nbytes = self.declared.blocks[access.block].declaration.nbytes
        return access.start // self.page * self.page, min(nbytes, -(-access.end // self.page) * self.page)

    def _conflicts(self, access: Access) -> bool:
        used = [self.writing, self.reading] if access.writes else [self.writing]
        return any(one[access.block].overlaps(access.start, access.end) for one in used if access.block in one)

    def _wait(self) -> None:
        for used in (self.reading, self.writing, self.pages_used):
            used.clear()


def _common(ranges: Ranges, start: int, end: int) -> int:
    return (end - start) - sum(b - a for a, b in ranges.missing(start, end))


def _covered(a: Ranges, b: Ranges, start: int, end: int) -> int:
    """Bytes of [start, end) that are in one of two sets."""
    missing = a.missing(start, end)
    return (end - start) - sum(q - p for first, last in missing for p, q in b.missing(first, last))


def ms(terms: Iterable[Term], get: Callable[[Term], float] = lambda t: t.ms) -> float:
    return sum(map(get, terms))
