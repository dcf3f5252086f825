"""Round trips between a kernel and the CPU through a small buffer: what `exchange` would measure.

Over managed memory, each turn is a step of the rules of the driver with the time at which it happens
(model/rules/thrashing.py), unless the platform has times of such turns.
"""

from __future__ import annotations

from firsttouch.base.errors import NotModelled
from firsttouch.model.micro.answers import Answer, Sum
from firsttouch.model.prices import Prices


def turns(
    prices: Prices,
    *,
    method: str,
    allocator: str,
    by_groups: bool,
    count: int,
    gap: float,
    nbytes: int,
    both_ways: bool,
) -> Answer:
    """The time of one of `count` turns, in us. gap: ns from one to the next. both_ways: the CPU writes too. by_groups:
    the kernel uses atomics.

    Raises:
        NotModelled: turns with this method.
        Unmeasured: a price is not known.
    """
    total = Sum()
    launched = prices["launched"]
    total.add("turns", "launches that the CPU waits for", launched, 0, launched.of(1).times(count), count)
    if method == "shared":
        exchanged = prices.exchange(allocator, by_groups=by_groups)
        total.add("turns", "use of the buffer in turns", exchanged.turns, nbytes, exchanged.of(count, gap), count)
    elif method == "copied":
        for direction in ("d2h", "h2d") if both_ways else ("d2h",):
            copy = prices["lone_copy", direction, allocator]
            total.add("turns", f"copies ({direction})", copy, nbytes, copy.of(nbytes).times(count), count)
    elif method != "launched":
        raise NotModelled(f"method={method}")
    value, low, high = (1e3 * ms / count for ms in total.total())
    return Answer(value, low, high, terms=tuple(total.terms))
