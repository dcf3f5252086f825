"""Facts of allocators that no driver states, taken on the word of `firsttouch methods --verify`.

AllocatorInfo.verified names such facts, with the directory whose methods.json says so. A driver's own statement always
wins: only what it leaves unsaid is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from firsttouch.records.schema import AllocatorInfo, DeviceInfo

FACTS = ("on_demand", "concurrent", "shared_atomics", "disjoint")
"""The facts of AllocatorInfo that a driver may leave unsaid."""


def fill_in(info: AllocatorInfo, facts: Mapping[str, bool], source: str) -> AllocatorInfo:
    """`info` with those of `facts` that it leaves unsaid."""
    unsaid = {name: value for name, value in facts.items() if name in FACTS and getattr(info, name) is None}
    if not unsaid:
        return info
    return replace(info, **unsaid, verified={**info.verified, **dict.fromkeys(unsaid, source)})


def fill_in_from(stated: Iterable[AllocatorInfo], trusted: DeviceInfo) -> list[AllocatorInfo]:
    """What a driver states anew, with the facts that `trusted` took on another word."""
    filled = []
    for info in stated:
        known = trusted.allocator(info.name)
        for name, source in known.verified.items() if known is not None else ():
            info = fill_in(info, {name: getattr(known, name)}, source)
        filled.append(info)
    return filled


def by_driver_alone(device: DeviceInfo) -> DeviceInfo:
    """The device without what was taken on another word than its driver's; the same object where nothing was."""
    if not any(info.verified for info in device.allocators):
        return device
    allocators = [replace(info, **dict.fromkeys(info.verified), verified={}) for info in device.allocators]
    return replace(device, allocators=allocators)


def sources(device: DeviceInfo) -> list[str]:
    """The directories on whose word facts of the device were taken."""
    return list(dict.fromkeys(source for info in device.allocators for source in info.verified.values()))
