"""The values of the drivers' rules that follow from the prices of runs: what one fault, one service and one copy take.

With them a platform file says what its prices consist of, so that --what-if can change a part of them, and another
machine can take its parts from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import MeasuredPoint, Price, Time
from firsttouch.model.pages import Counts, Kind
from firsttouch.model.prices import ONE_A_BLOCK
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.model.uvm_prices import BLOCKS, step_counts

LEAST = 1e-5
"""The least ns for a byte that is divided by: the inverse of the highest rate that a platform may have."""
PriceOf = Callable[..., Price | None]
"""The price of a name, or None if the runs do not have it."""
_Solve = Callable[..., float]


class RuleValue(NamedTuple):
    """A value with its range. experiments: whose records it follows from."""

    unit: str
    value: float
    low: float
    high: float
    experiments: tuple[str, ...]


def host_values(price_of: PriceOf, page: int, huge_page: int, allocator: str) -> Iterator[tuple[str, RuleValue]]:
    """Those of first touches by the CPU: pages of two sizes tell what a fault takes from what a byte takes.

    allocator: that of plain memory.
    """
    base, huge, all_threads = (
        price_of("host_touch", *rest) for rest in (("base", "one"), ("huge", "one"), ("base", "all"))
    )
    if base and huge:
        faults = (1 / page - 1 / huge_page) ** -1
        yield from _value("host.fault", "ns", lambda b, h: (b - h) * faults, base, huge)
        yield from _value("host.zero", "GB/s", lambda b, h: 1 / (h - (b - h) * faults / huge_page), base, huge)
    if base and all_threads:
        yield from _value("host.faults_at_once", "", lambda b, e: b / e, base, all_threads)
    if freed := price_of("touched_free", "cpu", allocator):
        yield from _value("host.free_page", "ns", lambda f: f * page, freed)


def uvm_values(price_of: PriceOf, kind: Kind, allocator: str) -> Iterator[tuple[str, RuleValue]]:
    """Those of NVIDIA's driver, by what its rules count for each price. allocator: of memory that it moves."""
    locked = common_allocator("page-locked")
    to_gpu, to_cpu = (_link(price_of("copy", direction, locked)) for direction in ("h2d", "d2h"))
    yield from _gpu_values(price_of, kind, allocator, to_gpu)
    yield from _cpu_values(price_of, kind, allocator, to_cpu)
    for name, link in (("prefetch", to_gpu), ("prefetch_back", to_cpu)):
        if (call := price_of(name, allocator)) and link:
            yield from _value(f"uvm.{name}", "ns", lambda c, a: max(0.0, c - a) * BLOCK_BYTES, call, link)
    for hint, advice in _HINTS.items():
        if call := price_of("advise", advice, allocator):
            yield from _value(f"uvm.advice.{hint}", "ns", lambda c: c * BLOCK_BYTES, call)
    if call := price_of("touched_free", "gpu", allocator):
        yield from _value("uvm.free", "ns", lambda c: c * BLOCK_BYTES, call)


_HINTS: Mapping[str, str] = {
    "preferred": "preferred-cpu",
    "accessed-by": "accessed-by-cpu",
    "read-mostly": "read-mostly",
}
"""The advice whose price is that of each kind."""


def _gpu_values(price_of: PriceOf, kind: Kind, allocator: str, link: Price | None) -> Iterator[tuple[str, RuleValue]]:
    """A kernel's faults: two densities have services and copies in different numbers, and advice has no copies."""
    if mapped := price_of("gpu_fault", "update", "dense", "preferred-cpu", allocator):
        services = step_counts(kind, "iteration_0", advice=("preferred-cpu",)).services
        yield from _value("uvm.map", "ns", lambda m: m * BLOCKS * BLOCK_BYTES / services, mapped)
    dense, sparse = (price_of("gpu_fault", "update", touch, "none", allocator) for touch in ("dense", ONE_A_BLOCK))
    if not (dense and sparse and link):
        return
    many = step_counts(kind, "iteration_0")
    few = step_counts(kind, "iteration_0", stride=BLOCK_BYTES)
    determinant = many.services * few.copies_to_gpu - few.services * many.copies_to_gpu
    nbytes = BLOCKS * BLOCK_BYTES

    def rest(price: float, counts: Counts, link: float) -> float:
        return max(0.0, price * nbytes - counts.to_gpu * kind.page * link)

    def service(d: float, s: float, a: float) -> float:
        return (rest(d, many, a) * few.copies_to_gpu - rest(s, few, a) * many.copies_to_gpu) / determinant

    def copy(d: float, s: float, a: float) -> float:
        return (rest(s, few, a) * many.services - rest(d, many, a) * few.services) / determinant

    if min(service(*_rates(dense, sparse, link)), copy(*_rates(dense, sparse, link))) < 0:
        return
    yield from _value("uvm.service", "ns", service, dense, sparse, link)
    yield from _value("uvm.copy", "ns", copy, dense, sparse, link)
    if alone := price_of("isolated_fault", allocator):
        block_ns = sparse.times[-1].value * BLOCK_BYTES
        time = alone.times[-1]
        value, low, high = (max(0.0, t - block_ns) for t in (time.value, time.low, time.high))
        yield "uvm.batch", RuleValue("ns", value, low, high, _experiments(alone, sparse))


def _cpu_values(price_of: PriceOf, kind: Kind, allocator: str, link: Price | None) -> Iterator[tuple[str, RuleValue]]:
    """Faults of the CPU: those that bring pages back, and those that make them."""
    back, new = price_of("cpu_fault", allocator), price_of("moving_touch", allocator)
    if not (back and link):
        return
    counts = step_counts(kind, "cpu_read", starts_on="gpu")
    nbytes = BLOCKS * BLOCK_BYTES

    def fault(b: float, a: float) -> float:
        return max(0.0, b - a) * nbytes / counts.services

    yield from _value("uvm.cpu_fault", "ns", fault, back, link)
    if new:
        services_per_byte = step_counts(kind, "initialise").services / nbytes
        yield from _value(
            "uvm.new_pages",
            "GB/s",
            lambda n, b, a: 1 / max(LEAST, n / 10, n - services_per_byte * fault(b, a)),
            new,
            back,
            link,
        )


def _link(copy: Price | None) -> Price | None:
    """The rate of the link: that of its largest copies, without the fixed cost of a small one."""
    if copy is None:
        return None
    return Price((0.0, 1.0), (Time(), copy.times[-1].times(1 / copy.sizes[-1])), copy.grounds)


def _rates(*prices: Price) -> list[float]:
    return [price.of(BLOCK_BYTES).value / BLOCK_BYTES for price in prices]


def _value(name: str, unit: str, solve: _Solve, *prices: Price) -> Iterator[tuple[str, RuleValue]]:
    """A value from prices in ns per byte of a block, with what each of them at its low and high makes of it."""
    usual = _rates(*prices)
    results = [solve(*usual)]
    for i, price in enumerate(prices):
        time = price.of(BLOCK_BYTES)
        for bound in (time.low, time.high):
            results.append(solve(*usual[:i], bound / BLOCK_BYTES, *usual[i + 1 :]))
    value, low, high = results[0], min(results), max(results)
    if value > 0:  # no value is zero: the low bound is as many times less as the high bound is more
        yield name, RuleValue(unit, value, low if low > 0 else value * value / high, high, _experiments(*prices))


def _experiments(*prices: Price) -> tuple[str, ...]:
    names = (ground.experiment for p in prices for ground in p.grounds if isinstance(ground, MeasuredPoint))
    return tuple(dict.fromkeys(names))
