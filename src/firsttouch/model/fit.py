"""Writes the prices of runs as a platform file, which can then take the place of the runs.

Every price is that of micro-measurements; no application is read. Runs of one machine count as one. Of several
machines with the same devices, a price is the median, and its range where that of another machine would be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import fmean, median, stdev
from typing import Any, get_args

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_size
from firsttouch.machine.access_counters import why_plain_memory_moves
from firsttouch.machine.allocators.properties import common_allocator, memory_of, moves_pages
from firsttouch.model.costs import ExchangePrice, MeasuredPoint, Price, Time, Unmeasured
from firsttouch.model.driver import driver_of
from firsttouch.model.fit_rules import host_values, uvm_values
from firsttouch.model.measured import ATOMIC, MeasuredPrices, words_of
from firsttouch.model.pages import Kind
from firsttouch.model.parameters import PARAMETERS, PER_BYTE, Parameter
from firsttouch.model.platform import Platform, load_platform
from firsttouch.model.prices import Call, Direction
from firsttouch.model.rules.releases import parse_release
from firsttouch.program.declarations import Agent
from firsttouch.program.guidance import ADVICE
from firsttouch.records.reading import Results
from firsttouch.records.schema import OWN_FACTS, AllocatorInfo, DeviceInfo, Machine, Scalar
from firsttouch.records.text import join_names

STUDENT = (1.732, 1.265, 1.15, 1.099, 1.07, 1.052, 1.039, 1.03, 1.022, 1.017)
"""Student's quantiles for 1, 2, ... degrees of freedom, between which two of three values lie."""
DIGITS = 5
"""The significant digits of a written number."""
_NOT_STATED = ("verified", "reason")
"""Fields of an allocator that no driver states."""
_INCOMPLETE = ("stream.<agent>.<allocator>",)
"""Names of prices that others of the file say more exactly."""
_OF_MOVING_PAGES = (
    "moving_touch", "gpu_fault", "gpu_touch", "cpu_fault", "cpu_return", "isolated_fault", "own_pass", "prefetch",
    "prefetch_back", "advise", "placements", "in_order_touch",
)  # fmt: skip
"""Families of prices that say something of memory whose pages move."""


@dataclass(frozen=True, eq=False)
class Pool:
    """The runs of one machine. experiments: of each run, by its name."""

    experiments: Mapping[str, Set[str]]
    prices: MeasuredPrices

    def names(self, experiments: Iterable[str]) -> list[str]:
        """The runs that have records of experiments."""
        return [name for name, recorded in self.experiments.items() if recorded & set(experiments)]


def _pooled(runs: Mapping[str, Results], device: DeviceInfo) -> list[Pool]:
    """The runs by machine. Prices of one machine may need records of several of its runs."""
    machines: dict[str, dict[str, Results]] = {}
    for name, run in runs.items():
        identity = next((d.identity for d in run.machine.devices if d.name == device.name), "")
        machines.setdefault(identity, {})[name] = run
    pools = []
    for machine_runs in machines.values():
        records = [r for run in machine_runs.values() for r in run.records]
        experiments = {name: frozenset(r.experiment for r in run.records) for name, run in machine_runs.items()}
        pools.append(Pool(experiments, MeasuredPrices(next(iter(machine_runs.values())).machine, records, device)))
    return pools


def fitted_platform(
    runs: Mapping[str, Results], device: DeviceInfo, title: str = "", extends: str = ""
) -> dict[str, Any]:
    """The content of a platform file.

    runs: of machines with this device, each by what the file calls it. extends: the platform that has what these runs
    have not measured; '' for none.

    Raises UsageError: a run was predicted, no run has a price of this device, or `extends` describes another device.
    """
    for name, run in runs.items():
        if any(d.modelled for d in run.machine.devices):
            raise UsageError(f"{name} was predicted, not measured; give what `firsttouch run` measured")
    pools = _pooled(runs, device)
    fitted = {**dict(_rates(pools)), **dict(_prices(pools, device))}
    if not fitted:
        raise UsageError(
            f"{join_names([*runs])}: there are no micro-measurements of {device.name}, from which prices could be "
            f"taken; run: firsttouch run --device {device.name}"
        )
    first, machine = max(((n, run.machine) for n, run in runs.items()), key=lambda named: len(named[1].devices))
    fitted |= _updates(pools, device)
    fitted |= _rule_values(pools, device, machine)
    host = next((d for d in machine.devices if not d.capabilities.runs_kernels and d.available), None)
    parameters = {**_stated(machine, device, host, f"{first}/machine.json"), **fitted}
    if extends:
        base = load_platform(extends)
        if base.device.title != device.title:
            raise UsageError(f"--extends {extends} describes {base.device.title}, the runs are of {device.title}")
        parameters = {name: _with_smaller_sizes(name, entry, base) for name, entry in parameters.items()}
        return {"title": title or base.title, "extends": extends, "parameters": parameters}
    return {
        "title": title or device.title,
        "device": _description(device),
        "host": _description(host) if host is not None else {},
        "parameters": parameters,
    }


def file_text(content: Mapping[str, Any]) -> str:
    """The text of a platform file, with a line for each value."""
    lines = []
    for name, part in content.items():
        if isinstance(part, Mapping) and part:
            members = ",\n  ".join(f"{_encoded(key)}: {_encoded(value)}" for key, value in part.items())
            lines.append(f" {_encoded(name)}: {{\n  {members}\n }}")
        else:
            lines.append(f" {_encoded(name)}: {_encoded(part)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _encoded(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# ---------------------------------------------------------------------------------------------------- prices


def _prices(pools: Sequence[Pool], device: DeviceInfo) -> Iterator[tuple[str, dict[str, Any]]]:
    words = {
        "direction": get_args(Direction),
        "agent": get_args(Agent),
        "call": get_args(Call),
        "pages": ("base", "huge"),
        "threads": ("one", "all"),
        "operation": ("read", "write", "update"),
        "kernel": words_of("stream", "kernel"),
        "turn": ("store", ATOMIC),
        "advice": ADVICE,
        "touch": words_of("gpu_fault", "touch"),
        "scenario": ("cpu", "gpu-major", "gpu-minor"),
        "allocator": [entry.name for entry in device.allocators],
    }
    moving = [entry.name for entry in device.allocators if memory_of(entry) == "migrating" or moves_pages(entry)]
    for definition in PARAMETERS:
        family = definition.name.partition(".")[0]
        if definition.name in _INCOMPLETE or not any(family in pool.prices.families for pool in pools):
            continue
        for name in _names(definition, {**words, "allocator": moving} if family in _OF_MOVING_PAGES else words):
            if prices := _prices_by_pool(pools, name.split(".")):
                yield name, _entry(prices) if definition.dimension != "count" else _count(prices)


def _updates(pools: Sequence[Pool], device: DeviceInfo) -> dict[str, dict[str, Any]]:
    """The updates in turns of which the price is by atomics."""
    counts = {}
    for allocator in (entry.name for entry in device.allocators):
        exchange_prices: dict[Pool, ExchangePrice] = {}
        for pool in pools:
            with suppress(Unmeasured):
                exchange_prices[pool] = pool.prices.exchange(allocator, by_groups=True)
        if exchange_prices:
            value = median(price.updates for price in exchange_prices.values())
            source = _source({pool: price.turns for pool, price in exchange_prices.items()})
            counts[f"exchange_updates.{allocator}"] = {"value": _rounded(value), **source}
    return counts


def _rule_values(pools: Sequence[Pool], device: DeviceInfo, machine: Machine) -> dict[str, dict[str, Any]]:
    """The values that prices consist of, by the rules of drivers."""
    page, huge = (
        machine.facts.get(topic, {}).get(name)
        for topic, name in (("memory", "page_bytes"), ("huge_pages", "thp_bytes"))
    )
    moving = next((e.name for e in device.allocators if e.available and memory_of(e) == "migrating"), "")
    stated = _driver(machine, device)
    if not isinstance(page, int) or not isinstance(huge, int):
        return {}

    def known(*name: str) -> Price | None:
        prices = _prices_by_pool(pools, name)
        return merged([*prices.values()]) if prices else None

    values = [*host_values(known, page, huge, common_allocator("host"))]
    if moving and stated.get("driver.family") == "uvm":
        kind = Kind(page, parse_release(str(stated["driver.release"])))
        values += uvm_values(known, kind, moving)
    entries: dict[str, dict[str, Any]] = {}
    for name, rule_value in values:
        runs = join_names([run for pool in pools for run in pool.names(rule_value.experiments)])
        source = f"{join_names(rule_value.experiments)} in {runs}, by what the driver's rules count"
        unit = {"unit": rule_value.unit} if rule_value.unit else {}
        entries[name] = {
            **_number(Time(rule_value.value, rule_value.low, rule_value.high)),
            **unit,
            "how": "derived",
            "source": source,
        }
    return entries


def _rates(pools: Sequence[Pool]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rates of links and memories: those at the largest size."""
    host, device_memory = common_allocator("host"), common_allocator("device")
    locked = common_allocator("page-locked")
    names: Mapping[str, Sequence[Any]] = {
        "link.h2d": ("copy", "h2d", locked),
        "link.d2h": ("copy", "d2h", locked),
        "device.bandwidth": ("stream", "gpu", device_memory, "read"),
        "host.bandwidth": ("stream", "cpu", host, "read"),
        "host.thread_bandwidth": ("stream", "cpu", host, "triad", 1),
    }
    for name, price_name in names.items():
        if prices := _prices_by_pool(pools, price_name):
            price = merged([*prices.values()])
            size, time = price.sizes[-1], price.times[-1]
            rates = (size / t for t in (time.low, time.value, time.high))
            yield name, {**_number(Time(*rates)), "unit": "GB/s", **_source(prices)}


def _prices_by_pool(pools: Sequence[Pool], name: Sequence[str]) -> dict[Pool, Price]:
    """The price of each machine that has it."""
    prices = {}
    for pool in pools:
        with suppress(Unmeasured):
            prices[pool] = pool.prices.price(*name)
    return prices


def _names(parameter: Parameter, words: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The names of a pattern."""
    fixed, places = parameter.parts
    for chosen in product(*(words[place] for place in places)):
        yield "".join(f"{text}{word}" for text, word in zip(fixed, (*chosen, ""), strict=True))


def _entry(prices: Mapping[Pool, Price]) -> dict[str, Any]:
    """A value of the file: a number per byte or for any size, or points."""
    price = merged([*prices.values()])
    if price.sizes == (0.0, 1.0):
        return {**_number(price.times[-1]), "unit": PER_BYTE, **_source(prices)}
    if price.sizes == (1.0,):
        return {**_number(price.times[-1]), "unit": "ns", **_source(prices)}
    points = [*map(_point, zip(price.sizes, price.times, strict=True))]
    return {"points": points, "unit": "ns", **_source(prices)}


def _count(prices: Mapping[Pool, Price]) -> dict[str, Any]:
    """A value without a unit."""
    return {**_number(merged([*prices.values()]).times[-1]), **_source(prices)}


def _with_smaller_sizes(name: str, entry: dict[str, Any], base: Platform) -> dict[str, Any]:
    """A value with the points of another platform for smaller sizes than the runs have measured."""
    if "points" not in entry or not base.has(name):
        return entry
    base_curve, least = base.curve(name), entry["points"][0][0]
    smaller = [(s, t) for s, t in zip(base_curve.sizes, base_curve.times, strict=True) if s < least]
    if not smaller:
        return entry
    text = f"{entry['source']}; of less than {format_size(int(least))}, {base.name}"
    return {**entry, "points": [*map(_point, smaller), *entry["points"]], "source": text}


def _point(point: tuple[float, Time]) -> list[float]:
    size, time = point
    return [_rounded(v) for v in (size, time.value, time.low, time.high)]


def _source(prices: Mapping[Pool, Price]) -> dict[str, str]:
    grounds = (ground for p in prices.values() for ground in p.grounds)
    experiments = dict.fromkeys(ground.experiment for ground in grounds if isinstance(ground, MeasuredPoint))
    runs = [name for pool in prices for name in pool.names(experiments)]
    return {"how": "measured", "source": f"{join_names([*experiments])} in {join_names(runs)}"}


def _number(time: Time) -> dict[str, float]:
    low, value, high = sorted((time.low, time.value, time.high))
    return {"value": _rounded(value), "low": _rounded(low), "high": _rounded(high)}


def _rounded(value: float) -> float:
    return int(value) if value == int(value) else float(f"{value:.{DIGITS}g}")


def merged(prices: Sequence[Price]) -> Price:
    """The median of several prices at each size, with the range of what another machine would have. A size counts for
    the prices that reach it.
    """
    sizes = sorted({size for price in prices for size in price.sizes})
    times = []
    for size in sizes:
        reached = [p for p in prices if p.sizes[0] <= size <= p.sizes[-1]]
        times_at_size = [p.of(size) for p in reached]
        times.append(another_machine(times_at_size))
    return Price(tuple(sizes), tuple(times), tuple(dict.fromkeys(g for p in prices for g in p.grounds)))


def another_machine(times: Sequence[Time]) -> Time:
    """The median of the times of several machines, with the bounds between which that of one machine more lies in two
    of three cases, by Student's distribution; of one machine, its own interval.
    """
    if len(times) == 1:
        return times[0]
    values = [time.value for time in times]
    middle = median(values)
    quantile = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    reach = quantile * stdev(values) * sqrt(1 + 1 / len(values))
    low, high = fmean(values) - reach, max(middle, fmean(values) + reach)
    if low <= 0 < middle:  # no time is zero: the low bound is as many times less as the high bound is more
        low = middle * middle / high
    return Time(middle, max(0.0, min(middle, low)), high)


# ---------------------------------------------------------------------------------------------------- the machine


def _description(device: DeviceInfo) -> dict[str, Any]:
    """A device as a platform file has it: what its driver states, but for what parameters say."""
    elsewhere = {f"{section}.{name}" for section in ("device", "host") for name in OWN_FACTS}
    elsewhere.update(fact for p in PARAMETERS for fact in p.facts)
    section = "device" if device.capabilities.runs_kernels else "host"
    return {
        "kind": device.kind,
        "title": device.title,
        "facts": {name: fact for name, fact in device.facts.items() if f"{section}.{name}" not in elsewhere},
        "capabilities": _other_than_default(device.capabilities),
        "allocators": {entry.name: _allocator(entry) for entry in device.allocators if entry.available},
    }


def _allocator(entry: AllocatorInfo) -> dict[str, Any]:
    fields = _other_than_default(entry)
    return {name: value for name, value in fields.items() if name not in ("name", "available", *_NOT_STATED)}


def _other_than_default(struct: msgspec.Struct) -> dict[str, Any]:
    defaults = {f.name: f.default for f in msgspec.structs.fields(struct)}
    return {name: v for name, default in defaults.items() if (v := getattr(struct, name)) != default}


def _stated(machine: Machine, device: DeviceInfo, host: DeviceInfo | None, source: str) -> dict[str, dict[str, Any]]:
    """The values that the machine itself states."""
    facts: dict[str, Scalar] = {f"device.{name}": fact for name, fact in device.facts.items()}
    facts |= {f"host.{name}": fact for name, fact in host.facts.items()} if host is not None else {}
    facts |= {
        f"machine.{topic}.{name}": fact
        for topic, topic_facts in machine.facts.items()
        for name, fact in topic_facts.items()
    }
    stated = {p.name: next((facts[f] for f in p.facts if f in facts), None) for p in PARAMETERS}
    stated |= _driver(machine, device)
    units = {p.name: "B" if p.dimension == "size" else "" for p in PARAMETERS}
    return {
        name: {"value": value, **({"unit": units[name]} if units[name] else {}), "how": "stated", "source": source}
        for name, value in stated.items()
        if value is not None
    }


def _driver(machine: Machine, device: DeviceInfo) -> dict[str, Scalar]:
    family, release = driver_of(machine)
    stated: dict[str, Scalar] = {
        "host.memory": machine.facts.get("memory", {}).get("total_bytes"),
        "host.huge_page": machine.facts.get("huge_pages", {}).get("thp_bytes"),
        "driver.ats": bool(device.facts.get("pageableMemoryAccessUsesHostPageTables")),
        "driver.counters": bool(why_plain_memory_moves(machine.facts, device)),
    }
    if device.capabilities.on_host_processor:
        return {**stated, "driver.family": "none", "device.coherence": "full"}
    return {**stated, "driver.family": family, "driver.release": release} if family else stated
