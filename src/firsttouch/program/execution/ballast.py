"""Ballast: device memory that is held so that less of the device is free, which simulates a smaller device."""

from __future__ import annotations

from firsttouch import _core
from firsttouch.base.units import format_size
from firsttouch.machine.allocators.properties import common_allocator, may_oversubscribe
from firsttouch.machine.hosts import may_exceed_device
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Scalar


def why_no_ballast(device: DeviceInfo, left: int) -> str | None:
    """Returns why no ballast can leave `left` bytes of the device free, or None."""
    if reason := why_not_oversubscribed(device):
        return reason
    free = device.facts.get("memory_free_bytes")
    if not isinstance(free, int):
        return f"{device.name} does not state its free memory, which oversubscription needs"
    if left > free:
        return f"{format_size(left)} cannot be left free on {device.name}, which has {format_size(free)} free"
    if left < (reserve := _reserve(device)):
        return (
            f"{format_size(left)} would be left free on {device.name}, less than the {format_size(reserve)} that are "
            "kept for other processes; use a larger size or budget, or a lower ratio"
        )
    return None


def why_not_beside_ballast(
    subject: str, device: DeviceInfo, entry: AllocatorInfo, left: int, *, needed: int, fixed: int
) -> str | None:
    """Returns why data cannot be allocated beside ballast that leaves `left` bytes of the device free, or None.

    subject: such as "hotspot needs". needed: bytes of device memory that the guard charges to the data; fixed: those
    of them that no driver moves. entry: the allocator of the others. Where oversubscription is allowed, those may fill
    the guard's reserve and exceed what is left.
    """
    if reason := why_no_ballast(device, left):
        return reason
    usable, moves = left - _reserve(device), may_oversubscribe(entry)
    needed = fixed if moves and may_exceed_device(device) else needed
    if needed <= usable:
        return None
    hint = "; use --allow-oversubscription to run it anyway" if moves and fixed <= usable else ""
    return (
        f"{subject} {format_size(needed)} of device memory, more than the {format_size(max(0, usable))} left free: "
        f"{format_size(left)} less {format_size(_reserve(device))} kept for other processes{hint}"
    )


def _reserve(device: DeviceInfo) -> int:
    """Bytes of the device that the guard keeps for other processes."""
    total = device.facts.get("memory_bytes")
    return _core.guard_reserve(total) if isinstance(total, int) else 0


def why_not_oversubscribed(device: DeviceInfo) -> str | None:
    """Returns why a device must not be oversubscribed, in one sentence, or None."""
    if not device.capabilities.shares_host_memory:
        return None
    return f"{device.name} shares the host's memory, and oversubscribing it would fill the host"


class Ballast:
    """A context in which a device's driver states `left` bytes as free, whatever memory the data are in; None: no
    ballast. It never takes the guard's reserve, which is a part of `left`.
    """

    def __init__(self, device: _core.Device, left: int | None) -> None:
        self._device, self._left = device, left
        self._buffer: _core.Buffer | None = None
        self.counters: dict[str, Scalar] = {}
        """Bytes held, and bytes that the device then reported as free."""

    def __enter__(self) -> Ballast:
        if self._left is None:
            return self
        excess = self._device.memory()[1] - self._left
        if excess > 0:
            self._buffer = self._device.allocate(common_allocator("device"), excess, ballast=True)
        self.counters = {"ballast_bytes": max(0, excess), "free_beside_ballast_bytes": self._device.memory()[1]}
        return self

    def __exit__(self, *_: object) -> None:
        if self._buffer is not None:
            self._buffer.free()
            self._buffer = None
