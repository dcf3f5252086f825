"""What carries data between ranks: interfaces, the memory that each takes, and why one does not carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Factor
from firsttouch.experiments.contract.common import unavailable, unreachable
from firsttouch.experiments.contract.pairs import allocators_of
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.allocators.properties import is_common, is_device_side, is_plain_host, main_allocator, role
from firsttouch.machine.backends import MPI, MPI_STAGED, XCCL, message_library
from firsttouch.machine.mpi import may_be_taken, why_not_taken
from firsttouch.machine.switches import gpu_support_environment, mpi_variables
from firsttouch.records.codebook import CounterEntry
from firsttouch.records.schema import INTERFACE, AllocatorInfo, DeviceInfo, Factors, Scalar
from firsttouch.workers.session import Session

INTERFACES = MPI, MPI_STAGED, XCCL


def interface_factor(device: DeviceInfo) -> Factor:
    """The interfaces between ranks on this device."""
    interfaces = [MPI]
    interfaces += [MPI_STAGED] if device.capabilities.runs_kernels else []
    interfaces += [XCCL] if message_library(device.kind) else []
    return Factor(INTERFACE, interfaces, choices=INTERFACES, doc="what carries the data")


def devices_of(device: DeviceInfo) -> list[str]:
    """The devices among which ranks are assigned in turn: those of the driver."""
    peers = [peer.name for peer in device.peers if peer.same_driver] if device.capabilities.runs_kernels else []
    return sorted([device.name, *peers], key=lambda name: (len(name), name))


def dealt_out(device: DeviceInfo, ranks: int) -> list[str]:
    """The device of each rank: those of the driver in turn."""
    names = devices_of(device)
    return [names[rank % len(names)] for rank in range(ranks)]


def why_too_many(interface: str, device: DeviceInfo, ranks: int) -> str | None:
    """Why an interface does not take so many ranks, or None."""
    devices = len(devices_of(device))
    if interface == XCCL and ranks > devices:
        return f"NCCL and RCCL refuse two ranks on one device, and the driver has {devices}"
    return None


def memory_factor(name: str, device: DeviceInfo, preset: Preset, doc: str) -> Factor:
    """Device memory and the common page-locked memory, and from standard on the other common memory that the device
    reaches; on `cpu` plain memory.
    """
    factor = allocators_of(name, device, doc)
    if not device.capabilities.runs_kernels:
        return replace(factor, values=[main_allocator(device)] if preset == "quick" else factor.values)
    also = ("page-locked",) if preset == "quick" else ("page-locked", "shared", "host")
    common = [a for a in device.allocators if a.available and is_common(a.name) and a.gpu != "none"]
    return replace(factor, values=[main_allocator(device), *(a.name for a in common if role(a.name) in also)])


def staging_allocator(device: DeviceInfo) -> str | None:
    """The host memory through which data are staged: page-locked if the device has such memory, else plain."""
    in_place = [a for a in device.allocators if a.available and a.cpu == "direct"]
    locked = [a.name for a in in_place if role(a.name) == "page-locked" and is_common(a.name)]
    plain = [a.name for a in in_place if is_plain_host(a.name)]
    return next(iter([*locked, *plain]), None)


def why_no_use(interface: str, device: DeviceInfo, entries: Sequence[AllocatorInfo]) -> str:
    """Why an interface has no meaning for memory of these allocators, or ''."""
    if interface == MPI:
        return ""
    if not device.capabilities.runs_kernels:
        return f"{device.name} has no copies to stage messages with, and neither NCCL nor RCCL"
    if interface == MPI_STAGED and not any(is_device_side(entry) or entry.managed for entry in entries):
        return "only device memory and managed memory are staged"
    return ""


def why_not_carried(
    interface: str, device: DeviceInfo, allocators: Sequence[str], *, by_kernels: bool = True
) -> str | None:
    """Why an interface can't carry memory of these allocators here, as far as that is known without MPI, or None.
    by_kernels: kernels write what is sent, too.
    """
    for name in allocators:
        if reason := unavailable(device, name):
            return reason
    if interface == XCCL and not message_library(device.kind):
        return f"neither NCCL nor RCCL carries messages of {device.name}"
    for entry in map(device.allocator, dict.fromkeys(allocators)):
        assert entry is not None, "it is available"
        plain = by_kernels and is_plain_host(entry.name)
        by_device = device.capabilities.runs_kernels and (interface == XCCL or plain)
        if by_device and (reason := unreachable(device, entry.name, "gpu")):
            return reason
        if interface == MPI and entry.cpu != "direct" and not may_be_taken(device.kind):
            return f"no MPI takes addresses of {device.kind} memory that the CPU does not reach in place"
    if interface == MPI_STAGED and staging_allocator(device) is None:
        return f"{device.name} has no host memory through which messages could be staged"
    return None


def by_device_address(interface: str, entries: Sequence[AllocatorInfo]) -> bool:
    """Whether the library gets the device's addresses of memory of these allocators, not the CPU's."""
    return interface == XCCL or (interface == MPI and any(entry.cpu != "direct" for entry in entries))


MPI_FACTS = CounterEntry(name="mpi_takes_device_memory|mpi_environment", unit="word")
"""Counters of points on a GPU that an MPI carries."""


def gpu_environment(factors: Factors, device: DeviceInfo) -> dict[str, str]:
    """The environment variables with which ranks start whose MPI gets memory of a GPU."""
    return gpu_support_environment() if factors.get(INTERFACE) == MPI and may_be_taken(device.kind) else {}


def mpi_facts(interface: str, session: Session) -> dict[str, Scalar]:
    """What tells how an MPI carries memory of a GPU: whether it says that it takes addresses of it, and the variables
    that decide how. On an APU the CPU reaches that memory, so that an MPI which takes none carries it all the same, at
    another speed.
    """
    if interface != MPI or not may_be_taken(session.info.kind):
        return {}
    takes = "no" if why_not_taken(session.mpi, session.info.kind) else "yes"
    return {"mpi_takes_device_memory": takes, "mpi_environment": mpi_variables() or "none"}


def open_interface(interface: str, session: Session, *, device_memory: bool) -> _core.Comm:
    """The ranks as a library sees them. device_memory: MPI must take addresses of the device's own memory.

    Raises:
        Unsupported: it does not; the text has its words.
        _core.Unavailable: there is no such library, or it lacks a function; the text says which.
    """
    if interface == XCCL:
        return session.xccl
    if device_memory and (reason := why_not_taken(session.mpi, session.info.kind)):
        raise Unsupported(reason)
    return session.mpi
