"""Ballast: device memory that is held so that less of the device is free, which simulates a smaller device."""

from __future__ import annotations

from firsttouch import _core
from firsttouch.allocators.properties import common_allocator, may_oversubscribe, moves_when_touched
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Scalar
from firsttouch.units import format_size


def why_no_ballast(device: DeviceInfo, allocator: AllocatorInfo | None, left: int) -> str | None:
    """Returns why no ballast can leave `left` bytes of the device free for data of an allocator, or None."""
    if reason := why_not_oversubscribed(device):
        return reason
    free = device.facts.get("memory_free_bytes")
    if not isinstance(free, int):
        return f"{device.name} does not state its free memory, which oversubscription needs"
    if left > free:
        return f"{format_size(left)} cannot be left free on {device.name}, which has {format_size(free)} free"
    total = device.facts.get("memory_bytes")
    reserve = _core.guard_reserve(total) if isinstance(total, int) else 0
    if _fill_the_reserve(allocator) and left < reserve:
        return (
            f"{format_size(left)} would be left free on {device.name}, less than the {format_size(reserve)} that are "
            "kept for other processes; use a larger size or budget, or a lower ratio"
        )
    return None


def why_not_oversubscribed(device: DeviceInfo) -> str | None:
    """Returns why a device must not be oversubscribed, in one sentence, or None."""
    if not device.capabilities.shares_host_memory:
        return None
    return f"{device.name} shares the host's memory, and oversubscribing it would fill the host"


def _fill_the_reserve(allocator: AllocatorInfo | None) -> bool:
    """True if data of an allocator may fill all that the device has free, the guard's reserve too."""
    moves = may_oversubscribe(allocator) or (allocator is not None and moves_when_touched(allocator.name))
    return moves and _core.oversubscription_allowed()


class Ballast:
    """A context in which `left` bytes of a device are free for data in memory of an allocator; None: no ballast.

    Ballast never takes the guard's reserve. The reserve is a part of `left` if the data may fill it, and otherwise
    stays free besides.
    """

    def __init__(self, device: _core.Device, allocator: AllocatorInfo | None, left: int | None) -> None:
        self._device, self._left, self._allocator = device, left, allocator
        self._held: _core.Buffer | None = None
        self.counters: dict[str, Scalar] = {}
        """Bytes held, and bytes that the device then reported as free."""

    def __enter__(self) -> Ballast:
        if self._left is None:
            return self
        total, free = self._device.memory()
        excess = free - self._left - (0 if _fill_the_reserve(self._allocator) else _core.guard_reserve(total))
        if excess > 0:
            self._held = self._device.allocate(common_allocator("device"), excess, ballast=True)
        self.counters = {"ballast_bytes": max(0, excess), "free_beside_ballast_bytes": self._device.memory()[1]}
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.free()
            self._held = None
