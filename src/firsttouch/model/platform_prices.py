"""Prices from a platform: its values, and what follows from them where it has no value for a price itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from firsttouch.machine.allocators.properties import common_allocator, is_plain_host, memory_of, role
from firsttouch.model.costs import Assumption, ExchangePrice, Ground, Price, Time, Unmeasured
from firsttouch.model.platform import MissingValue, Platform
from firsttouch.model.prices import ONE_A_BLOCK, Direction, Prices
from firsttouch.model.rule_prices import rule_price
from firsttouch.model.turns import RuledTurns
from firsttouch.model.uvm_prices import uvm_price
from firsttouch.program.guidance import NONE

ALONE = "a single fault of the CPU takes as long as one of a kernel"
HUGE_PAGES = "always"
"""The value of host.thp with which plain memory gets huge pages without asking."""


_WITH_SUBSTITUTE = (
    "lone_copy", "gpu_batches", "copy_into_new", "prefetch_back", "eviction", "cpu_return", "exchange", "placements",
    "uncached", "cache_flush", "counter_moves", "counter_service", "block_touch",
)  # fmt: skip
"""Families of prices without which the model prices something else, or that a platform has only if it happens there."""


def shifted(price: Price, before: Price, after: Price) -> Price:
    """A price with the difference between two others. It stays as it is where they are equal."""
    if (before.sizes, before.times) == (after.sizes, after.times):
        return price
    times = []
    for size, time in zip(price.sizes, price.times, strict=True):
        was, now = before.of(size), after.of(size)
        moved = (time.value + now.value - was.value, time.low + now.low - was.low, time.high + now.high - was.high)
        value = max(0.0, moved[0])
        times.append(Time(value, max(0.0, min(*moved, value)), max(*moved, value)))
    return Price(price.sizes, tuple(times), tuple(dict.fromkeys((*price.grounds, *after.grounds))))


class PlatformPrices(Prices):
    """The prices on the device of a platform.

    A price without which the model prices something else, with an assumption, raises Unmeasured if the platform lacks
    it. All others raise MissingValue: nothing that a strategy adds is left out.
    """

    def __init__(self, platform: Platform) -> None:
        self.platform, self.machine, self.device = platform, platform.machine(), platform.device
        self._by_name = dict[tuple[str, ...], Price]()
        self._rules: Mapping[str, Callable[..., Price | None]] = {
            "copy": self._over_the_link,
            "remote": self._remote,
            "host_copy": self._host_copy,
            "own_pass": self._own_pass,
        }

    @property
    def page_size(self) -> str:
        return "huge" if self.platform.word("host.thp") == HUGE_PAGES else "base"

    def price(self, *name: str) -> Price:
        if name not in self._by_name:
            self._by_name[name] = self._price(name)
        return self._by_name[name]

    def _price(self, name: Sequence[str]) -> Price:
        joined = ".".join(name)
        if self.platform.has(joined):
            stated = self.platform.curve(joined)
            return stated if joined in self.platform.given else self._with_changes(stated, name)
        missing = MissingValue(self.platform, joined)
        if self.platform.absent_under(joined):
            raise missing
        if (price := self._derived(name)) is not None:
            return price
        if _has_substitute(*name):
            raise Unmeasured(str(missing))
        raise missing

    def _derived(self, name: Sequence[str]) -> Price | None:
        """The price that follows from other values, or None."""
        rule = self._rules.get(name[0])
        if rule is not None and (price := rule(*name[1:])) is not None:
            return price
        for rules in (rule_price, uvm_price):
            if (price := rules(self.platform, self.device, *name)) is not None:
                return price
        return None

    def _with_changes(self, stated: Price, name: Sequence[str]) -> Price:
        """A price of a file, shifted by the change of what follows from other values, if the call or a file that
        extends it changed these. A copy by way of page-locked memory takes no less than the link does.
        """
        origin = self.platform.ground(".".join(name)).platform
        if not self.platform.given and origin == self.platform.description.name:
            return stated
        source = self.platform.as_of(origin)
        before, after = PlatformPrices(source)._derived_if_known(name), self._derived_if_known(name)
        if before is not None and after is not None:
            return shifted(stated, before, after)
        rate = f"link.{name[1]}" if name[0] == "copy" else ""
        if self.platform.has(rate) and not source.same_value(self.platform, rate):
            link = self.platform.curve(rate)
            times = tuple(t.at_least(link.of(size)) for size, t in zip(stated.sizes, stated.times, strict=True))
            return Price(stated.sizes, times, tuple(dict.fromkeys((*stated.grounds, *link.grounds))))
        return stated

    def _derived_if_known(self, name: Sequence[str]) -> Price | None:
        with suppress(MissingValue, Unmeasured):
            return self._derived(name)
        return None

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        kernel, gaps = "atomic" if by_groups else "store", list[tuple[float, float]]()
        if not by_groups and (ruled := self._ruled_turns(allocator)):
            return ruled
        turns = self.price("exchange", kernel, allocator)
        if self.platform.has(name := f"exchange_gap.{kernel}.{allocator}"):
            curve, most = self.platform.curve(name), turns.times[-1].value / turns.sizes[-1]
            gaps = [(gap, time.value / most) for gap, time in zip(curve.sizes, curve.times, strict=True)]
        updates = f"exchange_updates.{allocator}"
        if by_groups and not self.platform.has(updates):
            raise Unmeasured(str(MissingValue(self.platform, updates)))
        count = self.platform.quantity(updates).value if by_groups else 0
        return ExchangePrice(turns, tuple(gaps), count)

    def _ruled_turns(self, allocator: str) -> RuledTurns | None:
        """Turns over managed memory by the rules of its driver, where a platform has no times of them."""
        entry, across = self.device.allocator(allocator), self._use_across_the_link()
        if self.platform.has(f"exchange.store.{allocator}") or across is None:
            return None
        if entry is None or memory_of(entry) != "migrating" or self.platform.word("driver.family") != "uvm":
            return None
        fault, (remote, grounds) = self.price("isolated_fault", allocator), across
        price = Price(fault.sizes, fault.times, (*fault.grounds, *grounds, Assumption(ALONE)))
        coherent = bool(self.device.facts.get("directManagedMemAccessFromHost"))
        return RuledTurns(price, (), 0, fault.of(1), remote, coherent)

    def _use_across_the_link(self) -> tuple[Time, tuple[Ground, ...]] | None:
        """A kernel's use of one word of the host, and what it rests on: a load beyond the caches, if that is known."""
        loads = f"load.gpu.{common_allocator('page-locked')}"
        if self.platform.has(loads):
            return self.platform.curve(loads).times[-1], self.platform.curve(loads).grounds
        if self.platform.has("uvm.remote_turn"):
            turn = self.platform.quantity("uvm.remote_turn")
            return Time(turn.value, turn.low, turn.high), (turn.ground,)
        return None

    # ------------------------------------------------------------------------------------------------ what follows

    def _rate(self, name: str, part: float = 1.0) -> Price | None:
        """The price of bytes at a rate of the platform, of which so many pass for each byte; None if it has none."""
        if not self.platform.has(name):
            return None
        price = self.platform.curve(name)
        return Price(price.sizes, tuple(time.times(part) for time in price.times), price.grounds)

    def _over_the_link(self, direction: Direction, allocator: str) -> Price | None:
        """Page-locked memory is copied, and used by kernels, at the rate of the link."""
        return self._rate(f"link.{direction}") if role(allocator) == "page-locked" else None

    def _remote(self, direction: Direction, allocator: str) -> Price | None:
        """Plain memory is used at the rate of the link too, where the GPU translates by the host's page tables."""
        if is_plain_host(allocator) and self.platform.flag("driver.ats"):
            return self._rate(f"link.{direction}")
        return self._over_the_link(direction, allocator)

    def _host_copy(self) -> Price | None:
        """A copy reads each byte and writes it."""
        return self._rate("host.bandwidth", 2.0)

    def _own_pass(self, allocator: str) -> Price | None:
        entry = self.device.allocator(allocator)
        return self._rate("device.bandwidth", 2.0) if entry and memory_of(entry) != "host" else None


def _has_substitute(family: str, *rest: str) -> bool:
    """Whether the model prices something else where it has no price of this name."""
    if family == "gpu_fault":
        operation, touch, advice, _allocator = rest
        return (operation, advice) != ("update", NONE) or touch == ONE_A_BLOCK
    return family in _WITH_SUBSTITUTE
