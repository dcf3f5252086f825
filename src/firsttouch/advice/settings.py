"""Advice besides the strategy: allocator, copies by size, prefault, page size, prefetch and placement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from firsttouch.base.units import format_number, format_size
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Ground, Price, Unmeasured, record_keys
from firsttouch.model.platform import MissingValue
from firsttouch.model.prices import Direction, Prices
from firsttouch.program.guidance import ADVICE, NONE
from firsttouch.program.strategies import Strategy
from firsttouch.records.findings import CLEAR_RATIO
from firsttouch.records.predicted import is_predicted
from firsttouch.records.text import count, quantity

SIZES = tuple(4096 << (3 * i) for i in range(7))
"""Sizes of copies up to the largest that was measured, which is one more."""
DIRECTIONS: Mapping[Direction, str] = {"h2d": "to the GPU", "d2h": "from the GPU"}


@dataclass(frozen=True)
class CopyChoice:
    """Copies of one size in one direction. reuses: the copies after which locking the pages has paid for itself; None
    if it never does.
    """

    direction: str
    size: int
    pageable_us: float
    page_locked_us: float
    reuses: float | None


@dataclass(frozen=True)
class Setting:
    """A recommendation in words without a full stop, the number that it rests on, and its grounds."""

    text: str
    value: float
    grounds: tuple[Ground, ...]


@dataclass
class Settings:
    """Each is None where it makes no clear difference, or where it was not measured."""

    allocator: str = ""
    control: Setting | None = None
    copy_interface: Setting | None = None
    prefetch: Setting | None = None
    prefault: Setting | None = None
    page_size: Setting | None = None
    placement: Setting | None = None
    copies: list[CopyChoice] = field(default_factory=list)

    def named(self) -> dict[str, Setting]:
        """The settings that have advice, by name, the most important first."""
        every = {
            "control": self.control,
            "prefetch": self.prefetch,
            "copy_interface": self.copy_interface,
            "prefault": self.prefault,
            "page_size": self.page_size,
            "placement": self.placement,
        }
        return {name: setting for name, setting in every.items() if setting is not None}


def settings(prices: Prices, strategy: Strategy) -> Settings:
    """What follows from the prices for the chosen strategy."""
    result = Settings(allocator=_allocators(strategy))
    for name, make in _MAKERS.items():
        try:
            setattr(result, name, make(prices))
        except (Unmeasured, MissingValue):
            continue
    return result


def _allocators(strategy: Strategy) -> str:
    if strategy.duplicated:
        return f"{strategy.host_arrays} for the host arrays, {strategy.allocator} for the device's"
    return strategy.allocator


def _copy_choices(prices: Prices) -> list[CopyChoice]:
    locked = common_allocator("page-locked")
    allocate, free = prices["allocation", "allocate", locked], prices["allocation", "free", locked]
    choices = []
    for direction, words in DIRECTIONS.items():
        pageable, fast = prices["copy", direction, common_allocator("host")], prices["copy", direction, locked]
        if pageable.sizes[-1] <= 1:
            raise Unmeasured(f"of copies {words}, only a rate is known, which says nothing about sizes")
        largest = int(pageable.sizes[-1])
        for size in (*(s for s in SIZES if s < largest), largest):
            saved = pageable.of(size).value - fast.of(size).value
            once = allocate.of(size).value + free.of(size).value
            reuses = once / saved if saved > 0 else None
            choices.append(CopyChoice(words, size, pageable.of(size).value / 1e3, fast.of(size).value / 1e3, reuses))
    return choices


def _copy_interface_setting(prices: Prices) -> Setting | None:
    largest = max(_copy_choices(prices), key=lambda c: (c.size, c.direction == DIRECTIONS["h2d"]))
    ratio = largest.pageable_us / largest.page_locked_us
    if ratio < CLEAR_RATIO or (is_predicted(prices.device.name) and not _saves_time(prices, largest)):
        return None
    assert largest.reuses is not None
    text = (
        f"copy from page-locked memory if a buffer is copied more than {count(max(1, round(largest.reuses)), 'time')}: "
        f"a copy of {format_size(largest.size)} {largest.direction} is {format_number(ratio, 2)} times as fast, but "
        "locking the pages takes time"
    )
    locked = common_allocator("page-locked")
    used = [prices["allocation", "allocate", locked], prices["allocation", "free", locked]]
    used += [prices["copy", "h2d", name] for name in (locked, common_allocator("host"))]
    return Setting(text, ratio, _join_grounds(*used))


def _saves_time(prices: Prices, choice: CopyChoice) -> bool:
    """Whether the range of a copy from page-locked memory is below that of one from plain memory."""
    direction = next(name for name, words in DIRECTIONS.items() if words == choice.direction)
    slow, fast = (prices["copy", direction, common_allocator(kind)].of(choice.size) for kind in ("host", "page-locked"))
    return fast.high < slow.low


def _prefault_setting(prices: Prices) -> Setting | None:
    one_thread, all_threads = prices.host_touch(parallel=False), prices.host_touch(parallel=True)
    ratio = _time_ratio(one_thread, all_threads)
    if prices.device.capabilities.on_host_processor:
        text = "touch new memory with all threads: the first touch by one thread"
    else:
        text = (
            "touch host arrays with all threads before a copy writes results into them: the first touch by the copy, "
        )
        text += "with one thread,"
    text += f" takes {_per_gib(one_thread)}, and by all threads {_per_gib(all_threads)}"
    return Setting(text, ratio, _join_grounds(one_thread, all_threads)) if ratio > CLEAR_RATIO else None


def _page_size_setting(prices: Prices) -> Setting | None:
    base, huge = (prices.host_touch(parallel=True, pages=pages) for pages in ("base", "huge"))
    how = (
        "which plain memory gets here" if prices.page_size == "huge" else "which a program must request here (madvise)"
    )
    of_huge, of_base = _page_count_words(huge), _page_count_words(base)
    text = (
        f"use huge pages, {how}: their first touch by all threads takes {_per_gib(huge)}{of_huge}, that of base pages "
        f"{_per_gib(base)}{of_base}"
    )
    return (
        Setting(text, _time_ratio(base, huge), _join_grounds(base, huge))
        if _time_ratio(base, huge) > CLEAR_RATIO
        else None
    )


def _page_count_words(price: Price) -> str:
    """' (4,096 pages)', the pages whose first touch was timed; '' if it is not one number."""
    numbers = {json.loads(key)[2].get("pages") for key in record_keys(price.grounds)}
    number = numbers.pop() if len(numbers) == 1 else None
    return f" ({number:,} pages)" if isinstance(number, int) else ""


def _prefetch_setting(prices: Prices) -> Setting | None:
    name = common_allocator("shared")
    prefetch, fault = prices["prefetch", name], prices.gpu_fault(name, reads_only=False)
    text = (
        f"prefetch {name} buffers before kernels use them: a prefetch takes {_per_gib(prefetch)}, faults take "
        f"{_per_gib(fault)}"
    )
    ratio = _time_ratio(fault, prefetch)
    return Setting(text, ratio, _join_grounds(prefetch, fault)) if ratio > CLEAR_RATIO else None


def _placement_setting(prices: Prices) -> Setting | None:
    name = common_allocator("shared")
    tried = {}
    for advice in ADVICE:
        with suppress(Unmeasured):
            tried[advice] = prices["placements", advice, name]
    if len(tried) < 2 or NONE not in tried:
        return None
    times = {advice: price.of(1).value for advice, price in tried.items()}
    grounds, best = _join_grounds(*tried.values()), min(times, key=lambda advice: times[advice])
    ratio = times[NONE] / times[best]
    if best == NONE or ratio < CLEAR_RATIO:
        return Setting(
            f"give the driver no advice (cudaMemAdvise): none makes passes over {name} data clearly faster",
            ratio,
            grounds,
        )
    return Setting(
        f"advice {best} makes passes over {name} data {format_number(ratio, 2)} times as fast", ratio, grounds
    )


def _time_ratio(dividend: Price, divisor: Price) -> float:
    """How many times as long the first takes; 1 if their intervals overlap."""
    longer, shorter = dividend.of(1), divisor.of(1)
    return longer.value / shorter.value if longer.low > shorter.high > 0 else 1.0


def _join_grounds(*prices: Price) -> tuple[Ground, ...]:
    return tuple(dict.fromkeys(ground for price in prices for ground in price.grounds))


def _per_gib(price: Price) -> str:
    return f"{quantity(price.of(1).value * (1 << 30) / 1e6, 'ms')} per GiB"


_MAKERS: Mapping[str, Callable[[Prices], object]] = {
    "prefault": _prefault_setting,
    "page_size": _page_size_setting,
    "prefetch": _prefetch_setting,
    "placement": _placement_setting,
    "copy_interface": _copy_interface_setting,
    "copies": _copy_choices,
}
