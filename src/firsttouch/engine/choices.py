"""What a call may choose from: presets, devices, and experiments or applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firsttouch.base.errors import UsageError, unknown
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.backends import kind_of
from firsttouch.records.schema import DeviceInfo, TimeClass


@dataclass(frozen=True)
class Budget:
    """The limits of one preset.

    tolerance: the relative width of the interval at which sampling ends. seconds: the time of sampling by time class,
    shared by the devices of one kind and class.
    """

    tolerance: float
    seconds: Mapping[TimeClass, float]


BUDGETS: dict[Preset, Budget] = {
    "quick": Budget(0.03, {"host": 10.0, "host-kernels": 8.0, "gpu": 42.0}),
    "standard": Budget(0.01, {"host": 34.0, "host-kernels": 22.0, "gpu": 125.0}),
    "full": Budget(0.005, {"host": 1000.0, "host-kernels": 1000.0, "gpu": 4800.0}),
}


def choose(noun: str, names: Sequence[str], accepted: Mapping[str, object]) -> list[str]:
    """Returns the given names in the order of `accepted`; all of them if none is given. Raises UsageError for an
    unknown name.
    """
    for name in names:
        if name not in accepted:
            raise unknown(noun, name, accepted)
    return [name for name in accepted if name in names or not names]


def choose_preset(name: str) -> Preset:
    for preset in BUDGETS:
        if preset == name:
            return preset
    raise unknown("preset", name, BUDGETS)


def choose_devices(names: Sequence[str], devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Returns the given devices, or all that are available if none is given. Raises UsageError for a device that is
    unknown or unavailable.
    """
    available = {d.name: d for d in devices if d.available}
    reasons = {d.name: d.reason for d in devices if not d.available}
    for name in names:
        reason = reasons.get(name) or reasons.get(kind_of(name))  # a library that failed is listed by its kind
        if reason and name not in available:
            accepted = f"; accepted: {', '.join(available)}" if available else ""
            raise UsageError(f"device '{name}' is not available: {reason}{accepted}")
    return [available[name] for name in choose("device", names, available)]
