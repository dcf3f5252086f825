"""The prices of a machine: what each is called, and which stands for another that is not known.

A name consists of parts, which a platform file joins by dots: `copy.h2d.pinned`. Where the prices come from is a
subclass's: the records of a run (measured.py) or the values of a platform (platform_prices.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypeAlias

from firsttouch.machine.allocators.properties import role, variant
from firsttouch.model.costs import ExchangePrice, Price, Time, Unmeasured, per_byte
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program.declarations import Agent
from firsttouch.program.guidance import NONE, READ_MOSTLY
from firsttouch.records.schema import DeviceInfo, Machine

Direction: TypeAlias = Literal["h2d", "d2h"]
Call: TypeAlias = Literal["allocate", "free"]

PriceName: TypeAlias = (
    Literal["host_copy", "usual_pass", "launched"]
    | tuple[Literal["copy", "lone_copy", "remote"], Direction, str]
    | tuple[Literal["allocation"], Call, str]
    | tuple[Literal["touched_free", "uncached"], Agent, str]
    | tuple[Literal["advise", "placements"], str, str]
    | tuple[Literal["gpu_fault"], str, str, str, str]
    | tuple[Literal["stream"], Agent, str, str]
    | tuple[Literal["copy_into_new", "copy_within", "prefetch", "own_pass", "slow_pass", "in_order_touch"], str]
    | tuple[Literal["moving_touch", "gpu_batches", "cpu_remote", "cache_flush"], str]
    | tuple[Literal["counter_moves", "counter_service", "block_touch"], str]
)
"""The names of prices for which no other stands; the last part is an allocator. The catalogue of values (parameters.py)
says what each is, but for those that no file states:

usual_pass: a kernel's pass over the device's usual memory, in which it uses every byte once.
slow_pass: the same over memory where that is slower. Unmeasured where it is not, too.
gpu_batches: the part of what a kernel's faults on pages of one buffer take that is spent on batches of faults.
cpu_remote: the CPU's use of the GPU's memory where it is, beyond a use of its own memory.
counter_moves: the move of pages to the GPU by access counters. Unmeasured if these move none, too.
block_touch: a kernel's first touch, of which a fault brings a whole block of the driver, where nothing stands for it.
counter_service: the service of one notification of them, beside the bytes that it moves.
"""

ONE_A_BLOCK = "per-2MiB"
"""The touch of a pass of migration that faults once in each block of the driver."""
WHOLE_BLOCKS = "new pages that were advised to be on the GPU cost one fault for each 2 MiB"


class Prices(ABC):
    """The prices on one device of a machine: by name, as `prices["copy", "h2d", "pinned"]`, and by methods those for
    which another may stand. Unmeasured is raised if a price is not known.
    """

    machine: Machine
    device: DeviceInfo

    @property
    @abstractmethod
    def page_size(self) -> str:
        """The pages that plain memory gets here without asking: base or huge."""

    @abstractmethod
    def price(self, *name: str) -> Price:
        """The price of any name, by its parts: what a source of prices says."""

    @abstractmethod
    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        """Turns of a kernel and the CPU over a small block. by_groups: thread groups update a word by atomics."""

    def __getitem__(self, name: PriceName) -> Price:
        price = self.price(name) if isinstance(name, str) else self.price(*name)
        return replace(price, of_call=True) if name[0] == "allocation" else price

    def host_touch(self, *, parallel: bool, pages: str = "") -> Price:
        """The CPU's first touch of plain host memory, by all threads or by one."""
        return self.price("host_touch", pages or self.page_size, "all" if parallel else "one")

    def host_free(self, allocator: str) -> Price:
        """Freeing plain host memory whose pages were touched. Where it is not known, a part of freeing memory that was
        page-locked by a call: from none of that to all, and half in between.
        """
        try:
            return self["touched_free", "cpu", allocator]
        except Unmeasured:
            pass
        locked = (e.name for e in self.device.allocators if role(e.name) == "page-locked" and variant(e.name) == "call")
        whole = self["allocation", "free", next(locked, "")]
        times = tuple(Time(t.value / 2, 0.0, t.high) for t in whole.times)
        note = (
            "freeing touched memory was not measured in this run, and is estimated as half of freeing registered memory"
        )
        return replace(whole, times=times).assuming(note)

    def gpu_fault(self, allocator: str, *, reads_only: bool, read_mostly: bool = False, touch: str = "dense") -> Price:
        """A kernel's first pass over pages that are on the CPU, beyond a pass over its own memory. Where both share one
        memory, over pages that the CPU touched and that are not in the GPU's page table.

        read_mostly: after this advice, given when the pages are there; other advice strategies give when memory is
        allocated, which no experiment measures. touch: as of the experiment migration; if it is sparse, the price is
        still per byte of the pages.
        """
        candidates = [(READ_MOSTLY, "read")] * read_mostly + [(NONE, "read")] * reads_only + [(NONE, "update")]
        for advice, operation in candidates[:-1]:
            with suppress(Unmeasured):
                return self["gpu_fault", operation, touch, advice, allocator]
        advice, operation = candidates[-1]
        return self["gpu_fault", operation, touch, advice, allocator]

    def gpu_mapping(self, allocator: str, *, reads_only: bool, touch: str = "dense") -> Price:
        """A kernel's first pass over pages that stay on the CPU and that its faults map, beyond a later one."""
        raise Unmeasured("the time to map pages that stay on the CPU when a kernel faults on them")

    def gpu_touch(self, allocator: str, *, whole_blocks: bool = False) -> Price:
        """A kernel's first touch of pages that nobody has touched. whole_blocks: a fault brings all pages of a block of
        the driver, as after advice to keep them on the GPU.
        """
        if whole_blocks:
            with suppress(Unmeasured):
                return self.price("block_touch", allocator)
            with suppress(Unmeasured):
                return self["gpu_fault", "update", ONE_A_BLOCK, NONE, allocator].assuming(WHOLE_BLOCKS)
            with suppress(Unmeasured):
                alone = self.price("isolated_fault", allocator)
                fault = alone.of(1).times(1 / BLOCK_BYTES)
                return per_byte([(fault.value, fault.low, fault.high)], alone.grounds).assuming(WHOLE_BLOCKS)
        return self.price("gpu_touch", allocator)

    def isolated_fault(self, allocator: str) -> Time:
        """The least time of one fault of a kernel, which moves at most 2 MiB."""
        return self.price("isolated_fault", allocator).of(1)

    def cpu_fault(self, allocator: str, *, each_page: bool = False) -> Price:
        """The CPU's read of pages that are on the GPU, beyond a read of its own memory. each_page: it reads one byte of
        each page, which takes no time in its own memory.
        """
        if each_page:
            with suppress(Unmeasured):
                return self.price("cpu_return", allocator)
        return self.price("cpu_fault", allocator)

    def prefetch_back(self, allocator: str) -> Price:
        """A prefetch of pages from the GPU to the CPU. Where it is not known, the CPU's faults."""
        with suppress(Unmeasured):
            return self.price("prefetch_back", allocator)
        note = "a prefetch to the CPU was not measured in this run, and is estimated by the CPU's faults"
        return self.cpu_fault(allocator).assuming(note)

    def eviction(self, allocator: str) -> Price:
        """Pages that leave the GPU's memory because others need it. Where it is not known, a prefetch to the CPU."""
        with suppress(Unmeasured):
            return self.price("eviction", allocator)
        note = "pages that are evicted from the GPU's memory cost as much as a prefetch to the CPU"
        return self.prefetch_back(allocator).assuming(note)
