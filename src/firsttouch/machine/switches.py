"""What a device's runtime reads from the environment when its process starts, as factors with workers of their own.

An experiment takes one by `switch` of experiments/common.py; a device without it gives none. The value of a point is
what the variable was: "unset", or its text. Adding one: a row in SWITCHES, and its name in the row of each backend
whose runtime reads it (machine/backends.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.machine.backends import BACKENDS
from firsttouch.records.schema import DeviceInfo, Factors
from firsttouch.records.trust import without_verified_facts

UNSET = "unset"


@dataclass(frozen=True)
class Switch:
    """One variable. restates: whether a driver's statements about allocators depend on it, so that what discovery saw
    holds only for its own environment.
    """

    variable: str
    values: Sequence[str]
    restates: bool
    doc: str

    @property
    def now(self) -> str:
        return os.environ.get(self.variable) or UNSET


SWITCHES: Mapping[str, Switch] = {
    "xnack": Switch(
        "HSA_XNACK", ("0", "1"), True, "whether a GPU retries page faults, and so reaches plain host memory"
    ),
    "sdma": Switch("HSA_ENABLE_SDMA", ("0", "1"), False, "whether copies use the DMA engines (1) or a kernel (0)"),
}
"""Sources: ROCm documentation, "Environment variables" and "Unified memory management"."""


def switch_of(device: DeviceInfo, name: str) -> Switch | None:
    """The switch of a name where the device's runtime reads it."""
    backend = BACKENDS.get(device.kind)
    return SWITCHES[name] if backend is not None and name in backend.switches else None


def environment(factors: Factors) -> dict[str, str]:
    """The variables that the worker of a point with these factors starts with."""
    chosen = ((switch.variable, factors.get(name)) for name, switch in SWITCHES.items())
    return {variable: str(value) for variable, value in chosen if value not in (None, UNSET)}


def optimistic_device(device: DeviceInfo, factors: Factors) -> DeviceInfo:
    """The device as it may be for a point whose switches are not those that discovery saw.

    What a driver denied there it may grant here: its allocators are reached by the GPU, and when their pages come is
    not known. The worker, whose own device knows, judges such a point.
    """
    same = all(factors.get(name) in (None, switch.now) for name, switch in SWITCHES.items() if switch.restates)
    if same:
        return device
    device = without_verified_facts(device)  # what was verified was so in this environment
    can = device.capabilities
    allocators = [
        msgspec.structs.replace(
            one, gpu="direct" if one.gpu == "none" and can.runs_kernels else one.gpu, gpu_reason="", on_demand=None
        )
        for one in device.allocators
    ]
    may = msgspec.structs.replace(can, page_migration=can.memory_guidance and not can.shares_host_memory)
    return msgspec.structs.replace(device, allocators=allocators, capabilities=may)
