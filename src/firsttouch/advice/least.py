"""Estimates of a traced program that are only the least time of a strategy, since a trace does not tell the rest.

How often kernels use bytes across the link is unseen, but no more than their times allow. And a prefetch before the
kernels places pages on the GPU that the CPU touches first between them; what that takes is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from firsttouch.advice.verdict import SIMILAR
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Unmeasured, assumptions
from firsttouch.model.kernels import known_profiles
from firsttouch.model.platform import MissingValue
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import ONE_PASS
from firsttouch.model.terms import Term
from firsttouch.program.program import Item, Launch, Program, Repeat
from firsttouch.program.ranges import Ranges
from firsttouch.program.strategies import STRATEGIES

UNSEEN = "how often kernels use each byte across the link is unseen"
LATE = "the CPU first writes buffers between kernels, of which a prefetch before these would place pages on the GPU"
BOUNDED = "each byte crosses once, or as often as it can"
FEW = 0.05
"""The part of what the CPU writes that it may write first so late without making the estimate the least time only."""


def timed_launches(items: Sequence[Item], times: int = 1) -> Iterator[tuple[Launch, int]]:
    """The kernels of items, and how often each runs."""
    for item in items:
        if isinstance(item, Repeat):
            yield from timed_launches(item.body, times * item.count)
        elif isinstance(item, Launch) and item.agent == "gpu":
            yield item, times


class OnlyLeast(NamedTuple):
    """Why an estimate is only the least time of a strategy, and by how many ms it may be longer; None: not known."""

    why: str
    longer_ms: float | None = None


def why_only_least(
    program: Program, title: str, prices: Prices, strategy: str, terms: Sequence[Term]
) -> OnlyLeast | None:
    """Why the estimate of a strategy is only its least time; None if it is not. title: of the GPU that ran the program.

    Kernels that use memory of the host are priced with one pass over what they use. They may make more, but cannot take
    more bytes across the link than their traced times hold in the memory of the GPU that ran them.
    """
    if STRATEGIES[strategy].prefetch and _written_late(program) > FEW:
        return OnlyLeast(LATE)
    crossing = sum(term.ms for term in terms if ONE_PASS in assumptions(term.grounds))
    if not crossing:
        return None
    most = _most_across(program, title, prices, strategy)
    if most is None:
        return OnlyLeast(UNSEEN)
    return None if most <= SIMILAR * crossing else OnlyLeast(UNSEEN, most - crossing)


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


def _ns_per_byte(title: str, prices: Prices) -> float:
    """ns in which kernels of a GPU take a byte of its own memory; 0 if that is not known."""
    if title == prices.device.title:
        return prices["own_pass", common_allocator("shared")].of(1).value / 2  # a pass reads and writes each byte
    rates = [device.memory for device in known_profiles().devices.values() if device.title == title]
    return 1 / max(rates) if rates else 0.0


def _most_across(program: Program, title: str, prices: Prices, strategy: str) -> float | None:
    """ms that the kernels take at most across the link. None if a kernel has no time, or a price or rate is missing."""
    total = 0.0
    with suppress(Unmeasured, MissingValue):
        link = prices["remote", "h2d", STRATEGIES[strategy].allocator]
        per_byte = _ns_per_byte(title, prices)
        for launch, times in timed_launches((*program.initialise, *program.compute)):
            if launch.seconds is None or not per_byte:
                return None
            total += times * link.of(1e9 * launch.seconds / per_byte).value
        return 1e-6 * total
    return None
