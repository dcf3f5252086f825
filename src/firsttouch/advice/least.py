"""Estimates of a traced program that are only the least time of a strategy, since a trace does not tell the rest.

How often kernels use bytes across the link is unseen, but no more than their times allow. And a prefetch before the
kernels places pages on the GPU that the CPU touches first between them; what that takes is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from firsttouch.advice.verdict import SIMILAR
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Unmeasured, assumptions
from firsttouch.model.platform import MissingValue
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import ONE_PASS
from firsttouch.model.terms import Term
from firsttouch.program.program import Item, Launch, Program, Repeat
from firsttouch.program.ranges import Ranges
from firsttouch.program.strategies import STRATEGIES

UNSEEN = "how often kernels use each byte across the link is unseen"
LATE = "the CPU first writes buffers between kernels, of which a prefetch before these would place pages on the GPU"
FEW = 0.05
"""The part of what the CPU writes that it may write first so late without making the estimate the least time only."""


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
    if STRATEGIES[strategy].prefetch and _written_late(program) > FEW:
        return LATE
    crossing = [term.ms for term in terms if ONE_PASS in assumptions(term.grounds)]
    if not crossing:
        return ""
    most = _most_across(program, prices, strategy) if title == prices.device.title else None
    return "" if most is not None and most <= SIMILAR * sum(crossing) else UNSEEN


def _written_late(program: Program) -> float:
    """The fraction of the bytes written by the CPU that it is the first to write, after compute has begun."""
    written = [Ranges() for _ in program.blocks]
    before, after = _first_writes(program.initialise, written), _first_writes(program.compute, written)
    return after / (before + after) if after else 0.0


def _first_writes(items: Sequence[Item], written: Sequence[Ranges]) -> int:
    """The bytes of items that the CPU writes first. written: what either agent has written."""
    late = 0
    for item in items:
        if isinstance(item, Repeat):
            late += _first_writes(item.body, written)
        elif isinstance(item, Launch):
            for a in (a for a in item.accesses if a.writes):
                if item.agent == "cpu":
                    late += a.end - a.start - written[a.block].bytes_in(a.start, a.end)
                written[a.block].add(a.start, a.end)
    return late


def _most_across(program: Program, prices: Prices, strategy: str) -> float | None:
    """ms that the kernels take at most across the link. None if a kernel has no time, or a price is missing."""
    total = 0.0
    with suppress(Unmeasured, MissingValue):
        link = prices["remote", "h2d", STRATEGIES[strategy].allocator]
        per_byte = prices["own_pass", common_allocator("shared")].of(1).value / 2  # a pass reads and writes each byte
        for launch, times in timed_launches((*program.initialise, *program.compute)):
            if launch.seconds is None or not per_byte:
                return None
            total += times * link.of(1e9 * launch.seconds / per_byte).value
        return 1e-6 * total
    return None
