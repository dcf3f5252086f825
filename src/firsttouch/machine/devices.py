"""Opening and describing devices through the native core. Only for workers: a vendor library may crash its process."""

from __future__ import annotations

from functools import cache

import msgspec

from firsttouch import _core
from firsttouch.machine import libraries
from firsttouch.machine.backends import BACKENDS
from firsttouch.machine.peers import state_peers
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Scalar


@cache
def show_libraries() -> None:
    """Tell the core where the vendors' libraries are. Idempotent; nothing is opened."""
    for name in (library for backend in BACKENDS.values() for library in backend.libraries):
        _core.set_library_paths(name, libraries.candidates(name))


def open_device(name: str) -> _core.Device:
    """Open `cpu`, `opencl:N`, `cuda:N` or `hip:N`.

    Raises:
        _core.Unavailable: there is no such device here; the text says why.
    """
    show_libraries()
    return _core.open(name)


def describe_devices(kind: str) -> list[DeviceInfo]:
    """Every device of a kind, with what its driver states. A device that does not open says why.

    Raises:
        _core.Unavailable: there are no devices of this kind, or no such kind; the text says why.
    """
    show_libraries()
    count = _core.count_devices(kind)
    backend = BACKENDS[kind]
    described = [_describe(name, kind) for name in backend.device_names(count)]
    state_peers([(device, info) for device, info in described if device], moves_buffers=backend.moves_buffers)
    return [info for _, info in described]


def _describe(name: str, kind: str) -> tuple[_core.Device | None, DeviceInfo]:
    """The device, still open where it opened, and its description."""
    try:
        device = open_device(name)
        facts: dict[str, Scalar] = {**device.facts()}
        capabilities = msgspec.convert(device.capabilities(), DeviceCapabilities)
        if capabilities.machine_code:
            # A kernel must compile, or nothing can be measured: a driver may open and have no working compiler.
            device.compile("pattern", _core.kernel_file("pattern.c"))
    except (RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        return None, DeviceInfo(name=name, kind=kind, title=name, available=False, reason=reason)
    extra = BACKENDS[kind].extra(facts)
    facts |= extra.facts
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
