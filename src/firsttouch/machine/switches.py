"""What a device's runtime reads from the environment when its process starts, as factors with workers of their own.

An experiment takes one by `switch` of experiments/common.py; a device without it gives none. The value of a point is
what the variable was: "unset", or its text. Adding one: a row in SWITCHES.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.schema import DeviceInfo, Factors

UNSET = "unset"


@dataclass(frozen=True)
class Switch:
    """One variable. kinds: the devices whose runtime reads it; restates: whether a driver's statements about
    allocators depend on it, so that what discovery saw holds only for its own environment.
    """

    variable: str
    kinds: Sequence[str]
    values: Sequence[str]
    restates: bool
    doc: str

    @property
    def now(self) -> str:
        return os.environ.get(self.variable) or UNSET


SWITCHES: Mapping[str, Switch] = {
    "xnack": Switch(
        "HSA_XNACK", ("hip",), ("0", "1"), True, "whether a GPU retries page faults, and so reaches plain host memory"
    ),
    "sdma": Switch(
        "HSA_ENABLE_SDMA", ("hip",), ("0", "1"), False, "whether copies use the DMA engines (1) or a kernel (0)"
    ),
}
"""Sources: ROCm documentation, "Environment variables" and "Unified memory management"."""


def environment(factors: Factors) -> dict[str, str]:
    """The variables that the worker of a point with these factors starts with."""
    chosen = ((switch.variable, factors.get(name)) for name, switch in SWITCHES.items())
    return {variable: str(value) for variable, value in chosen if value not in (None, UNSET)}


def presumed(device: DeviceInfo, factors: Factors) -> DeviceInfo:
    """The device as it may be for a point whose switches are not those that discovery saw.

    What a driver denied there it may grant here: its allocators are reached by the GPU, and when their pages come is
    not known. The worker, whose own device knows, judges such a point.
    """
    same = all(factors.get(name) in (None, switch.now) for name, switch in SWITCHES.items() if switch.restates)
    if same:
        return device
    allocators = [
        msgspec.structs.replace(
            one, gpu="direct" if one.gpu == "none" and device.kind != "cpu" else one.gpu, gpu_reason="", on_demand=None
        )
        for one in device.allocators
    ]
    return msgspec.structs.replace(device, allocators=allocators)
