"""The host of a device: that of this machine, or of the machine that a platform describes."""

from __future__ import annotations

from firsttouch.records.schema import DeviceInfo

MEMORY, PROCESSORS = "host_memory_bytes", "host_processors"
"""The facts of a modelled device that say what its host is."""


def memory_limit(device: DeviceInfo) -> int | None:
    """Bytes of host memory that one process may use: what the guard allows, or all that the modelled host has; None if
    its platform does not say.
    """
    if device.modelled is not None:
        return _count(device, MEMORY)
    from firsttouch import _core

    return _core.guard_limits()["host"] or 0


def managed_limit(device: DeviceInfo) -> int | None:
    """The most bytes of managed memory that the user permits on this machine."""
    if device.modelled is not None:
        return None
    from firsttouch import _core

    return _core.guard_limits()["FIRSTTOUCH_MAX_MANAGED"]


def may_exceed_device(device: DeviceInfo) -> bool:
    """Whether managed memory may exceed what the device has free. Nothing can hang on a machine that is modelled."""
    if device.modelled is not None:
        return True
    from firsttouch import _core

    return _core.oversubscription_allowed()


def usable_processors(device: DeviceInfo) -> int:
    """The processors that a process may use; at least one."""
    if device.modelled is not None:
        return _count(device, PROCESSORS) or 1
    from firsttouch import _core

    return _core.usable_processors()


def _count(device: DeviceInfo, fact: str) -> int | None:
    value = device.facts.get(fact)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
