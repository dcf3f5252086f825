"""Prices by name: what each price of the model is called, and which stands for another that is not known.

A name consists of parts, which a platform file joins by dots: `copy.h2d.pinned`. Where the prices come from is a
subclass's: the records of a run (measured.py) or the values of a platform (platform_prices.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from firsttouch.machine.allocators.properties import role, variant
from firsttouch.model.costs import Direction, ExchangePrice, Ground, Price, Time, Unmeasured, per_byte
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program.guidance import ADVICE, NONE, READ_MOSTLY
from firsttouch.records.schema import DeviceInfo, Machine

ONE_A_BLOCK = "per-2MiB"
"""The touch of a pass of migration that faults once in each block of the driver."""
WHOLE_BLOCKS = "new pages that were advised to be on the GPU come by one fault for each block of 2 MiB"
CALLS = ("allocate", "free")
AGENTS = ("cpu", "gpu")


class NamedPrices(ABC):
    """The prices on one device of a machine, each by its name. All methods are those of the protocol Prices."""

    machine: Machine
    device: DeviceInfo

    @abstractmethod
    def price(self, *name: str) -> Price:
        """The price of a name. Raises Unmeasured."""

    @property
    @abstractmethod
    def page_size(self) -> str:
        """The pages that plain memory gets here without asking: base or huge."""

    @abstractmethod
    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        """Turns of a kernel and the CPU over a small block."""

    def host_touch(self, *, parallel: bool, pages: str = "") -> Price:
        return self.price("host_touch", pages or self.page_size, "all" if parallel else "one")

    def copy(self, direction: Direction, allocator: str) -> Price:
        return self.price("copy", direction, allocator)

    def lone_copy(self, direction: Direction, allocator: str) -> Price:
        return self.price("lone_copy", direction, allocator)

    def copy_into_new(self, allocator: str) -> Price:
        return self.price("copy_into_new", allocator)

    def host_copy(self) -> Price:
        return self.price("host_copy")

    def remote(self, direction: Direction, allocator: str) -> Price:
        return self.price("remote", direction, allocator)

    def allocation(self, allocator: str, call: Literal["allocate", "free"]) -> Price:
        return self.price("allocation", call, allocator)

    def touched_free(self, allocator: str, agent: Literal["cpu", "gpu"]) -> Price:
        return self.price("touched_free", agent, allocator)

    def host_free(self, allocator: str) -> Price:
        """Where it is not known, a part of freeing memory that was page-locked by a call: from none of that to all, and
        half in between.
        """
        try:
            return self.touched_free(allocator, "cpu")
        except Unmeasured:
            pass
        locked = (e.name for e in self.device.allocators if role(e.name) == "page-locked" and variant(e.name) == "call")
        whole = self.allocation(next(locked, ""), "free")
        times = tuple(Time(t.value / 2, 0.0, t.high) for t in whole.times)
        note = "freeing touched memory is not in this run, and is priced as half of freeing registered memory"
        return Price(whole.sizes, times, whole.grounds).assuming(note)

    def moving_touch(self, allocator: str) -> Price:
        return self.price("moving_touch", allocator)

    def gpu_fault(self, allocator: str, *, reads_only: bool, read_mostly: bool = False, touch: str = "dense") -> Price:
        """Other advice than read-mostly strategies give when memory is allocated, which no experiment measures."""
        candidates = [(READ_MOSTLY, "read")] * read_mostly + [(NONE, "read")] * reads_only + [(NONE, "update")]
        for advice, operation in candidates[:-1]:
            with suppress(Unmeasured):
                return self.price("gpu_fault", operation, touch, advice, allocator)
        advice, operation = candidates[-1]
        return self.price("gpu_fault", operation, touch, advice, allocator)

    def gpu_touch(self, allocator: str, *, whole_blocks: bool = False) -> Price:
        if whole_blocks:
            with suppress(Unmeasured):
                return self.price("gpu_fault", "update", ONE_A_BLOCK, NONE, allocator).assuming(WHOLE_BLOCKS)
            with suppress(Unmeasured):
                alone = self.price("isolated_fault", allocator)
                fault = alone.of(1).times(1 / BLOCK_BYTES)
                return per_byte([(fault.value, fault.low, fault.high)], alone.grounds).assuming(WHOLE_BLOCKS)
        return self.price("gpu_touch", allocator)

    def cpu_remote(self, allocator: str) -> Price:
        return self.price("cpu_remote", allocator)

    def slow_pass(self, allocator: str) -> Price:
        return self.price("slow_pass", allocator)

    def usual_pass(self) -> Price:
        return self.price("usual_pass")

    def uncached(self, agent: Literal["cpu", "gpu"], allocator: str) -> Price:
        return self.price("uncached", agent, allocator)

    def cache_flush(self, allocator: str) -> Price:
        return self.price("cache_flush", allocator)

    def counter_moves(self, allocator: str) -> Price:
        return self.price("counter_moves", allocator)

    def gpu_batches(self, allocator: str) -> Price:
        return self.price("gpu_batches", allocator)

    def cpu_fault(self, allocator: str, *, each_page: bool = False) -> Price:
        if each_page:
            with suppress(Unmeasured):
                return self.price("cpu_return", allocator)
        return self.price("cpu_fault", allocator)

    def isolated_fault(self, allocator: str) -> Time:
        return self.price("isolated_fault", allocator).of(1)

    def own_pass(self, allocator: str) -> Price:
        return self.price("own_pass", allocator)

    def prefetch(self, allocator: str) -> Price:
        return self.price("prefetch", allocator)

    def prefetch_back(self, allocator: str) -> Price:
        """Where it is not known, the CPU's faults."""
        with suppress(Unmeasured):
            return self.price("prefetch_back", allocator)
        note = "a prefetch to the CPU is not in this run, and is priced as the CPU's faults"
        return self.cpu_fault(allocator).assuming(note)

    def eviction(self, allocator: str) -> Price:
        """Where it is not known, a prefetch to the CPU."""
        with suppress(Unmeasured):
            return self.price("eviction", allocator)
        note = "pages that leave the GPU's memory for others are priced as a prefetch to the CPU"
        return self.prefetch_back(allocator).assuming(note)

    def advise(self, allocator: str, advice: str) -> Price:
        return self.price("advise", advice, allocator)

    def placements(self, allocator: str) -> tuple[Mapping[str, float], tuple[Ground, ...]]:
        by_advice = {}
        for advice in ADVICE:
            with suppress(Unmeasured):
                by_advice[advice] = self.price("placements", advice, allocator)
        if len(by_advice) < 2 or NONE not in by_advice:
            self.price("placements", NONE, allocator)
            raise Unmeasured
        grounds = dict.fromkeys(ground for price in by_advice.values() for ground in price.grounds)
        return {advice: price.of(1).value * 1e-6 for advice, price in by_advice.items()}, tuple(grounds)
