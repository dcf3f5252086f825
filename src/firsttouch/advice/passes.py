"""How often kernels of a traced program use bytes across the link: unseen, but no more than their times allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from firsttouch.advice.wording import SIMILAR
from firsttouch.allocators.properties import common_allocator
from firsttouch.model.costs import Prices, Unmeasured, assumptions
from firsttouch.model.platform import MissingValue
from firsttouch.model.pricing import ONE_PASS
from firsttouch.model.terms import Term
from firsttouch.workload.program import Item, Launch, Program, Repeat
from firsttouch.workspace.strategies import STRATEGIES

UNSEEN = "how often kernels use each byte across the link is unseen"


def timed_launches(items: Sequence[Item], times: int = 1) -> Iterator[tuple[Launch, int]]:
    """The kernels of items, and how often each runs."""
    for item in items:
        if isinstance(item, Repeat):
            yield from timed_launches(item.body, times * item.count)
        elif isinstance(item, Launch) and item.agent == "gpu":
            yield item, times


def why_only_least(program: Program, title: str, prices: Prices, strategy: str, terms: Sequence[Term]) -> str:
    """Why the estimate of a strategy is only its least time, or ''. title: of the GPU on which it was traced.

    Kernels that use memory of the host are priced with one pass over what they use. They may make more, but cannot take
    more bytes across the link than their traced times hold in the device's own memory.
    """
    crossing = [term.ms for term in terms if ONE_PASS in assumptions(term.grounds)]
    if not crossing:
        return ""
    most = _most_across(program, prices, strategy) if title == prices.device.title else None
    return "" if most is not None and most <= SIMILAR * sum(crossing) else UNSEEN


def _most_across(program: Program, prices: Prices, strategy: str) -> float | None:
    """ms that the kernels take at most across the link. None if a kernel has no time, or a price is missing."""
    total = 0.0
    with suppress(Unmeasured, MissingValue):
        link = prices.remote("h2d", STRATEGIES[strategy].allocator)
        per_byte = prices.own_pass(common_allocator("shared")).of(1).value / 2  # which is read and written
        for launch, times in timed_launches((*program.initialise, *program.compute)):
            if launch.seconds is None or not per_byte:
                return None
            total += times * link.of(1e9 * launch.seconds / per_byte).value
        return 1e-6 * total
    return None
