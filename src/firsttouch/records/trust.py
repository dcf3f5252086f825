"""Facts of allocators that the driver does not state, taken from the results of `firsttouch methods --verify`.

AllocatorInfo.verified names such facts, each with the directory that holds the methods.json. What the driver states
takes precedence: only facts that it does not state are filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from firsttouch.records.schema import AllocatorInfo, DeviceInfo

FACTS = ("on_demand", "concurrent", "shared_atomics", "disjoint")
"""The facts of AllocatorInfo that a driver may not state."""


def fill_in(info: AllocatorInfo, facts: Mapping[str, bool], source: str) -> AllocatorInfo:
    """Returns `info` with those of `facts` that the driver does not state."""
    missing = {name: value for name, value in facts.items() if name in FACTS and getattr(info, name) is None}
    if not missing:
        return info
    return replace(info, **missing, verified={**info.verified, **dict.fromkeys(missing, source)})


def fill_in_from(stated: Iterable[AllocatorInfo], trusted: DeviceInfo) -> list[AllocatorInfo]:
    """Returns the allocators that a driver states now, with the verified facts of `trusted`."""
    filled = []
    for info in stated:
        verified_info = trusted.allocator(info.name)
        for name, source in verified_info.verified.items() if verified_info is not None else ():
            info = fill_in(info, {name: getattr(verified_info, name)}, source)
        filled.append(info)
    return filled


def without_verified_facts(device: DeviceInfo) -> DeviceInfo:
    """Returns the device with only what its driver states; the same object if it has no verified facts."""
    if not any(info.verified for info in device.allocators):
        return device
    allocators = [replace(info, **dict.fromkeys(info.verified), verified={}) for info in device.allocators]
    return replace(device, allocators=allocators)


def sources(device: DeviceInfo) -> list[str]:
    """The directories from which verified facts of the device were taken."""
    return list(dict.fromkeys(source for info in device.allocators for source in info.verified.values()))
