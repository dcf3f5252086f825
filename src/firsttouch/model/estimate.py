"""What each memory strategy adds to a program: the steps that the ledger takes, priced for one device.

Estimated is what the strategies differ in: allocation, first touches, copies, faults, prefetches, advice, and access
across the link. The time of kernels in the device's own memory and the CPU's work are common to all and not estimated.
Freeing memory that moves is estimated only where the run has measured it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from firsttouch.base.errors import Unsupported
from firsttouch.model.moving import Moving
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.platform import MissingValue
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import Pricing
from firsttouch.model.sharing import FirstTouchPricing, moves, pricing_kind
from firsttouch.model.terms import Term
from firsttouch.program.guidance import BY_ITSELF
from firsttouch.program.needs import memory_needs, why_too_large
from firsttouch.program.program import Program
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo, as_number

SHARED_AT_ONCE = 0.05
"""If pages that both agents use at the same time are more than this part of what kernels access, how often they move is
a matter of timing, and only the least that happens is estimated."""
AT_ONCE = "both agents use the same pages at the same time, so how often pages move is a matter of timing"


class NotEstimated(Exception):
    """The model does not cover this. The text is the reason.

    least: the terms of what happens at least, if that is known.
    """

    def __init__(self, reason: str, least: Sequence[Term] = ()) -> None:
        super().__init__(reason)
        self.least = least


class Impossible(Exception):
    """The strategy cannot run this program. The text is the reason."""


def estimate(program: Program, strategy: Strategy, prices: Prices, *, copy_control: bool = False) -> list[Term]:
    """The terms of a strategy. copy_control: small blocks that both agents use in turns are copied under any strategy.

    Raises:
        Unmeasured: the records lack a price.
        MissingValue: the platform does.
        NotEstimated: the model does not cover this program under this strategy.
        Impossible: the strategy cannot run this program.
    """
    return priced(program, strategy, prices, copy_control=copy_control).terms.terms()


def _left_for_pages(
    capacity: int, program: Program, strategy: Strategy, device: DeviceInfo, how: Mapping[str, Any]
) -> int:
    """Of so many bytes of device memory, those that managed pages may have: what no driver moves is there too."""
    fixed = memory_needs(program.declarations, strategy, device, guidance=how.get("guidance") or BY_ITSELF).fixed
    if reason := why_too_large("its device memory needs", fixed, capacity, f"what is left of {device.name},"):
        raise Impossible(reason)
    return capacity - fixed


def priced(
    program: Program, strategy: Strategy, prices: Prices, *, settings: CountingSettings | None = None, **how: Any
) -> Pricing:
    """A strategy whose steps were priced. Raises what `estimate` raises.

    settings: what decides what pages do. If these have no capacity, all that the device has counts where it is too
    little. how: as of Pricing.
    """
    device = prices.device
    entry = device.allocator(strategy.allocator)
    assert entry is not None
    kind = pricing_kind(strategy, entry, device)
    subject, (on_host, on_device) = "its buffers need", memory_needs(program.declarations, strategy, device).on(device)
    host_bytes = prices.machine.facts.get("memory", {}).get("total_bytes")
    if reason := why_too_large(subject, on_host, host_bytes, "the host, which has", 3):
        raise Impossible(reason)
    reason = why_too_large(subject, on_device, device.facts.get("memory_bytes"), f"{device.name}, which has", 3)
    if reason and not (moves(entry, device) or (strategy.duplicated and program.tiled)):
        raise Impossible(reason)
    if settings is not None and issubclass(kind, Moving):
        if settings.capacity is None and reason:
            settings = replace(settings, capacity=int(as_number(device.facts.get("memory_bytes")) or 0))
        if settings.capacity is not None:
            settings = replace(settings, capacity=_left_for_pages(settings.capacity, program, strategy, device, how))
        how["settings"], reason = settings, ""
    elif settings is not None and kind is FirstTouchPricing:
        how["capacity"] = settings.capacity
    pricing = kind(program, strategy, prices, entry, **how)
    try:
        pricing.run()
    except MissingValue:
        raise
    except Unsupported:
        raise Impossible("the CPU cannot use its buffers while a kernel runs, which this program needs") from None
    counts = pricing.terms.counts
    if reason:
        raise NotEstimated(f"{reason}, so that data may move more than once", pricing.terms.terms())
    if counts["used_at_once"] > SHARED_AT_ONCE * max(1, counts["used_by_gpu"]):
        raise NotEstimated(AT_ONCE, pricing.terms.terms())
    return pricing
