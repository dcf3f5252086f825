"""Copies and calls: what `transfer` and `allocation` would measure."""

from __future__ import annotations

from firsttouch.base.errors import NotModelled
from firsttouch.model.costs import Price, Time
from firsttouch.model.micro.answers import Answer, optional, rate
from firsttouch.model.prices import Call, Direction, Prices
from firsttouch.model.terms import Term
from firsttouch.program.declarations import Agent
from firsttouch.records.schema import Scalar

LINK: tuple[Direction, Direction] = ("h2d", "d2h")


def copies(prices: Prices, *, direction: str, engine: str, allocator: str, nbytes: int, in_memory: bool) -> Answer:
    """Copies between host and device, or within either, each as a whole. in_memory: no cache holds the bytes."""
    if direction == "d2d" and engine == "kernel" and not in_memory:
        raise NotModelled("copies by kernels of bytes that caches may hold")
    price = _price(prices, direction, engine, allocator)
    time = price.of(nbytes)
    counters: dict[str, Scalar] = {}
    across = next((d for d in LINK if d == direction), None)
    if engine == "copy-engine" and across:
        if lone := optional(lambda: prices["lone_copy", across, allocator]):
            counters |= _microseconds("latency", lone.of(nbytes))
        if across == "d2h" and (new := optional(lambda: prices["copy_into_new", allocator])):
            counters |= _microseconds("new_pages", new.of(nbytes))
    return Answer(*rate(nbytes, time), counters, (_term(f"{direction} by the {engine}", price, nbytes, time),))


def _price(prices: Prices, direction: str, engine: str, allocator: str) -> Price:
    across = next((d for d in LINK if d == direction), None)
    if across and engine == "copy-engine":
        return prices["copy", across, allocator]
    if across and engine == "kernel":
        return prices["remote", across, allocator]
    in_one_memory = prices.device.capabilities.shares_host_memory and across
    if engine == "cpu" and (direction == "h2h" or in_one_memory):
        return prices["host_copy"]
    if direction == "d2d" and engine == "kernel":
        return prices["own_pass", allocator]
    if direction == "d2d" and engine == "copy-engine":
        return prices["copy_within", allocator]
    raise NotModelled(f"{direction} copies by the engine {engine}")


def _microseconds(name: str, time: Time) -> dict[str, Scalar]:
    return {f"{name}{part}_us": ns / 1e3 for part, ns in (("", time.value), ("_low", time.low), ("_high", time.high))}


def calls(
    prices: Prices,
    *,
    allocator: str,
    call: Call,
    touched_by: Agent | None,
    nbytes: int,
) -> Answer:
    """A call that allocates or frees a block, in ns. touched_by: the agent that wrote the block before it is freed."""
    price = prices["touched_free", touched_by, allocator] if touched_by else prices["allocation", call, allocator]
    time = price.of(nbytes)
    counters: dict[str, Scalar] = {}
    if not touched_by:
        other_call: Call = "free" if call == "allocate" else "allocate"
        if beside := optional(lambda: prices["allocation", other_call, allocator]):
            counters[f"{other_call}_ns"] = beside.of(nbytes).value
    return Answer(
        time.value, time.low, time.high, counters, (_term(f"{call} {allocator} memory", price, nbytes, time),)
    )


def _term(what: str, price: Price, nbytes: int, time: Time) -> Term:
    ms = time.times(1e-6)
    return Term("", what, nbytes, 1, ms.value, ms.low, ms.high, price.grounds)
