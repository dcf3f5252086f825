"""Loads and streams by values of a platform: what `latency`, `bandwidth`, and `p2p-*` would measure.

Times of loads and rates of streams are values of the file, by agent and allocator, over the size of the buffer; where
the file has what its levels of caches take, they are those of memory. Pages that a driver moves are, once they have
been used, in the memory of the agent that uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter

from firsttouch.base.errors import NotModelled
from firsttouch.base.units import format_size
from firsttouch.machine.allocators.properties import (
    caches_on_cpu,
    common_allocator,
    is_common,
    is_main_of_device,
    is_plain_host,
    memory_of,
    role,
)
from firsttouch.model.caches import byte_time, has_times, levels_of, load_time, mean_time
from firsttouch.model.costs import Ground, Price, Time
from firsttouch.model.micro.answers import Answer, rate
from firsttouch.model.platform import Platform
from firsttouch.model.rule_prices import rule_price
from firsttouch.model.values import ALWAYS
from firsttouch.program.least_moves import must_move
from firsttouch.records.schema import DeviceInfo, Scalar

ARRAYS = {"copy": (1, 1), "scale": (1, 1), "add": (2, 1), "triad": (2, 1), "read": (1, 0), "write": (0, 1)}
"""The arrays that each kernel of STREAM reads and writes."""
TRIADS = ("copy", "scale", "add", "triad")
"""Kernels that read and write, of which one rate stands for all unless the file tells them apart."""


ELEMENT, VECTOR = 8, 16
"""Bytes of an array that a thread of a kernel has at least."""
LARGE = float(1 << 30)
"""Bytes of an array of which no cache holds much."""
LOAD = "load"
"""How the names of the times of dependent loads begin."""
LARGEST_STEP = 8.0
"""If the times at two neighbouring sizes differ by more than this factor, there are unknown caches between them."""


def at(curve: Price, nbytes: float) -> Time:
    """A time at a size between sizes with known times, by a line over the logarithm of the size. Beyond them it is the
    nearest known. Its range holds those of both neighbours.

    Raises NotModelled: the times of the neighbours say nothing of those between them.
    """
    sizes, times = curve.sizes, curve.times
    if nbytes <= sizes[0]:
        return times[0]
    for (small, low), (large, high) in pairwise(zip(sizes, times, strict=True)):
        if nbytes == large:
            return high
        if nbytes < large:
            if high.value > LARGEST_STEP * low.value:
                sizes_known = f"{format_size(int(small))} and {format_size(int(large))}"
                raise NotModelled(f"sizes between {sizes_known}, of which the platform has no times")
            part = math.log(nbytes / small) / math.log(large / small)
            return Time(low.value + part * (high.value - low.value), low.low, high.high)
    return times[-1]


def memory_name(platform: Platform, device: DeviceInfo, agent: str, allocator: str, first: str, prefix: str) -> str:
    """The name of a value of memory that an agent uses: of the allocator, unless the file has none and the pages are in
    the agent's own memory, because they are host memory that the CPU caches, move there, or were touched by it first.
    In the one memory of an integrated chip it is that of the usual allocator of whose driver made the pages; single
    loads take as long from all that its caches hold, and beyond its caches.
    """
    name = f"{prefix}.{agent}.{allocator}"
    entry, capabilities = device.allocator(allocator), device.capabilities
    if prefix == LOAD and not platform.has(name) and _loads_are_alike(platform, device, agent):
        of_memory = [f"{prefix}.{agent}.{common_allocator(kind)}" for kind in ("device", "host")]
        name = next(filter(platform.has, of_memory), of_memory[0])
    if entry is not None and agent == "cpu" and capabilities.shares_host_memory and entry.on_demand:
        # The GPU's driver spreads pages evenly over the memory's channels (Wahlgren et al., IISWC 2025, Sec. V-D).
        usual_name = f"{prefix}.cpu.{common_allocator('host' if first == 'cpu' else 'device')}"
        return usual_name if platform.has(usual_name) else name
    if platform.has(name) or entry is None or (capabilities.shares_host_memory and capabilities.runs_kernels):
        return name
    if agent == "cpu" and memory_of(entry) == "host" and caches_on_cpu(allocator) is not False:
        return f"{prefix}.cpu.{common_allocator('host')}"
    moves = entry.managed and capabilities.page_migration
    goes = agent == "gpu" or first == agent or must_move(entry, device)
    placed = is_plain_host(allocator) and entry.gpu == "direct" and first == agent
    if (moves and goes) or placed:
        return f"{prefix}.{agent}.{common_allocator('device' if agent == 'gpu' else 'host')}"
    return name


def _loads_are_alike(platform: Platform, device: DeviceInfo, agent: str) -> bool:
    """Whether single loads take as long from any memory, as far as no caches of the file serve them."""
    if not (device.capabilities.shares_host_memory and device.capabilities.runs_kernels):
        return False
    full = platform.has("device.coherence") and platform.word("device.coherence") == "full"
    return full or has_times(platform, agent, "load")


def _is_by_size(platform: Platform, *names: str) -> bool:
    """Whether a file has times of a memory at several sizes, which tell of the caches too."""
    return any(platform.has(name) and platform.curve(name).sizes[-1] not in (1.0, ALWAYS) for name in names)


def load(
    platform: Platform,
    device: DeviceInfo,
    *,
    agent: str,
    allocator: str,
    first: str,
    nbytes: float,
    users: int = 1,
    without: str = "",
) -> Answer:
    """A dependent load in a random cycle through a buffer, in ns. first: the agent that writes it. users: cores or
    multiprocessors that share the buffer evenly. without: a level of caches that the load passes by.
    """
    grounds: list[Ground] = []
    name = memory_name(platform, device, agent, allocator, first, LOAD)

    def of_level(level: str) -> Time:
        if level:
            time, more = load_time(platform, agent, level)
            grounds.extend(more)
            return time
        curve = platform.curve(name)
        grounds.extend(curve.grounds)
        return at(curve, nbytes)

    by_level = has_times(platform, agent, "load") and not _is_by_size(platform, name)
    levels = levels_of(platform, agent, allocator, users, without) if by_level else []
    time = mean_time(levels, nbytes, of_level)
    return Answer(time.value, time.low, time.high, grounds=tuple(grounds))


def stream(
    platform: Platform,
    device: DeviceInfo,
    *,
    agent: str,
    allocator: str,
    first: str,
    kernel: str,
    nbytes: int,
    in_memory: bool,
    threads: int | str,
    passes: int = 1,
    each: bool = False,
) -> Answer:
    """A kernel of STREAM over arrays of so many bytes each, in GB/s. first: the agent that writes them first.
    in_memory: no cache holds an array. threads: of the CPU; 0 is all. passes: of one launch. each: a thread of the GPU
    has one element.
    """
    name = memory_name(platform, device, agent, allocator, first, "stream")
    by_level = has_times(platform, agent, "rate") and not _is_by_size(platform, name, f"{name}.{kernel}")
    counted = agent == "cpu" and (threads or by_level)
    most = int(platform.quantity("host.processors").value) if counted else 0
    used = min(threads, most) if isinstance(threads, int) and threads else most
    few = used if used < most else 0
    if by_level:
        users = used or int(platform.quantity("device.multiprocessors").value)

        def of_memory() -> tuple[Time, tuple[Ground, ...]]:
            return from_memory(platform, device, agent, allocator, first, kernel, nbytes, threads=few)

        time, grounds = repeated(platform, agent, allocator, kernel, nbytes, users, of_memory)
        if agent == "gpu" and passes > 1 and (each or kernel != "read"):
            # A thread passes over its own part again and again, and the next begin when it is done.
            room = users * platform.quantity("device.threads").value * (ELEMENT if each else VECTOR)
            again, more = repeated(platform, agent, allocator, kernel, min(nbytes, room), users, of_memory)
            time = time.times(1 / passes) + again.times(1 - 1 / passes)
            grounds = tuple(dict.fromkeys((*grounds, *more, platform.ground("device.threads"))))
    elif each and not in_memory:  # in memory a thread for each element is enough to keep it busy
        raise NotModelled("a thread for each element of arrays that caches may hold")
    else:
        time, grounds = from_memory(
            platform, device, agent, allocator, first, kernel, nbytes, in_memory=in_memory, threads=few
        )
    value = 1 / time.value
    counters: dict[str, Scalar] = {}
    if agent == "cpu" and threads and not few and platform.has("host.thread_bandwidth"):
        counters["threads"] = min(most, math.ceil(value / platform.quantity("host.thread_bandwidth").value))
    return Answer(value, 1 / time.high, 1 / time.low, counters, grounds=grounds)


def from_memory(
    platform: Platform,
    device: DeviceInfo,
    agent: str,
    allocator: str,
    first: str,
    kernel: str,
    nbytes: float = LARGE,
    *,
    in_memory: bool = True,
    threads: int = 0,
) -> tuple[Time, tuple[Ground, ...]]:
    """What a byte takes of a kernel of STREAM over arrays of so many bytes each, and what that rests on.

    in_memory: no cache holds an array. threads: of the CPU, if not all of them stream.
    """
    name = memory_name(platform, device, agent, allocator, first, "stream")
    value, low, high, grounds = _stream(platform, device, agent, name, kernel, nbytes, in_memory)
    time = Time(1 / value, 1 / high, 1 / low)
    if not threads:
        return time, grounds
    one = platform.quantity("host.thread_bandwidth")
    alone = Time(1 / one.value, 1 / one.high, 1 / one.low).times(1 / threads)
    return time.at_least(alone), (*grounds, one.ground)


def repeated(
    platform: Platform,
    agent: str,
    allocator: str,
    kernel: str,
    nbytes: float,
    users: int,
    of_memory: Callable[[], tuple[Time, tuple[Ground, ...]]],
    without: str = "",
) -> tuple[Time, tuple[Ground, ...]]:
    """What a byte takes of a kernel that passes over arrays of so many bytes each again and again, and what that rests
    on. users: cores, or multiprocessors. of_memory: the same from memory.

    A GPU's first-level caches pass stores on to the next level.
    """
    reads, writes = ARRAYS[kernel]
    levels = levels_of(platform, agent, allocator, users, without)
    below_l1 = "l2" if any(level.name == "l2" for level in levels) else ""
    grounds: list[Ground] = []

    def of_uses(level: str) -> Time:
        time, more = byte_time(platform, agent, level, users) if level else of_memory()
        grounds.extend(more)
        return time

    def of_level(level: str) -> Time:
        if agent == "cpu" or level != "l1" or not writes:
            return of_uses(level)
        read = of_uses(level).times(reads) if reads else Time()
        return (read + of_uses(below_l1).times(writes)).times(1 / (reads + writes))

    time = mean_time(levels, (reads + writes) * nbytes, of_level)
    return time, tuple(dict.fromkeys(grounds))


def _stream(
    platform: Platform, device: DeviceInfo, agent: str, name: str, kernel: str, nbytes: float, in_memory: bool
) -> tuple[float, float, float, tuple[Ground, ...]]:
    """The rate of a kernel, its bounds, and their grounds. Where the file has no rate of a memory, it follows from that
    of the host's memory, the device's, or the link. in_memory: no cache holds an array.
    """
    rate_name = f"{name}.{kernel}"
    if not platform.has(rate_name) and (kernel not in TRIADS or not platform.has(name)):
        memory = name.rpartition(".")[2]
        if agent == "cpu" and is_plain_host(memory) and is_common(memory) and platform.has("host.bandwidth"):
            rate_name = "host.bandwidth"
        elif agent == "gpu" and is_main_of_device(memory) and platform.has("device.bandwidth"):
            rate_name = "device.bandwidth"
        elif agent == "gpu" and role(memory) == "page-locked" and not device.capabilities.shares_host_memory:
            return _rate_across_link(platform, kernel)
        elif device.capabilities.shares_host_memory and platform.has(name):
            return *rate(nbytes, platform.curve(name).of(nbytes)), platform.curve(name).grounds
        elif (walked := rule_price(platform, device, "stream", agent, memory)) is not None:
            return _rate(walked, nbytes, in_memory)
        elif device.capabilities.shares_host_memory and platform.has("device.coherence"):
            return _rate_in_shared_memory(platform, device, agent, memory, nbytes)
    curve_name = rate_name if platform.has(rate_name) or kernel not in TRIADS else name
    curve = platform.following(curve_name, _limit(device, agent, name.split(".")[2]))
    return _rate(curve, nbytes, in_memory)


def _rate(curve: Price, nbytes: float, in_memory: bool) -> tuple[float, float, float, tuple[Ground, ...]]:
    """A rate at a size, where the curve says something of it: below the smallest known size, only of memory."""
    least = curve.sizes[0]
    if not in_memory and (nbytes < least or least == 0):
        raise NotModelled("arrays that caches may hold")
    size = max(float(nbytes), least)
    return *rate(size, curve.of(size)), curve.grounds


def _limit(device: DeviceInfo, agent: str, allocator: str) -> str:
    """The value that bounds the rate of a stream."""
    if agent == "cpu":
        return "host.bandwidth"
    across = role(allocator) == "page-locked" and not device.capabilities.shares_host_memory
    return "link.h2d" if across else "device.bandwidth"


def _rate_in_shared_memory(
    platform: Platform, device: DeviceInfo, agent: str, allocator: str, nbytes: float
) -> tuple[float, float, float, tuple[Ground, ...]]:
    """The rate in the one memory of an integrated chip, of which caches may not hold all kinds. A kernel that streams
    through arrays beyond its caches uses nothing again that they would have held.
    """
    cached = platform.curve("host.bandwidth" if agent == "cpu" else "device.bandwidth")
    reuses = agent == "cpu" or platform.word("device.coherence") != "none"
    more = rule_price(platform, device, "uncached", agent, allocator) if reuses else None
    time = cached.of(nbytes) + (more.of(nbytes) if more else Time())
    return *rate(nbytes, time), (*cached.grounds, *(more.grounds if more else ()))


def _rate_across_link(platform: Platform, kernel: str) -> tuple[float, float, float, tuple[Ground, ...]]:
    """The rate of a kernel over the link, which carries both directions at once."""
    reads, writes = ARRAYS[kernel]
    used = [(n, platform.quantity(name)) for n, name in ((reads, "link.h2d"), (writes, "link.d2h")) if n]
    value, low, high = (
        (reads + writes) / max(n / bound_of(q) for n, q in used)
        for bound_of in (attrgetter("value"), attrgetter("low"), attrgetter("high"))
    )
    return value, low, high, tuple(q.ground for _, q in used)


def peer_load(platform: Platform, *, agent: str, allocator: str, nbytes: int) -> Answer:
    """A dependent load from memory of another device, in ns."""
    curve = platform.curve(f"peer.load.{agent}.{allocator}")
    time = at(curve, nbytes)
    return Answer(time.value, time.low, time.high, grounds=curve.grounds)


def peer_stream(platform: Platform, *, allocator: str, crossings: int, nbytes: int) -> Answer:
    """A kernel whose arrays cross the link to another device. crossings: how often they do, both ways together, of
    which the link carries one each way at once. The value is all that crosses, in GB/s.
    """
    curve = platform.curve(f"peer.stream.{allocator}")
    value, low, high = rate(nbytes, curve.of(nbytes))
    return Answer(value * crossings, low * crossings, high * crossings, grounds=curve.grounds)


def own_stream(
    platform: Platform, device: DeviceInfo, allocator: str, kernel: str, nbytes: int, part: float, *, in_memory: bool
) -> Answer:
    """A kernel in a device's own memory, of whose arrays a part counts. in_memory: no cache holds an array."""
    whole = stream(
        platform, device, agent="gpu", allocator=allocator, first="gpu", kernel=kernel, nbytes=nbytes,
        in_memory=in_memory, threads=0,
    )  # fmt: skip
    return Answer(whole.value * part, whole.low * part, whole.high * part, grounds=whole.grounds)


def peer_copy(
    platform: Platform, *, engine: str, allocators: Sequence[str], first: str, both: bool, nbytes: int
) -> Answer:
    """Copies to or from memory of another device, in GB/s. Between memory of two kinds they take as long as those of
    the slower kind. allocators: of both sides. first: the agent that touches the memory first.
    """
    if both:
        raise NotModelled("copies both ways at once")
    curves = []
    for allocator in dict.fromkeys(allocators):
        name = f"peer.copy.{engine}.{allocator}"
        touched = f"{name}.gpu_touched"
        curves.append(platform.curve(touched if first == "gpu" and platform.has(touched) else name))
    slowest = max(curves, key=lambda curve: curve.of(nbytes).value)
    counters: dict[str, Scalar] = {}
    lone = f"peer.lone_copy.{engine}.{allocators[0]}"
    if len(curves) == 1 and platform.has(lone):
        time = platform.curve(lone).of(nbytes)
        parts = (("", time.value), ("_low", time.low), ("_high", time.high))
        counters = {f"latency{part}_us": ns / 1e3 for part, ns in parts}
    return Answer(*rate(nbytes, slowest.of(nbytes)), counters, grounds=slowest.grounds)
