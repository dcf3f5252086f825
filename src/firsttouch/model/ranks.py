"""What processes that share the work of an application take for their exchanges: what packs and unpacks messages, the
waits of the CPU, the messages, and the wait for the slowest process.

A process's CPU launches kernels ahead of the device. It waits for those that pack, so that from then on each call of
the application, for a launch or for messages, is part of the exchange: the device is idle until it comes. Kernels that
pack take their bytes at the rate of the device's memory; where these are in places that are far apart, each place has a
translation of its own, if translations cover less than what lies between them. Messages take what `p2p-message` would
measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.base.errors import NotModelled
from firsttouch.machine.allocators.properties import common_allocator, memory_of
from firsttouch.machine.backends import MPI
from firsttouch.model.computing import ProfiledComputing
from firsttouch.model.costs import Assumption, Ground, Price, Time
from firsttouch.model.kernels import Kernels, kernel_bytes
from firsttouch.model.micro.collectives import rounds_of
from firsttouch.model.micro.messages import at_once
from firsttouch.model.platform import Platform
from firsttouch.model.prices import Direction
from firsttouch.model.pricing import Pricing
from firsttouch.model.terms import Term
from firsttouch.program.phase_threads import PhaseThreads
from firsttouch.program.program import Access, Combine, ExchangeMark, Exchanging, Launch, Messages

EXCHANGES = "exchanges: "
"""The beginning of the terms of exchanges, from packing to unpacked."""
MESSAGES = f"{EXCHANGES}messages"
SLOWEST = f"{EXCHANGES}wait for the slowest process"
COMBINED = "numbers that all processes combine"
ALONE = "each process has its device, and its part of the host, as if it were alone"

WALKS = "walks of the page table take as long one by one as in a stream"


@dataclass(frozen=True)
class SharedWork:
    """ranks: the processes that share the work. interface: what carries their messages. allocator: of these."""

    ranks: int
    interface: str
    allocator: str


class RankComputing(ProfiledComputing):
    """What one of several processes computes and exchanges."""

    def __init__(
        self,
        platform: Platform,
        kernels: Kernels | None,
        notes: Iterable[str],
        threads: PhaseThreads,
        shared: SharedWork,
    ) -> None:
        super().__init__(platform, kernels, notes, threads)
        self.platform, self.shared = platform, shared
        entry = platform.device.allocator(shared.allocator)
        assert entry is not None, "the point was not skipped"
        self._messages = entry
        if not platform.device.capabilities.shares_host_memory and memory_of(entry) == "migrating":
            raise NotModelled("messages in memory whose pages move")
        self._call, self._wait = (platform.quantity(f"launch.{name}") for name in ("call", "wait"))
        self._rate = platform.curve("device.bandwidth")
        self._exchanging, self._ahead, self._seen = False, 0.0, 0.0

    def launch(self, pricing: Pricing, launch: Launch) -> None:
        if self._exchanging and launch.agent == "gpu":
            self._pack(pricing, launch)
            return
        super().launch(pricing, launch)
        now = pricing.terms.time_of(pricing.phase)
        took, self._seen = max(0.0, now - self._seen), now
        self._ahead = max(0.0, self._ahead + took - self._call.value) if launch.agent == "gpu" else 0.0

    def exchange(self, pricing: Pricing, item: Exchanging) -> None:
        if isinstance(item, ExchangeMark):
            self._exchanging = item.begins
        elif isinstance(item, Combine):
            start = self.platform.quantity(f"message.start.{MPI}")
            rounds = rounds_of(self.shared.ranks)
            pricing.terms.add(pricing.phase, COMBINED, _on(start.ground), 8, start.time.times(rounds), rounds)
        else:
            self._receive(pricing, item)

    def _pack(self, pricing: Pricing, launch: Launch) -> None:
        """A launch that the device waits for as far as the CPU is not ahead of it, and its kernel."""
        nbytes, call = max(1.0, kernel_bytes(launch)), self._call.time
        late = Time(*(max(0.0, bound - self._ahead) for bound in (call.value, call.low, call.high)))
        self._add(pricing, f"{EXCHANGES}calls by the CPU", _on(self._call.ground), nbytes, late)
        time, grounds = self._rate.of(nbytes), [*self._rate.grounds]
        for access in launch.accesses:
            more, resting_on = self._translated(pricing, access)
            time, grounds = time + more, [*grounds, *resting_on]
            if pricing.program.blocks[access.block].role == "exchange":
                time += self._across_the_link(pricing, access)
        self._add(pricing, f"{EXCHANGES}kernels that pack and unpack", _on(*dict.fromkeys(grounds)), nbytes, time)
        self._ahead = max(0.0, self._ahead - call.value) + time.value

    def _translated(self, pricing: Pricing, access: Access) -> tuple[Time, Sequence[Ground]]:
        """What the translations of places take that are far apart."""
        own = pricing.places[access.block] == "strategy" and not pricing.strategy.duplicated
        name = f"fragment.{pricing.entry.name if own else common_allocator('device')}"
        if not access.places or not self.platform.has(name):
            return Time(), ()
        fragment, walk = self.platform.quantity(name), self.platform.quantity("device.walk")
        ends = ((fragment.value, walk.value), (fragment.high, walk.low), (fragment.low, walk.high))
        times = (access.places * min(1.0, access.apart / size) * each for size, each in ends)
        return Time(*times), (fragment.ground, walk.ground, Assumption(WALKS))

    def _across_the_link(self, pricing: Pricing, access: Access) -> Time:
        """Messages in memory of the host cross the link when kernels write or read them."""
        if self.platform.device.capabilities.shares_host_memory or memory_of(self._messages) == "device":
            return Time()
        way: Direction = "d2h" if access.writes else "h2d"
        return pricing.prices["remote", way, self.shared.allocator].of(access.nbytes)

    def _receive(self, pricing: Pricing, item: Messages) -> None:
        total = max(1, sum(item.sizes))
        waits = f"{EXCHANGES}waits for the device"
        self._add(pricing, waits, _on(self._wait.ground), total, self._wait.time)
        self._add(pricing, f"{EXCHANGES}calls by the CPU", _on(self._call.ground), total, self._call.time)
        time, grounds = at_once(
            self.platform,
            self.platform.device,
            interface=self.shared.interface,
            allocator=self.shared.allocator,
            sizes=item.sizes,
        )
        self._add(pricing, MESSAGES, _on(*grounds, Assumption(ALONE)), total, time, len(item.sizes))
        self._ahead = 0.0

    def _add(self, pricing: Pricing, what: str, price: Price, nbytes: float, time: Time, count: int = 1) -> None:
        pricing.terms.add(pricing.phase, what, price, nbytes, time, count)
        self._seen = pricing.terms.time_of(pricing.phase)


def _on(*grounds: Ground) -> Price:
    return Price((0.0, 1.0), (Time(), Time()), grounds)


def exchanged(terms: Iterable[Term]) -> Time:
    """The ms of exchanges among terms."""
    return _sum(term for term in terms if term.what.startswith(EXCHANGES))


def messages_alone(terms: Iterable[Term]) -> Time:
    """The ms of sending and receiving alone."""
    return _sum(term for term in terms if term.what in (MESSAGES, SLOWEST))


def wait_for_slowest(own: Time, all_processes: Iterable[Time]) -> Term:
    """What a process waits for the slowest of all, of the ms that each computes and exchanges."""
    slowest = own
    for each in all_processes:
        slowest = slowest.at_least(each)
    wait = slowest.without(own)
    return Term("compute", SLOWEST, 0, 1, wait.value, wait.low, wait.high, (Assumption(ALONE),))


def _sum(terms: Iterable[Term]) -> Time:
    return sum((Time(term.ms, term.low, term.high) for term in terms), Time())
