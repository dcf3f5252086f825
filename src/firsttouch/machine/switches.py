"""Environment variables that a device's runtime reads when its process starts, as factors. Each value gets workers.

They are factors of every experiment that measures the part of the runtime that they change (`switches_of` of
experiments/contract/base.py). The value of the factor is the value of the variable, or "unset". To add a switch, add a
row to SWITCHES, and its name to each backend whose runtime reads it (machine/backends.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from firsttouch.machine.backends import BACKENDS
from firsttouch.records.schema import DeviceInfo, Factors, Scalar
from firsttouch.records.trust import without_verified_facts

UNSET = "unset"
Part = Literal["memory", "copies"]
"""What a switch changes: how memory is provided, or how copies are made."""


@dataclass(frozen=True)
class Switch:
    """One variable, and the part of the runtime that it changes. The properties of allocators that a driver reports
    depend on switches of its memory, so that those found by discovery are valid only for the environment of discovery.
    """

    variable: str
    values: Sequence[str]
    part: Part
    doc: str

    @property
    def current(self) -> str:
        return os.environ.get(self.variable) or UNSET


SWITCHES: Mapping[str, Switch] = {
    "xnack": Switch(
        "HSA_XNACK", ("0", "1"), "memory", "whether a GPU retries page faults, and so can access plain host memory"
    ),
    "sdma": Switch("HSA_ENABLE_SDMA", ("0", "1"), "copies", "whether copies use the DMA engines (1) or a kernel (0)"),
}
"""Sources: ROCm documentation, "Environment variables" and "Unified memory management"."""


GPU_SUPPORT = "MPICH_GPU_SUPPORT_ENABLED"
"""The variable without which Cray MPICH carries memory of an APU by the CPU, and takes no address of another GPU's
memory. Source: intro_mpi(3) of Cray MPICH.
"""
DEFAULT, DIRECT, STAGED = ROUTES = "default", "direct", "staged"
_ROUTES: Mapping[str, Mapping[str, str]] = {
    DEFAULT: {},
    DIRECT: {
        GPU_SUPPORT: "1",
        "MPICH_GPU_IPC_ENABLED": "1",
        "MPICH_GPU_IPC_THRESHOLD": "0",
        "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD": "0",
        "OMPI_MCA_btl_smcuda_use_cuda_ipc": "1",
    },
    STAGED: {
        GPU_SUPPORT: "1",
        "MPICH_GPU_IPC_ENABLED": "0",
        "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD": str(2**31 - 1),
        "OMPI_MCA_btl_smcuda_use_cuda_ipc": "0",
        "UCX_TLS": "^cuda_ipc,rocm_ipc",
    },
}
"""How an MPI that takes addresses of device memory carries it within a host: from device to device, or through the
host. An MPI ignores the variables of the others. Sources: intro_mpi(3) of Cray MPICH (the first three), gpu_post.h of
MPICH, btl_smcuda_component.c of Open MPI, and "UCX environment variables".
"""


def route_environment(route: str) -> dict[str, str]:
    """The environment variables to set for ranks whose MPI carries device memory by this route."""
    return dict(_ROUTES[route])


def gpu_support_environment() -> dict[str, str]:
    """The environment variables to set for ranks whose MPI gets memory of a GPU, unless the user's environment has
    them.
    """
    return {} if GPU_SUPPORT in os.environ else {GPU_SUPPORT: "1"}


def mpi_variables() -> str:
    """The variables of this process that decide how its MPI carries memory of GPUs, as NAME=VALUE."""
    names = dict.fromkeys(name for route in _ROUTES.values() for name in route)
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


def xccl_environment() -> dict[str, str]:
    """The environment variables to set for ranks that use NCCL or RCCL: without NVLink multicast, unless the user's
    environment says otherwise, because a program that fails while it uses multicast may take GPUs out of service.
    """
    return {name: value for name, value in {"NCCL_NVLS_ENABLE": "0"}.items() if name not in os.environ}


_ALL_ACCESS: Mapping[str, Scalar] = {
    "gpu": "direct", "gpu_reason": "", "concurrent": True, "shared_atomics": True, "disjoint": True
}  # fmt: skip


def switches_of(device: DeviceInfo) -> dict[str, Switch]:
    """The switches that the device's runtime reads, by name."""
    backend = BACKENDS.get(device.kind)
    return {name: SWITCHES[name] for name in backend.switches} if backend is not None else {}


def environment(factors: Factors) -> dict[str, str]:
    """The environment variables to set for the worker of a point with these factors."""
    chosen = ((switch.variable, factors.get(name)) for name, switch in SWITCHES.items())
    return {variable: str(value) for variable, value in chosen if value not in (None, UNSET)}


def optimistic_device(device: DeviceInfo, factors: Factors) -> DeviceInfo:
    """The device as it may be for a point whose switches differ from those of discovery.

    The driver may permit more with these switches, so that the GPU is assumed to access all allocators, those that it
    cannot access now also together with the CPU, and it is unknown when their pages are allocated. The worker decides
    whether the point is possible when it opens the device.
    """
    of_memory = {name: switch for name, switch in SWITCHES.items() if switch.part == "memory"}
    is_current = all(factors.get(name) in (None, switch.current) for name, switch in of_memory.items())
    if is_current:
        return device
    device = without_verified_facts(device)  # facts from methods.json were verified in another environment
    capabilities = device.capabilities
    allocators = [
        msgspec.structs.replace(info, on_demand=None, **_ALL_ACCESS)
        if info.gpu == "none" and capabilities.runs_kernels
        else msgspec.structs.replace(info, on_demand=None)
        for info in device.allocators
    ]
    may_migrate = capabilities.memory_guidance and not capabilities.shares_host_memory
    possible = msgspec.structs.replace(capabilities, page_migration=may_migrate)
    return msgspec.structs.replace(device, allocators=allocators, capabilities=possible)
