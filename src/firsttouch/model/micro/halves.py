"""Both agents at work on parts of an array in one memory: what `concurrency` would measure, at least.

At once they take as long as the slower one alone, and as memory takes for the bytes of both. What else they wait for
each other is not known: the range ends where they gain nothing.
"""

from __future__ import annotations

from firsttouch.base.errors import NotModelled
from firsttouch.model.costs import Price, Time
from firsttouch.model.micro.answers import Answer, Sum
from firsttouch.model.micro.loads import from_memory
from firsttouch.model.platform import Platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.records.schema import DeviceInfo, Scalar

PHASE = "iteration"


def halves(
    platform: Platform,
    device: DeviceInfo,
    *,
    allocator: str,
    of_cpu: str,
    in_turns: bool,
    parts: tuple[int, int],
    threads: int,
) -> Answer:
    """One iteration, in ms. allocator, of_cpu: the memory of the GPU's array, and of the CPU's if that is another, to
    which parts are copied then. parts: the bytes of the CPU's part and of the GPU's, of which each is read and written.
    threads: of the CPU, if not all of them work.
    """
    if not device.capabilities.shares_host_memory:
        raise NotModelled("CPU and GPU at once on memory of their own")
    prices, total = PlatformPrices(platform), Sum()
    alone = [
        _update(platform, device, agent, memory, nbytes, threads)
        for agent, memory, nbytes in (("cpu", of_cpu or allocator, parts[0]), ("gpu", allocator, parts[1]))
    ]
    times = [price.of(nbytes) for price, nbytes in zip(alone, parts, strict=True)]
    one_by_one = times[0] + times[1]
    fastest = [platform.curve(name) for name in ("host.bandwidth", "device.bandwidth")]
    memory = min(fastest, key=lambda price: price.of(1).value)
    at_once = times[0].at_least(times[1]).at_least(memory.of(2 * sum(parts)))
    at_once = Time(at_once.value, at_once.low, max(at_once.high, one_by_one.high))
    time, what = (one_by_one, "CPU and GPU in turns") if in_turns else (at_once, "CPU and GPU at once")
    grounds = tuple(dict.fromkeys(ground for price in (*alone, memory) for ground in price.grounds))
    total.add(PHASE, what, Price((1.0,), (time,), grounds), sum(parts), time)
    counters: dict[str, Scalar] = {}
    if of_cpu:
        copies = [(prices.price("copy", way, of_cpu), n) for way, n in zip(("h2d", "d2h"), parts, strict=True)]
        counters["copying_ms"] = sum(total.add(PHASE, "copies", price, n, price.of(n)) for price, n in copies)
    else:
        flush = prices.price("cache_flush", allocator)
        total.add(PHASE, "caches written back", flush, parts[1], flush.of(parts[1]))
    value, low, high = total.total()
    counters |= {f"{agent}_alone_ms": time.value / 1e6 for agent, time in zip(("cpu", "gpu"), times, strict=True)}
    counters |= {"together_ms": value, "overlap": one_by_one.value / 1e6 / value}
    terms = tuple(term for term in total.terms if term.high)
    return Answer(value, low, high, counters, terms)


def _update(platform: Platform, device: DeviceInfo, agent: str, memory: str, nbytes: int, threads: int) -> Price:
    """The time of a pass in which an agent reads and writes every byte, by the bytes. The other one used them last, so
    that they come from memory.
    """
    few = threads if agent == "cpu" else 0
    ways = [from_memory(platform, device, agent, memory, "cpu", kernel, threads=few) for kernel in ("read", "write")]
    return Price((0.0, 1.0), (Time(), ways[0][0] + ways[1][0]), (*ways[0][1], *ways[1][1]))
