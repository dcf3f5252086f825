"""Opens and describes devices through the native core. Only for workers, because a vendor library may crash."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import msgspec

from firsttouch import _core
from firsttouch.machine import host, libraries
from firsttouch.machine.backends import BACKENDS, kind_of
from firsttouch.machine.host_links import host_link
from firsttouch.machine.partitions import ALONE, name_partitions, opened_alone
from firsttouch.machine.peers import add_peers
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Scalar


@cache
def show_libraries() -> Mapping[str, str]:
    """Pass the paths of the vendors' libraries to the core, and prepare for those that are here. Returns what their
    drivers lack, by the kind of device. Idempotent; opens nothing.
    """
    lacking = {}
    for backend in BACKENDS.values():
        paths = {name: libraries.candidates(name) for name in backend.libraries}
        for name, library_paths in paths.items():
            _core.set_library_paths(name, library_paths)
        if any(paths.values()) and (missing := backend.prepare()):
            lacking[backend.kind] = missing
    return lacking


def open_device(name: str) -> _core.Device:
    """Open `cpu`, `opencl:N`, `cuda:N` or `hip:N`. One that is alone of its kind in this process is its driver's first.

    Raises:
        _core.Unavailable: there is no such device here; the text says why.
    """
    show_libraries()
    return _core.open(f"{kind_of(name)}:0" if name == os.environ.get(ALONE) else name)


def describe_devices(kind: str) -> list[DeviceInfo]:
    """All devices of a kind, with the properties that their drivers report. The description of a device that does not
    open has the reason.

    Raises:
        _core.Unavailable: there are no devices of this kind, or no such kind; the text says why.
    """
    count = _count(kind)
    backend = BACKENDS[kind]
    only_device = os.environ.get(ALONE, "")
    names = [only_device] if kind_of(only_device) == kind else backend.device_names(count)
    described = [_describe(name, kind) for name in names]
    opened = [(device, info) for device, info in described if device]
    devices = [info for _, info in opened]
    unopened = name_partitions(devices, backend.partitions() if opened else [])
    add_peers(opened, moves_buffers=backend.moves_buffers, links=backend.links() if len(opened) > 1 else {})
    if backend.between and len(opened) > 1:
        opened[0][1].notes.append(backend.between)
    return [info for _, info in described] + ([] if only_device else list(opened_alone(unopened, devices, kind)))


def _count(kind: str) -> int:
    lacking = show_libraries()
    try:
        return _core.count_devices(kind)
    except _core.Unavailable as error:
        if kind not in lacking:
            raise
        raise _core.Unavailable(f"{error}; {lacking[kind]}") from None


def _describe(name: str, kind: str) -> tuple[_core.Device | None, DeviceInfo]:
    """The open device and its description; None and the reason if it does not open."""
    try:
        device = open_device(name)
        facts: dict[str, Scalar] = {**device.facts()}
        capabilities = msgspec.convert(device.capabilities(), DeviceCapabilities)
        if capabilities.machine_code:
            # Checks that a kernel compiles, because a driver may open without a working compiler.
            device.compile("pattern", _core.kernel_file("pattern.c"))
    except (RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        return None, DeviceInfo(name=name, kind=kind, title=name, available=False, reason=reason)
    extra = BACKENDS[kind].extra(facts)
    facts |= extra.facts
    facts |= host_link(facts, Tree(), host.usable_cores())
    return device, DeviceInfo(
        name=name,
        kind=kind,
        title=str(facts.pop("title")),
        facts=facts,
        capabilities=capabilities,
        allocators=msgspec.convert(device.allocators(), list[AllocatorInfo]),
        notes=list(extra.notes),
        peers=list(extra.peers),
    )
