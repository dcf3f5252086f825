"""Messages between two ranks of one host, by values of a platform: what `p2p-message` would measure.

A message takes a start, which is the library's, and its bytes at the rate of what carries them (Hockney, Parallel
Computing 20, 1994). An MPI of which memory is device memory copies it from device to device, after a handshake, unless
it is short or is told to go through the host; all other memory the CPU copies. NCCL and RCCL copy by kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firsttouch.base.errors import NotModelled
from firsttouch.machine.allocators.properties import common_allocator, memory_of
from firsttouch.machine.backends import MPI, MPI_STAGED, XCCL
from firsttouch.machine.switches import DIRECT, STAGED
from firsttouch.model.costs import Ground, Price, Time
from firsttouch.model.micro.answers import Answer, rate
from firsttouch.model.platform import Platform
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

HANDSHAKE = 2
"""Starts of a message that is copied from device to device: its request, and the answer."""


@dataclass(frozen=True)
class Carried:
    """What the parts of a message take: its start, and its bytes alone and among others that are queued."""

    start: Time
    alone: Time
    queued: Time
    grounds: tuple[Ground, ...]
    by_cpu: bool = False
    """Whether the CPU of a rank carries it, one message after another."""


def message(
    platform: Platform, device: DeviceInfo, *, interface: str, source: str, target: str, route: str, nbytes: int
) -> Answer:
    """Messages queued back to back, in GB/s, with the time of one alone. route: how an MPI carries device memory."""
    carried = carry(platform, device, interface, source, target, route, nbytes)
    alone, queued = carried.start + carried.alone, queued_start(platform, carried.start) + carried.queued
    parts = (("", alone.value), ("_low", alone.low), ("_high", alone.high))
    grounds = (*carried.grounds, platform.ground("message.queued"))
    return Answer(*rate(nbytes, queued), {f"latency{part}_us": ns / 1e3 for part, ns in parts}, grounds=grounds)


def at_once(
    platform: Platform, device: DeviceInfo, *, interface: str, allocator: str, sizes: Sequence[int]
) -> tuple[Time, tuple[Ground, ...]]:
    """What a rank takes to receive messages of other ranks while it sends as many to them: a start, that of queued ones
    for all others, and the bytes. The CPU carries one after another; between devices they go at once if each pair has
    a link of its own. Both directions of a link are used at once.
    """
    received = [carry(platform, device, interface, allocator, allocator, "", size) for size in sizes if size]
    if not received:
        return Time(), ()
    first, *others = received
    start = sum((queued_start(platform, one.start) for one in others), first.start)
    in_turn = any(one.by_cpu for one in received) or any(peer.hops != 1 for peer in device.peers)
    data = first.alone
    for one in others:
        data = data + one.alone if in_turn else data.at_least(one.alone)
    grounds = dict.fromkeys(ground for one in received for ground in one.grounds)
    return start + data, (*grounds, *([platform.ground("message.queued")] if others else ()))


def queued_start(platform: Platform, start: Time) -> Time:
    """What is left of a start if others are queued."""
    part = platform.quantity("message.queued")
    return Time(start.value * part.value, start.low * part.low, start.high * part.high)


def carry(
    platform: Platform, device: DeviceInfo, interface: str, source: str, target: str, route: str, nbytes: float
) -> Carried:
    """One message. Raises NotModelled: what carries it is not known."""
    if interface == XCCL:
        return _by_kernels(platform, nbytes)
    if interface == MPI_STAGED:
        return _with_copies(platform, nbytes)
    entries = [entry for name in (source, target) if (entry := device.allocator(name)) is not None]
    if memory_of(entries[0]) == "device" and _goes_directly(platform, route, nbytes):
        return _by_engines(platform, entries[-1], nbytes)
    if any(entry.cpu != "direct" for entry in entries):
        raise NotModelled("how an MPI carries memory that the CPU does not reach in place")
    return by_cpu(platform, source, nbytes)


def _goes_directly(platform: Platform, route: str, nbytes: float) -> bool:
    return route == DIRECT or (route != STAGED and nbytes > platform.quantity("message.direct_from").value)


def by_cpu(platform: Platform, source: str, nbytes: float) -> Carried:
    """The CPUs of the ranks copy through memory that both share, one block after another at the same time."""
    name = f"peer.copy.cpu.{source}"
    price = platform.curve(name if platform.has(name) else f"peer.copy.cpu.{common_allocator('host')}")
    return replace(_carried(platform, MPI, price, nbytes), by_cpu=True)


def _by_engines(platform: Platform, target: AllocatorInfo, nbytes: float) -> Carried:
    """A copy between devices. To memory of the host it is no faster than a copy of the runtime to such memory."""
    usual = common_allocator("device")
    price = platform.curve(f"peer.copy.copy-engine.{usual}")
    start, queued = _start(platform, MPI), price.of(nbytes)
    lone = platform.curve(f"peer.lone_copy.copy-engine.{usual}")
    alone, grounds = queued.at_least(lone.of(nbytes)), (*price.grounds, *lone.grounds)
    if memory_of(target) != "device":
        name = f"copy.d2h.{target.name}"
        slower = platform.curve(name if platform.has(name) else f"copy.d2h.{common_allocator('host')}")
        alone, queued = alone.at_least(slower.of(nbytes)), queued.at_least(slower.of(nbytes))
        grounds += slower.grounds
    return Carried(start.times(HANDSHAKE), alone, queued, (*grounds, platform.ground(f"message.start.{MPI}")))


def _with_copies(platform: Platform, nbytes: float) -> Carried:
    """Each device copies the message to or from page-locked memory of the host, between which the CPU copies it."""
    between = by_cpu(platform, common_allocator("page-locked"), nbytes)
    copies = staging_copies(platform)
    time = sum((price.of(nbytes) for price in copies), between.alone)
    grounds = (*between.grounds, *(g for price in copies for g in price.grounds))
    return Carried(between.start, time, time, grounds, by_cpu=True)


def staging_copies(platform: Platform) -> list[Price]:
    """A device's copies to page-locked memory of the host and from it, each alone."""
    return [platform.curve(f"lone_copy.{way}.{common_allocator('page-locked')}") for way in ("d2h", "h2d")]


def _by_kernels(platform: Platform, nbytes: float) -> Carried:
    """A kernel writes to memory of the other device, whatever memory it is."""
    return _carried(platform, XCCL, platform.curve(f"peer.copy.kernel.{common_allocator('device')}"), nbytes)


def _carried(platform: Platform, library: str, price: Price, nbytes: float) -> Carried:
    time = price.of(nbytes)
    return Carried(_start(platform, library), time, time, (platform.ground(f"message.start.{library}"), *price.grounds))


def _start(platform: Platform, library: str) -> Time:
    return platform.quantity(f"message.start.{library}").time
