"""Prices of memory whose pages NVIDIA's driver moves, where a platform has no value for them: what its rules count for
a buffer (passes.py), times what a service of faults, a copy and a call take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from firsttouch.machine.allocators.properties import memory_of
from firsttouch.model.costs import PlatformValue, Price, Time
from firsttouch.model.managed import PageMoves
from firsttouch.model.pages import Counts, Kind
from firsttouch.model.passes import BufferPasses, moves_by_step
from firsttouch.model.platform import Magnitude, MissingValue, Platform
from firsttouch.model.rules.releases import parse_release
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.model.touches import TOUCHES
from firsttouch.model.values import ALWAYS
from firsttouch.program.guidance import NONE
from firsttouch.records.schema import DeviceInfo

FAMILY = "uvm"
"""The driver of these rules, as a value of driver.family."""
BLOCKS = 64
"""Blocks of the buffer that is counted. Orders without pattern differ from block to block."""


def uvm_price(platform: Platform, device: DeviceInfo, family: str, *rest: str) -> Price | None:
    """The price of a name by the driver's rules, or None if they say nothing of it, or the platform has not the values
    that they take.
    """
    rule = _RULES.get(family)
    if rule is None or platform.word("driver.family") != FAMILY:
        return None
    entry = device.allocator(rest[-1]) if rest else None
    if entry is None or memory_of(entry) != "migrating":
        return None
    try:
        return rule(_Rates(platform, device), *rest[:-1])
    except MissingValue:
        return None


class _Rates:
    """Turns counts into times and prices, by a platform's values. used: what the price that is being made rests on."""

    def __init__(self, platform: Platform, device: DeviceInfo) -> None:
        self.platform = platform
        release = parse_release(platform.word("driver.release"))
        coherent = bool(device.facts.get("directManagedMemAccessFromHost"))
        self.kind = Kind(int(platform.quantity("host.page").value), release, coherent=coherent)
        self.used: dict[PlatformValue, None] = {}

    def times(self, name: str, number: float) -> Time:
        """So many times of a value that is a time."""
        return self._quantity(name).time.times(number)

    def bytes_at(self, name: str, nbytes: float) -> Time:
        """So many bytes at a rate."""
        magnitude = self._quantity(name)
        return Time(nbytes / magnitude.value, nbytes / magnitude.high, nbytes / magnitude.low)

    def _quantity(self, name: str) -> Magnitude:
        magnitude = self.platform.quantity(name)
        self.used[magnitude.ground] = None
        return magnitude

    def price(self, time: Time, nbytes: float = BLOCKS * BLOCK_BYTES) -> Price:
        """The price in proportion to the bytes, from the time of `nbytes`."""
        return Price((0.0, 1.0), (Time(), time.times(1 / nbytes)), tuple(self.used))

    def step(self, name: str, **changes: object) -> Counts:
        return step_counts(self.kind, name, **changes)

    def by_gpu(self, counts: Counts) -> Time:
        """What a kernel's faults take: those that map what stays where it is take less than those that bring pages."""
        makes_only = counts.new_gpu and not counts.to_gpu and self.platform.has("uvm.touch")
        brings = counts.to_gpu or counts.new_gpu
        time = self.times("uvm.touch" if makes_only else "uvm.service" if brings else "uvm.map", counts.services)
        if counts.copies_to_gpu:
            time += self.times("uvm.copy", counts.copies_to_gpu)
            time += self.bytes_at("link.h2d", counts.to_gpu * self.kind.page)
        if counts.new_gpu:
            time += self.bytes_at("device.bandwidth", counts.new_gpu * self.kind.page)
        return time

    def by_cpu(self, counts: Counts) -> Time:
        """What faults of all threads of the CPU take, of which each makes its copies."""
        time = self.times("uvm.cpu_fault", counts.services)
        if counts.to_cpu:
            time += self.bytes_at("link.d2h", counts.to_cpu * self.kind.page)
        if counts.new_cpu:
            time += self.bytes_at("uvm.new_pages", counts.new_cpu * self.kind.page)
        return time


def step_counts(kind: Kind, name: str, **changes: object) -> Counts:
    """What a step counts of two passes over a buffer of BLOCKS blocks, whose pages are on the CPU first, if nothing is
    changed (passes.py).
    """
    return _counted(kind, tuple(sorted(changes.items()))).get(name, PageMoves(kind.page)).counts


@lru_cache(256)
def _counted(kind: Kind, changes: tuple[tuple[str, object], ...]) -> Mapping[str, PageMoves]:
    usual: dict[str, object] = {"stride": 0, "in_order": False, "writes": True, "advice": (), "prefetch": NONE}
    usual |= {"nbytes": BLOCKS * BLOCK_BYTES, "starts_on": "cpu", "iterations": 2, "threads": 1}
    return moves_by_step(BufferPasses(**{**usual, **dict(changes)}), kind)  # type: ignore[arg-type]


def _hints(advice: str) -> tuple[str, ...]:
    return () if advice == NONE else tuple(advice.split("+"))


def _gpu_fault(rates: _Rates, operation: str, touch: str, advice: str) -> Price:
    """The price per byte of all pages, whichever of them a pass touches."""
    conditions = {"writes": operation != "read", "advice": _hints(advice), "stride": TOUCHES[touch].stride}
    return rates.price(rates.by_gpu(rates.step("iteration_0", **conditions)))


def _gpu_touch(rates: _Rates) -> Price:
    return rates.price(rates.by_gpu(rates.step("initialise", starts_on="gpu")))


def _block_touch(rates: _Rates) -> Price:
    """One service for each block. Raises MissingValue without a time of services that make pages alone."""
    return rates.price(rates.times("uvm.touch", BLOCKS) + rates.bytes_at("device.bandwidth", BLOCKS * BLOCK_BYTES))


def _isolated_fault(rates: _Rates) -> Price:
    """The price of one page that is touched in order: a service moves 64 KiB for it, in a batch of its own."""
    time = rates.times("uvm.batch", 1) + rates.by_gpu(
        rates.step("iteration_0", stride=BLOCK_BYTES, in_order=True)
    ).times(1 / BLOCKS)
    return Price((1.0, ALWAYS), (time, time), tuple(rates.used))


def _moving_touch(rates: _Rates) -> Price:
    return rates.price(rates.by_cpu(rates.step("initialise")))


def _cpu_fault(rates: _Rates) -> Price:
    return rates.price(rates.by_cpu(rates.step("cpu_read", starts_on="gpu")))


def _prefetch(rates: _Rates) -> Price:
    counts = rates.step("prefetch", prefetch="whole")
    time = rates.times("uvm.prefetch", BLOCKS) + rates.bytes_at("link.h2d", counts.to_gpu * rates.kind.page)
    return rates.price(time)


def _prefetch_back(rates: _Rates) -> Price:
    counts = rates.step("prefetch_back", prefetch="back")
    time = rates.times("uvm.prefetch_back", BLOCKS) + rates.bytes_at("link.d2h", counts.to_cpu * rates.kind.page)
    return rates.price(time)


def _advise(rates: _Rates, advice: str) -> Price:
    """A call for each hint goes through all blocks."""
    time = Time()
    for hint in _hints(advice):
        time += rates.times(f"uvm.advice.{hint.removesuffix('-cpu').removesuffix('-gpu')}", BLOCKS)
    return rates.price(time)


def _touched_free(rates: _Rates, agent: str) -> Price:
    return rates.price(rates.times("uvm.free", BLOCKS))


def _gpu_batches(rates: _Rates) -> Price:
    """A batch for each service: that is so where a kernel's faults are all on one block at a time."""
    return rates.price(rates.times("uvm.batch", rates.step("iteration_0").services))


_RULES: Mapping[str, Callable[..., Price]] = {
    "gpu_fault": _gpu_fault,
    "gpu_touch": _gpu_touch,
    "block_touch": _block_touch,
    "isolated_fault": _isolated_fault,
    "gpu_batches": _gpu_batches,
    "moving_touch": _moving_touch,
    "cpu_fault": _cpu_fault,
    "cpu_return": _cpu_fault,
    "prefetch": _prefetch,
    "prefetch_back": _prefetch_back,
    "advise": _advise,
    "touched_free": _touched_free,
}
