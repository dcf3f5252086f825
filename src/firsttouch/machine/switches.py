"""Environment variables that a device's runtime reads when its process starts, as factors. Each value gets workers.

An experiment adds such a factor with `switch` of experiments/common.py, which returns no factor if the device's runtime
does not read the variable. The value of the factor is the value of the variable, or "unset". To add a switch, add a row
to SWITCHES, and its name to each backend whose runtime reads it (machine/backends.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.machine.backends import BACKENDS
from firsttouch.records.schema import DeviceInfo, Factors
from firsttouch.records.trust import by_driver_alone

UNSET = "unset"


@dataclass(frozen=True)
class Switch:
    """One variable. affects_allocators: whether the allocator properties that a driver reports depend on it, so that
    those found by discovery are valid only for the environment of discovery.
    """

    variable: str
    values: Sequence[str]
    affects_allocators: bool
    doc: str

    @property
    def current(self) -> str:
        return os.environ.get(self.variable) or UNSET


SWITCHES: Mapping[str, Switch] = {
    "xnack": Switch(
        "HSA_XNACK", ("0", "1"), True, "whether a GPU retries page faults, and so can access plain host memory"
    ),
    "sdma": Switch("HSA_ENABLE_SDMA", ("0", "1"), False, "whether copies use the DMA engines (1) or a kernel (0)"),
}
"""Sources: ROCm documentation, "Environment variables" and "Unified memory management"."""


def find_switch(device: DeviceInfo, name: str) -> Switch | None:
    """The switch of a name if the device's runtime reads it, otherwise None."""
    backend = BACKENDS.get(device.kind)
    return SWITCHES[name] if backend is not None and name in backend.switches else None


def environment(factors: Factors) -> dict[str, str]:
    """The environment variables to set for the worker of a point with these factors."""
    chosen = ((switch.variable, factors.get(name)) for name, switch in SWITCHES.items())
    return {variable: str(value) for variable, value in chosen if value not in (None, UNSET)}


def optimistic_device(device: DeviceInfo, factors: Factors) -> DeviceInfo:
    """The device as it may be for a point whose switches differ from those of discovery.

    The driver may permit more with these switches, so that the GPU is assumed to access all allocators, and it is
    unknown when their pages are allocated. The worker decides whether the point is possible when it opens the device.
    """
    same = all(
        factors.get(name) in (None, switch.current) for name, switch in SWITCHES.items() if switch.affects_allocators
    )
    if same:
        return device
    device = by_driver_alone(device)  # facts from methods.json were verified in another environment
    capabilities = device.capabilities
    allocators = [
        msgspec.structs.replace(
            info,
            gpu="direct" if info.gpu == "none" and capabilities.runs_kernels else info.gpu,
            gpu_reason="",
            on_demand=None,
        )
        for info in device.allocators
    ]
    may_migrate = capabilities.memory_guidance and not capabilities.shares_host_memory
    possible = msgspec.structs.replace(capabilities, page_migration=may_migrate)
    return msgspec.structs.replace(device, allocators=allocators, capabilities=possible)
