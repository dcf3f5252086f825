"""What memory costs a traced program as it is: its own allocations and copies, priced one by one.

A strategy's ledger decides what is copied; here the program did (program/program.py: Move). Prices are those that
strategies with host arrays and device arrays have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Price, Time, Unmeasured
from firsttouch.model.prices import Call, Direction, Prices
from firsttouch.model.pricing import COPY_BACK, COPY_IN, NEW_BY_COPY, NEW_ON_DEVICE
from firsttouch.model.terms import Term, Terms
from firsttouch.program.program import Item, Launch, Move, Obtained, Program, Repeat
from firsttouch.program.ranges import Ranges

NAME: Final = "as it is"
PLAIN, LOCKED, DEVICE = (common_allocator(role) for role in ("host", "page-locked", "device"))
FIRST_BY_CPU = "first touch of host pages by the CPU"


def terms_as_it_is(program: Program, prices: Prices) -> list[Term]:
    """The terms of a traced program as it is. Memory that the device alone uses is the same under all strategies.

    Raises Unmeasured or MissingValue if a price is not known.
    """
    terms, touched, copied = Terms(), 0, [Ranges() for _ in program.blocks]
    shared = [obtained for obtained in program.obtained if not obtained.alone]
    one_memory = prices.device.capabilities.shares_host_memory
    calls = [obtained for obtained in shared if obtained.pinned or not one_memory or _is_up_front(prices)]
    for obtained in calls:
        _call(terms, prices, "allocate", obtained)
    for phase, items in (("initialise", program.initialise), ("compute", program.compute)):
        for move, times, parallel in moves(items):
            _move(terms, prices, phase, move, times, parallel=parallel)
            touched += 0 if move.pinned else move.new * times
            if move.way == "h2d":
                copied[move.block].add(move.start, move.end)
    device = sum(obtained.nbytes * obtained.times for obtained in shared if not obtained.pinned)
    if one_memory and not _is_up_front(prices):
        by_copies = min(device, sum(ranges.total() for ranges in copied))
        for parallel, new in ((False, by_copies), (True, device - by_copies)):
            terms.add("compute", NEW_ON_DEVICE, prices.host_touch(parallel=parallel), new)
    if touched and not one_memory:
        terms.add("free", f"free {PLAIN} host arrays", prices.host_free(PLAIN), touched)
    for obtained in calls:
        _call(terms, prices, "free", obtained)
    return terms.terms()


def _is_up_front(prices: Prices) -> bool:
    """Whether the pages of the device's memory are there when it is allocated."""
    entry = prices.device.allocator(DEVICE)
    return entry is not None and entry.on_demand is False


def moves(items: Sequence[Item], times: int = 1, parallel: set[int] | None = None) -> Iterator[tuple[Move, int, bool]]:
    """The copies and fills of items, how often each happens, and whether all threads of the CPU wrote its bytes.

    parallel: the blocks that they wrote last.
    """
    by_all = set() if parallel is None else parallel
    for item in items:
        if isinstance(item, Repeat):
            yield from moves(item.body, times * item.count, by_all)
        elif isinstance(item, Launch) and item.agent == "cpu":
            (by_all.update if item.by == "kernel" else by_all.difference_update)({a.block for a in item.accesses})
        elif isinstance(item, Move):
            yield item, times, item.block in by_all


def _call(terms: Terms, prices: Prices, call: Call, obtained: Obtained) -> None:
    """A run may not have measured the calls of a device that has memory of its own; they are quick."""
    allocator, nbytes, times = LOCKED if obtained.pinned else DEVICE, obtained.nbytes, obtained.times
    try:
        price = prices["allocation", call, allocator]
    except Unmeasured:
        if allocator == LOCKED or prices.device.capabilities.shares_host_memory:
            raise
        return
    terms.add(call, f"{call} {allocator} memory", price, nbytes * times, price.of(nbytes).times(times), times)


def _move(
    terms: Terms, prices: Prices, phase: str, move: Move, times: int, *, parallel: bool = False, lone: bool = True
) -> None:
    """A copy between host and device. What stays on the device takes no time that a strategy would save. lone: from the
    call to its completion, as a program waits for it; else as long as it occupies the GPU.
    """
    if move.way not in ("h2d", "d2h"):
        return
    host = LOCKED if move.pinned else PLAIN
    new = 0 if move.pinned else min(move.new, move.nbytes) if move.way == "d2h" else move.new
    if move.way == "h2d":
        touch, nbytes, what = prices.host_touch(parallel=parallel), move.nbytes, COPY_IN
        terms.add(phase, FIRST_BY_CPU, touch, new * times, touch.of(new).times(times), times)
    else:
        nbytes, what = move.nbytes - (_price_into_new(terms, prices, phase, host, new, times) if new else 0), COPY_BACK
    price, time = copy_price(prices, move.way, host, nbytes, lone=lone)
    terms.add(phase, f"{what}, {host} host arrays", price, nbytes * times, time.times(times), times)


def _price_into_new(terms: Terms, prices: Prices, phase: str, host: str, new: int, times: int) -> int:
    """Price a copy of so many bytes into pages that nobody has touched. Returns how many of them are then priced."""
    try:
        price = prices["copy_into_new", host]
    except Unmeasured:
        touch = prices.host_touch(parallel=False)
        terms.add(phase, NEW_BY_COPY, touch, new * times, touch.of(new).times(times), times)
        return 0
    what = f"{COPY_BACK} into new pages, {host} host arrays"
    terms.add(phase, what, price, new * times, price.of(new).times(times), times)
    return new


def copy_price(prices: Prices, direction: Direction, host: str, nbytes: int, *, lone: bool) -> tuple[Price, Time]:
    """The price of a copy, and its time. lone: not less than that of a copy alone, if such a size was measured, as
    under strategies that copy (pricing.py).
    """
    price = prices["copy", direction, host]
    time = price.of(nbytes)
    with suppress(Unmeasured):
        alone = prices["lone_copy", direction, host]
        if lone and nbytes >= alone.sizes[0]:
            time = time.at_least(alone.of(nbytes))
    return price, time


STAGED = 16 << 20
"""The record of a smaller copy of pageable memory has the GPU's part alone: the CPU copies it to or from a buffer of
the driver.
"""


def _is_mostly_call(prices: Prices, way: Direction, move: Move) -> bool:
    if not move.pinned and move.nbytes < STAGED:
        return True
    price = prices["copy", way, LOCKED if move.pinned else PLAIN]
    return price.of(move.nbytes).value < 2 * price.times[0].value


def copy_times(program: Program, prices: Prices, way: Direction) -> tuple[int, int, float, Time]:
    """The copies in one direction whose time was recorded: their number, their bytes, the ns that they took, and the ns
    that they are priced at. Copies that take hardly longer than those of next to nothing, and small ones of pageable
    memory, are left out: most of their price is that of the call, which was not recorded.
    """
    terms, number, size, recorded_ns = Terms(), 0, 0, 0.0
    for move, times, _ in moves((*program.initialise, *program.compute)):
        if move.way == way and move.seconds is not None and not _is_mostly_call(prices, way, move):
            number, size, recorded_ns = (
                number + times,
                size + move.nbytes * times,
                recorded_ns + 1e9 * move.seconds * times,
            )
            _move(terms, prices, "compute", move, times, lone=False)
    priced = Time()
    for term in terms.terms():
        if term.what != FIRST_BY_CPU:
            priced += Time(term.ms, term.low, term.high).times(1e6)
    return number, size, recorded_ns, priced
