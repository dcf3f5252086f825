"""BufferPasses over data that began on the other side: what `migration` would measure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firsttouch.base.errors import NotModelled
from firsttouch.machine.allocators.properties import common_allocator, is_plain_host, memory_of, moves_pages
from firsttouch.model.costs import Price, Time
from firsttouch.model.managed import PageMoves
from firsttouch.model.micro.answers import Answer, Sum, optional
from firsttouch.model.micro.loads import stream
from firsttouch.model.pages import Counts, Kind
from firsttouch.model.passes import BufferPasses, event_counters, moves_by_step
from firsttouch.model.platform import Platform
from firsttouch.model.prices import Prices
from firsttouch.model.touches import LINE, TOUCHES
from firsttouch.program.guidance import READ_MOSTLY, word_of
from firsttouch.program.least_moves import IN_PLACE
from firsttouch.records.schema import AllocatorInfo, Scalar

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent


COUNTERS = "driver.counters"
"""The value of a platform that lets the driver move memory of malloc by itself."""


@dataclass(frozen=True)
class MigrationPasses:
    """The conditions of a point, in the words of the experiment.

    touch: which bytes a pass touches. in_order: a single thread touches them. advice: each hint.
    """

    allocator: str
    nbytes: int
    touch: str
    in_order: bool
    advice: tuple[str, ...]
    prefetch: str
    starts_on: str
    updates: bool
    iterations: int

    @property
    def lines_bytes(self) -> int:
        """The bytes of all lines that a pass touches."""
        touch = TOUCHES[self.touch]
        return min(self.nbytes, touch.places(self.nbytes) * max(touch.run, LINE))

    def steps(self, threads: int) -> BufferPasses:
        """These passes for the page map. threads: of the CPU."""
        touch = TOUCHES[self.touch]
        start: Agent = "cpu" if self.starts_on == "cpu" else "gpu"
        return BufferPasses(
            self.nbytes, touch.stride, self.in_order, self.updates, self.advice, self.prefetch, start, self.iterations,
            threads,
        )  # fmt: skip


def passes(
    prices: Prices, asked: MigrationPasses, kind: Kind | None = None, platform: Platform | None = None
) -> Answer:
    """All passes of a repetition with what prepares them, in ms, with the time of each as a counter. kind: of managed
    memory, where its driver's rules are known. platform: where the prices are from, if from a file.
    """
    entry = prices.device.allocator(asked.allocator)
    assert entry is not None
    if prices.device.capabilities.shares_host_memory:
        return _PassSum(prices, asked, kind, platform).where_it_is()
    if memory_of(entry) == "device":
        return _PassSum(prices, asked, kind, platform).copied()
    if _moves(entry):
        return _PassSum(prices, asked, kind, platform).moving()
    return _PassSum(prices, asked, kind, platform).across()


def managed_kind(platform: Platform) -> Kind | None:
    """What decides what managed memory does, besides its pages; None if the driver's rules are not known."""
    from firsttouch.model.prediction import PredictionSettings, counting_settings  # which takes touches from here

    if not platform.has("driver.family") or platform.word("driver.family") != "uvm":
        return None
    return counting_settings(platform, PredictionSettings()).kind


def recorded_moves(platform: Platform, asked: MigrationPasses) -> dict[str, int]:
    """What events would record of a repetition: faults, and moves in numbers and bytes, by step.

    Raises NotModelled: the memory is not managed, or its driver is another.
    """
    entry, kind = platform.device.allocator(asked.allocator), managed_kind(platform)
    if entry is None or not entry.managed or kind is None:
        raise NotModelled("events of memory that this driver does not move")
    threads = int(platform.quantity("host.processors").value)
    moves = moves_by_step(asked.steps(threads), kind)
    return event_counters(moves) | _sums(moves, kind.page)


def _sums(moves: Mapping[str, PageMoves], page: int) -> dict[str, int]:
    """What happens in all steps of a repetition. Prefetches are calls, which no agent's fault asks for."""
    called, faulting, by_cpu, by_gpu = Counts(), Counts(), Counts(), Counts()
    for name, each in moves.items():
        if "prefetch" in name:
            called = called.plus(each.counts)
            continue
        faulting = faulting.plus(each.counts)
        if name == "cpu_read" or (name == "initialise" and not each.counts.new_gpu):
            by_cpu = by_cpu.plus(each.counts)
        else:
            by_gpu = by_gpu.plus(each.counts)
    return {
        "um_h2d_migrations": called.copies_to_gpu + faulting.copies_to_gpu,
        "um_h2d_bytes": (called.to_gpu + faulting.to_gpu) * page,
        "um_h2d_prefetch_bytes": called.to_gpu * page,
        "um_h2d_fault_bytes": faulting.faulted_to_gpu * page,
        "um_h2d_speculative_bytes": (faulting.to_gpu - faulting.faulted_to_gpu) * page,
        "um_d2h_migrations": called.copies_to_cpu + faulting.copies_to_cpu,
        "um_d2h_bytes": (called.to_cpu + faulting.to_cpu) * page,
        "um_d2h_prefetch_bytes": called.to_cpu * page,
        "um_d2h_fault_bytes": faulting.faulted_to_cpu * page,
        "um_d2h_speculative_bytes": (faulting.to_cpu - faulting.faulted_to_cpu) * page,
        "um_cpu_faults": by_cpu.services,
        "um_gpu_fault_groups": by_gpu.services,
        "um_gpu_faults": by_gpu.faults,
    }


def _moves(entry: AllocatorInfo) -> bool:
    return memory_of(entry) == "migrating" or bool(moves_pages(entry))


class _PassSum:
    def __init__(self, prices: Prices, asked: MigrationPasses, kind: Kind | None, platform: Platform | None) -> None:
        self.platform = platform
        self.prices, self.asked, self.kind, self.sum = prices, asked, kind, Sum()
        self.counters: dict[str, Scalar] = {}

    # ------------------------------------------------------------------------------------------------ kinds of memory

    def copied(self) -> Answer:
        """Device memory, to which the whole buffer is copied from page-locked memory."""
        asked = self.asked
        if asked.starts_on == "cpu":
            price = self.prices["copy", "h2d", common_allocator("page-locked")]
            time = price.of(asked.nbytes)
            self.counters["copy_in_ms"] = self.sum.add("copy in", "copy to the GPU", price, asked.nbytes, time)
        return self._answer(self._own(), Time())

    def where_it_is(self) -> Answer:
        """Memory that both agents share: nothing moves."""
        asked, platform = self.asked, self.platform
        if platform is None or asked.in_order or TOUCHES[asked.touch].shuffled:
            return self._answer(self._own(), Time())
        kernel = "copy" if asked.updates else "read"
        moved = asked.lines_bytes * (2 if asked.updates else 1)
        streamed = stream(
            platform, platform.device, agent="gpu", allocator=asked.allocator, first=asked.starts_on, kernel=kernel,
            nbytes=asked.lines_bytes, in_memory=True, threads=0,
        )  # fmt: skip
        time = Time(moved / streamed.value, moved / streamed.high, moved / streamed.low)
        return self._answer((Price((0.0, 1.0), (Time(), time.times(1 / moved)), streamed.grounds), time), Time())

    def across(self) -> Answer:
        """Host memory that stays there: each pass crosses the link."""
        price, time = self._remote()
        if is_plain_host(self.asked.allocator):
            if self.asked.starts_on == "gpu":
                raise NotModelled("starts_on=gpu of plain memory, which is then in the GPU's memory")
            if self.platform is not None and self.platform.has(COUNTERS) and self.platform.flag(COUNTERS):
                price = price.assuming("access counters move none of the memory that passes use")
        return self._answer((price, time), Time())

    def moving(self) -> Answer:
        """Memory whose pages move to the agent that touches them."""
        asked, hints = self.asked, frozenset(self.asked.advice)
        on_cpu = asked.starts_on == "cpu"
        duplicates = READ_MOSTLY in hints
        if duplicates and asked.updates:
            raise NotModelled("stores to pages of which CPU and GPU both have a copy")
        if on_cpu:
            self._advise()
        if not on_cpu:
            if hints - {"none"}:
                raise NotModelled("advice about pages that are on the GPU")
            return self._answer(self._own(), Time())
        if asked.prefetch == "whole":
            self.counters["prefetch_ms"] = self._prefetch().value * 1e-6
            return self._answer(self._own(), Time())
        if asked.prefetch == "iteration":
            raise NotModelled("prefetches of pages that are already resident")
        self._prefetch_back()
        if IN_PLACE & hints:
            remote_pass = self._remote()
            return self._answer(remote_pass, self._mapping(hints))
        return self._answer(self._own(), self._faults(duplicates))

    # ------------------------------------------------------------------------------------------------ parts

    def _own(self) -> tuple[Price, Time]:
        """A pass over the GPU's own memory."""
        if TOUCHES[self.asked.touch].shuffled:
            raise NotModelled("the time of passes in random order")
        if self.asked.in_order:
            touch = self.prices["in_order_touch", self.asked.allocator]
            return touch, touch.of(1).times(TOUCHES[self.asked.touch].places(self.asked.nbytes))
        price = self.prices["own_pass", self.asked.allocator]
        part = 1.0 if self.asked.updates else 0.5  # the price is of bytes that are read and written
        return price, price.of(self.asked.lines_bytes).times(part)

    def _remote(self) -> tuple[Price, Time]:
        """A pass over host memory. The link carries both directions at once; at worst, one follows the other."""
        if TOUCHES[self.asked.touch].shuffled or self.asked.in_order:
            raise NotModelled("passes across the link in random order or by a single thread")
        name = common_allocator("page-locked")
        used = [self.prices["remote", "h2d", name]] + [self.prices["remote", "d2h", name]] * self.asked.updates
        price = max(used, key=lambda p: p.of(self.asked.lines_bytes).value)
        time = price.of(self.asked.lines_bytes)
        return price, Time(time.value, time.low, sum(p.of(self.asked.lines_bytes).high for p in used))

    def _advise(self) -> None:
        asked = self.asked
        times = []
        for hint in asked.advice:
            if hint != "none":
                price = self.prices["advise", hint, asked.allocator]
                times.append(self.sum.add("advise", f"advice {hint}", price, asked.nbytes, price.of(asked.nbytes)))
        if times:
            self.counters["advise_ms"] = sum(times)

    def _prefetch(self) -> Time:
        price = self.prices["prefetch", self.asked.allocator]
        time = price.of(self.asked.nbytes)
        self.sum.add("prefetch", "prefetch to the GPU", price, self.asked.nbytes, time)
        return time

    def _prefetch_back(self) -> None:
        """To the CPU after the passes, which the metric does not include."""
        asked = self.asked
        if asked.prefetch == "back" and (price := optional(lambda: self.prices.prefetch_back(asked.allocator))):
            self.counters["prefetch_back_ms"] = price.of(asked.nbytes).value * 1e-6

    def _faults(self, duplicates: bool) -> Time:
        """What the first pass takes beyond a later one."""
        asked = self.asked
        if asked.in_order:
            return self._faults_in_order()
        price = self._fault_price() or self.prices.gpu_fault(
            asked.allocator, reads_only=not asked.updates, read_mostly=duplicates, touch=asked.touch
        )
        time = price.of(asked.nbytes).at_least(self.prices.isolated_fault(asked.allocator))
        self.sum.add("passes", "faults of the GPU on pages that are on the CPU", price, asked.nbytes, time)
        return time

    def _fault_price(self) -> Price | None:
        """What a first pass takes beyond a later one after this very advice, if it is known."""
        asked = self.asked
        operation, advice = "update" if asked.updates else "read", word_of(asked.advice)
        return optional(lambda: self.prices["gpu_fault", operation, asked.touch, advice, asked.allocator])

    def _mapping(self, hints: Set[str]) -> Time:
        """What the first pass takes beyond a later one over pages that stay on the CPU, each of which a fault maps, if
        the advice has not done so.
        """
        if "accessed-by-gpu" in hints:
            return Time()
        if (price := self._fault_price()) is None:
            raise NotModelled("the time to map pages that stay on the CPU when a kernel faults on them")
        time = price.of(self.asked.nbytes)
        self.sum.add("passes", "mapping of pages on which kernels fault", price, self.asked.nbytes, time)
        return time

    def _faults_in_order(self) -> Time:
        """One service after another, and the copy of what they bring. How many there are follows from the rules."""
        asked = self.asked
        if asked.advice or self.kind is None:
            raise NotModelled("faults in order on memory that was advised, or that another driver moves")
        counts = moves_by_step(asked.steps(1), self.kind)["iteration_0"].counts
        link = self.prices["copy", "h2d", common_allocator("page-locked")]
        moved = counts.to_gpu * self.kind.page
        time = self.prices.isolated_fault(asked.allocator).times(counts.services) + link.of(moved)
        self.sum.add("passes", "faults of the GPU, one after another", link, moved, time, counts.services)
        return time

    def _answer(self, one_pass: tuple[Price, Time], first: Time) -> Answer:
        """one_pass: its price and time. first: what the first pass takes beyond that, which is added already."""
        price, time = one_pass
        asked = self.asked
        count = asked.iterations
        self.sum.add("passes", "passes", price, count * asked.lines_bytes, time.times(count), count)
        for i in range(count):
            self.counters[f"iteration_{i}_ms"] = (time.value + (first.value if i == 0 else 0.0)) * 1e-6
        return Answer(*self.sum.total(), self.counters, tuple(self.sum.terms))
