"""Operations of all ranks of one host, by values of a platform: what `collective` would measure.

An MPI makes them of messages, as MPICH does (Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005; the sizes are MPICH's
defaults), and the CPU adds numbers up. NCCL and RCCL send parts around rings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.machine.backends import MPI_STAGED, XCCL
from firsttouch.model.costs import Ground, Price, Time
from firsttouch.model.micro.answers import Answer, Sum
from firsttouch.model.micro.loads import at
from firsttouch.model.micro.messages import by_cpu, carry, queued_start, staging_copies
from firsttouch.model.platform import Platform
from firsttouch.records.schema import DeviceInfo

KIB = 1 << 10
UNCACHED = 64 << 20
"""Bytes of a buffer that the caches in front of another device's memory do not hold."""
ARRAYS_OF_A_SUM = 3
"""Two are read and one is written."""


class MessageCourse(NamedTuple):
    """What one rank does in a row: how many messages, how often the bytes of the operation in all of them together,
    and how often they are added up.
    """

    messages: int
    sent: float
    summed: float = 0


def rounds_of(ranks: int) -> int:
    """Rounds in which ranks exchange in pairs until each has what all had."""
    return math.ceil(math.log2(ranks))


def _part(ranks: int) -> float:
    """Of the bytes, what is not a rank's own."""
    return (ranks - 1) / ranks


def _all_reduce(ranks: int, nbytes: int) -> MessageCourse:
    """Recursive doubling; of many bytes a reduce-scatter and an all-gather."""
    rounds = rounds_of(ranks)
    if nbytes <= 2 * KIB:
        return MessageCourse(rounds, rounds, rounds)
    return MessageCourse(2 * rounds, 2 * _part(ranks), _part(ranks))


def _reduce_scatter(ranks: int, nbytes: int) -> MessageCourse:
    """Recursive halving; of many bytes, each pair of ranks by itself."""
    messages = rounds_of(ranks) if nbytes < 512 * KIB else ranks - 1
    return MessageCourse(messages, _part(ranks), _part(ranks))


def _all_gather(ranks: int, nbytes: int) -> MessageCourse:
    """Recursive doubling; of many bytes, a ring."""
    return MessageCourse(rounds_of(ranks) if nbytes < 512 * KIB else ranks - 1, _part(ranks))


def _broadcast(ranks: int, nbytes: int) -> MessageCourse:
    """A tree; of many bytes, a scatter by a tree and an all-gather by a ring."""
    rounds = rounds_of(ranks)
    if nbytes < 12 * KIB:
        return MessageCourse(rounds, rounds)
    return MessageCourse(rounds + ranks - 1, 2 * _part(ranks))


def _all_to_all(ranks: int, nbytes: int) -> MessageCourse:
    """Blocks travel together (Bruck et al., 1997); large ones go to each rank by themselves."""
    rounds = rounds_of(ranks)
    return MessageCourse(rounds, rounds / 2) if nbytes <= 256 * ranks else MessageCourse(ranks - 1, _part(ranks))


class Operation(NamedTuple):
    """by_messages: what a rank does with an MPI. hops: how often data go from one rank of a ring to the next. around:
    how often the operation's bytes pass each of its links.
    """

    by_messages: Callable[[int, int], MessageCourse]
    hops: Callable[[int], int]
    around: Callable[[int], float]


OPERATIONS: Mapping[str, Operation] = {
    "all-reduce": Operation(_all_reduce, lambda ranks: 2 * (ranks - 1), lambda ranks: 2 * _part(ranks)),
    "reduce-scatter": Operation(_reduce_scatter, lambda ranks: ranks - 1, _part),
    "all-gather": Operation(_all_gather, lambda ranks: ranks - 1, _part),
    "broadcast": Operation(_broadcast, lambda ranks: ranks - 1, lambda ranks: 1.0),
    "reduce": Operation(_all_reduce, lambda ranks: ranks - 1, lambda ranks: 1.0),
    "all-to-all": Operation(_all_to_all, lambda ranks: 1, _part),
}
"""A reduction to one rank takes an MPI as long as one to all: a reduce-scatter and a gather."""


def collective(
    platform: Platform, device: DeviceInfo, *, operation: str, interface: str, ranks: int, allocator: str, nbytes: int
) -> Answer:
    """One operation, in us, with the time of one of several that are queued. nbytes: of a rank's larger buffer."""
    if interface == XCCL:
        terms, start = _by_rings(platform, device, operation, ranks, allocator, nbytes)
    else:
        terms, start = _by_messages(platform, device, operation, interface, ranks, allocator, nbytes)
    value, low, high = (ms * 1e3 for ms in terms.total())
    queued = queued_start(platform, start).times(1e-3)
    saved = start.times(1e-3)
    counters = {
        "interval_us": value - saved.value + queued.value,
        "interval_low_us": low - saved.low + queued.low,
        "interval_high_us": high - saved.high + queued.high,
    }
    return Answer(value, low, high, {**counters}, tuple(terms.terms))


def _by_messages(
    platform: Platform, device: DeviceInfo, operation: str, interface: str, ranks: int, allocator: str, nbytes: int
) -> tuple[Sum, Time]:
    """One message after another, and the CPU's sums; what is summed, the CPUs carry."""
    course, terms = OPERATIONS[operation].by_messages(ranks, nbytes), Sum()
    each = course.sent * nbytes / course.messages
    on_cpu = bool(course.summed) or interface == MPI_STAGED
    memory = allocator if interface != MPI_STAGED else common_allocator("page-locked")
    one = by_cpu(platform, memory, each) if on_cpu else carry(platform, device, interface, memory, memory, "", each)
    terms.add("", "messages", _resting_on(one.grounds), each, (one.start + one.alone).times(course.messages),
              course.messages)  # fmt: skip
    if course.summed:
        threads = platform.quantity("host.thread_bandwidth")
        summed = ARRAYS_OF_A_SUM * course.summed * nbytes
        time = Time(summed / threads.value, summed / threads.high, summed / threads.low)
        terms.add("", "sums by the CPU", _resting_on((threads.ground,)), summed, time)
    if interface == MPI_STAGED:
        for price in staging_copies(platform):
            terms.add("", "copies by the devices", price, nbytes, price.of(nbytes))
    return terms, one.start


def _by_rings(
    platform: Platform, device: DeviceInfo, operation: str, ranks: int, allocator: str, nbytes: int
) -> tuple[Sum, Time]:
    """Kernels pass parts on to the next rank, over as many rings at once as the links allow. Blocks that go to each
    rank take the link to it.
    """
    terms, known = Sum(), OPERATIONS[operation]
    carried = carry(platform, device, XCCL, allocator, allocator, "", known.around(ranks) * nbytes)
    hop = platform.curve(f"peer.load.gpu.{common_allocator('device')}")
    terms.add("", "start", _resting_on(carried.grounds), 0, carried.start)
    terms.add("", "hops", hop, 0, at(hop, UNCACHED).times(known.hops(ranks)), known.hops(ranks))
    most, usual = _rings(device, ranks)
    usual = most if operation == "all-to-all" else usual
    time = carried.queued
    spread = Time(time.value / usual, time.low / most, time.high)
    terms.add("", "data", _resting_on(carried.grounds), known.around(ranks) * nbytes, spread)
    return terms, carried.start


def _rings(device: DeviceInfo, ranks: int) -> tuple[int, int]:
    """How many rings through all ranks there may be at once, at most and without a link that two share: where a link
    joins each pair, one fewer than ranks, but of 4 and 6 ranks two fewer (Tillson, J. Comb. Theory B 29, 1980). Where
    they share a port to a switch, one.
    """
    if any(peer.hops != 1 for peer in device.peers):
        return 1, 1
    return ranks - 1, ranks - 1 - (ranks in (4, 6))


def _resting_on(grounds: tuple[Ground, ...]) -> Price:
    return Price((0.0, 1.0), (Time(), Time()), grounds)
