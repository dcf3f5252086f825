"""Passes over data that began on either side: what `migration` would measure, as a program of the page map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.machine.allocators.properties import common_allocator, memory_of
from firsttouch.model.costs import ExchangePrice, Ground, Price, Time, Unmeasured
from firsttouch.model.managed import PageMoves
from firsttouch.model.micro.answers import Answer, Sum, optional, tuple_of
from firsttouch.model.micro.loads import stream
from firsttouch.model.moving import Moving
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pages import Counts
from firsttouch.model.passes import BufferPasses, event_counters, moves_by_step
from firsttouch.model.platform import Platform
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import Computing, Pricing
from firsttouch.model.rule_prices import NOTHING
from firsttouch.model.sharing import FirstTouchPricing, pricing_kind
from firsttouch.model.touches import LINE, TOUCHES
from firsttouch.program import steps
from firsttouch.program.guidance import NONE, READ_MOSTLY, word_of
from firsttouch.program.least_moves import IN_PLACE
from firsttouch.program.phase_threads import EVERY_THREAD
from firsttouch.program.program import SMALL_LAUNCH, Access, Block, Launch, Program
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import AllocatorInfo, Scalar

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent

PASSES = "passes"
"""The phase of the passes."""
ALL_THREADS = SMALL_LAUNCH + 1
"""The threads of a launch that all threads of the CPU share."""


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
    prices: Prices, asked: MigrationPasses, settings: CountingSettings | None = None, platform: Platform | None = None
) -> Answer:
    """All passes of a repetition with what prepares them, in ms, with the time of each as a counter. settings: of
    managed memory, where its driver's rules are known. platform: where the prices are from, if from a file.
    """
    entry = prices.device.allocator(asked.allocator)
    assert entry is not None
    if prices.device.capabilities.shares_host_memory:
        return _where_it_is(prices, asked, platform)
    if memory_of(entry) == "device":
        return _copied(prices, asked)
    return _Played(prices, asked, entry, settings).answer()


def managed_settings(platform: Platform) -> CountingSettings | None:
    """What decides what managed memory does, besides its pages; None if the driver's rules are not known."""
    from firsttouch.model.prediction import PredictionSettings, counting_settings  # which takes touches from here

    if not platform.has("driver.family") or platform.word("driver.family") != "uvm":
        return None
    return counting_settings(platform, PredictionSettings())


def recorded_moves(platform: Platform, asked: MigrationPasses) -> dict[str, int]:
    """What events would record of a repetition: faults, and moves in numbers and bytes, by step.

    Raises NotModelled: the memory is not managed, or its driver is another.
    """
    entry, settings = platform.device.allocator(asked.allocator), managed_settings(platform)
    if entry is None or not entry.managed or settings is None:
        raise NotModelled("events of memory that this driver does not move")
    moves = moves_by_step(asked.steps(settings.threads), settings.kind)
    return event_counters(moves) | _sums(moves, settings.kind.page)


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


def _where_it_is(prices: Prices, asked: MigrationPasses, platform: Platform | None) -> Answer:
    """Memory that both agents share: nothing moves."""
    if platform is None or asked.in_order or TOUCHES[asked.touch].shuffled:
        return _alike(asked, *_own_pass(prices, asked, asked.allocator), Sum())
    kernel = "copy" if asked.updates else "read"
    moved = asked.lines_bytes * (2 if asked.updates else 1)
    streamed = stream(
        platform, platform.device, agent="gpu", allocator=asked.allocator, first=asked.starts_on, kernel=kernel,
        nbytes=asked.lines_bytes, in_memory=True, threads=0,
    )  # fmt: skip
    time = Time(moved / streamed.value, moved / streamed.high, moved / streamed.low)
    return _alike(asked, Price((0.0, 1.0), (Time(), time.times(1 / moved)), streamed.grounds), time, Sum())


def _copied(prices: Prices, asked: MigrationPasses) -> Answer:
    """Device memory, to which the whole buffer is copied from page-locked memory."""
    total, counters = Sum(), dict[str, Scalar]()
    if asked.starts_on == "cpu":
        price = prices["copy", "h2d", common_allocator("page-locked")]
        counters["copy_in_ms"] = total.add("copy in", "copy to the GPU", price, asked.nbytes, price.of(asked.nbytes))
    answer = _alike(asked, *_own_pass(prices, asked, asked.allocator), total)
    return replace(answer, counters=counters | answer.counters)


def _alike(asked: MigrationPasses, price: Price, time: Time, total: Sum) -> Answer:
    """Passes that all take the same time, after what was added up."""
    count = asked.iterations
    total.add("passes", "passes", price, count * asked.lines_bytes, time.times(count), count)
    counters: dict[str, Scalar] = {f"iteration_{i}_ms": time.value * 1e-6 for i in range(count)}
    return Answer(*total.total(), counters, tuple(total.terms))


def _own_pass(prices: Prices, asked: MigrationPasses, allocator: str) -> tuple[Price, Time]:
    """A pass over the GPU's own memory."""
    if TOUCHES[asked.touch].shuffled:
        raise NotModelled("the time of passes in random order")
    if asked.in_order:
        touch = prices["in_order_touch", allocator]
        return touch, touch.of(1).times(TOUCHES[asked.touch].places(asked.nbytes))
    price = prices["own_pass", allocator]
    part = 1.0 if asked.updates else 0.5  # the price is of bytes that are read and written
    return price, price.of(asked.lines_bytes).times(part)


class _PassPrices(Prices):
    """The prices of passes: those of faults after this very advice where they are known. While the buffer is
    initialised, nothing is priced.
    """

    def __init__(self, prices: Prices, asked: MigrationPasses) -> None:
        self.machine, self.device, self._prices, self._asked = prices.machine, prices.device, prices, asked
        self.initialising = False

    @property
    def page_size(self) -> str:
        return self._prices.page_size

    def price(self, *name: str) -> Price:
        return NOTHING if self.initialising else self._prices.price(*name)

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        return self._prices.exchange(allocator, by_groups=by_groups)

    def gpu_fault(self, allocator: str, *, reads_only: bool, read_mostly: bool = False, touch: str = "dense") -> Price:
        operation, advice = "update" if self._asked.updates else "read", word_of(self._asked.advice)
        if known := optional(lambda: self["gpu_fault", operation, touch, advice, allocator]):
            return known
        return super().gpu_fault(allocator, reads_only=reads_only, read_mostly=read_mostly, touch=touch)

    def gpu_mapping(self, allocator: str, *, reads_only: bool, touch: str = "dense") -> Price:
        operation, advice = "read" if reads_only else "update", word_of(self._asked.advice)
        return self["gpu_fault", operation, touch, advice, allocator]


class _PassTime(Computing):
    """What a pass takes beside the uses of memory across the link: as in Computing. The link carries both directions at
    once; at worst, one follows the other.
    """

    grounds: Sequence[Ground] = ()
    threads = EVERY_THREAD

    def __init__(self, price: Price, time: Time, nbytes: int, updates: bool) -> None:
        self.price, self.time, self.nbytes, self.updates = price, time, nbytes, updates

    def launch(self, pricing: Pricing, launch: Launch) -> None:
        if pricing.phase == PASSES:
            time, crossed = self.time.without(pricing.crossed), pricing.crossed
            time = Time(time.value, time.low, time.high + (crossed.high if self.updates else 0.0))
            pricing.terms.add(PASSES, "passes", self.price, self.nbytes, time)

    def crossing(self, access: Access, allocator: str) -> None:
        return None


class _Played:
    """A repetition, played step by step on the pages of its memory."""

    def __init__(
        self, prices: Prices, asked: MigrationPasses, entry: AllocatorInfo, settings: CountingSettings | None
    ) -> None:
        self.asked, self.prices = asked, _PassPrices(prices, asked)
        strategy = Strategy("passes", asked.allocator, "memory that both agents use")
        kind = pricing_kind(strategy, entry, prices.device)
        moves = issubclass(kind, Moving)
        self._check(kind, moves)
        if moves and asked.in_order:
            if settings is None or asked.advice:
                raise NotModelled("faults in order on memory that was advised, or that another driver moves")
            kind = _InOrder
        own = asked.allocator if moves else common_allocator("device")
        how: dict[str, Any] = {"settings": settings} if moves else {}
        program = Program("passes", (Block("buffer", asked.nbytes, "inout", "both"),), (), ())
        computing = _PassTime(*_own_pass(prices, asked, own), asked.lines_bytes, asked.updates)
        self.pricing = kind(program, strategy, self.prices, entry, computing=computing, **how)
        self.counters: dict[str, Scalar] = {}

    def _check(self, kind: type[Pricing], moves: bool) -> None:
        asked = self.asked
        if moves and READ_MOSTLY in asked.advice and asked.updates:
            raise NotModelled("stores to pages of which CPU and GPU both have a copy")
        if moves and asked.starts_on != "cpu" and asked.advice:
            raise NotModelled("advice about pages that are on the GPU")
        if moves and asked.prefetch == "iteration":
            raise NotModelled("prefetches of pages that are already resident")
        if issubclass(kind, FirstTouchPricing) and (asked.advice or asked.prefetch != NONE):
            raise NotModelled("advice about memory of the host's page tables, and its prefetches")
        crosses = not moves or (IN_PLACE & {*asked.advice} and asked.prefetch != "whole")
        if crosses and (TOUCHES[asked.touch].shuffled or asked.in_order):
            raise NotModelled("passes across the link in random order or by a single thread")

    def answer(self) -> Answer:
        asked, pricing = self.asked, self.pricing
        self.prices.initialising = True
        pricing.play([steps.Allocate(0, "shared", asked.allocator, asked.nbytes)])
        pricing.phase = "initialise"
        self._launch(Access(0, 0, asked.nbytes, False, True), "cpu" if asked.starts_on == "cpu" else "gpu")
        self.prices.initialising = False
        if isinstance(pricing, Moving):
            self._prepare([steps.Advise(0, hint) for hint in asked.advice], "advise")
            if asked.prefetch == "whole":
                self._prepare([steps.Prefetch(0, asked.nbytes, "gpu")], "prefetch")
        pricing.phase = PASSES
        self._passes()
        terms = [term for term in pricing.terms.terms() if term.phase in ("advise", "prefetch", PASSES)]
        if asked.prefetch == "back" and isinstance(pricing, Moving):
            with suppress(Unmeasured, Unsupported):
                self._prepare([steps.Prefetch(0, asked.nbytes, "cpu")], "prefetch_back")
        return Answer(*tuple_of(terms), self.counters, tuple(terms))

    def _prepare(self, prepared: Sequence[steps.Step], name: str) -> None:
        if prepared:
            self.pricing.phase = name
            self.pricing.play(prepared)
            self.counters[f"{name}_ms"] = self.pricing.terms.time_of(name) * 1e-6

    def _passes(self) -> None:
        """Those after one that left the pages as they were are like it."""
        asked, pricing = self.asked, self.pricing
        spread = "" if asked.touch == "dense" else asked.touch
        part = asked.lines_bytes / asked.nbytes if spread else 1.0
        access, before = Access(0, 0, asked.nbytes, True, asked.updates, part, spread), 0.0
        for number in range(asked.iterations):
            state = pricing.state()
            pricing.begin_round()
            self._launch(access, "gpu")
            pricing.end_round()
            after = pricing.terms.time_of(PASSES)
            self.counters[f"iteration_{number}_ms"] = (after - before) * 1e-6
            if pricing.state() == state:
                pricing.add_again(asked.iterations - number - 1)
                for later in range(number + 1, asked.iterations):
                    self.counters[f"iteration_{later}_ms"] = (after - before) * 1e-6
                break
            before = after

    def _launch(self, access: Access, agent: Agent) -> None:
        used = steps.Use(0, agent, access.start, access.end, access.reads, access.writes)
        threads = 1 if self.asked.in_order and self.pricing.phase == PASSES else ALL_THREADS
        self.pricing.launch(Launch(agent, (access,), threads=threads), [(access, [used])])


class _InOrder(Moving):
    """Pages that a single thread touches in order: one service after another, and the copy of what they bring."""

    def price_gpu_faults(self, step: steps.Use, access: Access, counts: Counts, missing: int, beside: float) -> None:
        if counts.services:
            link = self.prices["copy", "h2d", common_allocator("page-locked")]
            moved = counts.to_gpu * self.page
            time = self.prices.isolated_fault(self.name).times(counts.services) + link.of(moved)
            what = "faults of the GPU, one after another"
            self.terms.add(self.phase, what, link, moved, time, counts.services)
